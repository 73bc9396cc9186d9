//! Triggers and what came of them: every kind has its place, and the places of the others stay empty.

use serde_json::{Map, Value, json};

use super::Facts;
use crate::wire::event::{Header, Reply};

/// A resolved trigger: the parts that the definition has, in the places that clients look at.
pub fn trigger(definition: Option<&Value>) -> Value {
    let empty = Value::Null;
    let definition = definition.unwrap_or(&empty);
    let mut out = Map::new();
    if let Some(kind) = definition["type"].as_str().filter(|kind| !kind.is_empty()) {
        out.insert("type".to_owned(), kind.into());
    }
    let http = &definition["httpRequest"];
    let mut request = parts(http, &["url", "method", "headers", "body", "sslVerification"]);
    request.extend(parts(http, &["bodyFile", "form", "multipart", "redirects", "httpVersion"]));
    request.extend(parts(http, &["tls", "proxy", "timeout"]));
    request.insert("auth".to_owned(), auth(&http["auth"]));
    out.insert("httpRequest".to_owned(), request.into());
    let grpc = &definition["grpc"];
    let mut call = parts(grpc, &["protobufFile", "address", "service", "method", "request", "metadata"]);
    call.extend(parts(grpc, &["imports", "descriptorSet", "tls", "sslVerification", "timeout"]));
    call.insert("auth".to_owned(), auth(&grpc["auth"]));
    out.insert("grpc".to_owned(), call.into());
    out.insert("traceid".to_owned(), parts(&definition["traceid"], &["id"]).into());
    let kafka = &definition["kafka"];
    let mut message = parts(kafka, &["brokerUrls", "topic", "headers"]);
    let mut authentication = parts(&kafka["authentication"], &["type"]);
    authentication.insert("plain".to_owned(), whole(&kafka["authentication"]["plain"]));
    authentication.extend(parts(&kafka["authentication"], &["scramSha256", "scramSha512"]));
    message.insert("authentication".to_owned(), authentication.into());
    message.extend(parts(kafka, &["messageKey", "messageValue", "sslVerification", "tls", "timeout"]));
    out.insert("kafka".to_owned(), message.into());
    out.insert("playwrightEngine".to_owned(), whole(&definition["playwrightEngine"]));
    let graphql = &definition["graphql"];
    let mut query = parts(graphql, &["url", "headers"]);
    query.insert("auth".to_owned(), auth(&graphql["auth"]));
    query.insert("body".to_owned(), whole(&graphql["body"]));
    query.extend(parts(graphql, &["sslVerification", "schema", "introspection", "tls", "proxy", "timeout"]));
    out.insert("graphql".to_owned(), query.into());
    out.extend(parts(definition, &["exec"]));
    out.into()
}

/// The trigger in the form of a definition, from the form above.
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

/// What came of the trigger.
pub(super) fn result(facts: &Facts) -> Value {
    let kind = facts.trigger.as_ref().and_then(|trigger| trigger["type"].as_str());
    let mut blocks = Map::new();
    for block in ["http", "grpc", "traceid", "kafka", "playwrightEngine", "graphql"] {
        blocks.insert(block.to_owned(), json!({}));
    }
    match &facts.reply {
        Some(Reply::Http { status_code, status, headers, body, .. }) => {
            let block = if kind == Some("graphql") { "graphql" } else { "http" };
            blocks[block] = answer(json!(status_code), status, "headers", headers, body);
        }
        Some(Reply::Grpc { status_code, status, metadata, body, .. }) => {
            blocks["grpc"] = answer(json!(status_code), status, "metadata", metadata, body);
        }
        Some(Reply::Kafka { partition, offset }) => {
            blocks["kafka"] = json!({ "partition": partition.to_string(), "offset": offset.to_string() });
        }
        Some(Reply::Exec { exit_code, stdout, stderr, .. }) => {
            blocks.insert(
                "exec".to_owned(),
                json!({ "exitCode": exit_code, "stdout": stdout, "stderr": stderr }),
            );
        }
        Some(Reply::TraceId { id }) => blocks["traceid"] = json!({ "id": id }),
        None => {}
    }
    let mut error = Map::new();
    if let Some(failure) = &facts.failure {
        super::flag(&mut error, "connectionError", failure.connection);
        super::flag(&mut error, "runningOnContainer", failure.running_on_container);
        super::flag(&mut error, "targetsLocalhost", failure.targets_localhost);
        error.insert("message".to_owned(), failure.message.clone().into());
    }
    blocks.insert("error".to_owned(), error.into());
    let mut out = Map::new();
    if let Some(kind) = kind.filter(|_| facts.reply.is_some() || facts.failure.is_some()) {
        out.insert("type".to_owned(), kind.into());
    }
    out.insert("triggerResult".to_owned(), blocks.into());
    out.into()
}

/// An answer with a status; what is empty is left out.
fn answer(status_code: Value, status: &str, headers_key: &str, headers: &[Header], body: &str) -> Value {
    let mut answer = Map::new();
    answer.insert("status".to_owned(), status.into());
    answer.insert("statusCode".to_owned(), status_code);
    if !headers.is_empty() {
        let headers = headers.iter().map(|header| json!({ "key": header.key, "value": header.value }));
        answer.insert(headers_key.to_owned(), headers.collect());
    }
    if !body.is_empty() {
        answer.insert("body".to_owned(), body.into());
    }
    answer.into()
}

fn auth(auth: &Value) -> Value {
    let mut out = parts(auth, &["type"]);
    for kind in ["apiKey", "basic", "bearer"] {
        out.insert(kind.to_owned(), whole(&auth[kind]));
    }
    out.extend(parts(auth, &["oauth2"]));
    out.into()
}

/// These keys, where they are there.
fn parts(block: &Value, keys: &[&str]) -> Map<String, Value> {
    keys.iter().filter_map(|key| Some(((*key).to_owned(), block.get(key)?.clone()))).collect()
}

/// The object, or an empty one.
fn whole(block: &Value) -> Value {
    if block.is_object() { block.clone() } else { json!({}) }
}
