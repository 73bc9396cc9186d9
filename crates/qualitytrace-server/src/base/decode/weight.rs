//! The weight of encoded messages: a bound of the memory that they take when they are decoded.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// An object or a list of a JSON text, as a [`serde_json::Value`] and what is made of it. An object reserves places for
/// three members with the first.
const CONTAINER: u64 = 512;
/// A member of an object or a list.
const MEMBER: u64 = 144;
/// The name of a member.
const NAME: u64 = 256;
/// A number, or a text without its letters.
const SCALAR: u64 = 64;
/// Deeper messages than these are refused by the decoder.
const MAX_LEVELS: u32 = 100;

/// Weighs a JSON text that is read into values, maps and small structures. Brackets inside of texts weigh nothing; if
/// it is not JSON, its decoder stops earlier.
pub(crate) fn json_weight(text: &[u8]) -> u64 {
    let mut weight = text.len() as u64;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_text(&mut bytes),
            b'{' | b'[' => weight += CONTAINER,
            b',' => weight += MEMBER,
            b':' => weight += NAME,
            _ => {}
        }
    }
    weight
}

/// Skips the rest of a text, its last quote included.
fn skip_text(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

/// Weighs a protobuf message of any schema, in which every field that can be one is a message of `item` bytes. `None` if
/// that is more than `limit`. What cannot be read is not counted: the decoder stops there, too.
pub(crate) fn protobuf_weight(message: &[u8], item: u64, limit: u64) -> Option<u64> {
    let room = limit.checked_sub(message.len() as u64)?;
    let mut left = room;
    weigh(message, item, &mut left, 0)?;
    Some(limit - left)
}

/// Takes the weight of a message from what is left. Returns whether all of it can be read: most texts cannot.
fn weigh(mut bytes: &[u8], item: u64, left: &mut u64, level: u32) -> Option<bool> {
    while !bytes.is_empty() {
        let Ok((tag, wire_type)) = decode_key(&mut bytes) else { return Some(false) };
        if wire_type != WireType::LengthDelimited {
            let before = bytes.len();
            if skip_field(wire_type, tag, &mut bytes, DecodeContext::default()).is_err() {
                return Some(false);
            }
            *left = left.checked_sub(if wire_type == WireType::StartGroup {
                item.checked_mul((before - bytes.len()) as u64)?
            } else {
                SCALAR
            })?;
            continue;
        }
        let length = decode_varint(&mut bytes).ok().and_then(|length| usize::try_from(length).ok());
        let Some((content, rest)) = length.and_then(|length| bytes.split_at_checked(length)) else {
            return Some(false);
        };
        bytes = rest;
        let is_message = level < MAX_LEVELS && weigh(content, item, left, level + 1)?;
        *left = left.checked_sub(if is_message { item } else { SCALAR })?;
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;

    #[test]
    fn a_value_weighs_at_least_what_it_takes() {
        // A list grows to twice its length, and so do the members of an object, which have an index beside them.
        const { assert!(MEMBER >= 2 * size_of::<Value>() as u64) };
        let member = size_of::<(u64, String, Value)>() as u64;
        assert!(CONTAINER >= 3 * member + 128, "{member}");
        assert!(MEMBER + NAME >= 2 * member + 2 * 16 + 32, "{member}");
        assert!(CONTAINER >= 2 * size_of::<Map<String, Value>>() as u64);
    }

    #[test]
    fn every_bracket_comma_and_colon_outside_of_texts_weighs() {
        for (text, weight) in [
            ("{}", CONTAINER),
            ("[0,0]", CONTAINER + MEMBER),
            (r#"{"a":"b","c":[]}"#, 2 * CONTAINER + MEMBER + 2 * NAME),
            (r#"["{[,:\"{[", "\\"]"#, CONTAINER + MEMBER),
            ("\"{{{", 0),
        ] {
            assert_eq!(json_weight(text.as_bytes()), text.len() as u64 + weight, "{text}");
        }
    }

    #[test]
    fn fields_count_on_every_level() {
        // Field 1 with an empty message, three times, in field 1; then a text, and a number.
        let message = [10, 6, 10, 0, 10, 0, 10, 0];
        assert_eq!(protobuf_weight(&message, 100, 1_000), Some(8 + 400));
        assert_eq!(protobuf_weight(&message, 100, 407), None);
        assert_eq!(protobuf_weight(b"\x0a\x01.\x10\x05", 100, 1_000), Some(5 + 2 * SCALAR));
        assert_eq!(protobuf_weight(b"\xff", 100, 1_000), Some(1));
        // What comes before a mistake counts.
        assert_eq!(protobuf_weight(&[10, 5, 10, 0, 10, 0, 0xff], 100, 1_000), Some(7 + 200 + SCALAR));
        // What nests deeper than decoders go does not exhaust the stack.
        let mut deep = Vec::new();
        for _ in 0..10_000 {
            let mut outer = vec![10];
            prost::encoding::encode_varint(deep.len() as u64, &mut outer);
            outer.extend_from_slice(&deep);
            deep = outer;
        }
        assert!(protobuf_weight(&deep, 1, u64::MAX).is_some());
    }
}
