//! The system under test of the recorded runs: five spans per request, one of them late.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, SERVER};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, span};
use prost::Message;

const ORDER: &str =
    r#"{"id": 42, "status": "created", "items": [{"sku": "a", "qty": 2}, {"sku": "b", "qty": 1}]}"#;
const LATE: Duration = Duration::from_millis(300);

#[derive(Debug, Clone)]
struct Subject {
    traces: String,
    client: reqwest::Client,
    /// The port that the recorded addresses name.
    recorded: &'static str,
}

/// Serves the subject on a free port until the test process ends. It exports its spans to `server`.
pub(crate) async fn start(server: SocketAddr, recorded: &'static str) -> std::io::Result<SocketAddr> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let subject =
        Subject { traces: format!("http://{server}/v1/traces"), client: reqwest::Client::new(), recorded };
    let router = Router::new().fallback(answer).with_state(subject);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

async fn answer(State(subject): State<Subject>, request: Request) -> Response {
    let json = [(CONTENT_TYPE, "application/json"), (SERVER, "BaseHTTP/0.6 Python/3.11.7")];
    match request.uri().path() {
        "/health" => return (json, r#"{"ok": true}"#).into_response(),
        "/fail" => return (StatusCode::INTERNAL_SERVER_ERROR, json, r#"{"error": "boom"}"#).into_response(),
        _ => {}
    }
    let Some((trace, caller)) = caller(&request) else {
        return (json, ORDER).into_response();
    };
    let target = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
    let method = request.method().to_string();
    let path = request.uri().path().to_owned();
    let late = request
        .uri()
        .query()
        .and_then(|query| query.strip_prefix("late_ms=")?.parse().ok())
        .map_or(LATE, Duration::from_millis);
    let recorded = subject.recorded;
    let url = format!("http://{recorded}{target}");
    let work = Work { trace, start: now() };
    let root = work.span(
        &caller,
        &format!("{method} {path}"),
        span::SpanKind::Server,
        (0, 12),
        &[
            ("http.method", &method),
            ("http.target", &target),
            ("http.route", &path),
            ("http.status_code", "200"),
            ("http.scheme", "http"),
            ("http.url", &url),
            ("http.user_agent", "tracetest"),
        ],
    );
    let parent = root.span_id.clone();
    let spans = vec![
        work.span(&parent, "validate order", span::SpanKind::Internal, (0, 2), &[("order.items", "3")]),
        work.span(
            &parent,
            "SELECT orders",
            span::SpanKind::Client,
            (2, 7),
            &[
                ("db.system", "postgresql"),
                ("db.statement", "SELECT * FROM orders WHERE id = $1"),
                ("db.operation", "SELECT"),
                ("db.name", "orders"),
                ("net.peer.name", "db"),
                ("net.peer.port", "5432"),
            ],
        ),
        with_event(work.span(
            &parent,
            "GET http://stock/items",
            span::SpanKind::Client,
            (7, 11),
            &[("http.method", "GET"), ("http.status_code", "200"), ("http.url", "http://stock/items")],
        )),
        root,
    ];
    let publish = work.span(
        &parent,
        "publish order.created",
        span::SpanKind::Producer,
        (12, 13 + u64::try_from(late.as_millis()).unwrap_or_default()),
        &[("messaging.system", "kafka"), ("messaging.destination", "orders")],
    );
    tokio::spawn(async move {
        subject.deliver(spans).await;
        // A system whose last span is late, in real time.
        tokio::time::sleep(late).await;
        subject.deliver(vec![publish]).await;
    });
    (json, ORDER).into_response()
}

impl Subject {
    async fn deliver(&self, spans: Vec<Span>) {
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource {
                    attributes: vec![pair("service.name", "demo-order")],
                    ..Resource::default()
                }),
                scope_spans: vec![ScopeSpans {
                    scope: Some(InstrumentationScope {
                        name: "demo".to_owned(),
                        ..InstrumentationScope::default()
                    }),
                    spans,
                    schema_url: String::new(),
                }],
                schema_url: String::new(),
            }],
        };
        // A span that is not delivered makes the replay fail with its own message.
        let _ = self
            .client
            .post(&self.traces)
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(request.encode_to_vec())
            .send()
            .await;
    }
}

struct Work {
    trace: Vec<u8>,
    start: u64,
}

impl Work {
    fn span(
        &self,
        parent: &[u8],
        name: &str,
        kind: span::SpanKind,
        (from, to): (u64, u64),
        attributes: &[(&str, &str)],
    ) -> Span {
        const MILLISECOND: u64 = 1_000_000;
        Span {
            trace_id: self.trace.clone(),
            span_id: rand::random::<[u8; 8]>().to_vec(),
            parent_span_id: parent.to_vec(),
            name: name.to_owned(),
            kind: kind as i32,
            start_time_unix_nano: self.start + from * MILLISECOND,
            end_time_unix_nano: self.start + to * MILLISECOND,
            attributes: attributes.iter().map(|(key, value)| pair(key, value)).collect(),
            ..Span::default()
        }
    }
}

fn with_event(mut span: Span) -> Span {
    span.events.push(span::Event {
        time_unix_nano: span.start_time_unix_nano,
        name: "cache miss".to_owned(),
        attributes: vec![pair("key", "items")],
        dropped_attributes_count: 0,
    });
    span
}

/// Returns the trace and the span of `traceparent`.
fn caller(request: &Request) -> Option<(Vec<u8>, Vec<u8>)> {
    let header = request.headers().get("traceparent")?.to_str().ok()?;
    let mut parts = header.split('-').skip(1);
    let trace: qualitytrace_core::id::TraceId = parts.next()?.parse().ok()?;
    let span: qualitytrace_core::id::SpanId = parts.next()?.parse().ok()?;
    Some((trace.to_bytes().to_vec(), span.to_bytes().to_vec()))
}

/// Builds an attribute: an integer if the text is one, as the subject's own attributes have types.
fn pair(key: &str, value: &str) -> KeyValue {
    let value = match value.parse() {
        Ok(number) => any_value::Value::IntValue(number),
        Err(_) => any_value::Value::StringValue(value.to_owned()),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), key_strindex: 0 }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or_default()
}
