//! OTLP in the JSON of data stores: Tempo's `batches`, Jaeger's `result`, ids in hexadecimal or base64.

use std::borrow::Cow;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::base::decode::{DecodeError, Room};
use crate::receive::otlp::json;

/// Members of an answer that hold the list of resources.
const WRAPPERS: [&str; 2] = ["result", "trace"];
/// Names of the list of resources.
const LISTS: [&str; 3] = ["batches", "resourceSpans", "resource_spans"];
/// Wrappers inside of each other.
const MAX_WRAPPERS: usize = 4;

/// Reads the spans of an answer. It is rewritten as a text, not as a tree of values: that would take five times as
/// much.
pub(super) fn read(body: &[u8], room: &mut impl Room) -> Result<ExportTraceServiceRequest, DecodeError> {
    // Ids in base64 become longer by a third.
    room.take(2 * body.len() as u64)?;
    let mut text = b"{\"resourceSpans\":[".to_vec();
    // Measured: references to the text take no memory of their own, and the rest is written to `text`.
    // Jaeger's gateway streams one document after the other.
    for document in serde_json::Deserializer::from_slice(body).into_iter::<&RawValue>() {
        collect(document?, &mut text, 0)?;
    }
    text.extend_from_slice(b"]}");
    json::decode_within(&text, room)
}

/// Adds the resources of a document.
fn collect(document: &RawValue, out: &mut Vec<u8>, level: usize) -> Result<(), DecodeError> {
    if !document.get().starts_with('{') {
        return Err(DecodeError::Malformed("it is no JSON object".to_owned()));
    }
    // Measured: at most five references to the text.
    let Members(found) = serde_json::from_str(document.get())?;
    for (name, value) in found {
        let first = value.get().as_bytes().first();
        match (WRAPPERS.contains(&name), first) {
            (true, Some(b'{')) if level < MAX_WRAPPERS => collect(value, out, level + 1)?,
            (true, _) | (false, Some(b'n')) => {}
            // Measured: written to `out` item by item.
            (false, Some(b'[')) => {
                Items(out).deserialize(&mut serde_json::Deserializer::from_str(value.get()))?;
            }
            (false, _) => return Err(DecodeError::Malformed(format!("`{name}` is no list"))),
        }
    }
    Ok(())
}

/// The members of a document that hold resources, or the list of them.
struct Members<'a>(Vec<(&'static str, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a document with spans")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found: Vec<(&'static str, &RawValue)> = Vec::new();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    let value: &RawValue = map.next_value()?;
                    let known = WRAPPERS.into_iter().chain(LISTS).find(|known| *known == key);
                    let Some(known) = known else { continue };
                    // The last one counts.
                    found.retain(|(name, _)| *name != known);
                    found.push((known, value));
                }
                Ok(Members(found))
            }
        }

        deserializer.deserialize_map(KeyVisitor)
    }
}

/// Writes the members of a list behind those that are there.
struct Items<'o>(&'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of resources")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        loop {
            let before = self.0.len();
            if self.0.last() != Some(&b'[') {
                self.0.push(b',');
            }
            if items.next_element_seed(Respelled { out: self.0, id: None })?.is_none() {
                self.0.truncate(before);
                return Ok(());
            }
        }
    }
}

/// Writes a value with new names of fields, and with ids in hexadecimal. The depth is that of the JSON, which its parser
/// limits.
struct Respelled<'o> {
    out: &'o mut Vec<u8>,
    /// The field, if the value is an id of so many bytes.
    id: Option<(&'static str, usize)>,
}

impl Respelled<'_> {
    fn scalar<E: Error>(self, value: impl serde::Serialize) -> Result<(), E> {
        serde_json::to_writer(self.out, &value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Respelled<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Respelled<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(value)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.id {
            Some((key, bytes)) => {
                let id = id(key, text, bytes).map_err(E::custom)?;
                self.scalar(id)
            }
            None => self.scalar(text),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<(), A::Error> {
        self.out.push(b'[');
        Items(self.out).visit_seq(items)?;
        self.out.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let (out, mut separator) = (self.out, b'{');
        while let Some(key) = fields.next_key::<Cow<'de, str>>()? {
            out.push(std::mem::replace(&mut separator, b','));
            let name = match key.as_ref() {
                "instrumentationLibrarySpans" | "ilSpans" => "scopeSpans",
                "instrumentationLibrary" => "scope",
                other => other,
            };
            serde_json::to_writer(&mut *out, name).map_err(A::Error::custom)?;
            out.write_all(b":").map_err(A::Error::custom)?;
            fields.next_value_seed(Respelled { out: &mut *out, id: id_field(name) })?;
        }
        out.extend_from_slice(if separator == b'{' { b"{}" } else { b"}" });
        Ok(())
    }
}

/// The name and the length in bytes of a field that is an id.
fn id_field(name: &str) -> Option<(&'static str, usize)> {
    match name {
        "traceId" => Some(("traceId", 16)),
        "trace_id" => Some(("trace_id", 16)),
        "spanId" => Some(("spanId", 8)),
        "span_id" => Some(("span_id", 8)),
        "parentSpanId" => Some(("parentSpanId", 8)),
        "parent_span_id" => Some(("parent_span_id", 8)),
        _ => None,
    }
}

/// Returns an id in hexadecimal.
fn id(key: &str, text: &str, bytes: usize) -> Result<String, String> {
    if text.is_empty() || text.len() == 2 * bytes && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text.to_owned());
    }
    let decoded = STANDARD.decode(text).ok().filter(|decoded| decoded.len() <= bytes && decoded.len() >= 8);
    let decoded = decoded.ok_or_else(|| {
        let shown: String = text.chars().take(2 * bytes + 8).collect();
        format!("`{key}` is `{shown}`, neither {bytes} bytes in hexadecimal nor in base64")
    })?;
    let padding = "00".repeat(bytes - decoded.len());
    Ok(padding + &const_hex::encode(decoded))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::base::decode::Allowance;

    fn spans(document: &Value) -> Result<Vec<(String, String)>, DecodeError> {
        let request = read(document.to_string().as_bytes(), &mut Allowance::new(1 << 20))?;
        let spans = request.resource_spans.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans);
        Ok(spans.map(|span| (const_hex::encode(span.trace_id), const_hex::encode(span.span_id))).collect())
    }

    #[test]
    fn an_answer_that_nests_without_end_is_refused() {
        for text in ["{\"batches\":".repeat(50_000), "[".repeat(100_000), "{\"result\":".repeat(200)] {
            let read = read(text.as_bytes(), &mut Allowance::new(u64::MAX));
            assert!(matches!(read, Err(DecodeError::Malformed(_))), "{read:?}");
        }
    }

    #[test]
    fn an_answer_of_empty_objects_is_refused_before_it_is_decoded() {
        for list in ["batches", "resourceSpans"] {
            let text = format!("{{\"{list}\":[{}{{}}]}}", "{},".repeat(100_000));
            assert!(read(text.as_bytes(), &mut Allowance::new(64 << 20)).is_ok());
            let refused = read(text.as_bytes(), &mut Allowance::new(16 << 20));
            assert_eq!(refused, Err(DecodeError::TooLarge { limit: 16 << 20 }));
        }
    }

    #[test]
    fn an_ordinary_answer_takes_at_most_eight_times_its_size() {
        let attribute = json!({ "key": "shop.attribute", "value": { "stringValue": "some text" } });
        let span = json!({ "traceId": "1".repeat(32), "spanId": "1".repeat(16), "parentSpanId": "1".repeat(16),
            "name": "handle", "kind": 2, "startTimeUnixNano": "1700000000000000000",
            "endTimeUnixNano": "1700000000000000000", "attributes": vec![attribute; 8] });
        let text =
            json!({ "result": { "resourceSpans": [{ "scopeSpans": [{ "spans": vec![span; 100] }] }] } });
        let text = text.to_string();
        let read = read(text.as_bytes(), &mut Allowance::new(8 * text.len() as u64));
        assert!(read.is_ok(), "{:?}", read.err());
    }

    #[test]
    fn names_and_wrappers_of_all_versions_are_read() {
        let span = json!({ "traceId": "0".repeat(31) + "1", "spanId": "0".repeat(15) + "1",
            "attributes": [{ "key": "a \"b\" \u{1}", "value": { "doubleValue": 1.5 } }] });
        let found = |document: &str| {
            let request = read(document.as_bytes(), &mut Allowance::new(1 << 20)).unwrap();
            let spans =
                request.resource_spans.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans);
            spans.map(|span| format!("{:?}", span.attributes)).collect::<Vec<_>>()
        };
        let one = found(&json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] }).to_string());
        assert!(one.len() == 1 && one[0].contains("1.5"), "{one:?}");
        for scopes in ["scopeSpans", "ilSpans", "instrumentationLibrarySpans"] {
            let list = json!([{ scopes: [{ "spans": [span] }] }]);
            for document in [
                json!({ "batches": list }).to_string(),
                json!({ "result": { "resourceSpans": list } }).to_string(),
                json!({ "trace": { "resource_spans": list, "batches": null } }).to_string(),
                format!("{}\n{}", json!({}), json!({ "result": { "resourceSpans": list } })),
            ] {
                assert_eq!(found(&document), one, "{document}");
            }
        }
        let twice =
            json!({ "result": { "resourceSpans": [{ "scopeSpans": [{ "spans": [span, span] }] }, {}] } });
        assert_eq!(found(&format!("{twice}{twice}")).len(), 4);
        for wrong in ["[]", "{\"batches\":{}}", "{\"batches\":[{]}", "x"] {
            assert!(read(wrong.as_bytes(), &mut Allowance::new(1 << 20)).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn ids_are_the_same_in_hexadecimal_and_in_base64(trace in any::<[u8; 16]>(), span in any::<[u8; 8]>()) {
            let hex = (const_hex::encode(trace), const_hex::encode(span));
            let document = |trace: &str, span: &str| json!({ "batches": [{ "scopeSpans": [{ "spans": [
                { "traceId": trace, "spanId": span, "startTimeUnixNano": "1" }] }] }] });
            prop_assert_eq!(spans(&document(&hex.0, &hex.1)).unwrap(), std::slice::from_ref(&hex));
            let base64 = (STANDARD.encode(trace), STANDARD.encode(span));
            prop_assert_eq!(spans(&document(&base64.0, &base64.1)).unwrap(), [hex]);
        }
    }
}
