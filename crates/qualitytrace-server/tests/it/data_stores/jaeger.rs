//! Real Jaeger, over gRPC and over HTTP.

use std::time::Duration;

use qualitytrace_testing::peer_addresses;
use serde_json::json;

use super::Bench;
use super::real::runs_with;

/// The addresses of Jaeger's query service, of its HTTP API, and of its OTLP receiver.
fn jaeger() -> Option<[String; 3]> {
    peer_addresses("JAEGER")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_its_trace_from_jaeger_over_grpc() {
    let Some([grpc, _, otlp]) = jaeger() else { return };
    let client = json!({ "endpoint": grpc, "tls": { "insecure": true } });
    runs_with(json!({ "name": "J", "type": "jaeger", "jaeger": client }), otlp, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_its_trace_from_jaeger_over_http() {
    let Some([_, http, otlp]) = jaeger() else { return };
    runs_with(json!({ "name": "J", "type": "jaeger", "jaeger": { "endpoint": http } }), otlp, 1).await;
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
