//! Runs of suites and series of runs over a real socket, on every kind of database.

mod asked;
mod course;
mod following;
mod overlap;
mod subject;

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::Bench;
use crate::databases::{Database, on_every_database};
use subject::Subject;

on_every_database!(
    steps_run_in_order_and_hand_their_outputs_on,
    a_failed_step_does_not_end_a_suite_but_a_broken_one_does,
    what_a_suite_lacks_is_said_before_it_runs,
    runs_of_suites_are_listed_and_deleted_with_all_they_have,
    the_old_name_of_suites_still_works,
    a_suite_under_way_is_carried_on_when_the_server_comes_back,
    a_test_that_passes_at_last_is_flaky_and_its_rate_is_known,
    repetitions_that_disagree_are_flaky,
    stopping_any_run_of_a_series_ends_it,
    a_step_ends_when_any_run_of_its_series_is_stopped,
    only_what_is_there_can_be_stopped_and_only_that_is_written_down,
);

/// Builds a test that calls the subject and judges only its response.
fn test(subject: &Subject, id: &str, path: &str, more: &Value) -> Value {
    let url = format!("{}{path}", subject.url);
    let mut spec = json!({
        "id": id, "name": format!("Test {id}"), "skipTraceCollection": true,
        "trigger": { "type": "http", "httpRequest": { "method": "GET", "url": url } },
        "specs": [{ "selector": "span[name=\"Tracetest trigger\"]", "name": "answer",
                    "assertions": ["attr:tracetest.response.status = 200"] }],
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({ "type": "Test", "spec": spec })
}

/// Builds an output with the `value` in the body of the response.
fn output(name: &str) -> Value {
    let value = "attr:tracetest.response.body | json_path '$.value'";
    json!([{ "name": name, "selector": "span[name=\"Tracetest trigger\"]", "value": value }])
}

impl Bench {
    async fn stored(&self, collection: &str, definition: &Value) {
        let got = self.put(&format!("/api/{collection}"), definition).await;
        assert_eq!(got.status, StatusCode::CREATED, "{}", got.text);
    }

    async fn suite(&self, spec: Value) {
        self.stored("testsuites", &json!({ "type": "TestSuite", "spec": spec })).await;
    }

    /// Runs a suite to its end and returns the run.
    async fn run_suite(&self, id: &str, body: &Value) -> Value {
        let started = self.post(&format!("/api/testsuites/{id}/run"), body).await;
        assert_eq!(started.status, StatusCode::OK, "{}", started.text);
        let path = format!("/api/testsuites/{id}/run/{}", started.json()["id"]);
        self.events(&path).await;
        self.get(&path).await.json()
    }

    /// Returns all events of a run, waiting for its end.
    async fn events(&self, path: &str) -> Vec<Value> {
        let stream = self.get(&format!("{path}/events/stream")).await.text;
        let data = stream.lines().filter_map(|line| line.strip_prefix("data:"));
        data.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the document at a path as soon as the predicate holds for it.
    async fn eventually(&self, path: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        eventually(DEADLINE, path, async || {
            let got = self.get(path).await.json();
            if is_wanted(&got) { Ok(got) } else { Err(got) }
        })
        .await
    }

    /// Returns the series of a run, waiting for its end.
    async fn series(&self, test: &str, run: &Value) -> Value {
        let path = format!("/api/tests/{test}/run/{run}/series?after=1000");
        self.eventually(&path, |series| series.get("outcome").is_some()).await
    }
}

fn states(run: &Value) -> Vec<&str> {
    run["steps"].as_array().into_iter().flatten().map(|step| step["state"].as_str().unwrap()).collect()
}

async fn steps_run_in_order_and_hand_their_outputs_on(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench
        .stored("tests", &test(&subject, "make", "/value/${var:WHO}", &json!({ "outputs": output("ID") })))
        .await;
    bench.stored("tests", &test(&subject, "use", "/value/${var:ID}-again", &json!({}))).await;
    let set = json!({ "id": "set", "name": "Set", "description": "d", "values": [{ "key": "WHO", "value": "set" }] });
    bench.stored("variablesets", &json!({ "type": "VariableSet", "spec": set })).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["make", "use", "make"] })).await;

    let body =
        json!({ "metadata": { "source": "web" }, "variableSetId": "set", "requiredGates": ["test-specs"] });
    let started = bench.post("/api/testsuites/s/run", &body).await;
    assert_eq!(started.headers["content-type"], "application/json; charset=UTF-8");
    let mut shown = started.json();
    let created = shown["createdAt"].take();
    assert!(created.as_str().unwrap().ends_with('Z'), "{created}");
    assert_eq!(
        shown,
        json!({
            "id": 1, "version": 1, "createdAt": null, "completedAt": "0001-01-01T00:00:00Z", "state": "CREATED",
            "variableSet": { "id": "set", "name": "Set", "description": "d",
                             "values": [{ "key": "WHO", "value": "set" }] },
            "metadata": { "source": "web" },
        })
    );

    bench.events("/api/testsuites/s/run/1").await;
    let run = bench.get("/api/testsuites/s/run/1").await.json();
    assert_eq!(subject.calls(), ["set", "set-again", "set"]);
    assert_eq!((run["state"].as_str(), states(&run)), (Some("FINISHED"), vec!["FINISHED"; 3]));
    assert_eq!((&run["pass"], run.get("fail")), (&json!(3), None));
    assert_eq!(run["allStepsRequiredGatesPassed"], true);
    assert_eq!(run["createdAt"], created);
    assert_ne!(run["completedAt"], "1970-01-01T00:00:00Z");
    let values = json!([{ "key": "WHO", "value": "set" }, { "key": "ID", "value": "set" }]);
    assert_eq!(run["variableSet"]["values"], values);
    assert_eq!(run["metadata"], json!({ "source": "web" }));
    let second = &run["steps"][1];
    assert_eq!(
        second["metadata"],
        json!({ "source": "web", "step": "2", "testsuite_id": "s", "testsuite_run_id": "1", "testsuite_version": "1" })
    );
    assert_eq!((&second["testSuiteId"], &second["testSuiteRunId"]), (&json!("s"), &json!(1)));
    assert_eq!(second["requiredGatesResult"]["required"], json!(["test-specs"]));
    assert_eq!(second["variableSet"]["values"], values);
    // The same test twice: it has two runs, and the step shows the same as the run itself.
    assert_eq!((&run["steps"][0]["id"], &run["steps"][2]["id"]), (&json!(1), &json!(2)));
    assert_eq!(bench.get("/api/tests/make/run/2").await.json(), run["steps"][2]);
    bench.server.shutdown().await;
}

async fn a_failed_step_does_not_end_a_suite_but_a_broken_one_does(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "ok", "/value/1", &json!({}))).await;
    bench.stored("tests", &test(&subject, "bad", "/status/500", &json!({}))).await;
    let refused = json!({ "type": "http", "httpRequest": { "method": "GET", "url": "http://127.0.0.1:9/" } });
    bench.stored("tests", &test(&subject, "refused", "/", &json!({ "trigger": refused }))).await;
    bench.suite(json!({ "id": "fails", "name": "F", "steps": ["bad", "ok"] })).await;
    bench.suite(json!({ "id": "breaks", "name": "B", "steps": ["ok", "refused", "ok"] })).await;

    let run = bench.run_suite("fails", &json!({})).await;
    assert_eq!((run["state"].as_str(), states(&run)), (Some("FINISHED"), vec!["FINISHED", "FINISHED"]));
    assert_eq!((&run["pass"], &run["fail"]), (&json!(1), &json!(1)));
    assert_eq!(run.get("allStepsRequiredGatesPassed"), None);

    let run = bench.run_suite("breaks", &json!({})).await;
    assert_eq!((run["state"].as_str(), states(&run)), (Some("FAILED"), vec!["FINISHED", "TRIGGER_FAILED"]));
    let why = run["lastErrorState"].as_str().unwrap();
    assert!(why.starts_with("step `refused`: "), "{why}");
    let events = bench.events("/api/testsuites/breaks/run/1").await;
    assert!(
        events.iter().any(|event| event["what"] == "stepsSkipped" && event["steps"] == json!([2])),
        "{events:?}"
    );
    bench.server.shutdown().await;
}

async fn what_a_suite_lacks_is_said_before_it_runs(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench
        .stored("tests", &test(&subject, "make", "/value/${var:WHO}", &json!({ "outputs": output("ID") })))
        .await;
    bench.stored("tests", &test(&subject, "use", "/value/${var:ID}${env:TAIL}", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["make", "use"] })).await;
    bench.suite(json!({ "id": "lost", "name": "L", "steps": ["nowhere"] })).await;

    let refused = bench.post("/api/testsuites/s/run", &json!({})).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        refused.text,
        "{\"missingVariables\":[{\"testId\":\"make\",\"variables\":[{\"key\":\"WHO\"}]},\
         {\"testId\":\"use\",\"variables\":[{\"key\":\"TAIL\"}]}]}\n"
    );
    let given = json!({ "variables": [{ "key": "WHO", "value": "a" }, { "key": "TAIL", "value": "-b" }] });
    assert_eq!(bench.run_suite("s", &given).await["state"], "FINISHED");
    assert_eq!(subject.calls(), ["a", "a-b"]);
    // The values used last are offered as defaults.
    let refused = bench.post("/api/testsuites/s/run", &json!({})).await.json();
    assert_eq!(refused["missingVariables"][1]["variables"], json!([{ "key": "TAIL", "defaultValue": "-b" }]));

    let unknown = bench.post("/api/testsuites/missing/run", &json!({})).await;
    assert_eq!(
        (unknown.status, unknown.text.as_str()),
        (StatusCode::NOT_FOUND, "\"sql: no rows in result set\"\n")
    );
    let lost = bench.post("/api/testsuites/lost/run", &json!({})).await;
    assert_eq!(lost.status, StatusCode::BAD_REQUEST);
    assert!(lost.text.contains("names the test `nowhere`, which is not there"), "{}", lost.text);
    assert_eq!(
        bench.post("/api/testsuites/s/run", &json!({ "what": 1 })).await.text,
        "\"json: unknown field \\\"what\\\"\"\n"
    );
    bench.server.shutdown().await;
}

async fn runs_of_suites_are_listed_and_deleted_with_all_they_have(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "ok", "/value/1", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["ok", "ok"] })).await;
    for _ in 0..12 {
        bench.run_suite("s", &json!({})).await;
    }
    let list = bench.get("/api/testsuites/s/run?take=3&skip=1").await;
    assert_eq!(list.headers["x-total-count"], "12");
    let ids: Vec<u64> =
        list.json().as_array().unwrap().iter().map(|run| run["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [11, 10, 9]);
    assert_eq!(states(&list.json()[0]), ["FINISHED", "FINISHED"]);
    assert_eq!(bench.get("/api/testsuites/s/run").await.json().as_array().unwrap().len(), 12);

    let augmented = [("x-tracetest-augmented", "true")];
    let shown = bench.send(Method::GET, "/api/testsuites", &augmented, "").await.json();
    let spec = &shown["items"][0]["spec"];
    assert_eq!((&spec["summary"]["runs"], &spec["summary"]["lastRun"]["passes"]), (&json!(12), &json!(2)));
    let twelfth = bench.get("/api/testsuites/s/run/12").await.json();
    assert_eq!(spec["summary"]["lastRun"]["time"], twelfth["createdAt"]);
    assert_eq!(spec["fullSteps"].as_array().unwrap().len(), 2);

    let gone = bench.send(Method::DELETE, "/api/testsuites/s/run/12", &[], "").await;
    assert_eq!((gone.status, gone.text.as_str()), (StatusCode::NO_CONTENT, ""));
    for path in ["/api/testsuites/s/run/12", "/api/tests/ok/run/23", "/api/tests/ok/run/24"] {
        assert_eq!(bench.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(bench.get("/api/testsuites/s/run/12/events").await.json(), json!([]));
    assert_eq!(bench.get("/api/tests/ok/run/22").await.status, StatusCode::OK);
    let again = bench.send(Method::DELETE, "/api/testsuites/s/run/12", &[], "").await;
    assert_eq!(again.status, StatusCode::NOT_FOUND);
    // Numbers are not reused.
    assert_eq!(bench.run_suite("s", &json!({})).await["id"], 13);

    assert_eq!(bench.send(Method::DELETE, "/api/testsuites/s", &[], "").await.status, StatusCode::NO_CONTENT);
    assert_eq!(bench.get("/api/testsuites/s/run/1").await.status, StatusCode::NOT_FOUND);
    assert_eq!(bench.get("/api/tests/ok/run").await.json(), json!([]));
    bench.server.shutdown().await;
}

async fn the_old_name_of_suites_still_works(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "ok", "/value/1", &json!({}))).await;
    let spec = json!({ "id": "s", "name": "S", "steps": ["ok"] });
    bench.stored("transactions", &json!({ "type": "Transaction", "spec": spec })).await;
    let started = bench.post("/api/transactions/s/run", &json!({})).await;
    assert_eq!(started.status, StatusCode::OK, "{}", started.text);
    bench.events("/api/transactions/s/run/1").await;
    let run = bench.get("/api/transactions/s/run/1").await.json();
    assert_eq!(run["state"], "FINISHED");
    assert_eq!(bench.get("/api/testsuites/s/run/1").await.json(), run);
    assert_eq!(bench.get("/api/transactions/s").await.json()["type"], "TestSuite");
    assert_eq!(bench.get("/api/transactions/s/version/1").await.json()["summary"]["runs"], 1);
    bench.server.shutdown().await;
}

async fn a_suite_under_way_is_carried_on_when_the_server_comes_back(database: &Database) {
    // A memory database does not survive a restart.
    if database.url == "sqlite::memory:" {
        return;
    }
    let (bench, mut subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "ok", "/value/made", &json!({ "outputs": output("ID") }))).await;
    bench.stored("tests", &test(&subject, "hang", "/hang", &json!({}))).await;
    bench.stored("tests", &test(&subject, "bye", "/value/bye-${var:ID}", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["ok", "hang", "ok"], "teardown": ["bye"] })).await;
    bench.post("/api/testsuites/s/run", &json!({})).await;
    subject.hangs().await;
    // Changes made meanwhile do not matter.
    bench.put("/api/tests/bye", &test(&subject, "bye", "/value/other", &json!({}))).await;
    bench.server.shutdown().await;

    let bench = Bench::new(database).await;
    let course = course::course(&bench, "/api/testsuites/s/run/1").await;
    assert_eq!(course, ["ok passed", "hang inconclusive", "ok skipped", "bye passed"]);
    assert_eq!(subject.calls(), ["made", "bye-made"]);
    let run = bench.get("/api/testsuites/s/run/1").await.json();
    assert_eq!(
        (run["state"].as_str(), states(&run)),
        (Some("FAILED"), vec!["FINISHED", "FAILED", "FINISHED"])
    );
    let told = run["lastErrorState"].as_str().unwrap();
    assert!(told.starts_with("step `hang`: the server was restarted during the run"), "{told}");
    assert_eq!((&run["pass"], run.get("fail")), (&json!(2), None));
    let events = bench.events("/api/testsuites/s/run/1").await;
    assert_eq!(events.iter().filter(|event| event["what"] == "resumed").count(), 1, "{events:?}");
    bench.server.shutdown().await;
}

async fn a_test_that_passes_at_last_is_flaky_and_its_rate_is_known(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    // Every third call gets a 200.
    bench.stored("tests", &test(&subject, "t", "/third", &json!({ "retries": 2 }))).await;
    let first = bench.post("/api/tests/t/run", &json!({})).await.json();
    assert_eq!((&first["id"], &first["series"]), (&json!(1), &json!({ "first": 1, "attempt": 1 })));
    let mut series = bench.series("t", &first["id"]).await;
    for run in series["runs"].as_array_mut().unwrap() {
        assert_eq!(run["traceId"].take().as_str().unwrap().len(), 32);
    }
    let run = |run: u64, outcome: &str| json!({ "run": run, "traceId": null, "outcome": outcome });
    assert_eq!(
        series,
        json!({ "retries": 2, "repeat": 1, "outcome": "flaky", "recovered": true,
                "runs": [run(1, "failed"), run(2, "failed"), run(3, "passed")] })
    );
    // The series is available through any of its runs.
    assert_eq!(bench.series("t", &json!(3)).await["outcome"], "flaky");
    assert_eq!(bench.get("/api/tests/t/run/3").await.json()["series"], json!({ "first": 1, "attempt": 3 }));
    // The request overrides the test.
    let fourth = bench.post("/api/tests/t/run", &json!({ "retries": 0, "repeat": 2 })).await.json();
    assert_eq!(bench.series("t", &fourth["id"]).await["outcome"], "failed");
    let alone = bench.post("/api/tests/t/run", &json!({ "retries": 0 })).await.json();
    assert_eq!(alone.get("series"), None);
    let got = bench.get(&format!("/api/tests/t/run/{}/series", alone["id"])).await;
    assert_eq!(got.status, StatusCode::NOT_FOUND);

    let augmented = [("x-tracetest-augmented", "true")];
    let shown = bench.send(Method::GET, "/api/tests/t", &augmented, "").await.json();
    assert_eq!(shown["spec"]["summary"]["flakiness"], json!({ "series": 2, "flaky": 1, "rate": 0.5 }));
    assert_eq!(shown["spec"]["retries"], 2);
    bench.server.shutdown().await;
}

async fn repetitions_that_disagree_are_flaky(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "t", "/third", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["t"] })).await;
    let run = bench.run_suite("s", &json!({ "repeat": 4 })).await;
    assert_eq!(run["state"], "FINISHED");
    let events = bench.events("/api/testsuites/s/run/1").await;
    let ended = events.iter().find(|event| event["what"] == "stepEnded").unwrap();
    assert_eq!((&ended["outcome"], ended.get("recovered")), (&json!("flaky"), None));
    let attempts: Vec<&Value> =
        events.iter().filter(|event| event["what"] == "stepStarted").map(|event| &event["attempt"]).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
    for path in ["/api/tests/t/run", "/api/testsuites/s/run"] {
        for (body, status, told) in [
            (json!({ "repeat": 1001 }), 400, "`repeat` takes a number up to 1000, not 1001"),
            (json!({ "retries": 5000 }), 400, "`retries` takes a number up to 1000, not 5000"),
            (
                json!({ "retries": 1000, "repeat": 1000 }),
                400,
                "come to up to 1001000 runs, and at most 10000 are made",
            ),
            (json!({ "variableSetId": "gone" }), 404, "there is no variable set `gone`"),
        ] {
            let refused = bench.post(path, &body).await;
            assert_eq!(refused.status.as_u16(), status, "{path} {body}: {}", refused.text);
            assert!(refused.text.contains(told), "{path} {body}: {}", refused.text);
        }
    }
    // Retries end when one passes, and the step shows the last run.
    let run = bench.run_suite("s", &json!({ "retries": 5 })).await;
    assert_eq!((states(&run), &run["steps"][0]["result"]["allPassed"]), (vec!["FINISHED"], &json!(true)));
    assert_eq!(run["allStepsRequiredGatesPassed"], true);
    bench.server.shutdown().await;
}

async fn stopping_any_run_of_a_series_ends_it(database: &Database) {
    let (bench, mut subject) = (Bench::new(database).await, Subject::start().await);
    let too_many = test(&subject, "many", "/third", &json!({ "repeat": 1000, "retries": 10 }));
    let refused = bench.put("/api/tests", &too_many).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
    assert!(refused.text.contains("come to up to 11000 runs"), "{}", refused.text);

    bench.stored("tests", &test(&subject, "t", "/fail-then-hang", &json!({ "retries": 1000 }))).await;
    let first = bench.post("/api/tests/t/run", &json!({})).await.json()["id"].clone();
    subject.hangs().await;
    // The first run has ended by now; the client knows no other.
    let stopped = bench.post(&format!("/api/tests/t/run/{first}/stop"), &json!({})).await;
    assert_eq!((stopped.status, stopped.text.as_str()), (StatusCode::OK, "{\"result\":\"success\"}\n"));
    let ended = bench.series("t", &first).await;
    assert_eq!(ended["outcome"], "stopped");
    bench.events("/api/tests/t/run/2").await;
    assert_eq!(bench.get("/api/tests/t/run/2").await.json()["state"], "STOPPED");
    let series =
        bench.eventually("/api/tests/t/run/1/series", |series| series["runs"][1]["outcome"] == "stopped");
    assert_eq!(series.await["runs"].as_array().unwrap().len(), 2);
    assert_eq!(bench.get("/api/tests/t/run").await.headers["x-total-count"], "2");

    // The same again, with a run in the middle that is under way.
    let third =
        bench.post("/api/tests/t/run", &json!({ "repeat": 5, "retries": 0 })).await.json()["id"].clone();
    subject.hangs().await;
    bench.post("/api/tests/t/run/4/stop", &json!({})).await;
    let ended = bench.series("t", &third).await;
    assert_eq!(ended["outcome"], "stopped");
    let series =
        bench.eventually("/api/tests/t/run/3/series", |series| series["runs"][1]["outcome"] == "stopped");
    assert_eq!(series.await["runs"].as_array().unwrap().len(), 2);
    bench.server.shutdown().await;
}

async fn a_step_ends_when_any_run_of_its_series_is_stopped(database: &Database) {
    let (bench, mut subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "t", "/fail-then-hang", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["t"] })).await;
    bench.post("/api/testsuites/s/run", &json!({ "retries": 100 })).await;
    subject.hangs().await;
    assert_eq!(bench.post("/api/tests/t/run/1/stop", &json!({})).await.status, StatusCode::OK);
    let events = bench.events("/api/testsuites/s/run/1").await;
    let ended = events.iter().find(|event| event["what"] == "stepEnded").unwrap();
    assert_eq!(ended["outcome"], "stopped", "{events:?}");
    assert_eq!(bench.get("/api/tests/t/run").await.headers["x-total-count"], "2");
    bench.server.shutdown().await;
}

async fn only_what_is_there_can_be_stopped_and_only_that_is_written_down(database: &Database) {
    let (bench, mut subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "t", "/value/1", &json!({}))).await;
    bench.stored("tests", &test(&subject, "hang", "/hang", &json!({}))).await;
    bench.suite(json!({ "id": "s", "name": "S", "steps": ["t"] })).await;
    bench.run_suite("s", &json!({})).await;
    for (path, status) in [
        ("/api/tests/missing/run/7/stop", 404),
        ("/api/tests/missing/run/7/skipPolling", 404),
        ("/api/testsuites/missing/run/7/stop", 404),
        ("/api/testsuites/s/run/7/stop", 404),
        ("/api/testsuites/s/run/1/stop", 200),
        // Clients rely on these two.
        ("/api/tests/t/run/7/stop", 200),
        ("/api/tests/t/run/1/stop", 200),
    ] {
        assert_eq!(bench.post(path, &json!({})).await.status, status, "{path}");
    }
    bench.post("/api/tests/hang/run", &json!({})).await;
    subject.hangs().await;
    assert_eq!(bench.post("/api/tests/hang/run/1/stop", &json!({})).await.status, StatusCode::OK);
    let audit = bench.get("/api/audit").await.json();
    let changes = audit["items"].as_array().unwrap().iter();
    let ids: Vec<&Value> =
        changes.filter(|change| change["action"] == "stop").map(|change| &change["id"]).collect();
    assert_eq!(ids, ["hang/1"], "{audit}");
    bench.server.shutdown().await;
}
