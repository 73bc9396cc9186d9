//! Export requests, encoded once before the measurement.
//!
//! The spans look like those of an instrumented shop: 15 attributes, about 800 bytes each.

use std::io::Write as _;

use anyhow::Result;
use bytes::{BufMut as _, Bytes};
use flate2::{Compression, write::GzEncoder};

/// The start of spans in nanoseconds since the epoch; the exact time does not matter.
const EPOCH: u64 = 1_767_225_600_000_000_000;
/// The length of a gRPC message prefix: one byte for the compression, four for the length.
const GRPC_PREFIX: usize = 5;

/// The properties of a benchmark's requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) spans: usize,
    pub(crate) spans_per_trace: usize,
    pub(crate) gzip: bool,
    /// Whether each body carries the prefix of a gRPC message.
    pub(crate) grpc: bool,
}

/// One encoded request.
#[derive(Debug)]
pub(crate) struct Payload {
    body: Vec<u8>,
    /// The offset of each span's trace id in `body`; empty when it is compressed.
    trace_ids: Vec<usize>,
    spans_per_trace: usize,
    /// Bytes before compression, without the prefix.
    pub(crate) plain_bytes: usize,
    compressed: Option<Bytes>,
}

impl Payload {
    /// Encodes request number `number`.
    pub(crate) fn new(shape: Shape, number: u64) -> Result<Self> {
        let (message, ids) = encode(shape, number);
        let plain_bytes = message.len();
        let prefix = if shape.grpc { GRPC_PREFIX } else { 0 };
        if !shape.gzip {
            let mut body = Vec::with_capacity(prefix + plain_bytes);
            if shape.grpc {
                put_prefix(&mut body, false, plain_bytes);
            }
            body.extend_from_slice(&message);
            let trace_ids = ids.into_iter().map(|at| at + prefix).collect();
            let spans_per_trace = shape.spans_per_trace;
            return Ok(Self { body, trace_ids, spans_per_trace, plain_bytes, compressed: None });
        }
        let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
        gzip.write_all(&message)?;
        let packed = gzip.finish()?;
        let mut body = Vec::with_capacity(prefix + packed.len());
        if shape.grpc {
            put_prefix(&mut body, true, packed.len());
        }
        body.extend_from_slice(&packed);
        let compressed = Some(Bytes::from(body));
        Ok(Self { body: Vec::new(), trace_ids: Vec::new(), spans_per_trace: 1, plain_bytes, compressed })
    }

    /// Bytes on the wire.
    pub(crate) fn wire_bytes(&self) -> usize {
        self.compressed.as_ref().map_or(self.body.len(), Bytes::len)
    }

    /// The body to send. Uncompressed ones get trace ids that were never sent before: `first_trace` and its successors.
    /// Compressed ones are sent as they are: compressing them again would measure the generator.
    pub(crate) fn fresh(&self, first_trace: u128) -> Bytes {
        if let Some(compressed) = &self.compressed {
            return compressed.clone();
        }
        let mut body = self.body.clone();
        for (traces, chunk) in (0_u128..).zip(self.trace_ids.chunks(self.spans_per_trace)) {
            let id = (first_trace + traces).to_be_bytes();
            for at in chunk {
                body[*at..*at + id.len()].copy_from_slice(&id);
            }
        }
        Bytes::from(body)
    }
}

fn put_prefix(body: &mut Vec<u8>, compressed: bool, length: usize) {
    body.push(u8::from(compressed));
    body.put_u32(u32::try_from(length).expect("a request is far below 4 GiB"));
}

/// Encodes an `ExportTraceServiceRequest` and returns the offsets of its trace ids.
fn encode(shape: Shape, number: u64) -> (Vec<u8>, Vec<usize>) {
    let mut spans = Vec::new();
    let mut trace_ids = Vec::new();
    for index in 0..shape.spans {
        let (trace, within) = (index / shape.spans_per_trace, index % shape.spans_per_trace);
        let span = span(number, trace as u64, within as u64);
        put_key(&mut spans, 2, 2);
        put_varint(&mut spans, span.len() as u64);
        // The trace id comes first in a span: one byte of key, one of length.
        trace_ids.push(spans.len() + 2);
        spans.extend_from_slice(&span);
    }
    let mut scope = Vec::new();
    put_text(&mut scope, 1, "shop.checkout");
    put_text(&mut scope, 2, "1.4.2");
    let mut resource = Vec::new();
    for (key, value) in RESOURCE {
        put_bytes(&mut resource, 1, &attribute(key, &text(value)));
    }

    let mut scope_spans = Vec::new();
    put_bytes(&mut scope_spans, 1, &scope);
    let spans_at = scope_spans.len();
    scope_spans.extend_from_slice(&spans);
    let mut resource_spans = Vec::new();
    put_bytes(&mut resource_spans, 1, &resource);
    put_bytes(&mut resource_spans, 2, &scope_spans);
    let scope_spans_at = resource_spans.len() - scope_spans.len();
    let mut request = Vec::new();
    put_bytes(&mut request, 1, &resource_spans);
    let resource_spans_at = request.len() - resource_spans.len();

    let start = resource_spans_at + scope_spans_at + spans_at;
    (request, trace_ids.into_iter().map(|at| at + start).collect())
}

const RESOURCE: [(&str, &str); 6] = [
    ("service.name", "checkout"),
    ("service.namespace", "shop"),
    ("service.version", "1.4.2"),
    ("service.instance.id", "checkout-6d5f7c9b8-x2x7k"),
    ("host.name", "node-17"),
    ("deployment.environment.name", "staging"),
];

/// One span: the first of its trace is the root, the others are its children.
fn span(request: u64, trace: u64, within: u64) -> Vec<u8> {
    let place = |within: u64| (request << 40) | (trace << 16) | within;
    let mut chance = Chance(place(within));
    let id = |within: u64| Chance(place(within)).next().to_be_bytes();
    let start = EPOCH + chance.below(1_000_000_000);
    let order = 100_000 + chance.below(900_000);
    let mut span = Vec::with_capacity(800);
    // Overwritten before it is sent, unless it is compressed.
    put_bytes(&mut span, 1, &[Chance(place(0)).next().to_be_bytes(), id(0)].concat());
    put_bytes(&mut span, 2, &id(within));
    if within > 0 {
        put_bytes(&mut span, 4, &id(0));
    }
    put_text(&mut span, 5, "POST /api/v1/orders/{order_id}/items");
    put_number(&mut span, 6, 2);
    put_fixed64(&mut span, 7, start);
    put_fixed64(&mut span, 8, start + 250_000 + chance.below(5_000_000));
    for (key, value) in [
        ("http.request.method", text("POST")),
        ("http.route", text("/api/v1/orders/{order_id}/items")),
        (
            "url.full",
            text(&format!("https://shop.example/api/v1/orders/{order}/items?cart={:016x}", chance.next())),
        ),
        ("http.response.status_code", integer(if chance.below(50) == 0 { 500 } else { 201 })),
        ("server.address", text("checkout.shop.svc.cluster.local")),
        ("server.port", integer(8443)),
        ("client.address", text(&format!("10.4.{}.{}", chance.below(256), chance.below(256)))),
        (
            "user_agent.original",
            text("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/139.0 Safari/537.36"),
        ),
        ("network.protocol.version", text("1.1")),
        ("http.request.body.size", integer(512 + chance.below(4096))),
        ("http.request.header.x-request-id", text(&format!("{:016x}{:016x}", chance.next(), chance.next()))),
        ("session.id", text(&format!("{:016x}{:016x}", chance.next(), chance.next()))),
        ("shop.order.id", text(&format!("ord-{order}-{:08x}", chance.below(1 << 32)))),
        ("shop.customer.tier", text(if chance.below(3) == 0 { "gold" } else { "basic" })),
        ("shop.total", double(f64::from(u32::try_from(chance.below(100_000)).unwrap_or(0)) / 100.0)),
    ] {
        put_bytes(&mut span, 9, &attribute(key, &value));
    }
    span
}

/// A deterministic random number generator: `SplitMix64`.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn attribute(key: &str, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, 1, key);
    put_bytes(&mut out, 2, value);
    out
}

fn text(value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, 1, value);
    out
}

fn integer(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, 3, value);
    out
}

fn double(value: f64) -> Vec<u8> {
    let mut out = Vec::new();
    put_key(&mut out, 4, 1);
    out.extend_from_slice(&value.to_le_bytes());
    out
}

fn put_text(out: &mut Vec<u8>, field: u64, value: &str) {
    put_bytes(out, field, value.as_bytes());
}

fn put_bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    put_key(out, field, 2);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn put_number(out: &mut Vec<u8>, field: u64, value: u64) {
    put_key(out, field, 0);
    put_varint(out, value);
}

fn put_fixed64(out: &mut Vec<u8>, field: u64, value: u64) {
    put_key(out, field, 1);
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_key(out: &mut Vec<u8>, field: u64, wire_type: u64) {
    put_varint(out, field << 3 | wire_type);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { spans: 4, spans_per_trace: 2, gzip: false, grpc: false };

    #[test]
    fn spans_have_the_size_that_other_benchmarks_use() {
        let payload = Payload::new(Shape { spans: 1000, spans_per_trace: 10, ..SHAPE }, 7).unwrap();
        let bytes = payload.plain_bytes / 1000;
        assert!((750..850).contains(&bytes), "{bytes} bytes a span");
    }

    #[test]
    fn each_send_carries_new_trace_ids_and_nothing_else_new() {
        let payload = Payload::new(SHAPE, 7).unwrap();
        let first = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef_u128;
        let body = payload.fresh(first);
        let id = |at: usize| u128::from_be_bytes(body[at..at + 16].try_into().unwrap());
        let ids: Vec<_> = payload.trace_ids.iter().map(|at| id(*at)).collect();
        assert_eq!(ids, [first, first, first + 1, first + 1]);
        let mut restored = body.to_vec();
        for at in &payload.trace_ids {
            restored[*at..at + 16].copy_from_slice(&payload.body[*at..at + 16]);
        }
        assert_eq!(restored, payload.body);
    }

    #[test]
    fn a_grpc_body_starts_with_its_length() {
        let payload = Payload::new(Shape { grpc: true, ..SHAPE }, 7).unwrap();
        let length = u32::from_be_bytes(payload.body[1..5].try_into().unwrap());
        assert_eq!(usize::try_from(length).unwrap(), payload.plain_bytes);
        assert_eq!(payload.body.len(), payload.plain_bytes + GRPC_PREFIX);
    }
}
