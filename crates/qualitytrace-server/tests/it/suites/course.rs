//! Features of suites: branches, setup and teardown, time limits, tables, and stopping.

use serde_json::{Value, json};

use super::{Subject, output, states, test};
use crate::api::Bench;
use crate::databases::{Database, on_every_database};

on_every_database!(
    branches_run_at_one_time,
    teardown_runs_whatever_happened,
    a_test_that_is_taken_away_takes_only_its_step_along,
    an_output_without_a_value_is_not_handed_on,
    a_step_that_takes_too_long_is_ended,
    a_table_runs_the_steps_once_a_row,
    stopping_a_suite_ends_its_steps_but_not_its_teardown,
    a_suite_that_cannot_work_is_refused,
    subscribers_are_told_of_every_change,
);

/// Returns the outcome of the steps, in order: `name outcome`, or `name skipped`.
pub(super) async fn course(bench: &Bench, path: &str) -> Vec<String> {
    let events = bench.events(path).await;
    let name = |step: &Value| {
        let step = &events[0]["steps"][usize::try_from(step.as_u64().unwrap()).unwrap()];
        let row = step.get("row").map(|row| format!(" {row}")).unwrap_or_default();
        format!("{}{row}", step["name"].as_str().unwrap())
    };
    let mut course = Vec::new();
    for event in &events {
        match event["what"].as_str().unwrap() {
            "stepEnded" => {
                course.push(format!("{} {}", name(&event["step"]), event["outcome"].as_str().unwrap()));
            }
            "stepsSkipped" => {
                let skipped = event["steps"].as_array().unwrap().iter();
                course.extend(skipped.map(|step| format!("{} skipped", name(step))));
            }
            _ => {}
        }
    }
    course
}

async fn branches_run_at_one_time(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    // Each of the two gets its response only when the other one has called, too.
    bench.stored("tests", &test(&subject, "left", "/meet/1", &json!({ "outputs": output("LEFT") }))).await;
    bench.stored("tests", &test(&subject, "right", "/meet/2", &json!({ "outputs": output("RIGHT") }))).await;
    bench.stored("tests", &test(&subject, "join", "/value/${var:LEFT}${var:RIGHT}", &json!({}))).await;
    let steps = json!(["left", { "test": "right", "dependsOn": [] }, { "test": "join", "dependsOn": ["left", "right"] }]);
    bench.suite(json!({ "id": "s", "name": "S", "steps": steps })).await;
    let run = bench.run_suite("s", &json!({})).await;
    assert_eq!((run["state"].as_str(), states(&run)), (Some("FINISHED"), vec!["FINISHED"; 3]));
    assert_eq!(subject.calls(), ["12"]);
    let shown = bench.get("/api/testsuites/s").await.json();
    assert_eq!(shown["spec"]["steps"], steps);
    // The outputs of a branch are not available in another one.
    let apart =
        json!(["left", { "test": "right", "dependsOn": [] }, { "test": "join", "dependsOn": ["left"] }]);
    bench.put("/api/testsuites/s", &json!({ "spec": { "id": "s", "name": "S", "steps": apart } })).await;
    let refused = bench.post("/api/testsuites/s/run", &json!({})).await.json();
    assert_eq!(
        refused,
        json!({ "missingVariables": [{ "testId": "join", "variables": [{ "key": "RIGHT", "defaultValue": "2" }] }] })
    );
    bench.server.shutdown().await;
}

async fn teardown_runs_whatever_happened(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench
        .stored("tests", &test(&subject, "login", "/value/token", &json!({ "outputs": output("TOKEN") })))
        .await;
    bench
        .stored("tests", &test(&subject, "no-login", "/status/401", &json!({ "outputs": output("TOKEN") })))
        .await;
    let refused = json!({ "type": "http", "httpRequest": { "method": "GET", "url": "http://127.0.0.1:9/${var:TOKEN}" } });
    bench.stored("tests", &test(&subject, "broken", "/", &json!({ "trigger": refused }))).await;
    bench.stored("tests", &test(&subject, "logout", "/value/bye-${var:TOKEN}", &json!({}))).await;
    let spec = |setup: &str| json!({ "id": setup, "name": "S", "setup": [setup], "steps": ["broken", "broken"], "teardown": ["logout", "logout"] });
    bench.suite(spec("login")).await;
    bench.suite(spec("no-login")).await;

    let run = bench.run_suite("login", &json!({})).await;
    assert_eq!(subject.calls(), ["token", "bye-token", "bye-token"]);
    assert_eq!(run["state"], "FAILED");
    let expected = ["login passed", "broken broken", "broken skipped", "logout passed", "logout passed"];
    assert_eq!(course(&bench, "/api/testsuites/login/run/1").await, expected);

    let run = bench.run_suite("no-login", &json!({})).await;
    assert_eq!(run["state"], "FAILED");
    let course = course(&bench, "/api/testsuites/no-login/run/1").await;
    // The logout is not sent without a token: it might log out other users.
    assert_eq!(
        course,
        ["no-login failed", "broken skipped", "broken skipped", "logout broken", "logout broken"]
    );
    bench.server.shutdown().await;
}

async fn an_output_without_a_value_is_not_handed_on(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    let nothing = json!([{ "name": "N", "selector": "span[name = \"missing\"]", "value": "attr:name" }]);
    bench.stored("tests", &test(&subject, "empty", "/value/one", &json!({ "outputs": nothing }))).await;
    bench.stored("tests", &test(&subject, "uses", "/value/${var:N}", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["empty", "uses"] })).await;
    let given = json!({ "variables": [{ "key": "N", "value": "GIVEN" }] });
    bench.run_suite("s", &given).await;
    assert_eq!(subject.calls(), ["one", "GIVEN"]);
    let run = bench.run_suite("s", &json!({})).await;
    assert_eq!(subject.calls(), ["one"]);
    assert!(run["lastErrorState"].as_str().unwrap().contains("\"N\" not found"), "{run:#}");
    bench.server.shutdown().await;
}

async fn a_test_that_is_taken_away_takes_only_its_step_along(database: &Database) {
    let (bench, mut subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "hang", "/hang", &json!({}))).await;
    bench.stored("tests", &test(&subject, "gone", "/value/gone", &json!({}))).await;
    bench.stored("tests", &test(&subject, "bye", "/value/bye", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["hang", "gone"], "teardown": ["bye"] })).await;
    bench.post("/api/testsuites/s/run", &json!({})).await;
    subject.hangs().await;
    let follower = tokio::spawn({
        let request = bench.client.get(format!("{}/api/tests/hang/run/1/events/stream", bench.base));
        async move { request.send().await.unwrap().text().await.unwrap() }
    });
    for id in ["gone", "hang"] {
        bench.send(reqwest::Method::DELETE, &format!("/api/tests/{id}"), &[], "").await;
    }
    // A follower of a deleted run is not kept waiting.
    follower.await.unwrap();
    let expected = ["hang stopped", "gone skipped", "bye passed"];
    assert_eq!(course(&bench, "/api/testsuites/s/run/1").await, expected);

    // A test that is deleted before its step starts.
    bench.stored("tests", &test(&subject, "meet", "/meet/first", &json!({}))).await;
    bench.stored("tests", &test(&subject, "gone", "/value/gone", &json!({}))).await;
    bench.suite(json!({ "id": "z", "name": "Z", "steps": ["meet", "gone"], "teardown": ["bye"] })).await;
    bench.post("/api/testsuites/z/run", &json!({})).await;
    bench.send(reqwest::Method::DELETE, "/api/tests/gone", &[], "").await;
    bench.client.get(format!("{}/meet/second", subject.url)).send().await.unwrap();
    let expected = ["meet passed", "gone broken", "bye passed"];
    assert_eq!(course(&bench, "/api/testsuites/z/run/1").await, expected);
    bench.server.shutdown().await;
}

async fn a_step_that_takes_too_long_is_ended(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "hang", "/hang", &json!({ "retries": 3 }))).await;
    bench.stored("tests", &test(&subject, "after", "/value/after", &json!({}))).await;
    let steps = json!([{ "test": "hang", "timeout": "100ms" }, "after"]);
    bench.suite(json!({ "id": "s", "name": "S", "steps": steps, "teardown": ["after"] })).await;
    let run = bench.run_suite("s", &json!({})).await;
    assert_eq!((run["state"].as_str(), states(&run)), (Some("FAILED"), vec!["STOPPED", "FINISHED"]));
    assert_eq!(run["lastErrorState"], "step `hang`: it took longer than its timeout of 100ms and was ended");
    assert_eq!(
        course(&bench, "/api/testsuites/s/run/1").await,
        ["hang broken", "after skipped", "after passed"]
    );
    bench.server.shutdown().await;
}

async fn a_table_runs_the_steps_once_a_row(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench
        .stored("tests", &test(&subject, "a", "/value/${var:NAME}", &json!({ "outputs": output("ID") })))
        .await;
    bench.stored("tests", &test(&subject, "b", "${var:PATH}${var:ID}", &json!({}))).await;
    bench.stored("tests", &test(&subject, "end", "/value/end", &json!({}))).await;
    let rows = json!([
        { "NAME": "one", "PATH": "/value/of-" },
        { "NAME": "two", "PATH": "/status/500?" },
    ]);
    let csv = "NAME,PATH\nthree,/value/of-\n";
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["a", "b"], "teardown": ["end"], "data": { "rows": rows, "csv": csv } })).await;
    let run = bench.run_suite("s", &json!({})).await;
    assert_eq!((run["state"].as_str(), states(&run)), (Some("FINISHED"), vec!["FINISHED"; 7]));
    assert_eq!((&run["pass"], &run["fail"]), (&json!(6), &json!(1)));
    assert_eq!(subject.calls(), ["one", "of-one", "two", "three", "of-three", "end"]);
    let course = course(&bench, "/api/testsuites/s/run/1").await;
    assert_eq!(
        course,
        ["a 1 passed", "b 1 passed", "a 2 passed", "b 2 failed", "a 3 passed", "b 3 passed", "end passed"]
    );
    bench.server.shutdown().await;
}

async fn stopping_a_suite_ends_its_steps_but_not_its_teardown(database: &Database) {
    let (bench, mut subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "hang", "/hang", &json!({ "retries": 5 }))).await;
    bench.stored("tests", &test(&subject, "after", "/value/after", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["hang", "after"], "teardown": ["after"] })).await;
    bench.post("/api/testsuites/s/run", &json!({})).await;
    subject.hangs().await;
    let stopped = bench.post("/api/testsuites/s/run/1/stop", &json!({})).await;
    assert_eq!(stopped.text, "{\"result\":\"success\"}\n");
    let course = course(&bench, "/api/testsuites/s/run/1").await;
    assert_eq!(course, ["after skipped", "hang stopped", "after passed"]);
    let run = bench.get("/api/testsuites/s/run/1").await.json();
    assert_eq!((run["state"].as_str(), states(&run)), (Some("FAILED"), vec!["STOPPED", "FINISHED"]));
    assert_eq!(run["lastErrorState"], "the suite was stopped");
    assert_eq!(subject.calls(), ["after"]);

    // A run that is deleted while it is under way leaves nothing behind.
    bench.post("/api/testsuites/s/run", &json!({})).await;
    subject.hangs().await;
    let gone = bench.send(reqwest::Method::DELETE, "/api/testsuites/s/run/2", &[], "").await;
    assert_eq!(gone.status, reqwest::StatusCode::NO_CONTENT, "{}", gone.text);
    assert_eq!(bench.get("/api/tests/hang/run").await.headers["x-total-count"], "1");
    assert_eq!(bench.get("/api/tests/after/run").await.headers["x-total-count"], "1");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_suite_is_followed_and_stopped_through_another_server() {
    let Some(database) = Database::postgres().await else { return };
    let (one, mut subject) = (Bench::new(&database).await, Subject::start().await);
    let other = Bench::new(&database).await;
    one.stored("tests", &test(&subject, "hang", "/hang", &json!({}))).await;
    one.stored("tests", &test(&subject, "after", "/value/after", &json!({}))).await;
    one.suite(json!({ "id": "s", "name": "S", "steps": ["hang"], "teardown": ["after"] })).await;
    one.post("/api/testsuites/s/run", &json!({})).await;
    subject.hangs().await;
    other.post("/api/testsuites/s/run/1/stop", &json!({})).await;
    assert_eq!(course(&other, "/api/testsuites/s/run/1").await, ["hang stopped", "after passed"]);
    // The suite of a server that shuts down is resumed by another server.
    one.post("/api/testsuites/s/run", &json!({})).await;
    subject.hangs().await;
    one.server.shutdown().await;
    assert_eq!(course(&other, "/api/testsuites/s/run/2").await, ["hang inconclusive", "after passed"]);
    let run = other.get("/api/testsuites/s/run/2").await.json();
    assert_eq!((run["state"].as_str(), states(&run)), (Some("FAILED"), vec!["FAILED", "FINISHED"]));
    other.server.shutdown().await;
}

async fn a_suite_that_cannot_work_is_refused(database: &Database) {
    let bench = Bench::new(database).await;
    for (spec, told) in [
        (
            json!({ "steps": [{ "test": "a", "dependsOn": ["b"] }, "b"] }),
            "these steps wait for one another: `a` → `b` → `a`",
        ),
        (json!({ "steps": ["make", { "test": "b", "dependsOn": ["mkae"] }] }), "no step is called `mkae`"),
        (json!({ "steps": ["a", { "test": "b", "dependsOn": ["b"] }] }), "the step `b` waits for itself"),
        (
            json!({ "steps": ["a", "a", { "test": "b", "dependsOn": ["a"] }] }),
            "more than one step is called `a`",
        ),
        (json!({ "steps": ["a", { "test": "b", "name": "a" }] }), "two steps are called `a`"),
        (json!({ "steps": [{ "test": "a", "timeout": "soon" }] }), "`timeout` takes a duration, not `soon`"),
        (
            json!({ "steps": [], "setup": ["a", { "test": "b", "dependsOn": ["a"] }] }),
            "run in order and cannot name others",
        ),
        (json!({ "steps": ["a"], "data": { "rows": [{ "A": "1" }, { "B": "2" }] } }), "this row has no `A`"),
        (json!({ "steps": ["a"], "data": {} }), "the table has no rows"),
        (json!({ "steps": ["a"], "data": { "csv": "A,B\n1\n" } }), "this is no CSV"),
        (json!({ "steps": ["a"], "data": { "csv": "A,A\n1,2\n" } }), "the CSV has the column `A` twice"),
        (
            json!({ "steps": [{ "test": "a", "timeout": "0s" }] }),
            "a step that may take `0s` can never be run",
        ),
    ] {
        let mut spec = spec;
        spec["name"] = "S".into();
        let refused = bench.put("/api/testsuites", &json!({ "type": "TestSuite", "spec": spec })).await;
        assert_eq!(refused.status, reqwest::StatusCode::BAD_REQUEST, "{told}: {}", refused.text);
        assert!(refused.text.contains(told), "no `{told}` in {}", refused.text);
    }
    bench.server.shutdown().await;
}

async fn subscribers_are_told_of_every_change(database: &Database) {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::Message;

    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "ok", "/value/1", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["ok"] })).await;
    let address = bench.base.replace("http://", "ws://") + "/ws";
    let (mut socket, _) = tokio_tungstenite::connect_async(address).await.unwrap();
    let subscribe = json!({ "type": "subscribe", "resource": "testsuites/s/run/1" }).to_string();
    socket.send(Message::text(subscribe)).await.unwrap();
    let mut next = async || loop {
        if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
            return serde_json::from_str::<Value>(&text).unwrap();
        }
    };
    assert_eq!(next().await["type"], "success");
    bench.post("/api/testsuites/s/run", &json!({})).await;
    let last = loop {
        let update = next().await;
        assert_eq!((&update["type"], &update["resource"]), (&json!("update"), &json!("testsuites/s/run/1")));
        if update["event"]["state"] == "FINISHED" {
            break update;
        }
    };
    assert_eq!(last["event"], bench.get("/api/testsuites/s/run/1").await.json());
    drop(socket);
    bench.server.shutdown().await;
}
