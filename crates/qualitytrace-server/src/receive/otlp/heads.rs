//! Heads of spans: what a list of spans shows of each, read from an encoded request without decoding its attributes.

use bytes::Bytes;
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{SpanKind, StatusCode};

use super::protobuf::{Field, ProtobufError, fields, varint};
use super::schema::{ANY_VALUE, KEY_VALUE, Message, RESOURCE, STATUS, TRACES};
use super::wire::{Envelope, Item, frame};

/// The head of a span.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'r> {
    /// Its id; `None` when it was sent without one.
    pub(crate) id: Option<SpanId>,
    /// The parent that it names.
    pub(crate) parent: Option<SpanId>,
    pub(crate) name: &'r str,
    /// `service.name` of its resource; empty when that is not set.
    pub(crate) service: &'r str,
    pub(crate) kind: SpanKind,
    pub(crate) status: StatusCode,
    pub(crate) start: Timestamp,
    /// `None` while it is still running.
    pub(crate) end: Option<Timestamp>,
    pub(crate) has_events: bool,
    pub(crate) has_links: bool,
}

/// Visits the heads of the spans of one trace in an encoded `ExportTraceServiceRequest`, in their order.
pub(crate) fn heads<'r>(
    request: &'r [u8],
    trace: TraceId,
    mut visit: impl FnMut(Head<'r>),
) -> Result<(), ProtobufError> {
    each_scope(request, |of_resource, of_scope| {
        // The resource may be encoded after its spans, and in parts.
        let mut service = "";
        for inner in fields(of_resource, TRACES.resource) {
            let inner = inner?;
            if inner.number == 1 {
                service = service_name(inner.bytes)?.unwrap_or(service);
            }
        }
        for span in fields(of_scope, TRACES.scope) {
            let span = span?;
            if span.number == 2
                && let Some(head) = head(span.bytes, trace, service)?
            {
                visit(head);
            }
        }
        Ok(())
    })
}

/// Returns a request with nothing but the last span of a trace for which this holds, its resource and its scope.
pub(crate) fn excerpt(
    request: &[u8],
    trace: TraceId,
    is_wanted: impl Fn(&Head<'_>) -> bool,
) -> Result<Option<Bytes>, ProtobufError> {
    let mut found = None;
    each_scope(request, |of_resource, of_scope| {
        for span in fields(of_scope, TRACES.scope) {
            let span = span?;
            if span.number == 2 && head(span.bytes, trace, "")?.is_some_and(|head| is_wanted(&head)) {
                found = Some((of_resource, of_scope, span.bytes));
            }
        }
        Ok(())
    })?;
    let Some((of_resource, of_scope, bytes)) = found else { return Ok(None) };
    let envelope = Envelope {
        resource: without_items(of_resource, TRACES.resource)?.into(),
        scope: without_items(of_scope, TRACES.scope)?,
    };
    Ok(Some(frame(&[Item { envelope: 0, bytes }], &[envelope])))
}

/// Visits each list of spans of one scope, with that of its resource around it; both encoded.
fn each_scope<'r>(
    request: &'r [u8],
    mut visit: impl FnMut(&'r [u8], &'r [u8]) -> Result<(), ProtobufError>,
) -> Result<(), ProtobufError> {
    for of_resource in fields(request, TRACES.request) {
        let of_resource = of_resource?;
        if of_resource.number != 1 {
            continue;
        }
        for of_scope in fields(of_resource.bytes, TRACES.resource) {
            let of_scope = of_scope?;
            if of_scope.number == 2 {
                visit(of_resource.bytes, of_scope.bytes)?;
            }
        }
    }
    Ok(())
}

/// The fields of a list of items that describe where these come from.
fn without_items(list: &[u8], message: &'static Message) -> Result<Vec<u8>, ProtobufError> {
    let mut rest = Vec::new();
    for field in fields(list, message) {
        let field = field?;
        if field.number != 2 {
            rest.extend_from_slice(field.whole);
        }
    }
    Ok(rest)
}

/// Reads `service.name` of an encoded resource. An empty text means that it is set to something other than a text.
fn service_name(resource: &[u8]) -> Result<Option<&str>, ProtobufError> {
    let mut service = None;
    for pair in fields(resource, &RESOURCE) {
        let pair = pair?;
        if pair.number != 1 {
            continue;
        }
        let (mut key, mut value): (&[u8], &str) = (&[], "");
        for field in fields(pair.bytes, &KEY_VALUE) {
            let field = field?;
            match field.number {
                1 => key = field.bytes,
                2 => {
                    for inner in fields(field.bytes, &ANY_VALUE) {
                        let inner = inner?;
                        value = if inner.number == 1 { text(inner.bytes) } else { "" };
                    }
                }
                _ => {}
            }
        }
        if key == b"service.name" {
            service = Some(value);
        }
    }
    Ok(service)
}

/// Reads the head of an encoded span; `None` if it belongs to another trace.
fn head<'r>(span: &'r [u8], trace: TraceId, service: &'r str) -> Result<Option<Head<'r>>, ProtobufError> {
    let mut of = None;
    let mut head = Head {
        id: None,
        parent: None,
        name: "",
        service,
        kind: SpanKind::Unspecified,
        status: StatusCode::Unset,
        start: Timestamp::default(),
        end: None,
        has_events: false,
        has_links: false,
    };
    for field in fields(span, TRACES.item) {
        let field = field?;
        match field.number {
            1 => of = TraceId::from_slice(field.bytes),
            2 => head.id = SpanId::from_slice(field.bytes),
            4 => head.parent = SpanId::from_slice(field.bytes),
            5 => head.name = text(field.bytes),
            6 => head.kind = kind(number(&field)),
            7 => head.start = Timestamp::from_nanos(fixed(&field)),
            8 => head.end = Some(fixed(&field)).filter(|end| *end != 0).map(Timestamp::from_nanos),
            11 => head.has_events = true,
            13 => head.has_links = true,
            15 => {
                for inner in fields(field.bytes, &STATUS) {
                    let inner = inner?;
                    if inner.number == 3 {
                        head.status = status(number(&inner));
                    }
                }
            }
            _ => {}
        }
    }
    Ok((of == Some(trace)).then_some(head))
}

/// Texts of stored requests were checked when they arrived.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn fixed(field: &Field<'_>) -> u64 {
    field.bytes.try_into().map(u64::from_le_bytes).unwrap_or_default()
}

fn number(field: &Field<'_>) -> u64 {
    varint(field.bytes, TRACES.item.name).map_or(0, |(number, _)| number)
}

const fn kind(number: u64) -> SpanKind {
    match number {
        1 => SpanKind::Internal,
        2 => SpanKind::Server,
        3 => SpanKind::Client,
        4 => SpanKind::Producer,
        5 => SpanKind::Consumer,
        _ => SpanKind::Unspecified,
    }
}

const fn status(number: u64) -> StatusCode {
    match number {
        1 => StatusCode::Ok,
        2 => StatusCode::Error,
        _ => StatusCode::Unset,
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;
    use crate::receive::otlp::convert;

    fn service(value: Value) -> KeyValue {
        let value = Some(AnyValue { value: Some(value) });
        KeyValue { key: "service.name".to_owned(), value, ..KeyValue::default() }
    }

    prop_compose! {
        fn span()(
            trace in 1..3_u8, id in 0..3_u8, parent in 0..3_u8, name in ".{0,8}", kind in 0..7, status in 0..4,
            times in (0..3_u64, 0..3_u64), events in 0..2_usize, links in 0..2_usize, has_status: bool,
        ) -> Span {
            Span {
                trace_id: vec![trace; 16],
                span_id: vec![id; 8],
                parent_span_id: vec![parent; 8],
                name,
                kind,
                start_time_unix_nano: times.0,
                end_time_unix_nano: times.1,
                events: vec![Event::default(); events],
                links: vec![Link::default(); links],
                status: has_status.then(|| Status { message: "no".to_owned(), code: status }),
                ..Span::default()
            }
        }
    }

    prop_compose! {
        fn of_resource()(
            spans in prop::collection::vec(span(), 0..4), names in prop::collection::vec(".{0,4}", 0..3), number: bool,
        ) -> ResourceSpans {
            let mut attributes: Vec<_> = names.into_iter().map(|name| service(Value::StringValue(name))).collect();
            attributes.extend(number.then(|| service(Value::IntValue(1))));
            ResourceSpans {
                resource: Some(Resource { attributes, ..Resource::default() }),
                scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
                ..ResourceSpans::default()
            }
        }
    }

    proptest! {
        #[test]
        fn a_head_says_what_the_decoded_span_says(resource_spans in prop::collection::vec(of_resource(), 0..3)) {
            let request = ExportTraceServiceRequest { resource_spans };
            let (bytes, trace) = (request.encode_to_vec(), TraceId::from_bytes([1; 16]).unwrap());
            let decoded = convert::spans(request).into_iter().filter(|(of, _)| *of == Some(trace));
            let expected: Vec<String> = decoded
                .map(|(_, span)| {
                    let status = span.status.as_ref().map(|status| status.code).unwrap_or_default();
                    let lists = (!span.events.is_empty(), !span.links.is_empty());
                    let own = (span.id, span.parent, &*span.name, span.service(), span.kind, status);
                    format!("{own:?} {:?} {lists:?}", (span.start, span.end))
                })
                .collect();
            let mut found = Vec::new();
            heads(&bytes, trace, |head| {
                let own = (head.id, head.parent, head.name, head.service, head.kind, head.status);
                found.push(format!("{own:?} {:?} {:?}", (head.start, head.end), (head.has_events, head.has_links)));
            })
            .unwrap();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn an_excerpt_is_the_last_copy_of_a_span_with_its_resource(
            resource_spans in prop::collection::vec(of_resource(), 0..3), id in 1..3_u8,
        ) {
            let request = ExportTraceServiceRequest { resource_spans };
            let (bytes, trace) = (request.encode_to_vec(), TraceId::from_bytes([1; 16]).unwrap());
            let id = SpanId::from_bytes([id; 8]);
            let mut decoded = convert::spans(request).into_iter();
            let expected = decoded.rfind(|(of, span)| *of == Some(trace) && span.id == id);
            let found = excerpt(&bytes, trace, |head| head.id == id).unwrap();
            let found = found.map(|one| convert::spans(ExportTraceServiceRequest::decode(one).unwrap()));
            prop_assert_eq!(found, expected.map(|span| vec![span]));
        }
    }
}
