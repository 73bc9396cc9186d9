//! Spans on their way into an OTLP request, collected by resource and scope.

use std::collections::HashMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

/// What a span, or a resource with its scope, takes beside its texts.
const ITEM: u64 = 2 * size_of::<Span>() as u64 + size_of::<(ResourceSpans, ScopeSpans)>() as u64;
/// What an attribute, an event or a link takes beside its texts: they are allocated one by one.
const VALUE: u64 = size_of::<Event>() as u64 + 64;
/// Texts are in the message, and in its encoding.
const GROWTH: u64 = 2;

/// The library that recorded a span: name and version.
pub(crate) type ScopeName = (String, String);

/// Spans by resource and scope.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    request: ExportTraceServiceRequest,
    indexes: HashMap<(String, ScopeName), usize>,
}

impl Collected {
    /// Adds a span. `process` identifies its resource, which `resource` makes. Returns the memory that this takes.
    pub(crate) fn add(
        &mut self,
        process: &str,
        scope: ScopeName,
        span: Span,
        resource: impl FnOnce() -> Vec<KeyValue>,
    ) -> u64 {
        let request = &mut self.request.resource_spans;
        let mut weight = ITEM + GROWTH * span.encoded_len() as u64 + VALUE * values(&span);
        let at = *self.indexes.entry((process.to_owned(), scope.clone())).or_insert_with(|| {
            let resource = resource();
            let encoded = resource.iter().map(Message::encoded_len).sum::<usize>() + process.len();
            weight += ITEM + GROWTH * encoded as u64 + VALUE * resource.len() as u64;
            let (name, version) = scope;
            let scope = InstrumentationScope { name, version, ..InstrumentationScope::default() };
            request.push(ResourceSpans {
                resource: Some(Resource { attributes: resource, ..Resource::default() }),
                scope_spans: vec![ScopeSpans { scope: Some(scope), ..ScopeSpans::default() }],
                ..ResourceSpans::default()
            });
            request.len() - 1
        });
        request[at].scope_spans[0].spans.push(span);
        weight
    }

    /// Forgets which resource belongs to which process: the processes of another trace have the same names.
    pub(crate) fn forget_processes(&mut self) {
        self.indexes.clear();
    }

    /// Returns the request.
    pub(crate) fn into_request(self) -> ExportTraceServiceRequest {
        self.request
    }
}

/// The number of attributes, events and links of a span.
fn values(span: &Span) -> u64 {
    let of_events = span.events.iter().map(|event| 1 + event.attributes.len());
    let of_links = span.links.iter().map(|link| 1 + link.attributes.len());
    (span.attributes.len() + of_events.chain(of_links).sum::<usize>()) as u64
}

/// Makes an attribute.
pub(crate) fn attribute(key: impl Into<String>, value: Any) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// Makes an attribute of a text.
pub(crate) fn text(key: impl Into<String>, value: impl Into<String>) -> KeyValue {
    attribute(key, Any::StringValue(value.into()))
}

/// Makes an attribute of a JSON value; lists and objects stay JSON.
pub(crate) fn json(key: impl Into<String>, value: &serde_json::Value) -> KeyValue {
    match value {
        serde_json::Value::Null => {
            KeyValue { key: key.into(), value: Some(AnyValue::default()), ..KeyValue::default() }
        }
        serde_json::Value::Bool(value) => attribute(key, Any::BoolValue(*value)),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => attribute(key, Any::IntValue(value)),
            (None, Some(value)) if !number.is_u64() => attribute(key, Any::DoubleValue(value)),
            (None, _) => text(key, number.to_string()),
        },
        serde_json::Value::String(value) => text(key, value),
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => text(key, value.to_string()),
    }
}
