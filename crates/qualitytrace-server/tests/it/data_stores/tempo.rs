//! Real Tempo, over HTTP and over gRPC.

use std::time::Duration;

use qualitytrace_server::outbound::data_store::StoreAnswer;
use qualitytrace_testing::{DEADLINE, eventually, peer_addresses};
use serde_json::{Value, json};

use super::Bench;
use super::real::{deliveries, post, runs_with};
use super::stand_in::{Answer, StandIn};

/// The addresses of Tempo's gRPC port, of its HTTP API, and of its OTLP receiver.
fn tempo() -> Option<[String; 3]> {
    peer_addresses("TEMPO")
}

fn store(kind: &str, client: &Value) -> Value {
    json!({ "name": "T", "type": "tempo", "tempo": { "type": kind, kind: client } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_its_trace_from_tempo_over_grpc() {
    let Some([grpc, _, otlp]) = tempo() else { return };
    runs_with(store("grpc", &json!({ "endpoint": grpc, "tls": { "insecure": true } })), otlp, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_its_trace_from_tempo_over_http() {
    let Some([_, http, otlp]) = tempo() else { return };
    runs_with(store("http", &json!({ "url": http })), otlp, 1).await;
}

#[tokio::test]
async fn the_json_of_tempo_has_the_same_spans_as_its_protobuf() {
    let Some([_, http, otlp]) = tempo() else { return };
    let client = crate::client();
    let trace = format!("{:032x}", rand::random_range(1..u128::MAX));
    for delivery in deliveries(&trace, "00000000000000ff", 1) {
        post(&client, &otlp, &delivery).await;
    }
    let read = async |kind: &str| {
        let answer =
            client.get(format!("{http}/api/traces/{trace}")).header("accept", kind).send().await.unwrap();
        let is_there = answer.status().is_success();
        let written = answer.headers()["content-type"].to_str().unwrap().to_owned();
        let body = answer.bytes().await.unwrap();
        is_there.then(|| (written.clone(), StoreAnswer::Tempo.read(&written, body).unwrap()))
    };
    let spans = |request: &opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest| {
        request.resource_spans.iter().flat_map(|of| &of.scope_spans).map(|of| of.spans.len()).sum::<usize>()
    };
    let protobuf = eventually(DEADLINE, "Tempo has both spans", async || {
        let (_, request) = read("application/protobuf").await?;
        (spans(&request) == 2).then_some(request)
    })
    .await;
    let (written, json) = read("application/json").await.unwrap();
    assert!(written.starts_with("application/json"), "{written}");
    assert_eq!(json, protobuf);
}

#[tokio::test(flavor = "multi_thread")]
async fn tempo_with_the_wrong_port_or_with_tls_is_told_at_once() {
    let Some([grpc, http, otlp]) = tempo() else { return };
    let bench = Bench::start().await;
    let (query, grpc_url) = (http.trim_start_matches("http://"), format!("http://{grpc}"));
    for (store, told) in [
        (store("grpc", &json!({ "endpoint": grpc })), "does not seem to use TLS"),
        (store("grpc", &json!({ "endpoint": query, "tls": { "insecure": true } })), "gRPC"),
        (store("http", &json!({ "url": grpc_url })), "HTTP"),
        (store("http", &json!({ "url": otlp })), "/api/echo"),
    ] {
        bench.store(&store).await;
        let began = std::time::Instant::now();
        let run = bench.run(&json!([])).await;
        // Without the cause, it would wait for a minute.
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        let error = run["lastErrorState"].as_str().unwrap_or_default();
        assert!(error.contains("Tempo") && error.contains(told), "{error}");
    }
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_part_of_a_trace_is_no_trace() {
    const TOLD: &str = "Trace exceeds maximum size of 10 bytes, a partial trace is returned";
    let bench = Bench::start().await;
    let tempo = StandIn::start(&bench.caused, |_, _| {
        // A `TraceByIDResponse` whose status is PARTIAL, framed as gRPC does.
        let answer = [&[0x18, 1, 0x22, u8::try_from(TOLD.len()).unwrap()], TOLD.as_bytes()].concat();
        let frame = [&[0, 0, 0, 0, u8::try_from(answer.len()).unwrap()], &answer[..]].concat();
        let headers = vec![("content-type", "application/grpc".to_owned())];
        Answer { status: 200, headers, body: frame }
    })
    .await;
    let grpc = json!({ "endpoint": tempo.url.trim_start_matches("http://"), "tls": { "insecure": true } });
    bench.store(&json!({ "name": "T", "type": "tempo", "tempo": { "type": "grpc", "grpc": grpc } })).await;
    let run = bench.run(&json!([])).await;
    assert_eq!(run["state"], "TRACE_FAILED", "{run}");
    assert!(run["lastErrorState"].as_str().unwrap_or_default().contains(TOLD), "{run}");
    bench.server.shutdown().await;
}
