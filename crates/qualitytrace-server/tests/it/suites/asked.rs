//! Parameters of a run: variables, gates, metadata; and which version of the test counts.

use std::time::Duration;

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Subject, output, test};
use crate::api::Bench;
use crate::databases::{Database, on_every_database};

on_every_database!(
    what_a_test_lacks_is_said_before_it_runs,
    a_mask_is_no_value_of_a_variable,
    a_run_says_what_it_was_given_beside_its_set,
    a_run_is_held_to_its_gates_and_keeps_the_words_about_it,
    a_test_that_is_edited_while_it_runs_is_judged_as_it_was,
    what_was_asked_for_is_done_although_the_client_went_away,
);

impl Bench {
    /// Runs a test to its end and returns the run.
    async fn run_test(&self, id: &str, body: &Value) -> Value {
        let started = self.post(&format!("/api/tests/{id}/run"), body).await;
        assert_eq!(started.status, StatusCode::OK, "{}", started.text);
        let path = format!("/api/tests/{id}/run/{}", started.json()["id"]);
        self.events(&path).await;
        self.get(&path).await.json()
    }
}

async fn what_a_test_lacks_is_said_before_it_runs(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    let more = json!({ "outputs": output("ID") });
    bench.stored("tests", &test(&subject, "t", "/value/${var:WHO}${env:TAIL}", &more)).await;
    let refused =
        bench.post("/api/tests/t/run", &json!({ "variables": [{ "key": "WHO", "value": "a" }] })).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        refused.json(),
        json!({ "missingVariables": [{ "testId": "t", "variables": [{ "key": "TAIL" }] }] })
    );
    assert_eq!(bench.get("/api/tests/t/run").await.json(), json!([]));
    let specs = json!([{ "selector": "span[name=\"${var:NAME}\"]", "assertions": ["attr:a = var:ROUTE"] }]);
    bench.stored("tests", &test(&subject, "specs", "/value/a", &json!({ "specs": specs }))).await;
    let refused = bench.post("/api/tests/specs/run", &json!({})).await.json();
    assert_eq!(refused["missingVariables"][0]["variables"], json!([{ "key": "NAME" }, { "key": "ROUTE" }]));
    let given = json!({ "variables": [{ "key": "WHO", "value": "a" }, { "key": "TAIL", "value": "-b" }] });
    assert_eq!(bench.run_test("t", &given).await["outputs"][0]["value"], "a-b");
    assert_eq!(subject.calls(), ["a-b"]);
    bench.server.shutdown().await;
}

async fn a_mask_is_no_value_of_a_variable(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "t", "/value/${var:KEY}", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["t"] })).await;
    for (path, kind) in [("tests/t", "raw"), ("tests/t", "secret"), ("testsuites/s", "secret")] {
        let masked = json!({ "variables": [{ "key": "KEY", "value": "********", "type": kind }] });
        let refused = bench.post(&format!("/api/{path}/run"), &masked).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
        assert!(refused.text.contains("the variable `KEY` is masked"), "{}", refused.text);
    }
    assert_eq!(subject.calls(), [""; 0]);
    // The mask is not offered as a default either, and the client learns that it asks for a secret.
    bench.run_test("t", &json!({ "variables": [{ "key": "KEY", "value": "k", "type": "secret" }] })).await;
    let refused = bench.post("/api/tests/t/run", &json!({})).await.json();
    assert_eq!(refused["missingVariables"][0]["variables"], json!([{ "key": "KEY", "type": "secret" }]));
    bench.server.shutdown().await;
}

async fn a_run_says_what_it_was_given_beside_its_set(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    let values =
        json!([{ "key": "WHO", "value": "a" }, { "key": "KEY", "value": "of-set", "type": "secret" }]);
    bench
        .stored(
            "variablesets",
            &json!({ "type": "VariableSet", "spec": { "id": "set", "name": "Set", "values": values } }),
        )
        .await;
    let more = json!({ "outputs": output("ID") });
    bench.stored("tests", &test(&subject, "t", "/value/${var:WHO}${var:TAIL}", &more)).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["t", "t"] })).await;
    let body = json!({ "variableSetId": "set", "variables": [
        { "key": "TAIL", "value": "-b" },
        { "key": "EXTRA", "value": "of-client", "type": "secret" },
        { "key": "ID", "value": "mine" },
        { "key": "KEY", "value": "********", "type": "secret" },
    ] });
    // The output of this name replaces its value among the others.
    let given =
        json!([{ "key": "TAIL" }, { "key": "EXTRA", "type": "secret" }, { "key": "ID", "value": "mine" }]);
    let run = bench.run_test("t", &body).await;
    assert_eq!((&run["variableSet"]["id"], &run["variableSet"]["given"]), (&json!("set"), &given), "{run}");
    let run = bench.run_suite("s", &body).await;
    assert_eq!(run["variableSet"]["given"], given, "{run}");
    // A step has the outputs of earlier steps, and whatever else replaced a value of the set.
    let step = &run["steps"][1]["variableSet"]["given"];
    let names: Vec<_> = step.as_array().unwrap().iter().map(|one| one["key"].as_str().unwrap()).collect();
    assert_eq!(names, ["WHO", "TAIL", "EXTRA", "ID"], "{run}");
    bench.server.shutdown().await;
}

async fn a_run_is_held_to_its_gates_and_keeps_the_words_about_it(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "bad", "/status/500", &json!({}))).await;
    let words = json!({ "commit": "abc", "deep": { "a": [1] } });
    let body = json!({ "requiredGates": ["test-specs"], "metadata": words });
    let held = bench.run_test("bad", &body).await;
    assert_eq!(held["metadata"], words);
    assert_eq!(
        (&held["requiredGatesResult"]["required"], &held["requiredGatesResult"]["failed"]),
        (&json!(["test-specs"]), &json!(["test-specs"])),
        "{held}"
    );
    assert_ne!(held["requiredGatesResult"]["passed"], true, "{held}");
    // A gate that is not required does not count.
    let off =
        bench.put("/api/analyzers/current", &json!({ "spec": { "name": "A", "enabled": false } })).await;
    assert!(off.status.is_success(), "{}", off.text);
    let free = bench.run_test("bad", &json!({ "requiredGates": ["analyzer-rules"] })).await;
    assert_eq!(free["requiredGatesResult"]["passed"], true, "{free}");
    // The server's default applies to a run that sets none.
    let runner = json!({ "spec": { "name": "current", "requiredGates": ["analyzer-rules"] } });
    let stored = bench.put("/api/testrunners/current", &runner).await;
    assert!(stored.status.is_success(), "{}", stored.text);
    let said = bench.run_test("bad", &json!({})).await;
    assert_eq!(said["requiredGatesResult"]["required"], json!(["analyzer-rules"]), "{said}");
    bench.server.shutdown().await;
}

async fn a_test_that_is_edited_while_it_runs_is_judged_as_it_was(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    // Responds only after a second request.
    bench.stored("tests", &test(&subject, "t", "/meet/first", &json!({ "outputs": output("ID") }))).await;
    bench.post("/api/tests/t/run", &json!({})).await;
    eventually(DEADLINE, "the run begins", async || {
        bench.get("/api/tests/t/run/1/events").await.text.contains("EXECUTION_START")
    })
    .await;
    let specs = json!([{ "selector": "span[name=\"Tracetest trigger\"]", "assertions": ["attr:tracetest.response.status = 418"] }]);
    let edited = test(&subject, "t", "/value/edited", &json!({ "specs": specs }));
    let stored = bench.send(Method::PUT, "/api/tests/t", &[], &edited.to_string()).await;
    assert_eq!(stored.status, StatusCode::OK, "{}", stored.text);
    reqwest::get(format!("{}/meet/second", subject.url)).await.unwrap();
    bench.events("/api/tests/t/run/1").await;
    let run = bench.get("/api/tests/t/run/1").await.json();
    assert_eq!((&run["state"], &run["testVersion"]), (&json!("FINISHED"), &json!(1)), "{run}");
    assert_eq!((&run["result"]["allPassed"], &run["outputs"][0]["value"]), (&json!(true), &json!("first")));
    assert_eq!(subject.calls(), [""; 0]);
    // A rerun judges the same response by the current test.
    let again = bench.post("/api/tests/t/run/1/rerun", &json!({})).await.json();
    let path = format!("/api/tests/t/run/{}", again["id"]);
    bench.events(&path).await;
    let again = bench.get(&path).await.json();
    assert_eq!((&again["testVersion"], again["result"].get("allPassed")), (&json!(2), None), "{again}");
    assert_eq!(subject.calls(), [""; 0], "nothing is sent again");
    bench.server.shutdown().await;
}

async fn what_was_asked_for_is_done_although_the_client_went_away(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "t", "/value/a", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["t"] })).await;
    for timeout in (0..100).map(|step| Duration::from_micros(step * 100)) {
        let asked = bench.client.post(format!("{}/api/testsuites/s/run", bench.base)).timeout(timeout);
        // The timeouts differ in whether the response arrives in time.
        let _ = asked.json(&json!({})).send().await;
    }
    eventually(DEADLINE, "every suite ends", async || {
        let runs = bench.get("/api/testsuites/s/run?take=200").await.json();
        let runs = runs.as_array().unwrap();
        assert!(!runs.is_empty());
        let under_way = runs.iter().filter(|run| run["state"] != "FINISHED").count();
        if under_way == 0 { Ok(()) } else { Err(format!("{under_way} suites are under way")) }
    })
    .await;
    bench.server.shutdown().await;
}
