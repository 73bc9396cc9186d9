//! The number of values of an encoded message. A value that takes two bytes on the wire may take more than a hundred
//! once it is decoded.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost_reflect::{Kind, MessageDescriptor};

/// Nesting limit of messages, including those packed into an `Any`. Decoding limits each packed message separately, but
/// serializing recurses through all of them.
pub(super) const MAX_LEVELS: usize = 100;

/// Whether a message has at most `limit` values, those of inner messages included. What cannot be read is not counted:
/// decoding says what is wrong with it.
pub(super) fn has_at_most(limit: usize, bytes: &[u8], kind: &MessageDescriptor) -> bool {
    let mut left = limit;
    take(bytes, kind, &mut left, 0).is_some()
}

/// Takes the values of a message from those that are left; `None` if there are too few.
fn take(mut bytes: &[u8], kind: &MessageDescriptor, left: &mut usize, level: usize) -> Option<()> {
    if level > MAX_LEVELS {
        return Some(());
    }
    let (mut name, mut packed) = (&[][..], &[][..]);
    while let Ok((tag, wire_type)) = decode_key(&mut bytes) {
        *left = left.checked_sub(1)?;
        if wire_type != WireType::LengthDelimited {
            let before = bytes.len();
            if skip_field(wire_type, tag, &mut bytes, DecodeContext::default()).is_err() {
                break;
            }
            if wire_type == WireType::StartGroup {
                *left = left.checked_sub((before - bytes.len()) / 2)?;
            }
            continue;
        }
        let length = decode_varint(&mut bytes).ok().and_then(|length| usize::try_from(length).ok());
        let Some((content, rest)) = length.and_then(|length| bytes.split_at_checked(length)) else { break };
        bytes = rest;
        match tag {
            1 => name = content,
            2 => packed = content,
            _ => {}
        }
        let Some(field) = kind.get_field(tag) else { continue };
        let numbers = match field.kind() {
            Kind::Message(inner) => {
                take(content, &inner, left, level + 1)?;
                continue;
            }
            Kind::String | Kind::Bytes => continue,
            Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => content.len() / 8,
            Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => content.len() / 4,
            // The shortest number takes one byte.
            _ => content.len(),
        };
        *left = left.checked_sub(numbers)?;
    }
    if kind.full_name() != "google.protobuf.Any" {
        return Some(());
    }
    let name = std::str::from_utf8(name).ok().and_then(|name| name.rsplit('/').next());
    match name.and_then(|name| kind.parent_pool().get_message_by_name(name)) {
        Some(inner) => take(packed, &inner, left, level + 1),
        None => Some(()),
    }
}
