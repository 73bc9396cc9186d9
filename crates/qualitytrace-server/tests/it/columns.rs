//! Traces as columns, one span in full, selection, dry runs and short verdicts over HTTP.

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::{Bench, Got};
use crate::databases::Database;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const START: u64 = 1_700_000_000_000_000_000;

/// A span of the service `shop`, 1 ms long, that begins `id` ms after the first one.
fn span(id: u64, parent: u64, name: &str) -> Value {
    let start = START + id * 1_000_000;
    json!({
        "traceId": TRACE, "spanId": format!("{id:016x}"), "kind": 2, "name": name,
        "parentSpanId": if parent == 0 { String::new() } else { format!("{parent:016x}") },
        "startTimeUnixNano": start.to_string(), "endTimeUnixNano": (start + 1_000_000).to_string(),
        "attributes": [
            { "key": "number", "value": { "intValue": id.to_string() } },
            { "key": "big", "value": { "intValue": "9007199254740993" } },
        ],
    })
}

async fn send(bench: &Bench, spans: &[Value]) {
    let resource = json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "shop" } }] });
    let sent = json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": spans }] }] });
    let headers = [("content-type", "application/json")];
    let got = bench.send(Method::POST, "/v1/traces", &headers, &sent.to_string()).await;
    assert_eq!(got.status, StatusCode::OK, "{}", got.text);
}

async fn get(bench: &Bench, path: &str) -> Value {
    let got = bench.get(path).await;
    assert_eq!(got.status, StatusCode::OK, "{path}: {}", got.text);
    got.json()
}

async fn columns(bench: &Bench, rest: &str) -> Value {
    get(bench, &format!("/api/traces/{TRACE}/columns{rest}")).await
}

/// Runs a test with these specs on the trace, and returns the run.
async fn run(bench: &Bench, specs: Value) -> Value {
    let trigger = json!({ "type": "traceid", "traceid": { "id": TRACE } });
    let spec = json!({ "id": "t", "name": "t", "trigger": trigger, "specs": specs });
    let got = bench.put("/api/tests", &json!({ "type": "Test", "spec": spec })).await;
    assert_eq!(got.status, StatusCode::CREATED, "{}", got.text);
    assert_eq!(bench.post("/api/tests/t/run", &json!({})).await.status, StatusCode::OK);
    eventually(DEADLINE, "the run ends", async || {
        let run = bench.get("/api/tests/t/run/1").await.json();
        if run["state"] == "FINISHED" { Ok(run) } else { Err(run["state"].to_string()) }
    })
    .await
}

fn message(got: &Got) -> String {
    got.json()["error"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_reader_gets_what_is_new_and_what_has_changed() {
    let bench = Bench::new(&Database::memory()).await;
    assert_eq!(bench.get(&format!("/api/traces/{TRACE}/columns")).await.status, StatusCode::NOT_FOUND);
    send(&bench, &[span(2, 1, "below"), span(3, 1, "below")]).await;
    let first = columns(&bench, "").await;
    assert_eq!(first["ids"], "00000000000000020000000000000003");
    assert_eq!((&first["total"], &first["origin"]), (&json!(2), &json!((START + 2_000_000).to_string())));
    assert_eq!((&first["names"], &first["name"]), (&json!(["below"]), &json!([0, 0])));
    assert_eq!((&first["services"], &first["kind"]), (&json!(["shop"]), &json!([2, 2])));
    assert_eq!(
        (&first["start"], &first["duration"]),
        (&json!([0, 1_000_000]), &json!([1_000_000, 1_000_000]))
    );
    assert_eq!(first["parent"], json!([-1, -1]));
    assert_eq!(first["orphans"], json!([[0, "0000000000000001"], [1, "0000000000000001"]]));

    send(&bench, &[span(1, 0, "top")]).await;
    let revision = first["revision"].as_str().unwrap();
    let second = columns(&bench, &format!("?from=2&revision={revision}")).await;
    assert_eq!((&second["from"], &second["total"]), (&json!(2), &json!(3)));
    assert_eq!((&second["ids"], &second["names"]), (&json!("0000000000000001"), &json!(["top"])));
    assert_eq!(second["adopted"], json!([[0, 2], [1, 2]]), "the parent has come");
    assert_eq!(second["start"], json!([-1_000_000]));

    // The same span again, with another name: its row changes.
    send(&bench, &[span(3, 1, "renamed"), span(4, 1, "new")]).await;
    let revision = second["revision"].as_str().unwrap();
    let third = columns(&bench, &format!("?from=3&revision={revision}")).await;
    assert_eq!((&third["from"], &third["total"]), (&json!(1), &json!(4)));
    assert_eq!(third["names"], json!(["renamed", "top", "new"]));
    let revision = third["revision"].as_str().unwrap();
    let nothing = columns(&bench, &format!("?from=4&revision={revision}")).await;
    assert_eq!((&nothing["from"], &nothing["ids"]), (&json!(4), &json!("")));
    for (query, wanted) in [("from=x", "`from`"), ("from=1&revision=x", "`revision`")] {
        let got = bench.get(&format!("/api/traces/{TRACE}/columns?{query}")).await;
        assert_eq!(got.status, StatusCode::BAD_REQUEST);
        assert!(message(&got).contains(wanted), "{}", got.text);
    }
    bench.server.shutdown().await;
}

#[tokio::test]
async fn equal_requests_get_what_is_true_now() {
    let bench = Bench::new(&Database::memory()).await;
    send(&bench, &[span(1, 0, "carries hunter2-hunter2")]).await;
    let first = columns(&bench, "").await;
    assert_eq!(first, columns(&bench, "").await);
    send(&bench, &[span(2, 1, "below")]).await;
    assert_eq!(columns(&bench, "").await["names"], json!(["carries hunter2-hunter2", "below"]));

    // A run says that this was a secret.
    let trigger = json!({ "type": "traceid", "traceid": { "id": TRACE } });
    let test = json!({ "type": "Test", "spec": { "id": "t", "name": "t", "trigger": trigger } });
    assert_eq!(bench.put("/api/tests", &test).await.status, StatusCode::CREATED);
    let secret = json!({ "variables": [{ "key": "P", "value": "hunter2-hunter2", "type": "secret" }] });
    assert_eq!(bench.post("/api/tests/t/run", &secret).await.status, StatusCode::OK);
    let redacted = eventually(DEADLINE, "the run has the trace", async || {
        let shown = columns(&bench, "").await;
        if shown["flags"] == json!([16, 0]) { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await;
    assert!(!redacted.to_string().contains("hunter2"), "{redacted}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn the_columns_of_a_run_begin_with_its_trigger() {
    let bench = Bench::new(&Database::memory()).await;
    send(&bench, &[span(1, 0, "top"), span(2, 1, "below")]).await;
    run(&bench, json!([])).await;
    let shown = get(&bench, "/api/tests/t/run/1/trace/columns").await;
    assert_eq!(shown["parent"], json!([-1, 0, 1]));
    assert_eq!((&shown["trigger"]["finished"], &shown["flags"]), (&json!(true), &json!([1, 0, 0])));
    let id = shown["trigger"]["id"].as_str().unwrap();
    let trigger = get(&bench, &format!("/api/tests/t/run/1/spans/{id}")).await;
    assert_eq!((&trigger["row"], &trigger["spanId"]), (&json!(0), &json!(id)));
    let below = get(&bench, "/api/tests/t/run/1/spans/0000000000000002").await;
    assert_eq!((&below["row"], &below["name"]), (&json!(2), &json!("below")));

    // Spans after the verdict are late.
    send(&bench, &[span(3, 1, "late")]).await;
    let late = get(&bench, "/api/tests/t/run/1/trace/columns?from=3").await;
    assert_eq!((&late["names"], &late["flags"]), (&json!(["late"]), &json!([2])));
    let got = bench.get("/api/tests/t/run/7/trace/columns").await;
    assert_eq!(
        (got.status, message(&got).as_str()),
        (StatusCode::NOT_FOUND, "there is no run 7 of a test `t`")
    );
    bench.server.shutdown().await;
}

#[tokio::test]
async fn what_was_removed_is_not_shown_from_memory() {
    let bench = Bench::new(&Database::memory()).await;
    send(&bench, &[span(1, 0, "top"), span(2, 1, "below")]).await;
    run(&bench, json!([])).await;
    let before = columns(&bench, "").await;
    assert_eq!(before["total"], 2);
    assert_eq!(
        bench.send(Method::DELETE, "/api/tests/t/run/1", &[], "").await.status,
        StatusCode::NO_CONTENT
    );
    for rest in ["/columns", "/spans/0000000000000001"] {
        let got = bench.get(&format!("/api/traces/{TRACE}{rest}")).await;
        assert_eq!(got.status, StatusCode::NOT_FOUND, "{rest}: {}", got.text);
    }
    // The same trace again: a reader that knows the removed rows gets the new ones.
    send(&bench, &[span(3, 0, "new")]).await;
    let revision = before["revision"].as_str().unwrap();
    let after = columns(&bench, &format!("?from=2&revision={revision}")).await;
    assert_eq!((&after["from"], &after["total"], &after["names"]), (&json!(0), &json!(1), &json!(["new"])));
    bench.server.shutdown().await;
}

#[tokio::test]
async fn one_span_is_shown_in_full() {
    let bench = Bench::new(&Database::memory()).await;
    let mut full = span(1, 0, "top");
    full["events"] = json!([{ "name": "e", "timeUnixNano": "5", "attributes": [
        { "key": "ratio", "value": { "doubleValue": 0.5 } }] }]);
    full["links"] = json!([{ "traceId": TRACE, "spanId": "00000000000000aa" }]);
    full["status"] = json!({ "code": 2, "message": "broken" });
    send(&bench, &[full, span(2, 1, "below")]).await;
    let record = json!({ "traceId": TRACE, "spanId": "0000000000000001", "body": { "stringValue": "hello" },
        "severityNumber": 9, "timeUnixNano": "7" });
    let other = json!({ "traceId": TRACE, "spanId": "0000000000000002", "body": { "stringValue": "other" } });
    let logs = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [record, other] }] }] });
    let headers = [("content-type", "application/json")];
    let got = bench.send(Method::POST, "/v1/logs", &headers, &logs.to_string()).await;
    assert_eq!(got.status, StatusCode::OK, "{}", got.text);

    let shown = get(&bench, &format!("/api/traces/{TRACE}/spans/0000000000000001")).await;
    assert_eq!((&shown["status"], &shown["statusMessage"]), (&json!("error"), &json!("broken")));
    assert_eq!(shown["start"], json!((START + 1_000_000).to_string()));
    let expected = json!([
        { "key": "big", "type": "int", "value": "9007199254740993" },
        { "key": "number", "type": "int", "value": 1 },
    ]);
    assert_eq!(shown["attributes"], expected);
    assert_eq!(shown["resource"]["attributes"][0]["value"], "shop");
    assert_eq!(
        shown["events"][0]["attributes"][0],
        json!({ "key": "ratio", "type": "double", "value": 0.5 })
    );
    assert_eq!(shown["links"][0]["spanId"], "00000000000000aa");
    assert_eq!((&shown["logCount"], &shown["logs"][0]["body"]["value"]), (&json!(1), &json!("hello")));
    let flags = columns(&bench, "").await["flags"].clone();
    assert_eq!(flags, json!([12, 0]), "events and links");
    for (id, status) in [("00000000000000ff", StatusCode::NOT_FOUND), ("x", StatusCode::BAD_REQUEST)] {
        let got = bench.get(&format!("/api/traces/{TRACE}/spans/{id}")).await;
        assert_eq!(got.status, status, "{}", got.text);
    }
    bench.server.shutdown().await;
}

#[tokio::test]
async fn spans_are_selected_by_row_with_what_came_near() {
    let bench = Bench::new(&Database::memory()).await;
    send(&bench, &[span(3, 1, "below"), span(1, 0, "top"), span(2, 1, "below")]).await;
    let path = format!("/api/traces/{TRACE}/select");
    let select = async |body: Value| bench.post(&path, &body).await;
    let found = select(json!({ "query": r#"span[name = "below"]"# })).await.json();
    assert_eq!((&found["count"], &found["rows"], &found["total"]), (&json!(2), &json!([2, 0]), &json!(3)));
    assert_eq!(found["revision"], columns(&bench, "").await["revision"]);
    let found = select(json!({ "text": "TOP" })).await.json();
    assert_eq!(found["rows"], json!([1]));

    let near = select(json!({ "query": r#"span[name = "belöw" number > 0]"# })).await.json();
    assert_eq!(near["count"], 0);
    let failing = &near["nearest"][0]["failing"][0];
    assert_eq!((&failing["from"], &failing["to"]), (&json!(5), &json!(19)), "in UTF-16: {near}");
    assert_eq!(failing["actual"], "below");
    let suggestion = near["nearest"][0]["suggestion"].as_str().unwrap();
    let found = select(json!({ "query": suggestion })).await.json();
    assert!(found["count"].as_u64().unwrap() > 0, "{suggestion}");

    let wrong = select(json!({ "query": "span[name =" })).await.json();
    assert_eq!((&wrong["count"], &wrong["diagnostics"][0]["severity"]), (&json!(0), &json!("error")));
    for body in [json!({}), json!({ "query": "span[]", "text": "a" })] {
        assert_eq!(select(body).await.status, StatusCode::BAD_REQUEST);
    }
    // What arrives later is found at once.
    send(&bench, &[span(4, 1, "below")]).await;
    let found = select(json!({ "query": r#"span[name = "below"]"# })).await.json();
    assert_eq!(found["rows"], json!([2, 0, 3]));
    bench.server.shutdown().await;
}

#[tokio::test]
async fn specs_are_tried_on_a_trace_a_run_and_the_latest_runs() {
    let bench = Bench::new(&Database::memory()).await;
    send(&bench, &[span(1, 0, "top"), span(2, 1, "below"), span(3, 1, "below")]).await;
    run(&bench, json!([])).await;
    let trial = json!({
        "specs": [{ "selector": r#"span[name = "below"]"#, "assertions": ["attr:number = 2", "attr:number > 0"] }],
        "outputs": [{ "name": "N", "selector": r#"span[name = "top"]"#, "value": "attr:number" }],
    });
    for path in [format!("/api/traces/{TRACE}/dry-run"), "/api/tests/t/run/1/dry-run".to_owned()] {
        let tried = bench.post(&path, &trial).await.json();
        assert_eq!(tried["outcome"], "failed", "{path}: {tried}");
        let [first, second] = [0, 1].map(|at| tried["specs"][0]["assertions"][at].clone());
        assert_eq!((&first["passed"], &first["failed"]), (&json!(1), &json!(1)));
        assert_eq!(first["failures"][0]["spanId"], "0000000000000003");
        assert_eq!((&second["passed"], &second["failed"]), (&json!(2), &json!(0)));
        assert_eq!(tried["outputs"][0]["value"], "1");
    }
    let tried = bench.put("/api/tests/t/dry-run?runs=5", &trial).await.json();
    assert_eq!(tried["runs"][0]["verdict"]["outcome"], "failed", "{tried}");
    assert_eq!(bench.put("/api/tests/t/dry-run?runs=0", &trial).await.status, StatusCode::BAD_REQUEST);
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_verdict_is_counts_with_the_first_failures_and_pages() {
    let bench = Bench::new(&Database::memory()).await;
    let spans: Vec<Value> = (2..=51).map(|id| span(id, 1, "below")).chain([span(1, 0, "top")]).collect();
    send(&bench, &spans).await;
    let specs = json!([{ "selector": r#"span[name = "below"]"#, "assertions": ["attr:number > 30"] }]);
    let whole = run(&bench, specs).await;
    let short = get(&bench, "/api/tests/t/run/1/verdict").await;
    assert_eq!((&short["outcome"], &short["state"]), (&json!("failed"), &json!("FINISHED")));
    let assertion = &short["specs"][0]["assertions"][0];
    assert_eq!((&assertion["passed"], &assertion["failed"]), (&json!(21), &json!(29)));
    assert_eq!(assertion["failures"].as_array().unwrap().len(), 20);
    let rule = &short["analysis"]["plugins"][0]["rules"][0];
    assert_eq!(rule["passed"].as_u64().unwrap() + rule["failed"].as_u64().unwrap(), 52, "{rule}");

    let page = get(&bench, "/api/tests/t/run/1/verdict/0/0?only=failed&skip=20&take=100").await;
    assert_eq!((page["results"].as_array().unwrap().len(), &page["total"]), (9, &json!(29)));
    let page = get(&bench, "/api/tests/t/run/1/verdict/0/0").await;
    assert_eq!(page["results"].as_array().unwrap().len(), 50);
    let id = rule["id"].as_str().unwrap();
    let page = get(&bench, &format!("/api/tests/t/run/1/analysis/{id}?take=7")).await;
    assert_eq!((page["results"].as_array().unwrap().len(), &page["total"]), (7, &json!(52)));
    for path in ["verdict/0/1", "verdict/x/0", "analysis/none"] {
        let got = bench.get(&format!("/api/tests/t/run/1/{path}")).await;
        assert_eq!(got.status, StatusCode::NOT_FOUND, "{path}");
    }

    let without = get(&bench, "/api/tests/t/run/1?without=trace,results,linter").await;
    assert!(
        without["trace"].get("flat").is_none() && without["result"].get("results").is_none(),
        "{without}"
    );
    assert!(without["linter"].get("plugins").is_none());
    assert_eq!(without["linter"]["score"], whole["linter"]["score"]);
    let got = bench.get("/api/tests/t/run/1?without=everything").await;
    assert_eq!(got.status, StatusCode::BAD_REQUEST);

    let long = bench.get("/api/tests/t/run/1/events/stream").await.text;
    let short = bench.get("/api/tests/t/run/1/events/stream?short=true").await.text;
    assert!(short.len() * 2 < long.len(), "{} of {}", short.len(), long.len());
    assert!(short.contains(r#""what":"judged""#) && short.contains(r#""failed":29"#), "{short}");
    assert_eq!(long.matches("\nid:").count() + 1, short.matches("\nid:").count() + 1, "no event is left out");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn arrivals_of_all_traces_are_streamed_and_summed_up_when_they_settle() {
    let bench = Bench::new(&Database::memory()).await;
    let url = format!("{}/api/traces/stream", bench.base);
    let mut stream = crate::client().get(url).send().await.unwrap();
    send(&bench, &[span(1, 0, "top"), span(2, 1, "below")]).await;
    let mut told = String::new();
    while !told.contains("\"settled\"") {
        told.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap()));
    }
    let events: Vec<Value> = told
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|data| serde_json::from_str(data.trim()).unwrap())
        .collect();
    assert_eq!(
        events[0],
        json!({
            "what": "arrived", "spans": 2, "unnamedTraces": 0, "traces": [{ "traceId": TRACE, "spans": 2 }],
        })
    );
    let settled = &events[1]["traces"][0];
    assert_eq!(
        (&settled["traceId"], &settled["name"], &settled["spans"]),
        (&json!(TRACE), &json!("top"), &json!(2))
    );

    // A client that was away gets what it missed.
    let id = told.lines().find_map(|line| line.strip_prefix("id:")).unwrap().trim().to_owned();
    send(&bench, &[span(3, 1, "below")]).await;
    let again = format!("{}/api/traces/stream?after={id}", bench.base);
    let mut stream = crate::client().get(again).send().await.unwrap();
    let first = String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap()).into_owned();
    assert!(first.contains(r#""what":"arrived","spans":1"#), "{first}");
    assert_eq!(bench.get("/api/traces/stream?after=x").await.status, StatusCode::BAD_REQUEST);
    // A server stops although clients follow.
    qualitytrace_testing::within(DEADLINE, "the server stops", bench.server.shutdown()).await;
}
