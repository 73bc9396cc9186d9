//! Edits of stored tests that keep comments, saving that notices other writers, and imports.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::{Bench, Got};
use crate::databases::{Database, on_every_database};

on_every_database!(
    an_edit_keeps_comments_and_stores_nothing,
    of_two_writers_one_is_told_that_the_other_was_quicker,
    every_kind_of_resource_has_a_version,
    secrets_survive_an_edited_text,
    an_imported_request_can_be_stored_as_it_is,
);

const YAML: (&str, &str) = ("content-type", "text/yaml");

const TEST: &str = "\
# the checkout
type: Test
spec:
  id: t
  name: T # its name
  trigger:
    type: http
    httpRequest: {url: 'http://127.0.0.1:9/x', method: GET}
  specs:
  # the answer
  - selector: span[name=\"Tracetest trigger\"]
    assertions:
    - attr:tracetest.response.status = 200 # always
";

impl Bench {
    async fn edit(&self, id: &str, version: u64, changes: &Value) -> Got {
        let body = json!({ "version": version, "changes": changes });
        self.post(&format!("/api/tests/{id}/source/edit"), &body).await
    }

    async fn save(&self, path: &str, expected: &str, text: &str) -> Got {
        self.send(Method::PUT, path, &[YAML, ("if-match", expected)], text).await
    }
}

async fn an_edit_keeps_comments_and_stores_nothing(database: &Database) {
    let bench = Bench::new(database).await;
    bench.send(Method::PUT, "/api/tests", &[YAML], TEST).await;
    let spec =
        json!({ "name": "Quick", "selector": "span[]", "assertions": ["attr:tracetest.span.duration < 2s"] });
    let changes = json!([
        { "type": "addSpec", "spec": spec },
        { "type": "addAssertion", "spec": 0, "assertion": "attr:a exists" },
        { "type": "addOutput", "output": { "name": "ID", "selector": "span[]", "value": "attr:id" } },
        { "type": "rename", "name": "U" },
    ]);
    let edited = bench.edit("t", 1, &changes).await;
    assert_eq!(edited.status, StatusCode::OK, "{}", edited.text);
    let expected = TEST.replace("name: T #", "name: U #")
        + "    - attr:a exists\n  - selector: span[]\n    name: Quick\n    assertions:\n    - attr:tracetest.span.duration < 2s\n  outputs:\n  - name: ID\n    selector: span[]\n    value: attr:id\n";
    assert_eq!(edited.json()["text"], expected);
    let diff = edited.json()["diff"].as_str().unwrap().to_owned();
    assert!(diff.contains("\n-  name: T # its name\n+  name: U # its name\n"), "{diff}");
    let source = bench.get("/api/tests/t/source").await;
    assert_eq!((source.text.as_str(), &source.headers["etag"]), (TEST, &"\"1\"".parse().unwrap()));
    let saved = bench.save("/api/tests/t", "\"1\"", &expected).await;
    assert_eq!((saved.status, &saved.headers["etag"]), (StatusCode::OK, &"\"2\"".parse().unwrap()));
    assert_eq!(bench.get("/api/tests/t/source").await.text, expected);

    for (version, changes, status, part) in [
        (1, json!([]), StatusCode::CONFLICT, "Test `t` has version 2, and the request expects version 1"),
        (2, json!([{ "type": "removeSpec", "at": 7 }]), StatusCode::BAD_REQUEST, "there is no spec 7"),
        (2, json!([{ "type": "removeSpec" }]), StatusCode::BAD_REQUEST, "missing field `at`"),
        (2, json!([{ "type": "removeSpec", "at": 0, "x": 1 }]), StatusCode::BAD_REQUEST, "unknown field `x`"),
        (2, json!([{ "type": "addSpec", "spec": {} }]), StatusCode::BAD_REQUEST, "neither a `selector` nor"),
    ] {
        let refused = bench.edit("t", version, &changes).await;
        assert_eq!(refused.status, status, "{}", refused.text);
        assert!(refused.json()["error"].as_str().unwrap().contains(part), "{}", refused.text);
    }
    assert_eq!(bench.edit("nothing", 1, &json!([])).await.status, StatusCode::NOT_FOUND);
    let shared = "spec:\n  id: s\n  name: S\n  x: &all\n  - selector: span[]\n  specs: *all\n";
    bench.send(Method::PUT, "/api/tests", &[YAML], shared).await;
    let refused = bench.edit("s", 1, &json!([{ "type": "removeSpec", "at": 0 }])).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.text);
    bench.server.shutdown().await;
}

async fn of_two_writers_one_is_told_that_the_other_was_quicker(database: &Database) {
    let bench = Bench::new(database).await;
    bench.send(Method::PUT, "/api/tests", &[YAML], TEST).await;
    for version in 1..=10_u64 {
        let expected = format!("\"{version}\"");
        let text = |who: &str| TEST.replace("name: T", &format!("name: {who} {version}"));
        let (one, other) = (text("one"), text("other"));
        let (first, second) = tokio::join!(
            bench.save("/api/tests/t", &expected, &one),
            bench.save("/api/tests", &expected, &other)
        );
        let mut statuses = [first.status, second.status];
        statuses.sort();
        assert_eq!(statuses, [StatusCode::OK, StatusCode::CONFLICT], "{} {}", first.text, second.text);
        let (won, lost) = if first.status == StatusCode::OK { (&one, &second) } else { (&other, &first) };
        assert_eq!(bench.get("/api/tests/t/source").await.text, *won);
        let told = format!("Test `t` has version {}, and the request expects version {version}", version + 1);
        assert!(lost.text.contains(&told), "{}", lost.text);
    }
    assert_eq!(
        bench.save("/api/tests/u", "\"1\"", &TEST.replace("id: t", "id: u")).await.status,
        StatusCode::NOT_FOUND
    );
    let refused = bench.save("/api/tests", "*", &TEST.replace("id: t", "id: u")).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text);
    assert_eq!(bench.save("/api/tests/t", "*", TEST).await.status, StatusCode::OK);
    let wrong = bench.save("/api/tests/t", "soon", TEST).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{}", wrong.text);
    bench.server.shutdown().await;
}

async fn every_kind_of_resource_has_a_version(database: &Database) {
    let bench = Bench::new(database).await;
    let profile = |timeout: &str| {
        format!(
            "spec:\n  name: P\n  strategy: periodic\n  periodic: {{retryDelay: 1s, timeout: {timeout}}}\n"
        )
    };
    let path = "/api/pollingprofiles/current";
    // A single resource that was never stored has version 0.
    assert_eq!(bench.get(path).await.headers["etag"], "\"0\"");
    let saved = bench.save(path, "\"0\"", &profile("5s")).await;
    assert_eq!((saved.status, &saved.headers["etag"]), (StatusCode::OK, &"\"1\"".parse().unwrap()));
    let late = bench.save(path, "\"0\"", &profile("6s")).await;
    assert_eq!(late.status, StatusCode::CONFLICT, "{}", late.text);
    assert_eq!(bench.save(path, "\"0\", \"1\"", &profile("7s")).await.status, StatusCode::OK);
    assert_eq!(bench.get(path).await.headers["etag"], "\"2\"");
    let suite = "spec:\n  id: s\n  name: S\n  steps: []\n";
    let stored = bench.send(Method::POST, "/api/testsuites", &[YAML], suite).await;
    assert_eq!((stored.status, &stored.headers["etag"]), (StatusCode::CREATED, &"\"1\"".parse().unwrap()));
    let late = bench.save("/api/testsuites/s", "\"2\"", &suite.replace("name: S", "name: R")).await;
    assert_eq!(late.status, StatusCode::CONFLICT, "{}", late.text);
    bench.server.shutdown().await;
}

async fn secrets_survive_an_edited_text(database: &Database) {
    let bench = Bench::new(database).await;
    let set = |value: &str, name: &str| {
        format!(
            "spec:\n  id: v\n  name: {name}\n  # the key\n  values:\n  - {{key: K, value: \"{value}\", type: secret}}\n"
        )
    };
    bench.send(Method::PUT, "/api/variablesets", &[YAML], &set("hunter2", "one")).await;
    let shown = bench.get("/api/variablesets/v/source").await;
    assert_eq!(
        (shown.text.as_str(), &shown.headers["etag"]),
        (set("********", "one").as_str(), &"\"1\"".parse().unwrap())
    );
    let saved = bench.save("/api/variablesets/v", "\"1\"", &shown.text.replace("one", "two")).await;
    assert_eq!(saved.status, StatusCode::OK, "{}", saved.text);
    assert_eq!(bench.get("/api/variablesets/v/source").await.text, set("********", "two"));
    // The stored secret is still the one that was sent: sending it again changes nothing.
    let same = bench.save("/api/variablesets/v", "\"2\"", &set("hunter2", "two")).await;
    assert_eq!((same.status, &same.headers["etag"]), (StatusCode::OK, &"\"2\"".parse().unwrap()));
    bench.server.shutdown().await;
}

async fn an_imported_request_can_be_stored_as_it_is(database: &Database) {
    let bench = Bench::new(database).await;
    let command = "curl -X PUT http://127.0.0.1:9/x -d a=1 --frobnicate";
    let found = bench.post("/api/import", &json!({ "from": "curl", "text": command })).await;
    assert_eq!(found.status, StatusCode::OK, "{}", found.text);
    assert_eq!(bench.post("/api/import", &json!({ "text": command })).await.json(), found.json());
    let found = found.json();
    assert_eq!(found["definitions"][0]["name"], "PUT /x");
    assert_eq!(found["warnings"], json!(["the option `--frobnicate` of curl is not carried over"]));
    assert_eq!(bench.get("/api/tests").await.json()["count"], 0, "nothing is stored");
    let text = found["definitions"][0]["text"].as_str().unwrap();
    let stored = bench
        .send(Method::POST, "/api/tests?strict=true", &[YAML, ("accept", "application/json")], text)
        .await;
    assert_eq!(stored.status, StatusCode::CREATED, "{}", stored.text);
    let request = &stored.json()["spec"]["trigger"]["httpRequest"];
    assert_eq!((&request["method"], &request["body"]), (&json!("PUT"), &json!("a=1")));
    for (body, part) in [
        (json!({ "from": "har", "text": "{}" }), "log.entries"),
        (json!({ "text": "hello" }), "none of the known tools"),
        (json!({ "from": "wget", "text": "" }), "unknown variant `wget`"),
        (json!({ "from": "curl" }), "missing field `text`"),
    ] {
        let refused = bench.post("/api/import", &body).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
        assert!(refused.json()["error"].as_str().unwrap().contains(part), "{}", refused.text);
    }
    bench.server.shutdown().await;
}
