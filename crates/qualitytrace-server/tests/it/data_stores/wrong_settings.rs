//! Wrong settings are told in seconds, by the connection test and by the run.

use std::time::{Duration, Instant};

use qualitytrace_server::base::limits::Limits;
use qualitytrace_testing::port;
use serde_json::{Value, json};

use super::Bench;
use super::stand_in::{Answer, StandIn};

fn tempo(url: &str) -> Value {
    json!({ "name": "T", "type": "tempo", "tempo": { "type": "http", "http": { "url": url } } })
}

/// Tests the connection and runs: `step` fails, and the run tells `told`; neither waits for the trace.
async fn check(bench: &Bench, store: &Value, step: &str, told: &[&str]) {
    let began = Instant::now();
    let connection = bench.connection(store).await;
    assert!(began.elapsed() < Duration::from_secs(15), "{store}: {:?}", began.elapsed());
    assert_eq!(connection[step]["status"], "failed", "{store}: {connection}");
    assert!(connection[step]["error"].is_string() && connection[step]["message"].is_string(), "{connection}");
    bench.store(store).await;
    let began = Instant::now();
    let run = bench.run(&json!([])).await;
    assert!(began.elapsed() < Duration::from_secs(30), "{store}: {:?}", began.elapsed());
    assert_eq!(run["state"], "TRACE_FAILED", "{store}: {run}");
    let error = run["lastErrorState"].as_str().unwrap_or_default();
    for told in told {
        assert!(error.contains(told), "{store}: {error}");
    }
}

#[tokio::test]
async fn wrong_settings_are_told_by_the_connection_test_and_stop_a_run() {
    let bench = Bench::start().await;
    let closed = format!("127.0.0.1:{}", port());
    let jaeger = |client: Value| json!({ "name": "J", "type": "jaeger", "jaeger": client });
    let (plain, to) = (json!({ "endpoint": closed, "tls": { "insecure": true } }), "connectivity");
    check(&bench, &jaeger(plain), to, &["Jaeger", "nothing listens on", &closed]).await;
    check(&bench, &tempo(&format!("http://{closed}")), to, &["Tempo", "nothing listens on"]).await;
    check(&bench, &tempo("http://no-such-host.invalid:3200"), to, &["no-such-host.invalid"]).await;

    // A server that speaks plain HTTP, asked over TLS; and one with other paths.
    let other = StandIn::start(&bench.caused, |_, _| Answer::status(404)).await;
    let https = other.url.replace("http://", "https://");
    check(&bench, &tempo(&https), to, &["Tempo", "TLS"]).await;
    check(&bench, &tempo(&format!("{}/prefix", other.url)), "fetchTraces", &["Tempo", "`/prefix`"]).await;
    let grpc = json!({ "endpoint": other.url.trim_start_matches("http://"), "tls": { "insecure": true } });
    let connection = bench.connection(&jaeger(grpc)).await;
    assert!(connection.to_string().contains("failed"), "{connection}");

    let forbidden = StandIn::start(&bench.caused, |_, _| Answer {
        body: b"the password `hunter22` is wrong".to_vec(),
        ..Answer::status(403)
    })
    .await;
    let index =
        json!({ "addresses": [forbidden.url], "username": "u", "password": "hunter22", "index": "i" });
    let index = json!({ "name": "O", "type": "opensearch", "opensearch": index });
    check(&bench, &index, "authentication", &["OpenSearch", "credentials"]).await;
    let (run, connection) = (bench.get("/api/tests/t/run/6").await, bench.connection(&index).await);
    for shown in [run, connection] {
        assert!(!shown.to_string().contains("hunter22"), "{shown}");
    }
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_store_that_is_busy_is_asked_again_when_it_wants() {
    let bench = Bench::start().await;
    let began = Instant::now();
    let busy = StandIn::start(&bench.caused, move |asked, caused| {
        if began.elapsed() < Duration::from_secs(1) {
            let headers = vec![("retry-after", "1".to_owned())];
            return Answer { headers, ..Answer::status(429) };
        }
        let Some((trace, parent)) = caused.filter(|_| asked.path.contains("/trace/")) else {
            return Answer::json(json!([]));
        };
        Answer::json(json!([
            { "traceId": trace, "id": "a", "parentId": parent, "name": "handle", "timestamp": 1, "tags": { "shop.id": "7" } },
            { "traceId": trace, "id": "b", "parentId": "a", "name": "query", "timestamp": 1 },
            // Of another trace: it is not stored.
            { "traceId": "1", "id": "c", "name": "handle", "timestamp": 1 },
        ]))
    })
    .await;
    bench.passes_with(&json!({ "name": "Z", "type": "zipkin", "zipkin": { "url": busy.url } })).await;
    let early = busy.asked().len();
    assert!(early < 60, "it was asked {early} times");
    let other = bench.get(&format!("/api/traces/{:032x}", 1)).await;
    assert!(other["spans"].as_array().is_none_or(Vec::is_empty), "{other}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_trace_whose_pages_do_not_end_is_no_trace() {
    let bench = Bench::start().await;
    let endless = StandIn::start(&bench.caused, |asked, caused| {
        let Some((_, parent)) = caused.filter(|(trace, _)| asked.path.contains(trace.as_str())) else {
            return Answer::status(404);
        };
        if asked.path.ends_with("/spans") {
            let span = json!({ "id": "00000000000000aa", "parentId": parent, "operationName": "handle",
                "service": "shop", "startedAt": jiff::Timestamp::now().to_string(), "duration": 5_000 });
            return Answer::json(json!({ "spanPage": [span], "next": "more" }));
        }
        Answer::json(json!({ "fields": {} }))
    })
    .await;
    let details = json!({ "url": endless.url, "accessID": "id", "accessKey": "key" });
    bench.give_up_after("1m").await;
    bench.store(&json!({ "name": "S", "type": "sumologic", "sumologic": details })).await;
    let run = bench.run(&json!([])).await;
    assert_eq!(run["state"], "TRACE_FAILED", "{run}");
    let error = run["lastErrorState"].as_str().unwrap_or_default();
    assert!(error.contains("Sumo Logic") && error.contains("2000 pages of one trace and no end"), "{error}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_trace_that_the_store_does_not_have_is_explained() {
    let bench = Bench::start().await;
    let empty = StandIn::start(&bench.caused, |asked, _| match asked.path.as_str() {
        "/api/echo" => Answer { body: b"echo".to_vec(), ..Answer::status(200) },
        _ => Answer::status(404),
    })
    .await;
    bench.store(&tempo(&empty.url)).await;
    bench.give_up_after("1s").await;
    let run = bench.run(&json!([])).await;
    assert_eq!(run["state"], "TRACE_FAILED", "{run}");
    let error = run["lastErrorState"].as_str().unwrap_or_default();
    assert!(error.contains("Tempo does not have trace"), "{error}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_data_store_at_a_denied_address_is_not_asked() {
    let limits = Limits::default();
    let bench = Bench::start_within(limits).await;
    let reached = StandIn::start(&bench.caused, |_, _| Answer::json(json!([]))).await;
    let denied = "127.0.0.0/8".parse().unwrap();
    let limits =
        Limits { deny: qualitytrace_server::base::limits::deny::Deny::new([denied]), ..Limits::default() };
    let strict = Bench::start_within(limits).await;
    let store = json!({ "name": "Z", "type": "zipkin", "zipkin": { "url": reached.url } });
    let connection = strict.connection(&store).await;
    assert!(connection["connectivity"]["error"].as_str().unwrap().contains("trigger.deny"), "{connection}");
    let by_name = reached.url.replace("127.0.0.1", "localhost");
    let store = json!({ "name": "Z", "type": "zipkin", "zipkin": { "url": by_name } });
    let connection = strict.connection(&store).await;
    assert!(connection["connectivity"]["error"].as_str().unwrap().contains("trigger.deny"), "{connection}");
    assert!(reached.asked().is_empty());
    strict.server.shutdown().await;
    bench.server.shutdown().await;
}
