//! Triggers and what came of them: every kind has its place, and the places of the others stay empty.

use serde_json::{Map, Value, json};

use super::Facts;
use crate::wire::event::Reply;

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
    request.insert("auth".to_owned(), auth(&http["auth"]));
    out.insert("httpRequest".to_owned(), request.into());
    let grpc = &definition["grpc"];
    let mut call = parts(grpc, &["protobufFile", "address", "service", "method", "request", "metadata"]);
    call.insert("auth".to_owned(), auth(&grpc["auth"]));
    out.insert("grpc".to_owned(), call.into());
    out.insert("traceid".to_owned(), parts(&definition["traceid"], &["id"]).into());
    let kafka = &definition["kafka"];
    let mut message = parts(kafka, &["brokerUrls", "topic", "headers"]);
    let mut authentication = parts(&kafka["authentication"], &["type"]);
    authentication.insert("plain".to_owned(), whole(&kafka["authentication"]["plain"]));
    message.insert("authentication".to_owned(), authentication.into());
    message.extend(parts(kafka, &["messageKey", "messageValue", "sslVerification"]));
    out.insert("kafka".to_owned(), message.into());
    out.insert("playwrightEngine".to_owned(), whole(&definition["playwrightEngine"]));
    let graphql = &definition["graphql"];
    let mut query = parts(graphql, &["url", "headers"]);
    query.insert("auth".to_owned(), auth(&graphql["auth"]));
    query.insert("body".to_owned(), whole(&graphql["body"]));
    query.extend(parts(graphql, &["sslVerification", "schema"]));
    out.insert("graphql".to_owned(), query.into());
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
            if block.get(name).is_some_and(|auth| auth.get("type").is_none()) {
                block.shift_remove(name);
            }
        }
        if let Some(kind) = block.get("auth").and_then(|auth| auth["type"].as_str()).map(ToOwned::to_owned)
            && let Some(auth) = block.get_mut("auth").and_then(Value::as_object_mut)
        {
            auth.retain(|name, _| name == "type" || *name == kind);
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
    let mut http = Map::new();
    let mut trace = Map::new();
    let mut error = Map::new();
    match &facts.reply {
        Some(Reply::Http { status_code, status, headers, body, .. }) => {
            http.insert("status".to_owned(), status.clone().into());
            http.insert("statusCode".to_owned(), (*status_code).into());
            let headers: Vec<Value> =
                headers.iter().map(|header| json!({ "key": header.key, "value": header.value })).collect();
            if !headers.is_empty() {
                http.insert("headers".to_owned(), headers.into());
            }
            if !body.is_empty() {
                http.insert("body".to_owned(), body.clone().into());
            }
        }
        Some(Reply::TraceId { id }) => drop(trace.insert("id".to_owned(), id.clone().into())),
        None => {}
    }
    if let Some(failure) = &facts.failure {
        super::flag(&mut error, "connectionError", failure.connection);
        super::flag(&mut error, "targetsLocalhost", failure.targets_localhost);
        error.insert("message".to_owned(), failure.message.clone().into());
    }
    let mut out = Map::new();
    let kind = facts.trigger.as_ref().and_then(|trigger| trigger["type"].as_str());
    if let Some(kind) = kind.filter(|_| facts.reply.is_some() || facts.failure.is_some()) {
        out.insert("type".to_owned(), kind.into());
    }
    let results = json!({
        "http": http, "grpc": {}, "traceid": trace, "kafka": {}, "playwrightEngine": {}, "graphql": {}, "error": error,
    });
    out.insert("triggerResult".to_owned(), results);
    out.into()
}

fn auth(auth: &Value) -> Value {
    let mut out = parts(auth, &["type"]);
    for kind in ["apiKey", "basic", "bearer"] {
        out.insert(kind.to_owned(), whole(&auth[kind]));
    }
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
