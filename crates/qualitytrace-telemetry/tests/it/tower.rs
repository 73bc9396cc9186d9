//! The layer for HTTP servers, around an axum router on a real socket.

use std::time::Duration;

use axum::{Router, extract::MatchedPath, routing::get};
use http::StatusCode;
use opentelemetry_proto::tonic::{
    common::v1::any_value::Value,
    trace::v1::{Span, span::SpanKind},
};
use qualitytrace_telemetry::{Exposition, Telemetry, TraceId, config::Transport};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::{
    basics::{config, sink},
    receiver::Receiver,
};

/// Serves requests while `ask` runs.
fn served<T>(telemetry: &Telemetry, ask: impl AsyncFnOnce(String) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    let _guard = tracing::subscriber::set_default(subscriber);
    runtime.block_on(async {
        let layer = telemetry.http_layer();
        let layer = layer.with_route(|extensions| Some(extensions.get::<MatchedPath>()?.as_str().to_owned()));
        let inner = || async {
            tracing::info_span!("inner").in_scope(|| tracing::info!("at work"));
            "hello"
        };
        let router = Router::new()
            .route("/items/{id}", get(inner))
            .route("/broken", get(|| async { StatusCode::INTERNAL_SERVER_ERROR }))
            .layer(layer);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let answer = ask(url).await;
        server.abort();
        answer
    })
}

fn attribute(span: &Span, key: &str) -> Option<Value> {
    span.attributes.iter().find(|pair| pair.key == key)?.value.clone()?.value
}

fn text(span: &Span, key: &str) -> Option<String> {
    match attribute(span, key)? {
        Value::StringValue(text) => Some(text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_to_any_tower_server_are_spans_and_durations() {
    let receiver = Receiver::start();
    let telemetry =
        Telemetry::start(config(None, vec![sink("one", &receiver.url(), Transport::Http)])).unwrap();
    let trace = "0af7651916cd43dd8448eb211c80319c";
    served(&telemetry, async |url: String| {
        let client = reqwest::Client::builder().tls_backend_preconfigured(nothing()).build().unwrap();
        let caller = format!("00-{trace}-b7ad6b7169203331-01");
        let ask = client.get(format!("{url}/items/7?token=abc&a=1")).header("traceparent", caller);
        assert_eq!(ask.send().await.unwrap().text().await.unwrap(), "hello");
        assert_eq!(client.get(format!("{url}/broken")).send().await.unwrap().status(), 500);
        let invented = reqwest::Method::from_bytes(b"INVENTED").unwrap();
        assert_eq!(client.request(invented, format!("{url}/nowhere")).send().await.unwrap().status(), 404);
    });
    let metrics = telemetry.exposition(Exposition::Prometheus);
    for expected in [
        r#"http_request_method="GET",http_response_status_code="200",http_route="/items/{id}",network_protocol_version="1.1",url_scheme="http"} 1"#,
        r#"error_type="500",http_request_method="GET",http_response_status_code="500",http_route="/broken""#,
        r#"http_request_method="_OTHER",http_response_status_code="404",network_protocol_version="1.1""#,
    ] {
        let line = format!("http_server_request_duration_seconds_count{{{expected}");
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
    telemetry.shutdown(Duration::from_secs(10));
    let got = receiver.stop();
    let find = |name: &str| got.spans.iter().find(|span| span.name == name).unwrap();
    let request = find("GET /items/{id}");
    assert_eq!(request.kind, SpanKind::Server as i32);
    assert_eq!(request.trace_id, TraceId::from_hex(trace).unwrap().to_bytes());
    assert_eq!(request.parent_span_id, [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]);
    for (key, expected) in [
        ("http.request.method", "GET"),
        ("http.route", "/items/{id}"),
        ("url.path", "/items/7"),
        ("url.query", "token=***&a=1"),
        ("url.scheme", "http"),
        ("server.address", "127.0.0.1"),
        ("network.protocol.version", "1.1"),
    ] {
        assert_eq!(text(request, key).as_deref(), Some(expected), "{key}");
    }
    assert_eq!(attribute(request, "http.response.status_code"), Some(Value::IntValue(200)));
    assert_eq!(find("inner").parent_span_id, request.span_id);
    let broken = find("GET /broken");
    assert_eq!(broken.status.as_ref().map(|status| status.code), Some(2));
    assert_eq!(text(broken, "error.type").as_deref(), Some("500"));
    let invented = find("HTTP");
    assert_eq!(text(invented, "http.request.method_original").as_deref(), Some("INVENTED"));
    assert_eq!(invented.status.as_ref().map_or(0, |status| status.code), 0, "4xx is no error of a server");
}

/// TLS settings that are never used.
fn nothing() -> rustls::ClientConfig {
    let versions = qualitytrace_telemetry::tls::Versions::default();
    qualitytrace_telemetry::tls::client(
        qualitytrace_telemetry::tls::Trust::AnyCertificate,
        None,
        versions,
        &[],
    )
    .unwrap()
}
