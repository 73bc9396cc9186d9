//! OTLP requests as bytes: checked against the schema and split by trace, without decoding a message.
//!
//! Decoding a rich span costs twenty times more than walking over it. A request is walked once, to be sure that it can
//! be decoded later, and is stored as received. Every request that this module accepts can be decoded by `prost`; a
//! property test checks this.

use std::collections::HashMap;

use bytes::{BufMut, Bytes, BytesMut};
use qualitytrace_core::id::TraceId;

use super::protobuf::{Malformed, check, fields, next_field};
use super::schema;
use super::sender::{Ends, Senders};
use crate::ingest::{Chunk, Split};

/// Checks an `ExportTraceServiceRequest` and splits it by trace.
pub fn split_traces(body: &Bytes) -> Result<Split, Malformed> {
    split(body, &schema::TRACES)
}

/// Checks an `ExportLogsServiceRequest` and splits it by trace.
pub fn split_logs(body: &Bytes) -> Result<Split, Malformed> {
    split(body, &schema::LOGS)
}

/// One item of a request, with the index of its envelope.
pub(super) struct Item<'a> {
    pub(super) envelope: usize,
    pub(super) bytes: &'a [u8],
}

/// The context of items: one resource and one scope, as encoded fields without the items.
pub(super) struct Envelope {
    pub(super) resource: Vec<u8>,
    pub(super) scope: Vec<u8>,
}

fn split(body: &Bytes, signal: &schema::Signal) -> Result<Split, Malformed> {
    let mut envelopes = Vec::new();
    let mut order: Vec<(TraceId, Vec<Item<'_>>)> = Vec::new();
    let mut known: HashMap<TraceId, usize> = HashMap::new();
    let mut without_trace = 0;
    let mut last: Option<(TraceId, usize)> = None;
    let mut senders = Senders::default();

    for field in fields(body, signal.request) {
        let field = field?;
        if field.number != 1 {
            continue;
        }
        let mut resource = Vec::new();
        let mut scopes = Vec::new();
        let mut described: &[u8] = &[];
        let mut ends = Ends::NONE;
        for inner in fields(field.bytes, signal.resource) {
            let inner = inner?;
            if inner.number == 2 {
                scopes.push(inner.bytes);
            } else {
                check(&inner, signal.resource, 0)?;
                resource.extend_from_slice(inner.whole);
                if inner.number == 1 {
                    described = inner.bytes;
                }
            }
        }
        for scope_bytes in scopes {
            let envelope = envelopes.len();
            let mut scope = Vec::new();
            for inner in fields(scope_bytes, signal.scope) {
                let inner = inner?;
                if inner.number != 2 {
                    check(&inner, signal.scope, 0)?;
                    scope.extend_from_slice(inner.whole);
                    continue;
                }
                let Some(trace) = scan_item(inner.bytes, signal, &mut ends)? else {
                    without_trace += 1;
                    continue;
                };
                let at = match last {
                    Some((previous, at)) if previous == trace => at,
                    _ => *known.entry(trace).or_insert_with(|| {
                        order.push((trace, Vec::new()));
                        order.len() - 1
                    }),
                };
                last = Some((trace, at));
                order[at].1.push(Item { envelope, bytes: inner.bytes });
            }
            envelopes.push(Envelope { resource: resource.clone(), scope });
        }
        senders.add(described, ends);
    }

    let whole = order.len() == 1 && without_trace == 0;
    let chunks = order
        .into_iter()
        .map(|(trace, items)| Chunk {
            trace,
            items: u32::try_from(items.len()).unwrap_or(u32::MAX),
            data: if whole { body.clone() } else { frame(&items, &envelopes) },
        })
        .collect();
    Ok(Split { chunks, without_trace, senders: senders.into_list() })
}

/// Checks one span or log record, returns its trace id, and records its end time.
fn scan_item(bytes: &[u8], signal: &schema::Signal, ends: &mut Ends) -> Result<Option<TraceId>, Malformed> {
    let mut trace = None;
    let mut rest = bytes;
    while !rest.is_empty() {
        let field = next_field(rest, signal.item.name)?;
        check(&field, signal.item, 0)?;
        if field.number == signal.trace_id {
            trace = TraceId::from_slice(field.bytes);
        } else if Some(field.number) == signal.end {
            ends.note(field.bytes);
        }
        rest = &rest[field.whole.len()..];
    }
    Ok(trace)
}

/// Encodes a request that holds only these items, in their envelopes.
pub(super) fn frame(items: &[Item<'_>], envelopes: &[Envelope]) -> Bytes {
    let mut out = BytesMut::new();
    for group in items.chunk_by(|a, b| a.envelope == b.envelope) {
        let Envelope { resource, scope } = &envelopes[group[0].envelope];
        let items_size: usize = group.iter().map(|item| delimited_size(item.bytes.len())).sum();
        let scope_size = scope.len() + items_size;
        let resource_size = resource.len() + delimited_size(scope_size);
        out.reserve(delimited_size(resource_size));
        put_delimiter(&mut out, 1, resource_size);
        out.put_slice(resource);
        put_delimiter(&mut out, 2, scope_size);
        out.put_slice(scope);
        for item in group {
            put_delimiter(&mut out, 2, item.bytes.len());
            out.put_slice(item.bytes);
        }
    }
    out.freeze()
}

/// Returns the size of a length-delimited field with a one-byte key.
fn delimited_size(length: usize) -> usize {
    1 + prost::length_delimiter_len(length) + length
}

fn put_delimiter(out: &mut BytesMut, field: u8, length: usize) {
    out.put_u8(field << 3 | 2);
    let mut rest = length;
    while rest >= 0x80 {
        out.put_u8(u8::try_from(rest & 0x7f).unwrap_or(0) | 0x80);
        rest >>= 7;
    }
    out.put_u8(u8::try_from(rest).unwrap_or(0));
}
