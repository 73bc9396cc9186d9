//! What one OTLP request may take: never more than `limits.ingestBytes`, and until it is stored.

use std::net::SocketAddr;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ScopeSpans, Span};
use prost::Message;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;
use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::StatusCode;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};
use sqlx::{Connection, Executor};

use crate::databases::Database;
use crate::malformed::{alone, memory_kib, wrap};
use crate::otlp::{Answer, Fixture};
use crate::requests;

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A server that may take so many bytes for requests.
async fn fixture(ingest_bytes: usize) -> Fixture {
    Fixture::start(Limits { ingest_bytes: ingest_bytes as u64, ..Limits::default() }).await
}

async fn send(fixture: &Fixture, signal: &str, content_type: &str, body: Vec<u8>) -> Answer {
    fixture.post(&format!("/v1/{signal}"), &[(CONTENT_TYPE, content_type)], body).await
}

#[track_caller]
fn check_too_large(answer: &Answer) {
    let told = String::from_utf8_lossy(&answer.body);
    assert!(answer.status == 413 && told.contains("limits.ingestBytes"), "{} {told}", answer.status);
}

/// A request with a span in each of so many traces, all of a resource with an attribute of this size.
fn traces_of_one_resource(traces: u8, attribute: usize) -> ExportTraceServiceRequest {
    let ids: Vec<[u8; 16]> = (1..=traces).map(|trace| [trace; 16]).collect();
    let mut request = requests::spans(&ids);
    let large = requests::pair("large", requests::text(&"x".repeat(attribute)));
    request.resource_spans[0].resource.as_mut().unwrap().attributes.push(large);
    request
}

/// A request in JSON with these members of `spans`.
fn spans_in_json(spans: &str) -> Vec<u8> {
    format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#).into_bytes()
}

/// A request with one histogram of these encoded data points.
fn histogram(points: Vec<u8>) -> Vec<u8> {
    [9, 2, 2, 1].into_iter().fold(points, |inner, field| wrap(field, inner))
}

#[tokio::test]
async fn a_resource_counts_once_for_each_trace_that_it_is_stored_with() {
    let fixture = fixture(8 * MIB).await;
    let few = traces_of_one_resource(10, 256 * KIB).encode_to_vec();
    assert_eq!(send(&fixture, "traces", PROTOBUF, few).await.status, 200);
    let many = traces_of_one_resource(100, 256 * KIB);
    check_too_large(&send(&fixture, "traces", PROTOBUF, many.encode_to_vec()).await);
    check_too_large(&send(&fixture, "traces", JSON, serde_json::to_vec(&many).unwrap()).await);
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn traces_count_beside_their_spans() {
    let fixture = fixture(8 * MIB).await;
    let span = |trace: u128| Span { trace_id: trace.to_be_bytes().to_vec(), ..Span::default() };
    let request = |traces: u128| {
        let mut request = requests::spans(&[]);
        request.resource_spans[0].scope_spans[0].spans = (1..=traces).map(span).collect();
        request.encode_to_vec()
    };
    assert_eq!(send(&fixture, "traces", PROTOBUF, request(1_000)).await.status, 200);
    let many = request(20_000);
    assert!(many.len() < MIB, "{}", many.len());
    check_too_large(&send(&fixture, "traces", PROTOBUF, many).await);
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn json_counts_with_what_it_becomes() {
    let fixture = fixture(8 * MIB).await;
    let numbers = "0,".repeat(100_000);
    let values = format!(r#"{{"attributes":[{{"value":{{"x":[{numbers}0]}}}}]}}"#);
    let metric = format!(r#"{{"histogram":{{"dataPoints":[{}]}}}}"#, vec!["{}"; 10_000].join(","));
    let metrics = format!(r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metric}]}}]}}]}}"#);
    let bodies: [(&str, Vec<u8>); 6] = [
        ("traces", spans_in_json(&vec!["{}"; 20_000].join(","))),
        ("traces", spans_in_json(&vec!["[]"; 20_000].join(","))),
        ("traces", spans_in_json(&values)),
        ("traces", format!(r#"{{"resource_spans":[],"x":[{numbers}0]}}"#).into_bytes()),
        ("traces", format!(r#"{{"resourceSpans":0,"x":[{numbers}0]}}"#).into_bytes()),
        ("metrics", metrics.into_bytes()),
    ];
    for (signal, body) in bodies {
        assert!(body.len() < MIB, "{}", body.len());
        check_too_large(&send(&fixture, signal, JSON, body).await);
    }
    fixture.server.shutdown().await;
}

#[tokio::test]
async fn ordinary_spans_in_json_need_at_most_seven_times_their_size() {
    let mut request = requests::spans(&[]);
    let attribute = |at: usize| requests::pair(&format!("http.request.{at}"), requests::text("some text"));
    let span = |id: u64| Span {
        trace_id: vec![1; 16],
        span_id: id.to_be_bytes().to_vec(),
        name: "GET /".to_owned(),
        attributes: (0..15).map(attribute).collect(),
        ..Span::default()
    };
    request.resource_spans[0].scope_spans[0].spans = (1..=1_000).map(span).collect();
    let body = serde_json::to_vec(&request).unwrap();
    // One request may take seven eighths.
    let fixture = fixture(body.len() * 8).await;
    let answer = send(&fixture, "traces", JSON, body).await;
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    fixture.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_scopes_and_data_points_take_no_memory() {
    let sent = async {
        let fixture = fixture(16 * MIB).await;
        let mut scopes = traces_of_one_resource(0, MIB);
        scopes.resource_spans[0].scope_spans = vec![ScopeSpans::default(); 500];
        let (scopes, points) = (scopes.encode_to_vec(), histogram([1 << 3 | 2, 0].repeat(1_000_000)));
        let before = memory_kib("VmHWM");
        assert_eq!(send(&fixture, "traces", PROTOBUF, scopes).await.status, 200);
        assert_eq!(send(&fixture, "metrics", PROTOBUF, points).await.status, 200);
        let growth = memory_kib("VmHWM").saturating_sub(before);
        assert!(growth < 64 * 1024, "memory grew by {growth} KiB");
        fixture.server.shutdown().await;
    };
    alone("expansion::empty_scopes_and_data_points_take_no_memory", sent).await;
}

#[tokio::test]
async fn the_window_of_a_compressed_request_counts() {
    let fixture = fixture(8 * MIB).await;
    let points = histogram([1 << 3 | 2, 0].repeat(5 * MIB / 2));
    let gzip = crate::otlp::gzip(&points);
    let zstd = zstd::encode_all(&points[..], 3).unwrap();
    let compressed = async |encoding: &str, body: Vec<u8>| {
        let headers = [(CONTENT_TYPE, PROTOBUF), (CONTENT_ENCODING, encoding)];
        fixture.post("/v1/metrics", &headers, body).await
    };
    assert_eq!(compressed("gzip", gzip).await.status, 200);
    check_too_large(&compressed("zstd", zstd).await);
    fixture.server.shutdown().await;
}

/// Exporters give up after a while and send again.
#[tokio::test]
async fn a_request_counts_until_it_is_stored_even_if_its_sender_disconnects() {
    let database = Database::file();
    let config = Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        database_url: database.url.clone(),
        limits: Limits { ingest_bytes: MIB as u64, ..Limits::default() },
        ..Config::default()
    };
    let server = Server::start(config).await.unwrap();
    let url = format!("http://{}/v1/traces", server.addresses().http);
    let body = traces_of_one_resource(1, 150 * KIB).encode_to_vec();
    let deliver = async |timeout: Duration| {
        let request = crate::client().post(&url).header(CONTENT_TYPE, PROTOBUF).body(body.clone());
        request.timeout(timeout).send().await.map(|answer| answer.status())
    };
    let mut other = sqlx::AnyConnection::connect(&database.url).await.unwrap();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    // Nothing can be stored now. Each request is given up, and takes almost half of the budget.
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(deliver(Duration::from_millis(500)).await.ok());
    }
    assert_eq!(statuses.first(), Some(&None), "the first one waits for the store");
    assert_eq!(statuses.last(), Some(&Some(StatusCode::TOO_MANY_REQUESTS)), "{statuses:?}");
    other.execute("ROLLBACK").await.unwrap();
    let is_stored = async || deliver(DEADLINE).await.ok() == Some(StatusCode::OK);
    eventually(DEADLINE, "there is room again", is_stored).await;
    server.shutdown().await;
}
