//! Following runs of tests: over the web socket, as an event stream, and after an import.

use futures_util::{SinkExt, StreamExt};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::subject::Subject;
use super::test;
use crate::api::Bench;
use crate::databases::{Database, on_every_database};

on_every_database!(
    subscribers_are_told_how_a_run_goes_until_they_have_heard_enough,
    a_stream_goes_on_where_it_was_left,
    a_run_that_was_carried_here_can_be_looked_into,
);

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn say(socket: &mut Socket, text: &str) -> Value {
    socket.send(Message::text(text)).await.unwrap();
    receive(socket).await
}

async fn receive(socket: &mut Socket) -> Value {
    loop {
        if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

fn subscribe(resource: &str) -> String {
    json!({ "type": "subscribe", "resource": resource }).to_string()
}

async fn subscribers_are_told_how_a_run_goes_until_they_have_heard_enough(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "a/b", "/value/1", &json!({}))).await;
    let address = bench.base.replace("http://", "ws://") + "/ws";
    let (mut socket, _) = tokio_tungstenite::connect_async(address).await.unwrap();
    for (said, heard) in [
        ("{", "could not unmarshal message: "),
        (r#"{"type":"shout","resource":"x"}"#, "no routes for message type shout"),
        (r#"{"type":"subscribe","resource":""}"#, "resource cannot be empty"),
    ] {
        let refused = say(&mut socket, said).await;
        assert_eq!((&refused["type"], &refused["resource"]), (&json!("error"), &json!("")));
        assert!(refused["message"].as_str().unwrap().starts_with(heard), "{refused}");
    }

    let (run, events) = ("test/a/b/run/1", "test/a/b/run/1/event");
    let accepted = say(&mut socket, &subscribe(run)).await;
    assert_eq!((&accepted["type"], &accepted["resource"]), (&json!("success"), &json!(run)));
    let subscription = accepted["message"]["subscriptionId"].as_str().unwrap().to_owned();
    assert_eq!(subscription.len(), 36, "{subscription}");
    assert_eq!(say(&mut socket, &subscribe(events)).await["type"], "success");

    bench.post("/api/tests/a%2Fb/run", &json!({})).await;
    let (mut state, mut types) = (Value::Null, Vec::new());
    while state != "FINISHED" || types.last().is_none_or(|last| last != "TEST_SPECS_RUN_SUCCESS") {
        let update = receive(&mut socket).await;
        assert_eq!(update["type"], "update");
        if update["resource"] == run {
            state = update["event"]["state"].clone();
        } else {
            assert_eq!((&update["resource"], &update["event"]["testId"]), (&json!(events), &json!("a/b")));
            types.push(update["event"]["type"].clone());
        }
    }
    let listed = bench.get("/api/tests/a%2Fb/run/1/events").await.json();
    let listed: Vec<Value> = listed.as_array().unwrap().iter().map(|event| event["type"].clone()).collect();
    assert_eq!(types, listed);

    let enough =
        json!({ "type": "unsubscribe", "resource": run, "subscriptionId": subscription }).to_string();
    let mut answer = say(&mut socket, &enough).await;
    while answer["type"] == "update" {
        answer = receive(&mut socket).await;
    }
    assert_eq!(answer, json!({ "type": "success", "resource": "", "message": "ok" }));
    // The client has unsubscribed: the deletion of the run causes no notification.
    bench.send(Method::DELETE, "/api/tests/a%2Fb/run/1", &[], "").await;
    assert_eq!(say(&mut socket, &subscribe("nothing/that/changes")).await["type"], "success");
    drop(socket);
    bench.server.shutdown().await;
}

async fn a_stream_goes_on_where_it_was_left(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "t", "/value/1", &json!({}))).await;
    bench.post("/api/tests/t/run", &json!({})).await;
    let all = bench.events("/api/tests/t/run/1").await;
    let numbers: Vec<u64> = all.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let path = "/api/tests/t/run/1/events/stream";
    for (query, headers) in [("?after=2", &[][..]), ("", &[("last-event-id", "2")][..])] {
        let rest = bench.send(Method::GET, &format!("{path}{query}"), headers, "").await;
        assert_eq!(rest.headers["content-type"], "text/event-stream");
        let ids: Vec<&str> = rest.text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
        let expected: Vec<String> = numbers[2..].iter().map(ToString::to_string).collect();
        assert_eq!(ids, expected, "{query}");
    }
    assert_eq!(bench.get("/api/tests/t/run/9/events/stream").await.status, StatusCode::NOT_FOUND);
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_deep_trace_is_shown_and_carried() {
    const DEEP: usize = 2_000;
    let bench = Bench::new(&Database::memory()).await;
    let id = |at: usize| format!("{at:016x}");
    let trace = format!("{:032x}", 7);
    let span = |at: usize| {
        json!({ "traceId": trace, "spanId": id(at + 1), "parentSpanId": if at == 0 { String::new() } else { id(at) },
                "name": format!("s{at}"), "kind": 1, "startTimeUnixNano": "1700000000000000000",
                "endTimeUnixNano": "1700000001000000000" })
    };
    let spans: Vec<Value> = (0..DEEP).map(span).collect();
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] }).to_string();
    let headers = [("content-type", "application/json")];
    assert_eq!(bench.send(Method::POST, "/v1/traces", &headers, &body).await.status, StatusCode::OK);
    let trigger = json!({ "type": "traceid", "traceid": { "id": trace } });
    bench.stored("tests", &json!({ "spec": { "id": "t", "name": "T", "trigger": trigger } })).await;
    bench.post("/api/tests/t/run", &json!({})).await;
    bench.events("/api/tests/t/run/1").await;
    let run = bench.get("/api/tests/t/run/1").await.json();
    // One of them is the trigger's span.
    assert_eq!(run["trace"]["flat"].as_object().unwrap().len(), DEEP + 1);
    let mut exported = bench.get("/api/tests/t/run/1/export").await.json();
    exported["test"]["id"] = json!("moved");
    assert_eq!(bench.post("/api/tests/import", &exported).await.status, StatusCode::OK);
    let query = format!("span[name=\"s{}\"] > span[name=\"s{}\"]", DEEP - 2, DEEP - 1);
    let query: String =
        reqwest::Url::parse_with_params("http://x", [("query", query)]).unwrap().query().unwrap().to_owned();
    for test in ["t", "moved"] {
        let picked = bench.get(&format!("/api/tests/{test}/run/1/select?{query}")).await.json();
        assert_eq!(picked["spanIds"], json!([id(DEEP)]), "{test}: {picked}");
    }
    bench.server.shutdown().await;
}

async fn a_run_that_was_carried_here_can_be_looked_into(database: &Database) {
    let (bench, subject) = (Bench::new(database).await, Subject::start().await);
    bench.stored("tests", &test(&subject, "t", "/value/1", &json!({}))).await;
    bench.post("/api/tests/t/run", &json!({})).await;
    bench.events("/api/tests/t/run/1").await;
    let mut exported = bench.get("/api/tests/t/run/1/export").await.json();
    exported["test"]["id"] = json!("moved");
    let imported = bench.post("/api/tests/import", &exported).await;
    assert_eq!(imported.status, StatusCode::OK, "{}", imported.text);
    let moved = bench.get("/api/tests/moved/run/1").await.json();
    assert_eq!(moved, bench.get("/api/tests/t/run/1").await.json());
    for query in ["select?query=span%5Bname%3D%22Tracetest%20trigger%22%5D", "select?query="] {
        let ours = bench.get(&format!("/api/tests/t/run/1/{query}")).await.json();
        assert_eq!(ours["spanIds"].as_array().unwrap().len(), 1, "{ours}");
        assert_eq!(bench.get(&format!("/api/tests/moved/run/1/{query}")).await.json(), ours);
    }

    exported["test"]["id"] = json!("other");
    exported["run"]["nonsense"] = json!(1);
    let refused = bench.post("/api/tests/import", &exported).await;
    assert_eq!(
        (refused.status, refused.text.as_str()),
        (StatusCode::BAD_REQUEST, "\"json: unknown field \\\"nonsense\\\"\"\n")
    );
    assert_eq!(bench.get("/api/tests/other").await.status, StatusCode::NOT_FOUND);
    bench.server.shutdown().await;
}
