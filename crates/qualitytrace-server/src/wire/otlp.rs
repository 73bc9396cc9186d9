//! A trace in OTLP JSON, as it was received.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use qualitytrace_core::id::TraceId;
use serde::ser::{SerializeMap as _, SerializeStruct as _};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::lazy::Lazy;
use crate::redact::Redactor;
use crate::source::Source;
use crate::store;

/// All requests that delivered spans of a trace, merged while the document is serialized.
#[derive(Debug)]
pub struct Document {
    requests: Vec<ExportTraceServiceRequest>,
    redactor: Redactor,
}

impl Document {
    /// Loads everything that arrived of the trace; secrets are redacted.
    pub async fn load(source: &Source, trace: TraceId, redactor: Redactor) -> Result<Self, store::Error> {
        let mut requests = source.requests(trace).await?;
        for request in &mut requests {
            attributes(request).filter_map(|attribute| attribute.value.as_mut()).for_each(spell_out);
        }
        Ok(Self { requests, redactor })
    }

    /// Whether nothing arrived.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn shown(&self, part: &impl Serialize) -> Value {
        let mut shown = serde_json::to_value(part).unwrap_or_default();
        self.redactor.json(&mut shown);
        shown
    }
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let of_resources = Lazy(|| {
            let all = self.requests.iter().flat_map(|request| &request.resource_spans);
            all.map(|of_resource| OfResource { document: self, of_resource })
        });
        let mut document = serializer.serialize_struct("Document", 1)?;
        document.serialize_field("resourceSpans", &of_resources)?;
        document.end()
    }
}

struct OfResource<'d> {
    document: &'d Document,
    of_resource: &'d ResourceSpans,
}

impl Serialize for OfResource<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { document, of_resource } = *self;
        let ResourceSpans { resource, schema_url, scope_spans } = of_resource;
        let (resource, schema_url) = (resource.clone(), schema_url.clone());
        let around = document.shown(&ResourceSpans { resource, schema_url, scope_spans: Vec::new() });
        let of_scopes = || scope_spans.iter().map(|of_scope| OfScope { document, of_scope });
        filled(around, "scopeSpans", &Lazy(of_scopes), serializer)
    }
}

struct OfScope<'d> {
    document: &'d Document,
    of_scope: &'d ScopeSpans,
}

impl Serialize for OfScope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { document, of_scope } = *self;
        let ScopeSpans { scope, schema_url, spans } = of_scope;
        let (scope, schema_url) = (scope.clone(), schema_url.clone());
        let around = document.shown(&ScopeSpans { scope, schema_url, spans: Vec::new() });
        if document.redactor.is_empty() {
            return filled(around, "spans", spans, serializer);
        }
        filled(around, "spans", &Lazy(|| spans.iter().map(|span| document.shown(span))), serializer)
    }
}

/// Serializes an object with this list in place of its empty one.
fn filled<S: Serializer>(
    around: Value,
    name: &str,
    list: &impl Serialize,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let Value::Object(fields) = around else { return list.serialize(serializer) };
    let mut object = serializer.serialize_map(None)?;
    for (field, value) in fields.iter().filter(|(field, _)| *field != name) {
        object.serialize_entry(field, value)?;
    }
    object.serialize_entry(name, list)?;
    object.end()
}

fn attributes(request: &mut ExportTraceServiceRequest) -> impl Iterator<Item = &mut KeyValue> {
    request.resource_spans.iter_mut().flat_map(|of_resource| {
        let own = of_resource.resource.iter_mut().flat_map(|resource| &mut resource.attributes);
        let below = of_resource.scope_spans.iter_mut().flat_map(|of_scope| {
            let own = of_scope.scope.iter_mut().flat_map(|scope| &mut scope.attributes);
            own.chain(of_scope.spans.iter_mut().flat_map(|span| {
                let events = span.events.iter_mut().flat_map(|event| &mut event.attributes);
                let links = span.links.iter_mut().flat_map(|link| &mut link.attributes);
                span.attributes.iter_mut().chain(events).chain(links)
            }))
        });
        own.chain(below)
    })
}

/// JSON has no NaN and infinity: they are written as text, which is read back as such.
fn spell_out(value: &mut AnyValue) {
    match &mut value.value {
        Some(Any::DoubleValue(number)) if !number.is_finite() => {
            let text = if number.is_nan() {
                "NaN"
            } else if number.is_sign_positive() {
                "Infinity"
            } else {
                "-Infinity"
            };
            value.value = Some(Any::StringValue(text.to_owned()));
        }
        Some(Any::ArrayValue(list)) => list.values.iter_mut().for_each(spell_out),
        Some(Any::KvlistValue(list)) => {
            list.values.iter_mut().filter_map(|pair| pair.value.as_mut()).for_each(spell_out);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::ArrayValue;
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::Span;

    use super::*;

    #[test]
    fn what_json_has_no_number_for_is_spelled_out_wherever_it_stands() {
        let number = |number| AnyValue { value: Some(Any::DoubleValue(number)) };
        let attribute = |value| KeyValue { key: "a".to_owned(), value: Some(value), ..KeyValue::default() };
        let list = ArrayValue { values: vec![number(f64::NEG_INFINITY), number(1.5)] };
        let list = AnyValue { value: Some(Any::ArrayValue(list)) };
        let span = Span { attributes: vec![attribute(list)], ..Span::default() };
        let resource = Resource { attributes: vec![attribute(number(f64::NAN))], ..Resource::default() };
        let mut request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource),
                scope_spans: vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }],
                ..ResourceSpans::default()
            }],
        };
        attributes(&mut request).filter_map(|attribute| attribute.value.as_mut()).for_each(spell_out);
        let shown = serde_json::to_string(&request).unwrap();
        for expected in
            [r#"{"stringValue":"NaN"}"#, r#"{"stringValue":"-Infinity"}"#, r#"{"doubleValue":1.5}"#]
        {
            assert!(shown.contains(expected), "{expected} is not in {shown}");
        }
    }
}
