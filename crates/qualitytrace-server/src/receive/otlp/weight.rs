//! The weight of an encoded request: what it takes in memory once it is decoded, counted without decoding it.
//!
//! An attribute of seven bytes takes fifteen times as much when it is decoded: the size of a request does not tell.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, EntityRef, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;

use super::protobuf::{MAX_DEPTH, ProtobufError, fields, next_field};
use super::schema::{ANY_VALUE, KEY_VALUE, Kind, Message, TRACES};
use crate::base::decode::{DecodeError, Room};

/// A list grows to twice its length.
const GROWTH: u64 = 2;
/// What a text takes beside its letters: the smallest piece of memory that there is.
const TEXT: u64 = 32;
/// The same of a text in a list.
const TEXT_IN_LIST: u64 = TEXT + GROWTH * size_of::<String>() as u64;

/// Decodes an encoded `ExportTraceServiceRequest`, or any message whose first field is the same, within this room.
pub(crate) fn decode_traces(
    request: Bytes,
    room: &mut impl Room,
) -> Result<ExportTraceServiceRequest, DecodeError> {
    let weight = decoded_weight(&request, TRACES.request, 0);
    room.take(weight.map_err(|malformed| DecodeError::Malformed(malformed.to_string()))?)?;
    Ok(ExportTraceServiceRequest::decode(request)?)
}

/// The memory that an encoded message takes when it is decoded.
fn decoded_weight(bytes: &[u8], message: &'static Message, depth: u32) -> Result<u64, ProtobufError> {
    let mut weight = 0;
    for field in fields(bytes, message) {
        let field = field?;
        weight += match message.field(field.number) {
            Kind::Message(inner) if depth >= MAX_DEPTH => return Err(ProtobufError::Depth(inner.name)),
            Kind::Message(inner) => GROWTH * size(inner) + decoded_weight(field.bytes, inner, depth + 1)?,
            Kind::Text if message.name == "EntityRef" => TEXT_IN_LIST + field.bytes.len() as u64,
            Kind::Text | Kind::Bytes => TEXT + field.bytes.len() as u64,
            Kind::Unknown | Kind::Varint | Kind::Fixed64 | Kind::Fixed32 => 0,
        };
    }
    Ok(weight)
}

/// The size of a decoded message, without what it points to.
fn size(message: &Message) -> u64 {
    let size = match message.name {
        "ResourceSpans" => size_of::<ResourceSpans>(),
        "Resource" => size_of::<Resource>(),
        "EntityRef" => size_of::<EntityRef>(),
        "ScopeSpans" => size_of::<ScopeSpans>(),
        "InstrumentationScope" => size_of::<InstrumentationScope>(),
        "Span.Event" => size_of::<Event>(),
        "Span.Link" => size_of::<Link>(),
        "Status" => size_of::<Status>(),
        "KeyValue" => size_of::<KeyValue>(),
        "AnyValue" | "ArrayValue" | "KeyValueList" => size_of::<AnyValue>(),
        // The largest of them.
        _ => size_of::<Span>(),
    };
    size as u64
}

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
    fn messages_weigh_what_they_become() {
        for size in [size_of::<ResourceSpans>(), size_of::<Event>(), size_of::<Link>()] {
            assert!(size <= size_of::<Span>(), "the span is no longer the largest");
        }
        let weight = |request: &[u8]| decoded_weight(request, TRACES.request, 0);
        // A thousand empty resources take two bytes each.
        let empty = ExportTraceServiceRequest { resource_spans: vec![ResourceSpans::default(); 1_000] };
        let expected = 1_000 * GROWTH * size_of::<ResourceSpans>() as u64;
        assert_eq!(weight(&empty.encode_to_vec()), Ok(expected));
        let mut room = crate::base::decode::Allowance::new(expected);
        assert_eq!(decode_traces(empty.encode_to_vec().into(), &mut room), Ok(empty.clone()));
        let mut room = crate::base::decode::Allowance::new(expected - 1);
        let refused = decode_traces(empty.encode_to_vec().into(), &mut room);
        assert_eq!(refused, Err(DecodeError::TooLarge { limit: expected - 1 }));
        // A group, which decoders skip, must not hide what follows.
        let hidden = [&[0x7b, 0x7c][..], &empty.encode_to_vec()].concat();
        assert!(weight(&hidden).is_err());
        let deep = (0..1_000).fold(Vec::new(), |inner: Vec<u8>, _| {
            let list = AnyValue { value: Some(Value::BytesValue(inner)) };
            // The same bytes as a list of values: field 5 of a value, and field 1 of a list.
            let list = list.encode_to_vec();
            [&[0x2a], &list[1..]].concat()
        });
        assert!(weight(&deep).is_ok());
    }

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
