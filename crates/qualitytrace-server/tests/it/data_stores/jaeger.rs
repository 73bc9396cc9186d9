//! Real Jaeger, over gRPC and over HTTP.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use qualitytrace_server::clock;
use serde_json::{Value, json};

use super::Bench;
use crate::requests::{pair, text};

/// The addresses of Jaeger's query service, of its HTTP API, and of its OTLP receiver.
fn jaeger() -> Option<[String; 3]> {
    let Ok(addresses) = std::env::var("QUALITYTRACE_TEST_JAEGER") else {
        assert!(std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(), "QUALITYTRACE_TEST_JAEGER is not set");
        println!("skipped: QUALITYTRACE_TEST_JAEGER is not set");
        return None;
    };
    let addresses: Vec<String> = addresses.split(' ').map(ToOwned::to_owned).collect();
    Some(addresses.try_into().unwrap())
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn request(service: &str, span: Span) -> ExportTraceServiceRequest {
    let attributes = vec![pair("host.cpus", Any::IntValue(2)), pair("service.name", text(service))];
    let scope = InstrumentationScope {
        name: "lib".to_owned(),
        version: "1.2".to_owned(),
        ..InstrumentationScope::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans: vec![span], ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }],
    }
}

/// The spans of a request to the shop: two services, in two deliveries.
fn deliveries(trace: &str, parent: &str) -> [ExportTraceServiceRequest; 2] {
    let start = clock::now().as_nanos();
    let span = |id: u8, parent: Vec<u8>, name: &str, kind: SpanKind| Span {
        trace_id: bytes(trace),
        span_id: vec![0, 0, 0, 0, 0, 0, 0, id],
        parent_span_id: parent,
        name: name.to_owned(),
        kind: kind.into(),
        start_time_unix_nano: start + u64::from(id),
        end_time_unix_nano: start + 1_000_003,
        ..Span::default()
    };
    let handle = Span {
        attributes: vec![
            pair("is.new", Any::BoolValue(true)),
            pair("ratio", Any::DoubleValue(0.5)),
            pair("shop.id", Any::IntValue(7)),
        ],
        events: vec![Event {
            time_unix_nano: start + 5,
            name: "retry".to_owned(),
            attributes: vec![pair("attempt", Any::IntValue(2))],
            ..Event::default()
        }],
        links: vec![Link { trace_id: vec![9; 16], span_id: vec![9; 8], ..Link::default() }],
        status: Some(Status { code: 2, message: "gone".to_owned() }),
        trace_state: "vendor=1".to_owned(),
        ..span(1, bytes(parent), "handle", SpanKind::Server)
    };
    let query = span(2, vec![0, 0, 0, 0, 0, 0, 0, 1], "query", SpanKind::Internal);
    [request("till", query), request("shop", handle)]
}

async fn post(client: &reqwest::Client, url: &str, request: &ExportTraceServiceRequest) {
    let sent = client.post(format!("{url}/v1/traces")).header("content-type", "application/x-protobuf");
    let sent = sent.body(request.encode_to_vec()).send().await.unwrap();
    assert!(sent.status().is_success(), "{}", sent.status());
}

/// Runs with Jaeger as the data store. Each span is the same as one that was sent to another server of ours.
async fn runs_with(store: Value) {
    let Some([_, _, otlp]) = jaeger() else { return };
    let mut bench = Bench::start().await;
    let ours = Bench::start().await;
    let (client, ours_url) = (bench.client.clone(), ours.url.clone());
    let mut requests = std::mem::replace(&mut bench.requests, tokio::sync::mpsc::unbounded_channel().1);
    let sending = tokio::spawn(async move {
        let (trace, parent) = requests.recv().await.unwrap();
        for delivery in deliveries(&trace, &parent) {
            // Later than the first polls.
            tokio::time::sleep(Duration::from_millis(60)).await;
            post(&client, &otlp, &delivery).await;
            post(&client, &ours_url, &delivery).await;
        }
        trace
    });
    bench.passes_with(&store).await;
    let trace = sending.await.unwrap();
    for id in ["0000000000000001", "0000000000000002"] {
        let path = format!("/api/traces/{trace}/spans/{id}");
        let (pulled, sent) = (bench.get(&path).await, ours.get(&path).await);
        assert!(pulled["name"].is_string(), "{pulled}");
        assert_eq!(pulled, sent);
    }
    let connection = bench.connection(&store).await;
    for step in ["portCheck", "connectivity", "authentication", "fetchTraces"] {
        assert_eq!(connection[step]["passed"], true, "{connection}");
    }
    bench.server.shutdown().await;
    ours.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_its_trace_from_jaeger_over_grpc() {
    let Some([grpc, ..]) = jaeger() else { return };
    let client = json!({ "endpoint": grpc, "tls": { "insecure": true } });
    runs_with(json!({ "name": "J", "type": "jaeger", "jaeger": client })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_its_trace_from_jaeger_over_http() {
    let Some([_, http, _]) = jaeger() else { return };
    runs_with(json!({ "name": "J", "type": "jaeger", "jaeger": { "endpoint": http } })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jaeger_with_the_wrong_port_or_with_tls_is_told_at_once() {
    let Some([grpc, http, _]) = jaeger() else { return };
    let bench = Bench::start().await;
    let query = http.trim_start_matches("http://");
    for (client, told) in [
        (json!({ "endpoint": grpc }), "does not seem to use TLS"),
        (json!({ "endpoint": query, "tls": { "insecure": true } }), "gRPC"),
    ] {
        let store = json!({ "name": "J", "type": "jaeger", "jaeger": client });
        bench.store(&store).await;
        let began = std::time::Instant::now();
        let run = bench.run(&json!([])).await;
        // Without the cause, it would wait for a minute.
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        let error = run["lastErrorState"].as_str().unwrap_or_default();
        assert!(error.contains("Jaeger") && error.contains(told), "{error}");
    }
    bench.server.shutdown().await;
}
