//! A trace in OTLP JSON, as it was received.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use qualitytrace_core::id::TraceId;
use serde_json::{Value, json};

use crate::source::Source;
use crate::store;

/// Every request that brought spans of the trace, put together.
pub async fn document(source: &Source, trace: TraceId) -> Result<Value, store::Error> {
    let mut resource_spans = Vec::new();
    for mut request in source.requests(trace).await? {
        attributes(&mut request).filter_map(|attribute| attribute.value.as_mut()).for_each(spell_out);
        let shown = serde_json::to_value(&request).unwrap_or_default();
        if let Some(parts) = shown.get("resourceSpans").and_then(Value::as_array) {
            resource_spans.extend(parts.iter().cloned());
        }
    }
    Ok(json!({ "resourceSpans": resource_spans }))
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

/// JSON has no number for NaN and infinity; the text says the same, in both directions.
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
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

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
