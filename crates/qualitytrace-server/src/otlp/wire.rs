//! OTLP requests as bytes: checked against the schema and split by trace, without decoding a message.
//!
//! Decoding a rich span costs twenty times more than walking over it. A request is walked once, to be sure that it can
//! be decoded later, and is stored as received. Every request that this module accepts can be decoded by `prost`; a
//! property test checks this.

use std::collections::HashMap;

use bytes::{BufMut, Bytes, BytesMut};
use qualitytrace_core::id::TraceId;

use super::schema::{self, Kind, Message};
use super::sender::{Sender, Senders};

/// Deeper nesting than this is refused: protobuf decoders stop at 100, the levels around an item included.
const MAX_DEPTH: u32 = 90;

/// The items of one request that belong to one trace, encoded as a valid request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The trace.
    pub trace: TraceId,
    /// The number of spans or log records.
    pub items: u32,
    /// An encoded export request.
    pub data: Bytes,
}

/// A request, split by trace.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// One chunk for each trace, in the order in which the traces first appear.
    pub chunks: Vec<Chunk>,
    /// The number of items without a valid trace id.
    pub without_trace: u64,
    /// The processes that sent the items.
    pub senders: Vec<Sender>,
}

impl Split {
    /// Returns the number of spans or log records that have a trace.
    pub fn items(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.items)).sum()
    }
}

/// Why a body is not a valid OTLP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end inside a field.
    #[error("the message ends in the middle of `{0}`")]
    Truncated(&'static str),
    /// A number is longer than 64 bits, or a field number is not allowed.
    #[error("`{0}` holds an invalid protobuf number or key")]
    Number(&'static str),
    /// A field has another wire type than the schema says.
    #[error("field {1} of `{0}` has the wrong type")]
    WireType(&'static str, u32),
    /// A text field is not UTF-8.
    #[error("field {1} of `{0}` is not valid UTF-8")]
    Utf8(&'static str, u32),
    /// Values are nested too deeply.
    #[error("`{0}` is nested more than {MAX_DEPTH} levels deep")]
    Depth(&'static str),
}

/// Checks an `ExportTraceServiceRequest` and splits it by trace.
pub fn split_traces(body: &Bytes) -> Result<Split, Malformed> {
    split(body, &schema::TRACES)
}

/// Checks an `ExportLogsServiceRequest` and splits it by trace.
pub fn split_logs(body: &Bytes) -> Result<Split, Malformed> {
    split(body, &schema::LOGS)
}

/// The first and the last end time of spans, in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Ends {
    /// The value for no spans.
    pub(super) const NONE: Self = Self { first: u64::MAX, last: 0 };

    fn note(&mut self, fixed: &[u8]) {
        // Zero means that the end time is unknown.
        if let Some(end) = fixed.try_into().ok().map(u64::from_le_bytes).filter(|end| *end > 0) {
            self.join(Self { first: end, last: end });
        }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

/// One item of a request, with the index of its envelope.
struct Item<'a> {
    envelope: usize,
    bytes: &'a [u8],
}

/// The context of items: one resource and one scope, as encoded fields without the items.
struct Envelope {
    resource: Vec<u8>,
    scope: Vec<u8>,
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
fn frame(items: &[Item<'_>], envelopes: &[Envelope]) -> Bytes {
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

/// One field of an encoded message.
pub(super) struct Field<'a> {
    pub(super) number: u32,
    wire_type: u8,
    /// The content; for numbers, their encoding.
    pub(super) bytes: &'a [u8],
    /// The content with its key and length.
    whole: &'a [u8],
}

/// Iterates over the fields of an encoded message in their order; each is cut to its length.
pub(super) fn fields<'a>(
    bytes: &'a [u8],
    message: &'static Message,
) -> impl Iterator<Item = Result<Field<'a>, Malformed>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = next_field(rest, message.name);
        rest = field.as_ref().map_or(&[], |field| &rest[field.whole.len()..]);
        Some(field)
    })
}

// This and `check` run some seventy times for each span; as calls they cost twice as much.
#[expect(clippy::inline_always, reason = "measured: the compiler does not do it by itself")]
#[inline(always)]
fn next_field<'a>(bytes: &'a [u8], name: &'static str) -> Result<Field<'a>, Malformed> {
    let (key, key_size) = varint(bytes, name)?;
    let wire_type = (key & 7) as u8;
    let Ok(number @ 1..0x2000_0000) = u32::try_from(key >> 3) else {
        return Err(Malformed::Number(name));
    };
    let (start, size) = match wire_type {
        2 => {
            let (length, length_size) = varint(&bytes[key_size..], name)?;
            (key_size + length_size, usize::try_from(length).unwrap_or(usize::MAX))
        }
        0 => (key_size, varint(&bytes[key_size..], name)?.1),
        1 => (key_size, 8),
        5 => (key_size, 4),
        _ => return Err(Malformed::WireType(name, number)),
    };
    let (Some(whole), Some(content)) =
        (start.checked_add(size).and_then(|end| bytes.get(..end)), bytes.get(start..))
    else {
        return Err(Malformed::Truncated(name));
    };
    Ok(Field { number, wire_type, bytes: &content[..size], whole })
}

#[inline]
pub(super) fn varint(bytes: &[u8], name: &'static str) -> Result<(u64, usize), Malformed> {
    match bytes {
        [byte @ 0..0x80, ..] => Ok((u64::from(*byte), 1)),
        [low, high @ 0..0x80, ..] => Ok((u64::from(low & 0x7f) | u64::from(*high) << 7, 2)),
        _ => long_varint(bytes, name),
    }
}

fn long_varint(bytes: &[u8], name: &'static str) -> Result<(u64, usize), Malformed> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        if at == 9 && *byte > 1 {
            return Err(Malformed::Number(name));
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((value, at + 1));
        }
    }
    Err(if bytes.len() < 10 { Malformed::Truncated(name) } else { Malformed::Number(name) })
}

/// Checks a field against the schema, recursively. Fields that the schema does not know pass.
#[expect(clippy::inline_always, reason = "measured: the compiler does not do it by itself")]
#[inline(always)]
fn check(field: &Field<'_>, message: &'static Message, depth: u32) -> Result<(), Malformed> {
    let kind = message.field(field.number);
    let expected = match kind {
        Kind::Unknown => return Ok(()),
        Kind::Varint => 0,
        Kind::Fixed64 => 1,
        Kind::Text | Kind::Bytes | Kind::Message(_) => 2,
        Kind::Fixed32 => 5,
    };
    if field.wire_type != expected {
        return Err(Malformed::WireType(message.name, field.number));
    }
    match kind {
        Kind::Text if !is_utf8(field.bytes) => Err(Malformed::Utf8(message.name, field.number)),
        Kind::Message(inner) if depth >= MAX_DEPTH => Err(Malformed::Depth(inner.name)),
        Kind::Message(inner) => check_all(field.bytes, inner, depth + 1),
        Kind::Unknown | Kind::Varint | Kind::Fixed64 | Kind::Fixed32 | Kind::Text | Kind::Bytes => Ok(()),
    }
}

fn check_all(bytes: &[u8], message: &'static Message, depth: u32) -> Result<(), Malformed> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let field = next_field(rest, message.name)?;
        check(&field, message, depth)?;
        rest = &rest[field.whole.len()..];
    }
    Ok(())
}

#[inline]
fn is_utf8(bytes: &[u8]) -> bool {
    bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()
}
