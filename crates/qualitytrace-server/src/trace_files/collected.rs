//! Spans on their way into an OTLP request, collected by resource and scope.

use std::collections::HashMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

/// The library that recorded a span: name and version.
pub(crate) type ScopeName = (String, String);

/// Spans by resource and scope.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    request: ExportTraceServiceRequest,
    indexes: HashMap<(String, ScopeName), usize>,
}

impl Collected {
    /// Adds a span. `process` identifies its resource, which `resource` makes.
    pub(crate) fn add(
        &mut self,
        process: &str,
        scope: ScopeName,
        span: Span,
        resource: impl FnOnce() -> Vec<KeyValue>,
    ) {
        let request = &mut self.request.resource_spans;
        let at = *self.indexes.entry((process.to_owned(), scope.clone())).or_insert_with(|| {
            let (name, version) = scope;
            let scope = InstrumentationScope { name, version, ..InstrumentationScope::default() };
            request.push(ResourceSpans {
                resource: Some(Resource { attributes: resource(), ..Resource::default() }),
                scope_spans: vec![ScopeSpans { scope: Some(scope), ..ScopeSpans::default() }],
                ..ResourceSpans::default()
            });
            request.len() - 1
        });
        request[at].scope_spans[0].spans.push(span);
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
