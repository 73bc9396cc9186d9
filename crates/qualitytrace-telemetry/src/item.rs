//! An encoded span, log record or metric, and the encoding of items as a request.
//!
//! Protobuf messages concatenate, and the three OTLP requests have the same shape with the same field numbers, so a
//! request is the resource, the scopes and the items, each after its length.

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use crate::config::Signal;

/// The version of the OpenTelemetry conventions that the names of attributes and metrics follow.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.42.0";

/// An encoded item, shared by all sinks.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) signal: Signal,
    /// How many items it counts as in the ledger: data points for a metric, otherwise 1.
    pub(crate) count: u32,
    /// When it was made, in nanoseconds since 1970.
    pub(crate) time: u64,
    /// The encoded `InstrumentationScope`.
    pub(crate) scope: Bytes,
    /// The encoded `Span`, `LogRecord` or `Metric`.
    pub(crate) body: Bytes,
}

impl Item {
    /// Upper bound of the bytes that it adds to a request; the schema URL of its scope is shared with others of the
    /// scope.
    pub(crate) fn size(&self) -> usize {
        self.body.len() + self.scope.len() + 24
    }
}

/// The encoded length of a field with this many bytes.
pub(crate) fn field_len(tag: u32, len: usize) -> usize {
    key_len(tag) + encoded_len_varint(len as u64) + len
}

/// Writes the key and the length of a field.
pub(crate) fn put_head(tag: u32, len: usize, out: &mut impl BufMut) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
}

/// Encodes a request with the items under one resource. An empty `schema_url` stands for the schema of this crate,
/// which the scopes always have.
pub(crate) fn request(resource: &Bytes, schema_url: &str, items: &[Item]) -> Bytes {
    let schema = field_len(3, SCHEMA_URL.len());
    let schema_url = if schema_url.is_empty() { SCHEMA_URL } else { schema_url };
    let mut groups: Vec<(&Bytes, usize, std::ops::Range<usize>)> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let len = field_len(2, item.body.len());
        match groups.last_mut() {
            Some((scope, total, range)) if **scope == item.scope => {
                *total += len;
                range.end = index + 1;
            }
            Some(_) | None => {
                groups.push((&item.scope, field_len(1, item.scope.len()) + len + schema, index..index + 1));
            }
        }
    }
    let scopes: usize = groups.iter().map(|(_, len, _)| field_len(2, *len)).sum();
    let inner = field_len(1, resource.len()) + scopes + field_len(3, schema_url.len());
    let mut out = BytesMut::with_capacity(field_len(1, inner));
    put_head(1, inner, &mut out);
    put_head(1, resource.len(), &mut out);
    out.put_slice(resource);
    for (scope, len, range) in groups {
        put_head(2, len, &mut out);
        put_head(1, scope.len(), &mut out);
        out.put_slice(scope);
        for item in &items[range] {
            put_head(2, item.body.len(), &mut out);
            out.put_slice(&item.body);
        }
        put_text(3, SCHEMA_URL, &mut out);
    }
    put_text(3, schema_url, &mut out);
    out.freeze()
}

fn put_text(tag: u32, text: &str, out: &mut impl BufMut) {
    put_head(tag, text.len(), out);
    out.put_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::{
        collector::trace::v1::ExportTraceServiceRequest,
        common::v1::InstrumentationScope,
        resource::v1::Resource,
        trace::v1::{ResourceSpans, ScopeSpans, Span},
    };
    use prost::Message as _;

    use super::{Item, SCHEMA_URL, Signal, request};

    #[test]
    fn a_request_is_what_prost_would_write() {
        let resource = Resource { dropped_attributes_count: 3, ..Resource::default() };
        let scope =
            |name: &str| InstrumentationScope { name: name.to_owned(), ..InstrumentationScope::default() };
        let span = |name: &str| Span { name: name.to_owned(), ..Span::default() };
        let expected = ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource.clone()),
                scope_spans: vec![
                    ScopeSpans {
                        scope: Some(scope("a")),
                        spans: vec![span("1"), span(&"2".repeat(300))],
                        schema_url: SCHEMA_URL.to_owned(),
                    },
                    ScopeSpans {
                        scope: Some(scope("b")),
                        spans: vec![span("3")],
                        schema_url: SCHEMA_URL.to_owned(),
                    },
                ],
                schema_url: "http://schema/1".to_owned(),
            }],
        };
        let item = |s: &str, name: &str| Item {
            signal: Signal::Traces,
            count: 1,
            time: 0,
            scope: scope(s).encode_to_vec().into(),
            body: span(name).encode_to_vec().into(),
        };
        let items = [item("a", "1"), item("a", &"2".repeat(300)), item("b", "3")];
        let bytes = request(&resource.encode_to_vec().into(), "http://schema/1", &items);
        assert_eq!(ExportTraceServiceRequest::decode(bytes).unwrap(), expected);
    }
}
