//! Encoded protobuf messages: walked over field by field and checked against the schema, without decoding.

use super::schema::{Kind, Message};

/// Deeper nesting than this is refused: protobuf decoders stop at 100, the levels around an item included.
pub(super) const MAX_DEPTH: u32 = 90;

/// Why a body is not a valid OTLP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
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

/// One field of an encoded message.
pub(super) struct Field<'a> {
    pub(super) number: u32,
    wire_type: u8,
    /// The content; for numbers, their encoding.
    pub(super) bytes: &'a [u8],
    /// The content with its key and length.
    pub(super) whole: &'a [u8],
}

/// Iterates over the fields of an encoded message in their order; each is cut to its length.
pub(super) fn fields<'a>(
    bytes: &'a [u8],
    message: &'static Message,
) -> impl Iterator<Item = Result<Field<'a>, ProtobufError>> {
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
pub(super) fn next_field<'a>(bytes: &'a [u8], name: &'static str) -> Result<Field<'a>, ProtobufError> {
    let (key, key_size) = varint(bytes, name)?;
    let wire_type = (key & 7) as u8;
    let Ok(number @ 1..0x2000_0000) = u32::try_from(key >> 3) else {
        return Err(ProtobufError::Number(name));
    };
    let (start, size) = match wire_type {
        2 => {
            let (length, length_size) = varint(&bytes[key_size..], name)?;
            (key_size + length_size, usize::try_from(length).unwrap_or(usize::MAX))
        }
        0 => (key_size, varint(&bytes[key_size..], name)?.1),
        1 => (key_size, 8),
        5 => (key_size, 4),
        _ => return Err(ProtobufError::WireType(name, number)),
    };
    let (Some(whole), Some(content)) =
        (start.checked_add(size).and_then(|end| bytes.get(..end)), bytes.get(start..))
    else {
        return Err(ProtobufError::Truncated(name));
    };
    Ok(Field { number, wire_type, bytes: &content[..size], whole })
}

#[inline]
pub(super) fn varint(bytes: &[u8], name: &'static str) -> Result<(u64, usize), ProtobufError> {
    match bytes {
        [byte @ 0..0x80, ..] => Ok((u64::from(*byte), 1)),
        [low, high @ 0..0x80, ..] => Ok((u64::from(low & 0x7f) | u64::from(*high) << 7, 2)),
        _ => long_varint(bytes, name),
    }
}

fn long_varint(bytes: &[u8], name: &'static str) -> Result<(u64, usize), ProtobufError> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        if at == 9 && *byte > 1 {
            return Err(ProtobufError::Number(name));
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((value, at + 1));
        }
    }
    Err(if bytes.len() < 10 { ProtobufError::Truncated(name) } else { ProtobufError::Number(name) })
}

/// Checks a field against the schema, recursively. Fields that the schema does not know pass.
#[expect(clippy::inline_always, reason = "measured: the compiler does not do it by itself")]
#[inline(always)]
pub(super) fn check(field: &Field<'_>, message: &'static Message, depth: u32) -> Result<(), ProtobufError> {
    let kind = message.field(field.number);
    let expected = match kind {
        Kind::Unknown => return Ok(()),
        Kind::Varint => 0,
        Kind::Fixed64 => 1,
        Kind::Text | Kind::Bytes | Kind::Message(_) => 2,
        Kind::Fixed32 => 5,
    };
    if field.wire_type != expected {
        return Err(ProtobufError::WireType(message.name, field.number));
    }
    match kind {
        Kind::Text if !is_utf8(field.bytes) => Err(ProtobufError::Utf8(message.name, field.number)),
        Kind::Message(inner) if depth >= MAX_DEPTH => Err(ProtobufError::Depth(inner.name)),
        Kind::Message(inner) => check_all(field.bytes, inner, depth + 1),
        Kind::Unknown | Kind::Varint | Kind::Fixed64 | Kind::Fixed32 | Kind::Text | Kind::Bytes => Ok(()),
    }
}

fn check_all(bytes: &[u8], message: &'static Message, depth: u32) -> Result<(), ProtobufError> {
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
