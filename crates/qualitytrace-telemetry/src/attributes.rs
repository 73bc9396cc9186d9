//! Attributes encoded as OTLP at the call site: one buffer, no owned strings.

use std::{borrow::Cow, ops::Range};

use bytes::BufMut;
use prost::encoding::{decode_varint, encode_varint, encoded_len_varint};

use crate::{
    config::AttributeLimits,
    item::{field_len, put_head},
};

/// A longer text is cut where no limit is set: a span with a megabyte in it is of no use.
const MAX_TEXT: usize = 16 << 10;
/// Upper bound of every configured limit, so that a record fits into a request.
const MAX_LIMITED: usize = 1 << 20;
/// Initial capacity: what the attributes of most spans need.
const ROOM: usize = 256;

/// An attribute's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Cow<'a, str>),
}

impl<'a> Value<'a> {
    /// A text; it is cut when it becomes an attribute.
    pub(crate) fn text(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

/// Truncates a text to a limit of characters.
fn cut(text: &str, length: u32) -> &str {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length >= u32::MAX as usize {
        return shorten(text);
    }
    let end = if text.len() <= length { None } else { text.char_indices().nth(length).map(|(at, _)| at) };
    let end = end.unwrap_or(text.len()).min(MAX_LIMITED);
    &text[..text.floor_char_boundary(end)]
}

/// Truncates a text to `MAX_TEXT` bytes at a character boundary.
pub(crate) fn shorten(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// A buffer of encoded attributes: for each the length of its `KeyValue`, then the `KeyValue`, its key first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes {
    bytes: Vec<u8>,
    count: u32,
    dropped: u32,
    limits: AttributeLimits,
}

impl Attributes {
    /// An empty list with limits.
    pub(crate) fn limited(limits: AttributeLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Sets an attribute; replaces an earlier value.
    pub(crate) fn put(&mut self, key: &str, value: &Value<'_>) {
        if let Some(old) = self.find(key) {
            self.bytes.drain(old);
            self.count -= 1;
        }
        self.add(key, value);
    }

    /// Sets an attribute that is not set yet.
    pub(crate) fn add(&mut self, key: &str, value: &Value<'_>) {
        if self.count >= self.limits.count {
            self.dropped += 1;
            return;
        }
        let shortened;
        let value = match value {
            Value::Text(text) => {
                shortened = Value::Text(cut(text, self.limits.length).into());
                &shortened
            }
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => value,
        };
        if self.bytes.is_empty() {
            self.bytes.reserve(ROOM);
        }
        let value_len = any_value_len(value);
        encode_varint((field_len(1, key.len()) + field_len(2, value_len)) as u64, &mut self.bytes);
        put_head(1, key.len(), &mut self.bytes);
        self.bytes.extend_from_slice(key.as_bytes());
        put_head(2, value_len, &mut self.bytes);
        put_any_value(value, &mut self.bytes);
        self.count += 1;
    }

    fn find(&self, key: &str) -> Option<Range<usize>> {
        let mut start = 0;
        for entry in entries(&self.bytes) {
            let end = start + entry.bytes.len();
            if entry.key == key.as_bytes() {
                return Some(start..end);
            }
            start = end;
        }
        None
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        entries(&self.bytes).map(|entry| entry.key)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of attributes that were dropped because of the limit.
    pub(crate) fn dropped(&self) -> u32 {
        self.dropped
    }
}

/// One attribute in the bytes of [`Attributes`].
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a [u8],
    /// Its length and its `KeyValue`.
    pub(crate) bytes: &'a [u8],
}

/// The attributes in bytes that [`Attributes`] wrote.
pub(crate) fn entries(mut bytes: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    std::iter::from_fn(move || {
        let mut rest = bytes;
        let len = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
        let mut pair = rest.get(..len)?;
        let (entry, after) = bytes.split_at(bytes.len() - rest.len() + len);
        bytes = after;
        // The tag of the key.
        pair = pair.get(1..)?;
        let key_len = usize::try_from(decode_varint(&mut pair).ok()?).ok()?;
        Some(Entry { key: pair.get(..key_len)?, bytes: entry })
    })
}

/// The length of an `AnyValue`.
pub(crate) fn any_value_len(value: &Value<'_>) -> usize {
    match value {
        Value::Bool(_) => 2,
        Value::Int(value) => 1 + encoded_len_varint(value.cast_unsigned()),
        Value::Float(_) => 9,
        Value::Text(text) => field_len(1, text.len()),
    }
}

/// Writes an `AnyValue`.
pub(crate) fn put_any_value(value: &Value<'_>, out: &mut impl BufMut) {
    match value {
        Value::Bool(value) => out.put_slice(&[0x10, u8::from(*value)]),
        Value::Int(value) => {
            out.put_u8(0x18);
            encode_varint(value.cast_unsigned(), out);
        }
        Value::Float(value) => {
            out.put_u8(0x21);
            out.put_f64_le(*value);
        }
        Value::Text(text) => {
            put_head(1, text.len(), out);
            out.put_slice(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value as Any};
    use prost::Message as _;

    use super::{AttributeLimits, Attributes, MAX_TEXT, Value, entries};

    fn read(attributes: &Attributes) -> Vec<(String, Any)> {
        entries(attributes.bytes())
            .map(|entry| {
                let pair = KeyValue::decode_length_delimited(entry.bytes).unwrap();
                assert_eq!(pair.key.as_bytes(), entry.key);
                let Some(AnyValue { value: Some(value) }) = pair.value else { panic!("{pair:?}") };
                (pair.key, value)
            })
            .collect()
    }

    #[test]
    fn attributes_are_what_prost_reads() {
        let mut attributes = Attributes::default();
        let long = "ä".repeat(MAX_TEXT);
        for (key, value) in [
            ("off", Value::Bool(false)),
            ("again", Value::Int(1)),
            ("minus", Value::Int(-1)),
            ("half", Value::Float(0.5)),
            ("empty", Value::text("")),
            ("long", Value::text(&long)),
            ("again", Value::text("new")),
        ] {
            attributes.put(key, &value);
        }
        let cut = "ä".repeat(MAX_TEXT / 2);
        let expected = [
            ("off", Any::BoolValue(false)),
            ("minus", Any::IntValue(-1)),
            ("half", Any::DoubleValue(0.5)),
            ("empty", Any::StringValue(String::new())),
            ("long", Any::StringValue(cut)),
            ("again", Any::StringValue("new".to_owned())),
        ];
        assert_eq!(read(&attributes), expected.map(|(key, value)| (key.to_owned(), value)));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut attributes = Attributes::default();
        for n in 0..131 {
            attributes.put(&n.to_string(), &Value::Int(0));
        }
        assert_eq!((read(&attributes).len(), attributes.dropped()), (128, 3));
    }

    #[test]
    fn limits_count_attributes_and_characters() {
        let mut attributes = Attributes::limited(AttributeLimits { count: 2, length: 3 });
        for (key, text) in [("a", "äöüß"), ("b", "ab"), ("c", "x")] {
            attributes.put(key, &Value::text(text));
        }
        let text = |text: &str| Any::StringValue(text.to_owned());
        let expected = [("a".to_owned(), text("äöü")), ("b".to_owned(), text("ab"))];
        assert_eq!((read(&attributes), attributes.dropped()), (expected.to_vec(), 1));
        let mut none = Attributes::limited(AttributeLimits { count: 0, length: 0 });
        none.put("a", &Value::Int(1));
        assert_eq!((read(&none).len(), none.dropped()), (0, 1));
    }
}
