//! The weight of an encoded request: what it takes in memory once it is decoded, counted without decoding it.
//!
//! An attribute of seven bytes takes fifteen times as much when it is decoded: the size of a request does not tell.

use super::protobuf::next_field;
use super::schema::{ANY_VALUE, KEY_VALUE, Kind, Message, TRACES};

/// Counts the values of an encoded `ExportTraceServiceRequest`: attributes, their values, and the members of lists and
/// objects. Only checked requests are stored; of one that is damaged, what can be read counts.
pub(crate) fn values(request: &[u8]) -> u64 {
    values_in(request, TRACES.request)
}

fn values_in(bytes: &[u8], message: &'static Message) -> u64 {
    let (mut count, mut rest) = (0, bytes);
    while let Ok(field) = next_field(rest, message.name) {
        rest = &rest[field.whole.len()..];
        if let Kind::Message(inner) = message.field(field.number) {
            count += values_in(field.bytes, inner);
            let is_value = [&raw const KEY_VALUE, &raw const ANY_VALUE].contains(&std::ptr::from_ref(*inner));
            count += u64::from(is_value);
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use prost::Message as _;

    use super::*;

    #[test]
    fn values_count_wherever_they_are() {
        let any = |value| AnyValue { value: Some(value) };
        let pair = |value| KeyValue { key: "a".to_owned(), value: Some(any(value)), ..KeyValue::default() };
        let list = Value::ArrayValue(ArrayValue { values: vec![any(Value::IntValue(1)); 3] });
        let span = Span {
            attributes: vec![pair(Value::BoolValue(true)), pair(list)],
            events: vec![Event { attributes: vec![pair(Value::IntValue(1))], ..Event::default() }],
            links: vec![Link { attributes: vec![pair(Value::IntValue(1))], ..Link::default() }],
            ..Span::default()
        };
        let request = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(Resource {
                    attributes: vec![pair(Value::IntValue(1))],
                    ..Resource::default()
                }),
                scope_spans: vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }],
                ..ResourceSpans::default()
            }],
        };
        let encoded = request.encode_to_vec();
        // Five attributes with their values, and three members of the list.
        assert_eq!(values(&encoded), 5 * 2 + 3);
        assert!(values(&encoded[..encoded.len() - 1]) <= 5 * 2 + 3);
        assert_eq!(values(b"\xff"), 0);
    }
}
