//! Conversion of messages between JSON and protobuf.

use std::io;

use base64::Engine as _;
use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage, SerializeOptions, Value,
};

use super::super::failure::TriggerError;
use super::size::MAX_LEVELS;
use super::{mistake, protocol, size};
use crate::base::decode::{Allowance, json_weight, protobuf_within};

/// Encodes the messages of a request: one for each JSON document.
pub(super) fn encode(
    request: &str,
    kind: &MessageDescriptor,
    many: bool,
) -> Result<Vec<Bytes>, TriggerError> {
    let limit = Allowance::DESCRIPTION;
    if json_weight(request.as_bytes()) > limit {
        return Err(TriggerError::invalid(format!(
            "the trigger's `request` takes more memory than the {limit} bytes that there are for it; send less"
        )));
    }
    // Measured: above.
    let documents = serde_json::Deserializer::from_str(request).into_iter::<serde_json::Value>();
    let mut messages = Vec::new();
    for document in documents {
        let document = document.map_err(|error| {
            TriggerError::invalid(format!("the trigger's `request` is not JSON: {error}"))
        })?;
        let message = mistake::read(kind, &document).map_err(|mistake| {
            TriggerError::invalid(format!("the trigger's `request` is no `{}`: {mistake}", kind.full_name()))
        })?;
        messages.push(Bytes::from(message.encode_to_vec()));
    }
    match messages.len() {
        0 if !many => Ok(vec![Bytes::new()]),
        count if count > 1 && !many => Err(TriggerError::invalid(format!(
            "the method takes one message, but the trigger's `request` holds {count}; keep one of them"
        ))),
        _ => Ok(messages),
    }
}

/// A message as JSON.
#[derive(Debug)]
pub(super) struct JsonMessage {
    pub(super) text: String,
    /// Whether the text is the beginning of a longer one.
    pub(super) is_truncated: bool,
}

/// The room that a value is counted with: it takes some bytes of JSON, and more than a hundred while it is decoded. A
/// message with more values than have room is not decoded.
const ROOM_OF_VALUE: usize = 32;

/// Decodes a message to JSON of at most `room` bytes, including fields that have their default value.
pub(super) fn to_json(
    bytes: Bytes,
    kind: &MessageDescriptor,
    room: usize,
) -> Result<JsonMessage, TriggerError> {
    if !size::has_at_most(room / ROOM_OF_VALUE, &bytes, kind) {
        return Ok(JsonMessage { text: String::new(), is_truncated: true });
    }
    let wrong = |error: String| {
        let name = kind.full_name();
        TriggerError::invalid(format!(
            "the answer is no `{name}`: {error}; check that the protocol is the server's"
        ))
    };
    // Measured: by the number of its values, above.
    let message = DynamicMessage::decode(kind.clone(), bytes).map_err(|error| wrong(error.to_string()))?;
    check_depth(&message, 0).map_err(wrong)?;
    let options = SerializeOptions::new().skip_default_fields(false);
    let mut out = Bounded { bytes: Vec::new(), room, is_full: false };
    let mut serializer = serde_json::Serializer::pretty(&mut out);
    let written = message.serialize_with_options(&mut serializer, &options);
    if let (Err(error), false) = (written, out.is_full) {
        return Err(wrong(error.to_string()));
    }
    // Half a character at the end is left out.
    let end = out.bytes.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
    Ok(JsonMessage {
        text: String::from_utf8_lossy(&out.bytes[..end]).into_owned(),
        is_truncated: out.is_full,
    })
}

/// A text that takes up to `room` bytes, and refuses the rest.
struct Bounded {
    bytes: Vec<u8>,
    room: usize,
    is_full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let kept = bytes.len().min(self.room - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..kept]);
        if kept < bytes.len() {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(kept)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn check_depth(message: &DynamicMessage, level: usize) -> Result<(), String> {
    if level > MAX_LEVELS {
        return Err(format!("its messages stand more than {MAX_LEVELS} levels deep inside each other"));
    }
    if message.descriptor().full_name() == "google.protobuf.Any" {
        return match packed(message) {
            Some(inner) => check_depth(&inner, level + 1),
            None => Ok(()),
        };
    }
    message.fields().try_for_each(|(_, value)| check_value(value, level + 1))
}

fn check_value(value: &Value, level: usize) -> Result<(), String> {
    match value {
        Value::Message(message) => check_depth(message, level),
        Value::List(items) => items.iter().try_for_each(|item| check_value(item, level)),
        Value::Map(entries) => entries.values().try_for_each(|entry| check_value(entry, level)),
        _ => Ok(()),
    }
}

/// Decodes the message in an `Any`, if the pool knows its type.
fn packed(any: &DynamicMessage) -> Option<DynamicMessage> {
    let raw: prost_types::Any = any.transcode_to().ok()?;
    let name = raw.type_url.rsplit('/').next()?;
    let kind = any.descriptor().parent_pool().get_message_by_name(name)?;
    // Measured: with the message around it.
    DynamicMessage::decode(kind, raw.value.as_slice()).ok()
}

/// A detail, in a list that grows.
const DETAIL: u64 = 2 * size_of::<prost_types::Any>() as u64;
/// Values of a detail; one with more stays in base64.
const DETAIL_VALUES: usize = 100_000;

/// The details field of `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct RichStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// Returns the details of a status as JSON texts; those of unknown types stay in base64.
pub(super) fn details(bytes: &[u8], pool: &DescriptorPool) -> Result<Vec<String>, TriggerError> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let Ok(status) = protobuf_within::<RichStatus>(bytes, DETAIL, Allowance::SMALL) else {
        return Ok(vec![undescribed("", bytes)]);
    };
    let pools = [pool, protocol::error_details()?];
    Ok(status.details.iter().map(|detail| described(detail, pools)).collect())
}

/// Converts a detail to JSON with the first pool that knows its type.
fn described(detail: &prost_types::Any, pools: [&DescriptorPool; 2]) -> String {
    let name = detail.type_url.rsplit('/').next().unwrap_or_default();
    let fields = pools
        .into_iter()
        .find_map(|pool| pool.get_message_by_name(name))
        // Measured: by the number of its values.
        .filter(|kind| size::has_at_most(DETAIL_VALUES, &detail.value, kind))
        .and_then(|kind| DynamicMessage::decode(kind, detail.value.as_slice()).ok())
        .filter(|message| check_depth(message, 0).is_ok())
        .and_then(|message| serde_json::to_value(&message).ok());
    match fields {
        Some(serde_json::Value::Object(fields)) => {
            let kind = ("@type".to_owned(), detail.type_url.clone().into());
            serde_json::Value::Object(std::iter::once(kind).chain(fields).collect()).to_string()
        }
        Some(value) => serde_json::json!({ "@type": detail.type_url, "value": value }).to_string(),
        None => undescribed(&detail.type_url, &detail.value),
    }
}

fn undescribed(kind: &str, bytes: &[u8]) -> String {
    let value = base64::engine::general_purpose::STANDARD.encode(bytes);
    serde_json::json!({ "@type": kind, "value": value }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message type that contains itself, directly and packed.
    fn kind() -> MessageDescriptor {
        let mut compiler = protox::Compiler::with_file_resolver(protox::file::GoogleFileResolver::new());
        compiler.open_file("google/protobuf/any.proto").unwrap();
        let mut pool = compiler.descriptor_pool();
        let text = "syntax = \"proto3\"; import \"google/protobuf/any.proto\"; \
            message Box { Box inner = 1; google.protobuf.Any any = 2; repeated Box all = 3; \
            repeated int32 numbers = 4; string text = 5; }";
        let file = protox::file::File::from_source("box.proto", text).unwrap();
        pool.add_file_descriptor_proto(file.file_descriptor_proto().clone()).unwrap();
        pool.get_message_by_name("Box").unwrap()
    }

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        prost::encode_length_delimiter(content.len(), &mut out).unwrap();
        out.extend_from_slice(content);
        out
    }

    const ROOM: usize = 1024 * 1024;

    fn to_json_on_a_small_stack(bytes: Vec<u8>) -> Result<JsonMessage, TriggerError> {
        let small = std::thread::Builder::new().stack_size(1024 * 1024);
        small.spawn(move || to_json(bytes.into(), &kind(), ROOM)).unwrap().join().unwrap()
    }

    #[test]
    fn a_message_of_many_small_values_is_not_decoded() {
        let many = [0x1a, 0x00].repeat(ROOM);
        let any = [field(1, b"t/Box"), field(2, &many)].concat();
        for bytes in [many, field(2, &any), field(4, &vec![0; ROOM])] {
            let shown = to_json_on_a_small_stack(bytes).unwrap();
            assert_eq!((shown.text.as_str(), shown.is_truncated), ("", true));
        }
    }

    #[test]
    fn a_text_is_cut_where_the_room_ends() {
        let shown = to_json(field(5, "ä".repeat(100).as_bytes()).into(), &kind(), 64).unwrap();
        assert!(shown.is_truncated);
        assert!((60..=64).contains(&shown.text.len()) && shown.text.ends_with('ä'), "{}", shown.text);
    }

    #[test]
    fn messages_a_thousand_deep_are_refused_however_they_are_packed() {
        let direct = (0..1_000).fold(Vec::new(), |inner, _| field(1, &inner));
        let packed = (0..1_000).fold(Vec::new(), |inner, _| {
            let any = [field(1, b"t/Box"), field(2, &inner)].concat();
            field(2, &any)
        });
        for bytes in [direct, packed] {
            let refused = to_json_on_a_small_stack(bytes).err().map(|failure| failure.to_string());
            assert!(
                refused.as_ref().is_some_and(|told| told.contains("the answer is no `Box`")),
                "{refused:?}"
            );
        }
        let shallow = (0..20).fold(Vec::new(), |inner, _| field(1, &inner));
        assert!(to_json_on_a_small_stack(shallow).is_ok());
    }
}
