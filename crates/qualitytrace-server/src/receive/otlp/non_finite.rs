//! Numbers that JSON lacks, NaN and infinity. The JSON of protobuf has texts in their place: `{"doubleValue": "NaN"}`.
//!
//! The types of OTLP read and write finite numbers only: on the way from and to JSON, the others are marked texts.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use serde_json::Value;

/// The beginning of a marked text.
const MARK: &str = "\u{0}double:";
/// The numbers, as they are written.
const NUMBERS: [(&str, f64); 3] =
    [("NaN", f64::NAN), ("Infinity", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY)];

/// Returns the marked text of a number that is written as a text.
pub(super) fn marked(written: &str) -> Option<String> {
    NUMBERS.iter().any(|(name, _)| *name == written).then(|| format!("{MARK}{written}"))
}

/// Marks the numbers that JSON lacks. Returns whether there are any.
pub(crate) fn mark(request: &mut ExportTraceServiceRequest) -> bool {
    let mut found = false;
    each_value(request, &mut |value| {
        if let Some(Any::DoubleValue(number)) = value.value
            && !number.is_finite()
        {
            let name = match (number.is_nan(), number.is_sign_positive()) {
                (true, _) => "NaN",
                (false, true) => "Infinity",
                (false, false) => "-Infinity",
            };
            value.value = Some(Any::StringValue(format!("{MARK}{name}")));
            found = true;
        }
    });
    found
}

/// Puts the numbers in the place of marked texts.
pub(super) fn restore(request: &mut ExportTraceServiceRequest) {
    each_value(request, &mut |value| {
        if let Some(Any::StringValue(text)) = &value.value
            && let Some(name) = text.strip_prefix(MARK)
            && let Some((_, number)) = NUMBERS.iter().find(|(known, _)| *known == name)
        {
            value.value = Some(Any::DoubleValue(*number));
        }
    });
}

/// Writes marked texts of a JSON tree as the JSON of protobuf has them.
pub(crate) fn spell_out(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(spell_out),
        Value::Object(fields) => {
            let text = fields.get("stringValue").and_then(Value::as_str);
            match text.and_then(|text| text.strip_prefix(MARK)).map(str::to_owned) {
                Some(name) => {
                    fields.shift_remove("stringValue");
                    fields.insert("doubleValue".to_owned(), name.into());
                }
                None => fields.values_mut().for_each(spell_out),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Visits the value of every attribute, and those inside of it.
fn each_value(request: &mut ExportTraceServiceRequest, visit: &mut impl FnMut(&mut AnyValue)) {
    for value in attributes(request).filter_map(|attribute| attribute.value.as_mut()) {
        each_inside(value, visit);
    }
}

fn each_inside(value: &mut AnyValue, visit: &mut impl FnMut(&mut AnyValue)) {
    visit(value);
    match &mut value.value {
        Some(Any::ArrayValue(list)) => list.values.iter_mut().for_each(|inner| each_inside(inner, visit)),
        Some(Any::KvlistValue(list)) => {
            let values = list.values.iter_mut().filter_map(|pair| pair.value.as_mut());
            values.for_each(|inner| each_inside(inner, visit));
        }
        _ => {}
    }
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

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::ArrayValue;
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

    use super::*;
    use crate::receive::otlp::json;

    #[test]
    fn numbers_that_json_lacks_are_written_and_read_as_numbers() {
        let number = |number| AnyValue { value: Some(Any::DoubleValue(number)) };
        let attribute = |value| KeyValue { key: "a".to_owned(), value: Some(value), ..KeyValue::default() };
        let list = ArrayValue { values: vec![number(f64::NEG_INFINITY), number(1.5), number(f64::INFINITY)] };
        let list = AnyValue { value: Some(Any::ArrayValue(list)) };
        let span = Span { attributes: vec![attribute(list)], ..Span::default() };
        let resource = Resource { attributes: vec![attribute(number(f64::NAN))], ..Resource::default() };
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource),
                scope_spans: vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }],
                ..ResourceSpans::default()
            }],
        };
        let mut marked = request.clone();
        assert!(mark(&mut marked) && !mark(&mut ExportTraceServiceRequest::default()));
        let mut shown = serde_json::to_value(&marked).unwrap();
        spell_out(&mut shown);
        let text = shown.to_string();
        for expected in [
            r#"{"doubleValue":"NaN"}"#,
            r#"{"doubleValue":"-Infinity"}"#,
            r#"{"doubleValue":"Infinity"}"#,
            r#"{"doubleValue":1.5}"#,
        ] {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
        let read: ExportTraceServiceRequest = json::decode(text.as_bytes()).unwrap();
        // NaN is not equal to itself.
        assert_eq!(format!("{read:?}"), format!("{request:?}"));
    }
}
