//! Triggers and their results: each type has its own block, and the blocks of the others stay empty.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Pair, is_blank};

/// A resolved trigger, in the block of its type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Trigger {
    #[serde(rename = "type", skip_serializing_if = "is_blank")]
    kind: String,
    http_request: Map<String, Value>,
    grpc: Map<String, Value>,
    traceid: Map<String, Value>,
    kafka: Map<String, Value>,
    playwright_engine: Map<String, Value>,
    graphql: Map<String, Value>,
    #[serde(skip_serializing_if = "is_blank")]
    exec: Option<Map<String, Value>>,
}

/// The result of a trigger, in the block of its type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TriggerOutcome {
    #[serde(rename = "type", skip_serializing_if = "is_blank")]
    pub(in crate::wire) kind: String,
    pub(in crate::wire) trigger_result: TriggerResult,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(in crate::wire) struct TriggerResult {
    pub(in crate::wire) http: Answer,
    pub(in crate::wire) grpc: Answer,
    pub(in crate::wire) traceid: TraceIdAnswer,
    pub(in crate::wire) kafka: KafkaAnswer,
    pub(in crate::wire) playwright_engine: Map<String, Value>,
    pub(in crate::wire) graphql: Answer,
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) exec: Option<ExecAnswer>,
    pub(in crate::wire) error: TriggerError,
}

/// A response with a status; empty values are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "TriggerAnswer")]
pub(in crate::wire) struct Answer {
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) status: Option<String>,
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) status_code: Option<i32>,
    /// HTTP: the headers.
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) headers: Vec<Pair>,
    /// gRPC: the metadata.
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) metadata: Vec<Pair>,
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) body: String,
    /// Whether it was truncated.
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) truncated: bool,
    /// Whether the body is not UTF-8; invalid bytes were replaced.
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) binary: bool,
    /// gRPC: the message of the status.
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) message: String,
    /// gRPC: the details of the status, a JSON text each.
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) details: Vec<String>,
    /// gRPC: every message of a stream, a JSON text each.
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) messages: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::wire) struct TraceIdAnswer {
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) id: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(in crate::wire) struct KafkaAnswer {
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) partition: String,
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) offset: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(in crate::wire) struct ExecAnswer {
    pub(in crate::wire) exit_code: i32,
    pub(in crate::wire) stdout: String,
    pub(in crate::wire) stderr: String,
    /// Whether the output was truncated.
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) truncated: bool,
}

/// Why there is no response.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(in crate::wire) struct TriggerError {
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) connection_error: bool,
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) running_on_container: bool,
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) targets_localhost: bool,
    #[serde(skip_serializing_if = "is_blank")]
    pub(in crate::wire) message: String,
}

/// Builds the trigger from its definition.
pub fn trigger(definition: Option<&Value>) -> Trigger {
    let empty = Value::Null;
    let definition = definition.unwrap_or(&empty);
    let http = &definition["httpRequest"];
    let mut http_request = parts(http, &["url", "method", "headers", "body", "sslVerification"]);
    http_request.extend(parts(http, &["bodyFile", "form", "multipart", "redirects", "httpVersion"]));
    http_request.extend(parts(http, &["tls", "proxy", "timeout"]));
    http_request.insert("auth".to_owned(), auth(&http["auth"]));
    let call = &definition["grpc"];
    let mut grpc = parts(call, &["protobufFile", "address", "service", "method", "request", "metadata"]);
    grpc.extend(parts(call, &["imports", "descriptorSet", "tls", "sslVerification", "timeout"]));
    grpc.insert("auth".to_owned(), auth(&call["auth"]));
    let message = &definition["kafka"];
    let mut kafka = parts(message, &["brokerUrls", "topic", "headers"]);
    let mut authentication = parts(&message["authentication"], &["type"]);
    authentication.insert("plain".to_owned(), whole(&message["authentication"]["plain"]).into());
    authentication.extend(parts(&message["authentication"], &["scramSha256", "scramSha512"]));
    kafka.insert("authentication".to_owned(), authentication.into());
    kafka.extend(parts(message, &["messageKey", "messageValue", "sslVerification", "tls", "timeout"]));
    let query = &definition["graphql"];
    let mut graphql = parts(query, &["url", "headers"]);
    graphql.insert("auth".to_owned(), auth(&query["auth"]));
    graphql.insert("body".to_owned(), whole(&query["body"]).into());
    graphql.extend(parts(query, &["sslVerification", "schema", "introspection", "tls", "proxy", "timeout"]));
    Trigger {
        kind: definition["type"].as_str().unwrap_or_default().to_owned(),
        http_request,
        grpc,
        traceid: parts(&definition["traceid"], &["id"]),
        kafka,
        playwright_engine: whole(&definition["playwrightEngine"]),
        graphql,
        exec: definition["exec"].as_object().cloned(),
    }
}

/// Converts the trigger back into the form of a definition.
pub fn definition_trigger(shown: &Value) -> Value {
    let kind = shown["type"].as_str().unwrap_or_default();
    let key = match kind {
        "http" => "httpRequest",
        "playwrightengine" => "playwrightEngine",
        other => other,
    };
    let mut block = shown.get(key).cloned().unwrap_or_default();
    if let Some(block) = block.as_object_mut() {
        for name in ["auth", "authentication"] {
            let Some(auth) = block.get_mut(name).and_then(Value::as_object_mut) else { continue };
            match auth.get("type").and_then(Value::as_str).map(ToOwned::to_owned) {
                Some(kind) => auth.retain(|name, _| name == "type" || *name == kind),
                None => {
                    block.shift_remove(name);
                }
            }
        }
    }
    let mut out = json!({ "type": kind });
    if block.is_object() {
        out[key] = block;
    }
    out
}

fn auth(auth: &Value) -> Value {
    let mut out = parts(auth, &["type"]);
    for kind in ["apiKey", "basic", "bearer"] {
        out.insert(kind.to_owned(), whole(&auth[kind]).into());
    }
    out.extend(parts(auth, &["oauth2"]));
    out.into()
}

/// Returns these keys, as far as they exist.
fn parts(block: &Value, keys: &[&str]) -> Map<String, Value> {
    keys.iter().filter_map(|key| Some(((*key).to_owned(), block.get(key)?.clone()))).collect()
}

/// Returns the object, or an empty one.
fn whole(block: &Value) -> Map<String, Value> {
    block.as_object().cloned().unwrap_or_default()
}
