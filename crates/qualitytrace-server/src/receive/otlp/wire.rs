//! OTLP requests as bytes: checked against the schema and split by trace, without decoding a message.
//!
//! Decoding a rich span costs twenty times more than walking over it. A request is walked once, to be sure that it can
//! be decoded later, and is stored as received. Every request that this module accepts can be decoded by `prost`; a
//! property test checks this.

use std::collections::HashMap;

use bytes::{BufMut, Bytes, BytesMut};
use qualitytrace_core::id::{SpanId, TraceId};

use super::protobuf::{ProtobufError, check, fields, next_field};
use super::schema;
use super::sender::{Ends, MAX_LINKS, Senders};
use crate::receive::ingest::{Chunk, Lease, MemoryBudgetError, Split};
use crate::receive::register::LinkedSpan;

/// Bytes that are counted before they are leased: a lease for each span would cost more than the span.
const STEP: usize = 64 * 1024;
/// What a trace takes beside its items, here and until it is stored.
const TRACE_BYTES: usize = 512;

/// Why a request is not split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitError {
    /// It is not a valid request.
    Malformed(ProtobufError),
    /// The budget has no room for its parts.
    NoRoom(MemoryBudgetError),
}

impl From<ProtobufError> for SplitError {
    fn from(malformed: ProtobufError) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<MemoryBudgetError> for SplitError {
    fn from(short: MemoryBudgetError) -> Self {
        Self::NoRoom(short)
    }
}

/// Checks an `ExportTraceServiceRequest` and splits it by trace. The lease grows by what this takes.
pub fn split_traces(body: &Bytes, lease: &mut Lease) -> Result<Split, SplitError> {
    split(body, &schema::TRACES, lease)
}

/// Checks an `ExportLogsServiceRequest` and splits it by trace. The lease grows by what this takes.
pub fn split_logs(body: &Bytes, lease: &mut Lease) -> Result<Split, SplitError> {
    split(body, &schema::LOGS, lease)
}

/// One item of a request, with the index of its envelope.
pub(super) struct Item<'a> {
    pub(super) envelope: usize,
    pub(super) bytes: &'a [u8],
}

/// The context of items: one resource and one scope, as encoded fields without the items. The scopes of a resource
/// share its bytes.
pub(super) struct Envelope {
    pub(super) resource: Bytes,
    pub(super) scope: Vec<u8>,
}

fn split(body: &Bytes, signal: &schema::Signal, lease: &mut Lease) -> Result<Split, SplitError> {
    let mut envelopes = Vec::new();
    let mut order: Vec<(TraceId, Vec<Item<'_>>)> = Vec::new();
    let mut known: HashMap<TraceId, usize> = HashMap::new();
    let mut without_trace = 0;
    let mut last: Option<(TraceId, usize)> = None;
    let mut senders = Senders::default();
    let mut memory = Memory { lease, unpaid: 0 };
    // The chunks, or their packed form, may be a copy of the request; both are alive at the same time.
    memory.take(body.len())?;

    for field in fields(body, signal.request) {
        let field = field?;
        if field.number != 1 {
            continue;
        }
        let (resource, described) = resource_of(field.bytes, signal)?;
        memory.take(resource.len())?;
        let (mut ends, mut links) = (Ends::NONE, Vec::new());
        // A second walk: a list of the scopes would take eight times as much as empty ones do.
        for of_scope in fields(field.bytes, signal.resource) {
            let of_scope = of_scope?;
            if of_scope.number != 2 {
                continue;
            }
            let mut scope = Vec::new();
            let mut has_items = false;
            for inner in fields(of_scope.bytes, signal.scope) {
                let inner = inner?;
                if inner.number != 2 {
                    check(&inner, signal.scope, 0)?;
                    scope.extend_from_slice(inner.whole);
                    continue;
                }
                let Some(trace) = scan_item(inner.bytes, signal, &mut ends, &mut links)? else {
                    without_trace += 1;
                    continue;
                };
                let at = match last {
                    Some((previous, at)) if previous == trace => at,
                    _ => *known.entry(trace).or_insert_with(|| {
                        memory.unpaid += TRACE_BYTES;
                        order.push((trace, Vec::new()));
                        order.len() - 1
                    }),
                };
                last = Some((trace, at));
                // A list grows to twice its length.
                memory.take(2 * size_of::<Item<'_>>())?;
                order[at].1.push(Item { envelope: envelopes.len(), bytes: inner.bytes });
                has_items = true;
            }
            if has_items {
                memory.take(2 * size_of::<Envelope>() + scope.capacity())?;
                envelopes.push(Envelope { resource: resource.clone(), scope });
            }
        }
        senders.add(described, ends, links);
    }

    let whole = order.len() == 1 && without_trace == 0;
    let framed = |(_, items): &(TraceId, Vec<Item<'_>>)| framed_size(items, &envelopes);
    let copied: usize = if whole { 0 } else { order.iter().map(framed).sum() };
    memory.take(copied.saturating_sub(body.len()))?;
    memory.pay()?;
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

/// Memory that is counted as it is taken, and leased in steps.
struct Memory<'l> {
    lease: &'l mut Lease,
    unpaid: usize,
}

impl Memory<'_> {
    fn take(&mut self, bytes: usize) -> Result<(), MemoryBudgetError> {
        self.unpaid += bytes;
        if self.unpaid < STEP { Ok(()) } else { self.pay() }
    }

    fn pay(&mut self) -> Result<(), MemoryBudgetError> {
        self.lease.grow(std::mem::take(&mut self.unpaid) as u64)
    }
}

/// Checks and copies the fields around the scopes of a resource; returns the resource itself as well.
fn resource_of<'a>(list: &'a [u8], signal: &schema::Signal) -> Result<(Bytes, &'a [u8]), ProtobufError> {
    let mut others = Vec::new();
    let mut described: &[u8] = &[];
    for inner in fields(list, signal.resource) {
        let inner = inner?;
        if inner.number != 2 {
            check(&inner, signal.resource, 0)?;
            others.extend_from_slice(inner.whole);
            if inner.number == 1 {
                described = inner.bytes;
            }
        }
    }
    Ok((others.into(), described))
}

/// Checks one span or log record, returns its trace id, and records its end time and its links to other traces.
fn scan_item(
    bytes: &[u8],
    signal: &schema::Signal,
    ends: &mut Ends,
    links: &mut Vec<LinkedSpan>,
) -> Result<Option<TraceId>, ProtobufError> {
    let mut trace = None;
    let before = links.len();
    let mut rest = bytes;
    while !rest.is_empty() {
        let field = next_field(rest, signal.item.name)?;
        check(&field, signal.item, 0)?;
        if field.number == signal.trace_id {
            trace = TraceId::from_slice(field.bytes);
        } else if Some(field.number) == signal.end {
            ends.note(field.bytes);
        } else if Some(field.number) == signal.links && links.len() < MAX_LINKS {
            links.extend(link(field.bytes)?);
        }
        rest = &rest[field.whole.len()..];
    }
    if links.len() > before {
        let found = links.split_off(before);
        links.extend(found.into_iter().filter(|linked| trace != Some(linked.trace)));
    }
    Ok(trace)
}

/// The span that an encoded link points to.
fn link(bytes: &[u8]) -> Result<Option<LinkedSpan>, ProtobufError> {
    let (mut trace, mut id) = (None, None);
    for field in fields(bytes, &schema::LINK) {
        let field = field?;
        match field.number {
            1 => trace = TraceId::from_slice(field.bytes),
            2 => id = SpanId::from_slice(field.bytes),
            _ => {}
        }
    }
    Ok(trace.zip(id).map(|(trace, id)| LinkedSpan { trace, id }))
}

/// Encodes a request that holds only these items, in their envelopes.
pub(super) fn frame(items: &[Item<'_>], envelopes: &[Envelope]) -> Bytes {
    let mut out = BytesMut::with_capacity(framed_size(items, envelopes));
    for group in by_envelope(items) {
        let envelope = &envelopes[group[0].envelope];
        let (scope_size, resource_size) = sizes(group, envelope);
        put_delimiter(&mut out, 1, resource_size);
        out.put_slice(&envelope.resource);
        put_delimiter(&mut out, 2, scope_size);
        out.put_slice(&envelope.scope);
        for item in group {
            put_delimiter(&mut out, 2, item.bytes.len());
            out.put_slice(item.bytes);
        }
    }
    out.freeze()
}

fn framed_size(items: &[Item<'_>], envelopes: &[Envelope]) -> usize {
    let groups = by_envelope(items).map(|group| sizes(group, &envelopes[group[0].envelope]));
    groups.map(|(_, resource)| delimited_size(resource)).sum()
}

fn by_envelope<'i, 'a>(items: &'i [Item<'a>]) -> impl Iterator<Item = &'i [Item<'a>]> {
    items.chunk_by(|a, b| a.envelope == b.envelope)
}

/// Returns the sizes of the scope's and the resource's list around these items.
fn sizes(group: &[Item<'_>], envelope: &Envelope) -> (usize, usize) {
    let items: usize = group.iter().map(|item| delimited_size(item.bytes.len())).sum();
    let scope = envelope.scope.len() + items;
    (scope, envelope.resource.len() + delimited_size(scope))
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
