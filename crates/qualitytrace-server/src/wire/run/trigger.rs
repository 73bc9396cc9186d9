//! Triggers and their results: each type has its own block, and the blocks of the others stay empty.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Pair, RunState, is_blank};
use crate::wire::event::{Header, Reply};

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
    kind: String,
    trigger_result: TriggerResult,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct TriggerResult {
    http: Answer,
    grpc: Answer,
    traceid: TraceIdAnswer,
    kafka: KafkaAnswer,
    playwright_engine: Map<String, Value>,
    graphql: Answer,
    #[serde(skip_serializing_if = "is_blank")]
    exec: Option<ExecAnswer>,
    error: TriggerError,
}

/// A response with a status; empty values are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "TriggerAnswer")]
struct Answer {
    #[serde(skip_serializing_if = "is_blank")]
    status: Option<String>,
    #[serde(skip_serializing_if = "is_blank")]
    status_code: Option<i32>,
    /// HTTP: the headers.
    #[serde(skip_serializing_if = "is_blank")]
    headers: Vec<Pair>,
    /// gRPC: the metadata.
    #[serde(skip_serializing_if = "is_blank")]
    metadata: Vec<Pair>,
    #[serde(skip_serializing_if = "is_blank")]
    body: String,
    /// Whether it was truncated.
    #[serde(skip_serializing_if = "is_blank")]
    truncated: bool,
    /// Whether the body is not UTF-8; invalid bytes were replaced.
    #[serde(skip_serializing_if = "is_blank")]
    binary: bool,
    /// gRPC: the message of the status.
    #[serde(skip_serializing_if = "is_blank")]
    message: String,
    /// gRPC: the details of the status, a JSON text each.
    #[serde(skip_serializing_if = "is_blank")]
    details: Vec<String>,
    /// gRPC: every message of a stream, a JSON text each.
    #[serde(skip_serializing_if = "is_blank")]
    messages: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TraceIdAnswer {
    #[serde(skip_serializing_if = "is_blank")]
    id: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct KafkaAnswer {
    #[serde(skip_serializing_if = "is_blank")]
    partition: String,
    #[serde(skip_serializing_if = "is_blank")]
    offset: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct ExecAnswer {
    exit_code: i32,
    stdout: String,
    stderr: String,
    /// Whether the output was truncated.
    #[serde(skip_serializing_if = "is_blank")]
    truncated: bool,
}

/// Why there is no response.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct TriggerError {
    #[serde(skip_serializing_if = "is_blank")]
    connection_error: bool,
    #[serde(skip_serializing_if = "is_blank")]
    running_on_container: bool,
    #[serde(skip_serializing_if = "is_blank")]
    targets_localhost: bool,
    #[serde(skip_serializing_if = "is_blank")]
    message: String,
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

/// Builds the result of the trigger.
pub(super) fn outcome(facts: &RunState) -> TriggerOutcome {
    let kind = facts.trigger.as_ref().and_then(|trigger| trigger["type"].as_str()).unwrap_or_default();
    let mut blocks = TriggerResult::default();
    match &facts.reply {
        Some(Reply::Http { status_code, status, headers, body, truncated, binary }) => {
            let answer = answer((*status_code).into(), status, body, *truncated);
            let answer = Answer { headers: pairs(headers), binary: *binary, ..answer };
            if kind == "graphql" {
                blocks.graphql = answer;
            } else {
                blocks.http = answer;
            }
        }
        Some(Reply::Grpc { status_code, status, message, details, metadata, body, messages, truncated }) => {
            blocks.grpc = Answer {
                metadata: pairs(metadata),
                message: message.clone(),
                details: details.clone(),
                messages: messages.clone().unwrap_or_default(),
                ..answer(*status_code, status, body, *truncated)
            };
        }
        Some(Reply::Kafka { partition, offset }) => {
            blocks.kafka = KafkaAnswer { partition: partition.to_string(), offset: offset.to_string() };
        }
        Some(Reply::Exec { exit_code, stdout, stderr, truncated }) => {
            let (stdout, stderr) = (stdout.clone(), stderr.clone());
            blocks.exec = Some(ExecAnswer { exit_code: *exit_code, stdout, stderr, truncated: *truncated });
        }
        Some(Reply::TraceId { id }) => blocks.traceid = TraceIdAnswer { id: id.clone() },
        None => {}
    }
    if let Some(failure) = &facts.failure {
        blocks.error = TriggerError {
            connection_error: failure.connection,
            running_on_container: failure.running_on_container,
            targets_localhost: failure.targets_localhost,
            message: failure.message.clone(),
        };
    }
    let is_known = facts.reply.is_some() || facts.failure.is_some();
    TriggerOutcome { kind: if is_known { kind.to_owned() } else { String::new() }, trigger_result: blocks }
}

fn answer(status_code: i32, status: &str, body: &str, truncated: bool) -> Answer {
    Answer {
        status: Some(status.to_owned()),
        status_code: Some(status_code),
        body: body.to_owned(),
        truncated,
        ..Answer::default()
    }
}

fn pairs(headers: &[Header]) -> Vec<Pair> {
    headers.iter().map(|header| Pair { key: header.key.clone(), value: header.value.clone() }).collect()
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
