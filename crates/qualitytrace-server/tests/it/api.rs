//! The REST API over a real socket, on every kind of database.

use std::net::SocketAddr;

use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;
use qualitytrace_testing::DEADLINE;
use reqwest::redirect::Policy;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::databases::{Database, on_every_database};

on_every_database!(
    every_kind_of_resource_can_be_stored_and_read,
    what_was_written_comes_back_with_its_comments,
    names_and_tenants_keep_things_apart,
    odd_keys_are_warned_of_and_refused_when_strict,
    runs_are_listed_newest_first_and_deleted_with_all_they_have,
    wrong_paths_and_methods_are_answered_in_json,
    suites_show_their_tests_in_full,
    import_is_an_id_like_any_other,
    traces_can_be_looked_through,
    every_described_route_is_there,
);

/// A server of its own, and a client.
pub(crate) struct Bench {
    pub(crate) server: Server,
    pub(crate) client: reqwest::Client,
    pub(crate) base: String,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

impl Bench {
    pub(crate) async fn new(database: &Database) -> Self {
        let config = Config {
            http: SocketAddr::from(([127, 0, 0, 1], 0)),
            otlp_grpc: None,
            otlp_http: None,
            database_url: database.url.clone(),
            ..Config::default()
        };
        let server = Server::start(config).await.unwrap();
        let base = format!("http://{}", server.addresses().http);
        let client = reqwest::Client::builder().redirect(Policy::none()).timeout(DEADLINE).build().unwrap();
        Self { server, client, base }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
        let mut request = self.client.request(method, format!("{}{path}", self.base)).body(body.to_owned());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Got { status, headers, text: response.text().await.unwrap() }
    }

    pub(crate) async fn get(&self, path: &str) -> Got {
        self.send(Method::GET, path, &[], "").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Got {
        self.send(Method::POST, path, &[], &body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Got {
        self.send(Method::PUT, path, &[], &body.to_string()).await
    }
}

fn test(id: &str, name: &str) -> Value {
    let trigger =
        json!({ "type": "http", "httpRequest": { "method": "GET", "url": "http://127.0.0.1:9/x" } });
    json!({ "type": "Test", "spec": { "id": id, "name": name, "trigger": trigger, "skipTraceCollection": true } })
}

async fn every_kind_of_resource_can_be_stored_and_read(database: &Database) {
    let bench = Bench::new(database).await;
    let resources = [
        ("tests", test("a", "A")["spec"].clone()),
        ("testsuites", json!({ "id": "a", "name": "A", "steps": ["a", "a"] })),
        ("variablesets", json!({ "id": "a", "name": "A", "values": [{ "key": "K", "value": "v" }] })),
        ("demos", json!({ "id": "a", "name": "A", "type": "pokeshop", "enabled": true })),
        ("datastores", json!({ "name": "A", "type": "jaeger", "jaeger": { "endpoint": "jaeger:16685" } })),
        (
            "pollingprofiles",
            json!({ "name": "A", "strategy": "periodic", "periodic": { "retryDelay": "1s", "timeout": "5s" } }),
        ),
        ("analyzers", json!({ "name": "A", "enabled": false, "plugins": [] })),
        ("testrunners", json!({ "name": "A", "requiredGates": ["analyzer-score"] })),
        ("configs", json!({ "analyticsEnabled": false })),
    ];
    for (collection, spec) in resources {
        let is_named = spec.get("id").is_some();
        let stored = bench.put(&format!("/api/{collection}"), &json!({ "spec": spec })).await;
        assert_eq!(stored.status, StatusCode::CREATED, "{collection}: {}", stored.text);
        let id = stored.json()["spec"]["id"].as_str().unwrap().to_owned();
        assert_eq!(id, if is_named { "a" } else { "current" });
        let shown = bench.get(&format!("/api/{collection}/{id}")).await;
        assert_eq!(shown.json(), stored.json(), "{collection}");
        let again = bench.put(&format!("/api/{collection}/{id}"), &stored.json()).await;
        let mut same = again.json();
        if collection == "testsuites" {
            // These two keys tell clients that a suite did not change.
            let more = ["createdAt", "version"].map(|key| same["spec"].as_object_mut().unwrap().remove(key));
            assert!(more.iter().all(Option::is_some), "{}", again.text);
        }
        assert_eq!((again.status, same), (StatusCode::OK, stored.json()), "{collection}");
        let list = bench.get(&format!("/api/{collection}")).await.json();
        assert_eq!(list, json!({ "count": 1, "items": [stored.json()] }));
        let deleted = bench.send(Method::DELETE, &format!("/api/{collection}/{id}"), &[], "").await;
        let expected = if is_named { StatusCode::NO_CONTENT } else { StatusCode::METHOD_NOT_ALLOWED };
        assert_eq!(deleted.status, expected, "{collection}");
    }
    bench.server.shutdown().await;
}

async fn what_was_written_comes_back_with_its_comments(database: &Database) {
    let bench = Bench::new(database).await;
    let yaml = |name: &str| format!("# why\ntype: VariableSet\nspec:\n  id: v\n  name: {name} # so\n");
    let headers = [("content-type", "text/yaml; charset=utf-8")];
    for name in ["one", "two"] {
        bench.send(Method::PUT, "/api/variablesets", &headers, &yaml(name)).await;
    }
    assert_eq!(bench.get("/api/variablesets/v/source").await.text, yaml("two"));
    assert_eq!(bench.get("/api/variablesets/v/source?version=1").await.text, yaml("one"));
    let shown = bench.send(Method::GET, "/api/variablesets/v", &[("accept", "application/yaml")], "").await;
    assert_eq!(shown.headers["content-type"], "application/yaml");
    assert!(shown.text.starts_with("type: VariableSet\nspec:\n  id: v\n  name: two\n"), "{}", shown.text);
    bench.server.shutdown().await;
}

async fn names_and_tenants_keep_things_apart(database: &Database) {
    let bench = Bench::new(database).await;
    let tenant = [("x-tracetest-tenantid", "6F9619FF-8B86-D011-B42D-00C04FC964FF")];
    bench.put("/api/tests", &test("t", "mine")).await;
    let theirs = bench.send(Method::PUT, "/api/tests", &tenant, &test("t", "theirs").to_string()).await;
    assert_eq!(theirs.status, StatusCode::CREATED);
    assert_eq!(theirs.json()["spec"]["id"], "t");
    let name = async |headers: &[(&str, &str)]| {
        bench.send(Method::GET, "/api/tests", headers, "").await.json()["items"][0]["spec"]["name"].clone()
    };
    assert_eq!(name(&[]).await, "mine");
    assert_eq!(name(&tenant).await, "theirs");
    let refused = bench.send(Method::GET, "/api/tests", &[("x-qualitytrace-tenantid", "me")], "").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    bench.server.shutdown().await;
}

async fn odd_keys_are_warned_of_and_refused_when_strict(database: &Database) {
    let bench = Bench::new(database).await;
    let mut odd = test("t", "T");
    odd["spec"]["descripton"] = "x".into();
    let stored = bench.put("/api/tests", &odd).await;
    assert_eq!(stored.status, StatusCode::CREATED);
    let warning = stored.headers["x-qualitytrace-warning"].to_str().unwrap().to_owned();
    assert!(
        warning.contains("`descripton` is not a key of a test; did you mean `description`?"),
        "{warning}"
    );
    let refused = bench.put("/api/tests?strict=true", &odd).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.json()["error"].as_str().unwrap().contains("did you mean"), "{}", refused.text);
    bench.server.shutdown().await;
}

async fn runs_are_listed_newest_first_and_deleted_with_all_they_have(database: &Database) {
    let bench = Bench::new(database).await;
    bench.put("/api/tests", &test("t", "T")).await;
    for number in 1..=3 {
        let run = bench.send(Method::POST, "/api/tests/t/run", &[], "{}").await.json();
        assert_eq!((&run["id"], &run["state"]), (&number.into(), &"CREATED".into()));
    }
    let page = bench.get("/api/tests/t/run?take=2").await;
    assert_eq!(page.headers["x-total-count"], "3");
    let numbers: Vec<Value> = page.json().as_array().unwrap().iter().map(|run| run["id"].clone()).collect();
    assert_eq!(numbers, [3, 2]);
    // The event stream ends with the run.
    let events = bench.get("/api/tests/t/run/3/events/stream").await.text;
    assert!(events.contains("triggerFailed"), "{events}");
    assert_eq!(bench.get("/api/tests/t/run/3").await.json()["state"], "TRIGGER_FAILED");
    assert_eq!(
        bench.send(Method::DELETE, "/api/tests/t/run/3", &[], "").await.status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(bench.get("/api/tests/t/run/3").await.status, StatusCode::NOT_FOUND);
    assert_eq!(bench.get("/api/tests/t/run/3/events").await.json(), json!([]));
    assert_eq!(bench.send(Method::DELETE, "/api/tests/t", &[], "").await.status, StatusCode::NO_CONTENT);
    assert_eq!(bench.get("/api/tests/t/run/1").await.status, StatusCode::NOT_FOUND);
    bench.server.shutdown().await;
}

async fn wrong_paths_and_methods_are_answered_in_json(database: &Database) {
    let bench = Bench::new(database).await;
    for (method, path, status) in [
        (Method::GET, "/api/nonsense", 404),
        (Method::GET, "/api/nonsense/deep", 404),
        (Method::GET, "/nonsense", 404),
        (Method::PATCH, "/api/tests", 405),
        (Method::DELETE, "/api/tests", 405),
        (Method::PUT, "/api/tests/t/run", 405),
        (Method::POST, "/api/tests/t", 405),
        (Method::POST, "/api/version.json", 405),
        (Method::GET, "/api/expressions/resolve", 405),
        (Method::GET, "/api/traces/xyz", 400),
        (Method::GET, "/api/traces/0102030405060708090a0b0c0d0e0f10", 404),
    ] {
        let got = bench.send(method.clone(), path, &[], "").await;
        assert_eq!(got.status.as_u16(), status, "{method} {path}");
        assert_eq!(got.json()["code"], status, "{method} {path}");
        assert_eq!(got.headers.contains_key("allow"), status == 405, "{method} {path}");
    }
    let moved = bench.get("/api//tests/?take=1").await;
    assert_eq!(moved.status, StatusCode::MOVED_PERMANENTLY);
    assert_eq!(moved.headers["location"], "/api/tests?take=1");
    bench.server.shutdown().await;
}

async fn suites_show_their_tests_in_full(database: &Database) {
    let bench = Bench::new(database).await;
    bench.put("/api/tests", &test("t", "T")).await;
    bench
        .put("/api/testsuites", &json!({ "spec": { "id": "s", "name": "S", "steps": ["t", "gone", "t"] } }))
        .await;
    let headers = [("x-qualitytrace-augmented", "true")];
    let shown = bench.send(Method::GET, "/api/testsuites/s", &headers, "").await.json();
    assert_eq!(shown["spec"]["steps"], json!(["t", "gone", "t"]));
    let names: Vec<&Value> =
        shown["spec"]["fullSteps"].as_array().unwrap().iter().map(|step| &step["name"]).collect();
    assert_eq!(names, ["T", "T"]);
    let all = bench.get("/api/resources").await;
    assert_eq!(all.headers["x-total-count"], "2");
    assert_eq!(all.json()[0]["type"], "testsuite");
    bench.put("/api/tests", &test("u", "U")).await;
    let page = async |query: &str| -> Vec<String> {
        let page = bench.get(&format!("/api/resources?{query}")).await.json();
        page.as_array()
            .unwrap()
            .iter()
            .map(|listed| listed["item"]["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(page("").await, ["u", "s", "t"]);
    assert_eq!(page("take=1&skip=1").await, ["s"]);
    assert_eq!(page("take=1&skip=1&sortBy=name&sortDirection=asc").await, ["t"]);
    assert_eq!(page("sortBy=name").await, ["u", "t", "s"]);
    assert_eq!(page("query=u").await, ["u"]);
    assert!(page("skip=3").await.is_empty());
    bench.server.shutdown().await;
}

async fn import_is_an_id_like_any_other(database: &Database) {
    let bench = Bench::new(database).await;
    bench.put("/api/tests", &test("import", "Import")).await;
    assert_eq!(bench.get("/api/tests/import").await.json()["spec"]["name"], "Import");
    let sent = bench.send(Method::POST, "/api/tests/import", &[], "{}").await;
    assert_eq!(sent.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", sent.text);
    let sent = bench.send(Method::POST, "/api/tests/other", &[], "{}").await;
    assert_eq!(sent.status, StatusCode::METHOD_NOT_ALLOWED, "{}", sent.text);
    let gone = bench.send(Method::DELETE, "/api/tests/import", &[], "").await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT, "{}", gone.text);
    bench.server.shutdown().await;
}

async fn traces_can_be_looked_through(database: &Database) {
    let bench = Bench::new(database).await;
    let deliver = async |at: usize, service: &str, name: &str, code: u8| {
        let span = json!({
            "traceId": format!("{:032x}", at % 3 + 1), "spanId": format!("{:016x}", at + 1), "name": name, "kind": 2,
            "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": format!("{}", 1_700_000_000_000_000_000_u64 + (at as u64 + 1) * 1_000_000),
            "attributes": [{ "key": "n", "value": { "intValue": at.to_string() } }], "status": { "code": code },
        });
        let resource =
            json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": service } }] });
        let body =
            json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": [span] }] }] });
        let headers = [("content-type", "application/json")];
        let stored = bench.send(Method::POST, "/v1/traces", &headers, &body.to_string()).await;
        assert_eq!(stored.status, StatusCode::OK, "{}", stored.text);
    };
    for (at, (service, name, code)) in
        [("shop", "GET /a", 0), ("shop", "GET /b", 2), ("till", "pay", 1)].into_iter().enumerate()
    {
        deliver(at, service, name, code).await;
    }
    let names = async |query: &str| -> Vec<String> {
        let list = bench.get(&format!("/api/traces{query}")).await.json();
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names("").await, ["pay", "GET /b", "GET /a"]);
    assert_eq!(names("?service=shop").await, ["GET /b", "GET /a"]);
    assert_eq!(names("?name=get&status=error").await, ["GET /b"]);
    assert_eq!(names("?minDuration=2ms&maxDuration=2ms").await, ["GET /b"]);
    assert_eq!(names("?attribute=n%3D0").await, ["GET /a"]);
    assert_eq!(names("?attribute=n").await.len(), 3);
    assert!(names("?attribute=n%3D7").await.is_empty());
    assert!(names("?attribute=m").await.is_empty());
    assert!(names("?attribute=n&attribute=m").await.is_empty());
    assert_eq!(names("?attribute=n&attribute=n%3D0").await, ["GET /a"]);
    let began = "2023-11-14T22:13:20Z";
    assert_eq!(names(&format!("?from={began}&to=2023-11-14T22:13:21Z")).await.len(), 3);
    assert!(names(&format!("?to={began}")).await.is_empty());
    // Of a parameter that is given twice, the first counts.
    assert_eq!(names("?service=shop&service=till&take=1&take=x").await, ["GET /b"]);
    let first = bench.get("/api/traces?take=2").await.json();
    assert_eq!(names(&format!("?take=2&next={}", first["next"].as_str().unwrap())).await, ["GET /a"]);
    assert_eq!(bench.get("/api/traces?status=odd").await.status, StatusCode::BAD_REQUEST);
    let id = format!("{:032x}", 1);
    let form = async |accept: &str| {
        bench.send(Method::GET, &format!("/api/traces/{id}"), &[("accept", accept)], "").await.json()
    };
    assert_eq!(form("application/json").await["spans"][0]["name"], "GET /a");
    let otlp = form("application/vnd.otlp+json").await;
    assert_eq!(otlp["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"], "GET /a");
    let jaeger = &form("application/vnd.jaeger+json").await["data"][0];
    assert_eq!(jaeger["spans"][0]["operationName"], "GET /a");
    let number = json!({ "key": "n", "type": "int64", "value": 0 });
    assert!(jaeger["spans"][0]["tags"].as_array().unwrap().contains(&number), "{jaeger}");
    let service = json!({ "key": "service.name", "type": "string", "value": "shop" });
    assert_eq!(jaeger["processes"]["p1"]["tags"], json!([service]));
    let services = bench.get("/api/services").await.json();
    assert_eq!(services["items"][0]["name"], "shop");
    assert_eq!(services["items"][0]["spans"], 2);
    // Late spans count, even if the trace was listed before.
    deliver(3, "depot", "pack", 2).await;
    assert_eq!(names("").await, ["GET /a", "pay", "GET /b"]);
    assert_eq!(names("?service=depot&name=pack&status=error").await, ["GET /a"]);
    assert_eq!(names("?attribute=n%3D3").await, ["GET /a"]);
    let list = bench.get("/api/traces?take=1").await.json();
    assert_eq!(
        (&list["items"][0]["spans"], &list["items"][0]["services"]),
        (&json!(2), &json!(["depot", "shop"]))
    );
    assert_eq!(bench.get("/api/services").await.json()["items"][0]["name"], "depot");
    bench.server.shutdown().await;
}

async fn every_described_route_is_there(database: &Database) {
    let bench = Bench::new(database).await;
    let described = bench.get("/api/openapi.json").await.json();
    let paths = described["paths"].as_object().unwrap();
    assert!(paths.len() > 50, "{}", paths.len());
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let path = path.replace("{id}", "no-such-id").replace("{number}", "7").replace("{version}", "1");
            let request = bench.client.request(method.clone(), format!("{}{path}", bench.base)).body("");
            let got = request.send().await.unwrap();
            let status = got.status();
            let is_endless =
                got.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream");
            let text = if is_endless { String::new() } else { got.text().await.unwrap() };
            let answer = operation["responses"].get(status.as_str());
            assert!(answer.is_some(), "{method} {path}: {status} {text}");
            assert!(!text.contains("there is nothing at"), "{method} {path}");
        }
    }
    let page = bench.get("/api/docs").await.text;
    for told in
        ["/api/tests/{id}/run</code>", "<a href=\"#TestSuiteSpec\">", "<details id=\"TestSuiteSpec\">"]
    {
        assert!(page.contains(told), "no `{told}` in {page}");
    }
    bench.server.shutdown().await;
}
