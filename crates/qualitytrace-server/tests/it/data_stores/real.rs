//! Runs whose trace is in a real data store, and spans that are compared with those of OTLP.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use qualitytrace_server::base::clock;
use serde_json::Value;

use super::{Bench, clickhouse_table};
use crate::requests::{pair, text};

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

/// The spans of a request to the shop: two services, in two deliveries. All times are multiples of `tick` nanoseconds.
pub(super) fn deliveries(trace: &str, parent: &str, tick: u64) -> [ExportTraceServiceRequest; 2] {
    let start = clock::now().as_nanos() / tick * tick;
    let span = |id: u8, parent: Vec<u8>, name: &str, kind: SpanKind| Span {
        trace_id: bytes(trace),
        span_id: vec![0, 0, 0, 0, 0, 0, 0, id],
        parent_span_id: parent,
        name: name.to_owned(),
        kind: kind.into(),
        start_time_unix_nano: start + u64::from(id) * tick,
        end_time_unix_nano: start + 1_003 * tick,
        ..Span::default()
    };
    let handle = Span {
        attributes: vec![
            pair("is.new", Any::BoolValue(true)),
            pair("ratio", Any::DoubleValue(0.5)),
            pair("shop.id", Any::IntValue(7)),
        ],
        events: vec![Event {
            time_unix_nano: start + 5 * tick,
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

pub(super) async fn post(client: &reqwest::Client, url: &str, request: &ExportTraceServiceRequest) {
    let sent = client.post(format!("{url}/v1/traces")).header("content-type", "application/x-protobuf");
    let sent = sent.body(request.encode_to_vec()).send().await.unwrap();
    assert!(sent.status().is_success(), "{}", sent.status());
}

/// How a data store is fed.
pub(super) enum Feed {
    /// It receives OTLP here.
    Otlp(String),
    /// Rows are written here.
    ClickHouse(String),
}

impl Feed {
    async fn send(&self, client: &reqwest::Client, delivery: &ExportTraceServiceRequest) {
        match self {
            Self::Otlp(url) => post(client, url, delivery).await,
            Self::ClickHouse(url) => clickhouse_table::insert(client, url, delivery).await,
        }
    }

    /// A span that was sent as OTLP, as the store keeps it.
    fn kept(&self, span: Value) -> Value {
        match self {
            Self::Otlp(_) => span,
            Self::ClickHouse(_) => clickhouse_table::kept(span),
        }
    }
}

/// Runs with a data store that is fed at `otlp`, and has the time in units of `tick` nanoseconds.
pub(super) async fn runs_with(store: Value, otlp: String, tick: u64) {
    runs_with_fed(store, Feed::Otlp(otlp), tick).await;
}

/// The same with another feed. Each span is the same as one that was sent to another server of ours.
pub(super) async fn runs_with_fed(store: Value, feed: Feed, tick: u64) {
    let mut bench = Bench::start().await;
    let ours = Bench::start().await;
    let (client, ours_url) = (bench.client.clone(), ours.url.clone());
    let mut requests = std::mem::replace(&mut bench.requests, tokio::sync::mpsc::unbounded_channel().1);
    let sending = tokio::spawn(async move {
        let (trace, parent) = requests.recv().await.unwrap();
        for delivery in deliveries(&trace, &parent, tick) {
            // Later than the first polls.
            tokio::time::sleep(Duration::from_millis(60)).await;
            feed.send(&client, &delivery).await;
            post(&client, &ours_url, &delivery).await;
        }
        (trace, feed)
    });
    bench.passes_with(&store).await;
    let (trace, feed) = sending.await.unwrap();
    for id in ["0000000000000001", "0000000000000002"] {
        let path = format!("/api/traces/{trace}/spans/{id}");
        let (pulled, sent) = (bench.get(&path).await, ours.get(&path).await);
        assert!(pulled["name"].is_string(), "{pulled}");
        assert_eq!(pulled, feed.kept(sent));
    }
    let connection = bench.connection(&store).await;
    for step in ["portCheck", "connectivity", "authentication", "fetchTraces"] {
        assert_eq!(connection[step]["passed"], true, "{connection}");
    }
    bench.server.shutdown().await;
    ours.server.shutdown().await;
}
