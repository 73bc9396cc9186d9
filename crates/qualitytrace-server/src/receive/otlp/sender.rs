//! The senders of a request: the processes that its resources describe.
//!
//! A sender is read from the encoded bytes, once for each resource; of its spans only the first and the last end time
//! are read.

use std::collections::HashMap;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::register::ProcessAttributes;

use super::protobuf::{fields, varint};
use super::schema::{ANY_VALUE, KEY_VALUE, RESOURCE};
use crate::receive::register::{LinkedSpan, Sender};

/// Senders of one request that are recorded; further ones are ignored.
const MAX_SENDERS: usize = 1_024;
/// Links to other traces of one sender that are recorded; further ones are ignored.
pub(super) const MAX_LINKS: usize = 1_024;
/// Longer names are truncated.
const MAX_NAME_BYTES: usize = 256;

/// The first and the last end time of spans, in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    first: u64,
    last: u64,
}

impl Ends {
    /// The value for no spans.
    pub(super) const NONE: Self = Self { first: u64::MAX, last: 0 };

    pub(super) fn note(&mut self, fixed: &[u8]) {
        // Zero means that the end time is unknown.
        if let Some(end) = fixed.try_into().ok().map(u64::from_le_bytes).filter(|end| *end > 0) {
            self.join(Self { first: end, last: end });
        }
    }

    fn join(&mut self, other: Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

/// The senders of a request, without duplicates.
#[derive(Debug, Default)]
pub(super) struct Senders<'a> {
    known: HashMap<Described<'a>, usize>,
    list: Vec<(Described<'a>, Ends, Vec<LinkedSpan>)>,
}

impl<'a> Senders<'a> {
    /// Adds the process that an encoded resource describes, with the end times of its spans, and the spans of other traces
    /// that they link to.
    pub(super) fn add(&mut self, resource: &'a [u8], ends: Ends, links: Vec<LinkedSpan>) {
        let described = Described::read(resource);
        if let Some(at) = self.known.get(&described) {
            let (_, known_ends, known_links) = &mut self.list[*at];
            known_ends.join(ends);
            known_links.extend(links);
            known_links.truncate(MAX_LINKS);
        } else if self.list.len() < MAX_SENDERS {
            self.known.insert(described, self.list.len());
            self.list.push((described, ends, links));
        }
    }

    pub(super) fn into_list(self) -> Vec<Sender> {
        self.list.into_iter().map(|(described, ends, links)| described.sender(ends, links)).collect()
    }
}

/// The service and the process that a resource describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Described<'a> {
    service: &'a str,
    process: ProcessAttributes<'a>,
}

impl<'a> Described<'a> {
    /// Reads an encoded resource; its bytes must have been checked before.
    fn read(resource: &'a [u8]) -> Self {
        let mut described = Self::default();
        for pair in fields(resource, &RESOURCE).flatten().filter(|field| field.number == 1) {
            let (mut key, mut value): (&[u8], &[u8]) = (&[], &[]);
            for field in fields(pair.bytes, &KEY_VALUE).flatten() {
                match field.number {
                    1 => key = field.bytes,
                    2 => value = field.bytes,
                    _ => {}
                }
            }
            let key = cut(key);
            for field in fields(value, &ANY_VALUE).flatten() {
                match field.number {
                    1 if key == "service.name" => described.service = cut(field.bytes),
                    1 => described.process.note(key, cut(field.bytes)),
                    3 => {
                        let number = varint(field.bytes, ANY_VALUE.name).map_or(0, |(number, _)| number);
                        described.process.note_number(key, number.cast_signed());
                    }
                    _ => {}
                }
            }
        }
        described
    }

    fn sender(&self, ends: Ends, links: Vec<LinkedSpan>) -> Sender {
        Sender {
            service: self.service.to_owned(),
            process: self.process.identity(),
            ends: (ends.last > 0)
                .then(|| (Timestamp::from_nanos(ends.first), Timestamp::from_nanos(ends.last))),
            links,
        }
    }
}

/// The text of a checked field, truncated; nothing if it is not UTF-8.
fn cut(text: &[u8]) -> &str {
    let text = std::str::from_utf8(text).unwrap_or_default();
    &text[..text.floor_char_boundary(MAX_NAME_BYTES)]
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use prost::Message;

    use qualitytrace_core::wait::register::Identity;

    use super::*;
    use crate::receive::ingest::Budget;
    use crate::receive::otlp::wire::split_traces;

    fn resource(attributes: &[(&str, Value)]) -> Resource {
        let pair = |(key, value): &(&str, Value)| KeyValue {
            key: (*key).to_owned(),
            value: Some(AnyValue { value: Some(value.clone()) }),
            ..KeyValue::default()
        };
        Resource { attributes: attributes.iter().map(pair).collect(), ..Resource::default() }
    }

    fn text(text: &str) -> Value {
        Value::StringValue(text.to_owned())
    }

    /// Service, instance, and the first and last end time of its spans.
    type Expected = (&'static str, &'static str, Option<(u64, u64)>);

    /// Checks the senders of a request with these resources, each with spans of these end times.
    fn check(resources: &[(Resource, &[u64])], expected: &[Expected]) {
        let spans = |ends: &[u64]| {
            let span = |end: &u64| Span {
                trace_id: vec![1; 16],
                span_id: vec![2; 8],
                end_time_unix_nano: *end,
                ..Span::default()
            };
            ends.iter().map(span).collect()
        };
        let resource_spans = resources.iter().map(|(resource, ends)| ResourceSpans {
            resource: Some(resource.clone()),
            scope_spans: vec![ScopeSpans { spans: spans(ends), ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        });
        let request = ExportTraceServiceRequest { resource_spans: resource_spans.collect() };
        let mut lease = Budget::new(1 << 20).lease().unwrap();
        let found = split_traces(&request.encode_to_vec().into(), &mut lease).unwrap().senders;
        let expected = expected.iter().map(|(service, instance, ends)| Sender {
            service: (*service).to_owned(),
            process: process(instance),
            ends: ends.map(|(first, last)| (Timestamp::from_nanos(first), Timestamp::from_nanos(last))),
            links: Vec::new(),
        });
        assert_eq!(found, expected.collect::<Vec<_>>());
    }

    /// The identity of a process; one with its process id in the name is a process of its own.
    fn process(instance: &str) -> Identity {
        Identity { id: instance.into(), is_named: instance.contains('/'), can_freeze: false }
    }

    #[test]
    fn an_instance_is_known_by_its_id_else_by_host_and_process() {
        let named = resource(&[
            ("service.name", text("shop")),
            ("service.instance.id", text("a")),
            ("host.name", text("h")),
            ("process.pid", Value::IntValue(7)),
        ]);
        let process = resource(&[
            ("process.pid", Value::IntValue(7)),
            ("service.name", text("shop")),
            ("host.name", text("h")),
        ]);
        let host = resource(&[("service.name", text("shop")), ("host.name", text("h"))]);
        let expected =
            [("shop", "a/7", Some((5, 5))), ("shop", "h/7", Some((6, 6))), ("shop", "h", Some((7, 7)))];
        check(&[(named, &[5]), (process, &[6]), (host, &[7])], &expected);
    }

    #[test]
    fn what_one_process_has_in_several_places_is_one() {
        let shop = resource(&[("service.name", text("shop"))]);
        let unnamed = resource(&[]);
        check(
            &[(shop.clone(), &[30, 10]), (unnamed, &[]), (shop, &[20, 0, 40])],
            &[("shop", "", Some((10, 40))), ("", "", None)],
        );
    }

    #[test]
    fn a_process_without_a_name_is_known_by_where_it_sends_from() {
        let sender = |instance: &str| Sender {
            service: "shop".to_owned(),
            process: Identity { is_named: false, ..process(instance) },
            ends: None,
            links: Vec::new(),
        };
        let from = Some("::ffff:10.0.0.7".parse().unwrap());
        assert_eq!(sender("").at(from), sender("10.0.0.7"));
        assert_eq!(sender("a").at(from), sender("a"));
        assert_eq!(sender("").at(None), sender(""));
    }

    #[test]
    fn long_names_are_cut_off() {
        let long = "é".repeat(MAX_NAME_BYTES);
        let encoded = resource(&[("service.name", text(&long))]).encode_to_vec();
        let sender = Described::read(&encoded).sender(Ends::NONE, Vec::new());
        assert_eq!(sender.service, "é".repeat(MAX_NAME_BYTES / 2));
    }
}
