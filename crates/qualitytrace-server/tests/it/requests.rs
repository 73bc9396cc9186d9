//! OTLP requests for tests: spans with every field.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList, any_value,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span};

/// Builds a request with one span for each of these traces.
pub(crate) fn spans(traces: &[[u8; 16]]) -> ExportTraceServiceRequest {
    let spans = traces.iter().zip(1u64..).map(|(trace, id)| rich_span(*trace, id)).collect();
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: vec![
                    pair("service.name", text("shop")),
                    pair("host.cpus", any_value::Value::IntValue(2)),
                ],
                dropped_attributes_count: 3,
                entity_refs: vec![],
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: "lib".to_owned(),
                    version: "1.2".to_owned(),
                    attributes: vec![pair("scope.flag", any_value::Value::BoolValue(true))],
                    dropped_attributes_count: 1,
                }),
                spans,
                schema_url: "scope schema".to_owned(),
            }],
            schema_url: "resource schema".to_owned(),
        }],
    }
}

fn rich_span(trace: [u8; 16], id: u64) -> Span {
    let list = ArrayValue { values: vec![value(text("a")), value(any_value::Value::IntValue(-5))] };
    let object = KeyValueList { values: vec![pair("inner", any_value::Value::DoubleValue(0.1))] };
    Span {
        trace_id: trace.to_vec(),
        span_id: id.to_be_bytes().to_vec(),
        trace_state: "vendor=1".to_owned(),
        parent_span_id: if id == 1 { vec![] } else { 1u64.to_be_bytes().to_vec() },
        flags: 257,
        name: format!("span {id} – ünïcode"),
        kind: span::SpanKind::Server as i32,
        start_time_unix_nano: 1_700_000_000_000_000_000 + id,
        end_time_unix_nano: 1_700_000_000_500_000_001 + id,
        attributes: vec![
            pair("text", text("%s \"quoted\" \u{1F980}")),
            pair("int", any_value::Value::IntValue(i64::MIN)),
            pair("double", any_value::Value::DoubleValue(2.5)),
            pair("bool", any_value::Value::BoolValue(false)),
            pair("bytes", any_value::Value::BytesValue(vec![0, 255])),
            pair("list", any_value::Value::ArrayValue(list)),
            pair("object", any_value::Value::KvlistValue(object)),
        ],
        dropped_attributes_count: 4,
        events: vec![span::Event {
            time_unix_nano: 1_700_000_000_000_000_007,
            name: "exception".to_owned(),
            attributes: vec![pair("exception.message", text("boom"))],
            dropped_attributes_count: 5,
        }],
        dropped_events_count: 6,
        links: vec![span::Link {
            trace_id: vec![9; 16],
            span_id: vec![8; 8],
            trace_state: "linked=1".to_owned(),
            attributes: vec![pair("why", text("because"))],
            dropped_attributes_count: 7,
            flags: 1,
        }],
        dropped_links_count: 8,
        status: Some(Status { message: "bad".to_owned(), code: 2 }),
    }
}

pub(crate) fn pair(key: &str, value: any_value::Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), key_strindex: 0 }
}

fn value(value: any_value::Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

pub(crate) fn text(text: &str) -> any_value::Value {
    any_value::Value::StringValue(text.to_owned())
}
