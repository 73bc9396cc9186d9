//! Messages between JSON, as users read and write them, and bytes.

use base64::Engine as _;
use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};

use super::super::failure::Failure;
use super::{mistake, protocol};

/// The messages of a request, in bytes: one JSON document each.
pub(super) fn encode(request: &str, kind: &MessageDescriptor, many: bool) -> Result<Vec<Bytes>, Failure> {
    let documents = serde_json::Deserializer::from_str(request).into_iter::<serde_json::Value>();
    let mut messages = Vec::new();
    for document in documents {
        let document = document
            .map_err(|error| Failure::invalid(format!("the trigger's `request` is not JSON: {error}")))?;
        let message = mistake::read(kind, &document).map_err(|mistake| {
            Failure::invalid(format!("the trigger's `request` is no `{}`: {mistake}", kind.full_name()))
        })?;
        messages.push(Bytes::from(message.encode_to_vec()));
    }
    match messages.len() {
        0 if !many => Ok(vec![Bytes::new()]),
        count if count > 1 && !many => Err(Failure::invalid(format!(
            "the method takes one message, but the trigger's `request` holds {count}; keep one of them"
        ))),
        _ => Ok(messages),
    }
}

/// A message as JSON, with the fields that have their default value.
pub(super) fn to_json(bytes: Bytes, kind: &MessageDescriptor) -> Result<String, Failure> {
    let wrong = |error: String| {
        let name = kind.full_name();
        Failure::invalid(format!(
            "the answer is no `{name}`: {error}; check that the protocol is the server's"
        ))
    };
    let message = DynamicMessage::decode(kind.clone(), bytes).map_err(|error| wrong(error.to_string()))?;
    let options = SerializeOptions::new().skip_default_fields(false);
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::pretty(&mut out);
    message.serialize_with_options(&mut serializer, &options).map_err(|error| wrong(error.to_string()))?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// What a rich status carries: any messages.
#[derive(Clone, PartialEq, prost::Message)]
struct RichStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// The details of a status, a JSON text each; what the protocol does not describe stays in base64.
pub(super) fn details(bytes: &[u8], pool: &DescriptorPool) -> Result<Vec<String>, Failure> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let Ok(status) = RichStatus::decode(bytes) else {
        return Ok(vec![undescribed("", bytes)]);
    };
    let pools = [pool, protocol::error_details()?];
    Ok(status.details.iter().map(|detail| described(detail, pools)).collect())
}

/// A detail as JSON; the first protocol that knows its kind describes it.
fn described(detail: &prost_types::Any, pools: [&DescriptorPool; 2]) -> String {
    let name = detail.type_url.rsplit('/').next().unwrap_or_default();
    let fields = pools
        .into_iter()
        .find_map(|pool| pool.get_message_by_name(name))
        .and_then(|kind| DynamicMessage::decode(kind, detail.value.as_slice()).ok())
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
