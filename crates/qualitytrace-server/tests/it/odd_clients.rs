//! Requests of clients that were not written for this server: odd characters, bodies and encodings.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::Bench;
use crate::databases::{Database, on_every_database};

on_every_database!(
    a_nul_is_neither_stored_nor_found,
    a_path_does_not_lead_to_another_tenant,
    bodies_that_are_no_objects_are_refused,
    text_beyond_ascii_says_how_it_is_encoded,
    the_hosted_service_cannot_be_had,
    numbers_and_orders_are_read_as_clients_know_them,
    tenants_are_named_in_many_ways,
    what_is_written_is_answered_with_the_blanks_that_were_sent,
    unknown_fields_are_refused_where_clients_expect_it,
    what_was_never_run_is_the_latest,
    a_data_store_keeps_its_time_of_creation,
    the_text_of_a_definition_outlives_programs,
);

const INVITE: &str = r#"{"type": "Invite", "spec": {"id": "i", "role": "member"}}"#;

async fn the_hosted_service_cannot_be_had(database: &Database) {
    let bench = Bench::new(database).await;
    for (method, path, body, status, told) in [
        (Method::GET, "/api/rungroups", "", StatusCode::PAYMENT_REQUIRED, "null\n"),
        (Method::GET, "/api/rungroups?take=x", "", StatusCode::BAD_REQUEST, "strconv.ParseInt"),
        (Method::POST, "/api/rungroups", "{\"id\": \"a\"}", StatusCode::PAYMENT_REQUIRED, "null\n"),
        (Method::POST, "/api/rungroups", "{}", StatusCode::UNPROCESSABLE_ENTITY, "required field 'id' is"),
        (Method::POST, "/api/environments", "", StatusCode::BAD_REQUEST, "\"EOF\"\n"),
        (Method::PUT, "/api/environments/x", "{", StatusCode::BAD_REQUEST, "\"unexpected EOF\"\n"),
        (
            Method::POST,
            "/api/environments",
            "{\"name\": 1}",
            StatusCode::BAD_REQUEST,
            r#"unknown field \"name\""#,
        ),
        (
            Method::POST,
            "/api/environments",
            "{\"spec\": {\"name\": 1}}",
            StatusCode::PAYMENT_REQUIRED,
            "null\n",
        ),
        (Method::PUT, "/api/invites/x", "{}", StatusCode::UNPROCESSABLE_ENTITY, "required field 'id' is"),
        (Method::POST, "/api/invites", INVITE, StatusCode::UNPROCESSABLE_ENTITY, "required field 'to' is"),
        (Method::PUT, "/api/tokens/x", "", StatusCode::PAYMENT_REQUIRED, "null\n"),
        (Method::GET, "/api/monitors/m/run/1", "", StatusCode::PAYMENT_REQUIRED, "null\n"),
        (Method::GET, "/api/monitors/m/version/z", "", StatusCode::BAD_REQUEST, "invalid syntax"),
        (Method::DELETE, "/api/rungroups/x", "", StatusCode::METHOD_NOT_ALLOWED, "not allowed"),
        (Method::GET, "/api/environments/a/b", "", StatusCode::NOT_FOUND, "there is nothing at"),
    ] {
        let got = bench.send(method.clone(), path, &[], body).await;
        assert_eq!(got.status, status, "{method} {path}: {}", got.text);
        assert!(got.text.contains(told), "{method} {path}: {}", got.text);
    }
    bench.server.shutdown().await;
}

async fn numbers_and_orders_are_read_as_clients_know_them(database: &Database) {
    let bench = Bench::new(database).await;
    for (path, status, told) in [
        (
            "/api/resources?take=x",
            StatusCode::BAD_REQUEST,
            r#"strconv.ParseInt: parsing \"x\": invalid syntax"#,
        ),
        ("/api/resources?take=99999999999", StatusCode::BAD_REQUEST, "value out of range"),
        ("/api/resources?sortBy=nothing", StatusCode::OK, "[]"),
        ("/api/testsuites/missing/run", StatusCode::OK, "[]"),
        ("/api/testsuites/missing/run?take=-1", StatusCode::BAD_REQUEST, "take must not be negative"),
        ("/api/tests/missing/run/-1", StatusCode::NOT_FOUND, "no rows"),
        ("/api/tests/missing/run/-1/events", StatusCode::OK, "[]"),
        ("/api/testsuites/missing/run/-1/events", StatusCode::OK, "[]"),
        ("/api/tests/missing/run/99999999999", StatusCode::BAD_REQUEST, "value out of range"),
        ("/api/configs?take=-1", StatusCode::OK, "\"count\":1"),
        ("/api/demos?take=-1", StatusCode::BAD_REQUEST, "take must not be negative"),
    ] {
        let got = bench.get(path).await;
        assert_eq!(got.status, status, "{path}: {}", got.text);
        assert!(got.text.contains(told), "{path}: {}", got.text);
    }
    for path in ["/api/tests/missing/run/-1/stop", "/api/testsuites/missing/run/-1/stop"] {
        assert_eq!(bench.send(Method::POST, path, &[], "").await.status, StatusCode::NOT_FOUND, "{path}");
    }
    // A null counts as missing.
    let wizard = bench.send(Method::PUT, "/api/wizard", &[], "{\"steps\": null}").await;
    assert_eq!((wizard.status, wizard.text.as_str()), (StatusCode::OK, "{}\n"));
    let wizard = bench.send(Method::PUT, "/api/wizard", &[], r#"{"steps": [{"completedAt": "x"}]}"#).await;
    assert_eq!(wizard.status, StatusCode::BAD_REQUEST, "{}", wizard.text);
    for (delay, told) in [
        ("5", r#"time: missing unit in duration \"5\""#),
        ("1h30", r#"time: missing unit in duration \"1h30\""#),
        ("5x", r#"time: unknown unit \"x\" in duration \"5x\""#),
        ("1 s", r#"time: unknown unit \" s\" in duration \"1 s\""#),
        ("x", r#"time: invalid duration \"x\""#),
        ("9999999h", r#"time: invalid duration \"9999999h\""#),
        ("", r#"time: invalid duration \"\""#),
    ] {
        let periodic = json!({ "retryDelay": delay, "timeout": "1m" });
        let spec = json!({ "name": "p", "strategy": "periodic", "periodic": periodic });
        let refused = bench.put("/api/pollingprofiles/current", &json!({ "spec": spec })).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{delay}: {}", refused.text);
        assert!(refused.text.contains(told), "{delay}: {}", refused.text);
    }
    let suite = json!({ "spec": { "id": "s", "name": "S" } });
    assert_eq!(bench.put("/api/testsuites", &suite).await.json()["spec"]["steps"], json!(null));
    let again = bench.put("/api/testsuites/s", &suite).await.json();
    assert_eq!(again["spec"]["version"], 1, "{again}");
    let yaml = bench.send(Method::GET, "/api/testsuites/s", &[("accept", "text/yaml")], "").await;
    assert!(yaml.text.contains("steps: []"), "{}", yaml.text);
    bench.server.shutdown().await;
}

async fn tenants_are_named_in_many_ways(database: &Database) {
    let bench = Bench::new(database).await;
    let id = "0123ABCD-0123-0123-0123-0123456789AB";
    let put = json!({ "spec": { "id": "v", "name": "V" } }).to_string();
    let stored = bench.send(Method::PUT, "/api/variablesets", &[("x-tracetest-tenantid", id)], &put).await;
    assert_eq!(stored.status, StatusCode::CREATED, "{}", stored.text);
    for (tenant, status) in [
        (id.to_lowercase(), StatusCode::OK),
        (id.replace('-', ""), StatusCode::OK),
        (format!("{{{id}}}"), StatusCode::OK),
        (format!("urn:uuid:{id}"), StatusCode::OK),
        (String::new(), StatusCode::NOT_FOUND),
        ("x".to_owned(), StatusCode::BAD_REQUEST),
    ] {
        let headers = [("x-tracetest-tenantid", tenant.as_str())];
        let got = bench.send(Method::GET, "/api/variablesets/v", &headers, "").await;
        assert_eq!(got.status, status, "{tenant}: {}", got.text);
    }
    let got = bench.send(Method::GET, "/api/version.json", &[("x-qualitytrace-tenantid", "x")], "").await;
    assert_eq!((got.status, got.text.as_str()), (StatusCode::BAD_REQUEST, "invalid tenant id: x"));
    bench.server.shutdown().await;
}

async fn a_path_does_not_lead_to_another_tenant(database: &Database) {
    let bench = Bench::new(database).await;
    let (own, other) = ("00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b");
    let of = |tenant| [("x-tracetest-tenantid", tenant)];
    let trigger = json!({ "type": "traceid", "traceid": { "id": "x" } });
    for (collection, spec) in [
        ("tests", json!({ "id": "t", "name": "T", "trigger": trigger })),
        ("variablesets", json!({ "id": "t", "name": "V" })),
        ("testsuites", json!({ "id": "t", "name": "S" })),
    ] {
        let put = json!({ "spec": spec }).to_string();
        let stored = bench.send(Method::PUT, &format!("/api/{collection}"), &of(other), &put).await;
        assert_eq!(stored.status, StatusCode::CREATED, "{}", stored.text);
        // Neither without a tenant nor as another one.
        for headers in [&[][..], &of(own)] {
            for id in [format!("{other}%1F"), "%1f".to_owned(), format!("{own}%1F{other}%1F")] {
                let path = format!("/api/{collection}/{id}t");
                for method in [Method::GET, Method::DELETE] {
                    let got = bench.send(method, &path, headers, "").await;
                    assert_eq!(got.status, StatusCode::NOT_FOUND, "{path}: {}", got.text);
                }
            }
        }
        let kept = bench.send(Method::GET, &format!("/api/{collection}/t"), &of(other), "").await;
        assert_eq!(kept.status, StatusCode::OK, "{}", kept.text);
    }
    let run = bench.send(Method::POST, &format!("/api/tests/{other}%1Ft/run"), &[], "{}").await;
    assert_eq!(run.status, StatusCode::NOT_FOUND, "{}", run.text);
    // A suite names its tests, too.
    let suite = json!({ "spec": { "id": "s", "name": "S", "steps": [format!("{other}\u{1f}t")] } });
    assert_eq!(bench.put("/api/testsuites", &suite).await.status, StatusCode::CREATED);
    let shown = bench.send(Method::GET, "/api/testsuites/s", &[("x-tracetest-augmented", "true")], "").await;
    assert!(!shown.text.contains("\"name\":\"T\""), "{}", shown.text);
    bench.server.shutdown().await;
}

async fn a_nul_is_neither_stored_nor_found(database: &Database) {
    let bench = Bench::new(database).await;
    for (path, status) in [
        ("/api/tests/%00", StatusCode::NOT_FOUND),
        ("/api/tests/%00/source", StatusCode::NOT_FOUND),
        ("/api/tests/%00/run", StatusCode::NOT_FOUND),
        ("/api/tests/%00/run/1", StatusCode::NOT_FOUND),
        ("/api/tests/%00/run/1/events/stream", StatusCode::NOT_FOUND),
        ("/api/testsuites/%00/run/1", StatusCode::NOT_FOUND),
        ("/api/tests/%00/run/1/events", StatusCode::OK),
        ("/api/tests?query=%00", StatusCode::BAD_REQUEST),
        ("/api/resources?query=%00", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(bench.get(path).await.status, status, "{path}");
    }
    assert_eq!(bench.send(Method::DELETE, "/api/tests/%00", &[], "").await.status, StatusCode::NOT_FOUND);
    let stopped = bench.send(Method::POST, "/api/tests/%00/run/1/stop", &[], "").await;
    assert_eq!(stopped.status, StatusCode::NOT_FOUND);
    for (collection, spec) in [
        (
            "tests",
            json!({ "id": "t", "name": "a\0", "trigger": { "type": "traceid", "traceid": { "id": "x" } } }),
        ),
        ("variablesets", json!({ "id": "v", "name": "a", "description": "\0" })),
        ("demos", json!({ "id": "d", "name": "a", "type": "\0" })),
        ("datastores", json!({ "name": "\0", "type": "otlp" })),
    ] {
        let refused = bench.put(&format!("/api/{collection}"), &json!({ "spec": spec })).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
        assert!(refused.text.contains("U+0000"), "{}", refused.text);
    }
    // Values are not looked up by their text, so they may contain a NUL.
    let values = json!([{ "key": "K", "value": "a\0b" }]);
    let stored = bench
        .put("/api/variablesets", &json!({ "spec": { "id": "v", "name": "V", "values": values } }))
        .await;
    assert_eq!(stored.status, StatusCode::CREATED, "{}", stored.text);
    assert_eq!(bench.get("/api/variablesets/v").await.json()["spec"]["values"], values);
    let suite = json!({ "spec": { "id": "s", "name": "S", "steps": ["\0"] } });
    assert_eq!(bench.put("/api/testsuites", &suite).await.status, StatusCode::CREATED);
    let augmented = [("x-tracetest-augmented", "true")];
    let shown = bench.send(Method::GET, "/api/testsuites/s", &augmented, "").await;
    assert_eq!(shown.status, StatusCode::OK, "{}", shown.text);
    bench.server.shutdown().await;
}

async fn bodies_that_are_no_objects_are_refused(database: &Database) {
    let bench = Bench::new(database).await;
    let trigger = json!({ "type": "traceid", "traceid": { "id": "x" } });
    let test = json!({ "spec": { "id": "t", "name": "T", "trigger": trigger, "skipTraceCollection": true } });
    assert_eq!(bench.put("/api/tests", &test).await.status, StatusCode::CREATED);
    for (body, told) in [
        ("", "\"EOF\"\n"),
        ("  ", "\"EOF\"\n"),
        ("{", "\"unexpected EOF\"\n"),
        ("[]", "\"json: cannot unmarshal array, an object is expected\"\n"),
        ("\"x\"", "\"json: cannot unmarshal string, an object is expected\"\n"),
        ("7", "\"json: cannot unmarshal number, an object is expected\"\n"),
        ("true", "\"json: cannot unmarshal bool, an object is expected\"\n"),
    ] {
        let refused = bench.send(Method::POST, "/api/tests/t/run", &[], body).await;
        assert_eq!((refused.status, refused.text.as_str()), (StatusCode::BAD_REQUEST, told), "{body}");
    }
    assert_eq!(bench.send(Method::POST, "/api/tests/t/run", &[], "null").await.status, StatusCode::OK);
    bench.server.shutdown().await;
}

async fn text_beyond_ascii_says_how_it_is_encoded(database: &Database) {
    let bench = Bench::new(database).await;
    for (name, content_type) in [("plain", "text/yaml"), ("grün", "text/yaml; charset=utf-8")] {
        let yaml = format!("type: VariableSet\nspec:\n  id: v\n  name: {name}\n");
        let stored =
            bench.send(Method::PUT, "/api/variablesets", &[("content-type", "text/yaml")], &yaml).await;
        assert_eq!(stored.headers["content-type"], content_type);
        assert!(stored.text.contains(name), "{}", stored.text);
        let source = bench.get("/api/variablesets/v/source").await;
        assert_eq!((source.headers["content-type"].to_str().unwrap(), source.text), (content_type, yaml));
    }
    let shown = bench.get("/api/variablesets/v").await;
    assert_eq!(shown.headers["content-type"], "application/json");
    // Control characters that other YAML readers refuse are refused here, too.
    let odd = "type: VariableSet\nspec:\n  id: v\n  name: \"a\u{7}\"\n";
    let refused = bench.send(Method::PUT, "/api/variablesets", &[("content-type", "text/yaml")], odd).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.text.contains("line 4, column 11"), "{}", refused.text);
    bench.server.shutdown().await;
}

async fn what_is_written_is_answered_with_the_blanks_that_were_sent(database: &Database) {
    let bench = Bench::new(database).await;
    for (path, key, read) in [
        ("/api/testrunners/current", "requiredGates", json!([])),
        ("/api/analyzers/current", "plugins", json!([])),
        ("/api/testsuites/s", "steps", Value::Null),
    ] {
        bench.put("/api/testsuites", &json!({ "spec": { "id": "s", "name": "S" } })).await;
        let spec = json!({ "name": "n" });
        for (sent, told) in
            [(json!([]), json!([])), (Value::Null, Value::Null), (json!("nothing"), Value::Null)]
        {
            let mut spec = spec.clone();
            if sent != "nothing" {
                spec[key] = sent.clone();
            }
            let got = bench.put(path, &json!({ "spec": spec })).await.json();
            assert_eq!(got["spec"][key], told, "{path} {sent} {got}");
            assert_eq!(bench.get(path).await.json()["spec"][key], read, "{path} {sent}");
            let yaml = bench.send(Method::GET, path, &[("accept", "text/yaml")], "").await;
            assert!(yaml.text.contains(&format!("{key}: []")), "{}", yaml.text);
        }
    }
    bench.server.shutdown().await;
}

async fn unknown_fields_are_refused_where_clients_expect_it(database: &Database) {
    let bench = Bench::new(database).await;
    let dry = "/api/tests/t/run/1/dry-run";
    let store =
        |more: &str| format!(r#"{{"name": "n", "type": "jaeger", "jaeger": {{"endpoint": "j:1"{more}}}}}"#);
    for (method, path, body, told) in [
        (Method::PUT, dry, r#"{"specs": [], "extra": 1}"#.to_owned(), r#"json: unknown field \"extra\""#),
        (
            Method::PUT,
            dry,
            r#"{"specs": [{"assertion": []}]}"#.to_owned(),
            r#"json: unknown field \"assertion\""#,
        ),
        (
            Method::PUT,
            dry,
            r#"{"specs": [{"selectorParsed": {"query": "span", "structure": [], "x": 1}}]}"#.to_owned(),
            r#"json: unknown field \"x\""#,
        ),
        (
            Method::POST,
            "/api/config/connection",
            store(r#", "endpont": 1"#),
            r#"json: unknown field \"endpont\""#,
        ),
        (Method::PATCH, "/api/tests/t/run/1", r#"{"stat": 1}"#.to_owned(), r#"json: unknown field \"stat\""#),
        (
            Method::POST,
            "/api/tests/import",
            r#"{"test": {"id": "a", "nam": "x"}, "run": {"id": 1}}"#.to_owned(),
            r#"json: unknown field \"nam\""#,
        ),
        // The number in the path is checked before the body.
        (Method::PUT, "/api/tests/t/run/x/dry-run", "{".to_owned(), r#"strconv.ParseInt: parsing \"x\""#),
        (
            Method::POST,
            "/api/tests/t/run/x/search-spans",
            "{".to_owned(),
            r#"strconv.ParseInt: parsing \"x\""#,
        ),
        (Method::PATCH, "/api/tests/t/run/x", "{".to_owned(), r#"strconv.ParseInt: parsing \"x\""#),
    ] {
        let got = bench.send(method.clone(), path, &[], &body).await;
        assert_eq!(got.status, StatusCode::BAD_REQUEST, "{method} {path} {body}: {}", got.text);
        assert!(got.text.contains(told), "{method} {path} {body}: {}", got.text);
    }
    let sent_to_us = json!({ "name": "n", "type": "azureappinsights", "azureappinsights": { "connectionType": "collector" } });
    let tried = bench.post("/api/config/connection", &sent_to_us).await.json();
    assert_eq!(tried["connectivity"], json!({}), "{tried}");
    for id in [".", ".."] {
        let dots = bench.put("/api/variablesets", &json!({ "spec": { "id": id, "name": "n" } })).await;
        assert_eq!(dots.status, StatusCode::BAD_REQUEST, "no path leads to it: {}", dots.text);
    }
    bench.server.shutdown().await;
}

async fn what_was_never_run_is_the_latest(database: &Database) {
    let bench = Bench::new(database).await;
    let request = json!({ "method": "GET", "url": "http://127.0.0.1:9/x" });
    for id in ["never", "first", "second"] {
        let trigger = json!({ "type": "http", "httpRequest": request });
        bench.put("/api/tests", &json!({ "spec": { "id": id, "name": id, "trigger": trigger } })).await;
    }
    for id in ["first", "second"] {
        bench.post(&format!("/api/tests/{id}/run"), &json!({})).await;
    }
    let sorted = async |way: &str| -> Vec<Value> {
        let page = bench.get(&format!("/api/tests?sortBy=last_run&sortDirection={way}")).await.json();
        page["items"].as_array().unwrap().iter().map(|item| item["spec"]["id"].clone()).collect()
    };
    assert_eq!(sorted("asc").await, ["first", "second", "never"]);
    assert_eq!(sorted("desc").await, ["never", "second", "first"]);
    bench.post("/api/tests/first/run", &json!({})).await;
    assert_eq!(sorted("asc").await, ["second", "first", "never"]);
    bench.send(Method::DELETE, "/api/tests/first/run/2", &[], "").await;
    assert_eq!(sorted("asc").await, ["first", "second", "never"]);
    bench.send(Method::DELETE, "/api/tests/second/run/1", &[], "").await;
    assert_eq!(sorted("asc").await[0], "first");
    bench.server.shutdown().await;
}

async fn a_data_store_keeps_its_time_of_creation(database: &Database) {
    let bench = Bench::new(database).await;
    let path = "/api/datastores/current";
    let time = "2020-01-01T00:00:00Z";
    let mut spec = json!({ "name": "n", "type": "otlp", "createdAt": time });
    assert_eq!(bench.put(path, &json!({ "spec": spec })).await.json()["spec"]["createdAt"], time);
    spec.as_object_mut().unwrap().remove("createdAt");
    spec["name"] = "another".into();
    assert_eq!(bench.put(path, &json!({ "spec": spec })).await.json()["spec"]["createdAt"], time);
    assert_eq!(bench.get(path).await.json()["spec"]["createdAt"], time);
    spec["createdAt"] = "yesterday".into();
    let refused = bench.put(path, &json!({ "spec": spec })).await;
    let told = "data store should have the createdAt field in a valid format";
    assert!(refused.text.contains(told), "{}", refused.text);
    bench.server.shutdown().await;
}

/// A client that reads JSON and sends it back unchanged does not replace the text.
async fn the_text_of_a_definition_outlives_programs(database: &Database) {
    let bench = Bench::new(database).await;
    let yaml = [("content-type", "text/yaml")];
    let written = "# about it\ntype: VariableSet\nspec:\n  id: v\n  name: V # here\n";
    bench.send(Method::PUT, "/api/variablesets", &yaml, written).await;
    let shown = bench.get("/api/variablesets/v").await.json();
    bench.put("/api/variablesets/v", &shown).await;
    assert_eq!(bench.get("/api/variablesets/v/source").await.text, written);
    let better = written.replace("about", "more about");
    bench.send(Method::PUT, "/api/variablesets", &yaml, &better).await;
    assert_eq!(bench.get("/api/variablesets/v/source").await.text, better);
    bench.server.shutdown().await;
}
