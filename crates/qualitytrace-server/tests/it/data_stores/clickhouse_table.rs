//! The rows that the Collector's exporter writes to ClickHouse.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Map, Value, json};

pub(super) const DATABASE: &str = "otel";
pub(super) const TABLE: &str = "otel_traces";
/// Names, types, partitions and order of the table as the Collector's exporter documents them.
pub(super) const CREATE: &str = "CREATE TABLE IF NOT EXISTS otel.otel_traces (
    Timestamp DateTime64(9) CODEC(Delta(8), ZSTD(1)), TraceId String, SpanId String, ParentSpanId String,
    TraceState String, SpanName LowCardinality(String), SpanKind LowCardinality(String),
    ServiceName LowCardinality(String), ResourceAttributes Map(LowCardinality(String), String),
    ScopeName String, ScopeVersion String, SpanAttributes Map(LowCardinality(String), String),
    Duration UInt64, StatusCode LowCardinality(String), StatusMessage String,
    Events Nested (Timestamp DateTime64(9), Name LowCardinality(String), Attributes Map(LowCardinality(String), String)),
    Links Nested (TraceId String, SpanId String, TraceState String, Attributes Map(LowCardinality(String), String)),
    INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1
) ENGINE = MergeTree PARTITION BY toDate(Timestamp) ORDER BY (ServiceName, SpanName, toDateTime(Timestamp), Timestamp)";

pub(super) async fn query(client: &reqwest::Client, url: &str, text: String) {
    let sent = client.post(url).body(text).send().await.unwrap();
    let (status, answer) = (sent.status(), sent.text().await.unwrap());
    assert!(status.is_success(), "{answer}");
}

/// Writes a delivery as rows.
pub(super) async fn insert(client: &reqwest::Client, url: &str, delivery: &ExportTraceServiceRequest) {
    let mut text = format!("INSERT INTO {DATABASE}.{TABLE} FORMAT JSONEachRow");
    for of_resource in &delivery.resource_spans {
        let resource = of_resource.resource.as_ref().unwrap();
        for of_scope in &of_resource.scope_spans {
            let scope = of_scope.scope.as_ref().unwrap();
            for span in &of_scope.spans {
                let mut row = row(span);
                let of_service = attributes(&resource.attributes);
                row["ServiceName"] = of_service["service.name"].clone();
                row["ResourceAttributes"] = of_service;
                row["ScopeName"] = json!(scope.name);
                row["ScopeVersion"] = json!(scope.version);
                text.extend(["\n", &row.to_string()]);
            }
        }
    }
    query(client, url, text).await;
}

/// A row as the exporter writes it: ids in hexadecimal, kind and status as words, attributes as texts.
fn row(span: &Span) -> Value {
    let seconds = |nanos: u64| format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    let words = |name: &str, prefix: &str| {
        let word = name.trim_start_matches(prefix).to_lowercase();
        word[..1].to_uppercase() + &word[1..]
    };
    let status = span.status.clone().unwrap_or_default();
    let events = span.events.iter();
    let links = span.links.iter();
    json!({
        "Timestamp": seconds(span.start_time_unix_nano),
        "Duration": span.end_time_unix_nano - span.start_time_unix_nano,
        "TraceId": const_hex::encode(&span.trace_id),
        "SpanId": const_hex::encode(&span.span_id),
        "ParentSpanId": const_hex::encode(&span.parent_span_id),
        "TraceState": span.trace_state,
        "SpanName": span.name,
        "SpanKind": words(span.kind().as_str_name(), "SPAN_KIND_"),
        "SpanAttributes": attributes(&span.attributes),
        "StatusCode": words(status.code().as_str_name(), "STATUS_CODE_"),
        "StatusMessage": status.message,
        "Events.Timestamp": events.clone().map(|event| seconds(event.time_unix_nano)).collect::<Vec<_>>(),
        "Events.Name": events.clone().map(|event| event.name.clone()).collect::<Vec<_>>(),
        "Events.Attributes": events.map(|event| attributes(&event.attributes)).collect::<Vec<_>>(),
        "Links.TraceId": links.clone().map(|link| const_hex::encode(&link.trace_id)).collect::<Vec<_>>(),
        "Links.SpanId": links.clone().map(|link| const_hex::encode(&link.span_id)).collect::<Vec<_>>(),
        "Links.TraceState": links.clone().map(|link| link.trace_state.clone()).collect::<Vec<_>>(),
        "Links.Attributes": links.map(|link| attributes(&link.attributes)).collect::<Vec<_>>(),
    })
}

fn attributes(pairs: &[KeyValue]) -> Value {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()).unwrap() {
        Any::StringValue(text) => text.clone(),
        Any::BoolValue(value) => value.to_string(),
        Any::IntValue(value) => value.to_string(),
        Any::DoubleValue(value) => value.to_string(),
        other => panic!("{other:?}"),
    };
    pairs.iter().map(|pair| (pair.key.clone(), json!(text(pair)))).collect::<Map<_, _>>().into()
}

/// A span whose attributes are texts.
pub(super) fn kept(span: Value) -> Value {
    match span {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| match name.as_str() {
                "attributes" => (name, texts(value)),
                _ => (name, kept(value)),
            });
            fields.collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.into_iter().map(kept).collect(),
        other => other,
    }
}

fn texts(mut attributes: Value) -> Value {
    for pair in attributes.as_array_mut().into_iter().flatten() {
        if pair["type"] != "string" {
            (pair["value"], pair["type"]) = (json!(pair["value"].to_string()), json!("string"));
        }
    }
    attributes
}
