//! Which spans call someone who records spans too.
//!
//! Both generations of the semantic conventions are read. A call that tells nothing about its peer counts as one that
//! is answered: at worst a first run waits one settle window longer.

use std::sync::Arc;

use crate::trace::{Span, SpanKind};
use crate::value::Value;

/// Whether another service should answer this span with a span of its own.
pub(super) fn expects_answer(span: &Span) -> bool {
    if !matches!(span.kind, SpanKind::Client | SpanKind::Producer) {
        return false;
    }
    let has = |prefix: &str| span.attributes.iter().any(|(name, _)| name.starts_with(prefix));
    if has("messaging.") {
        return !OPERATIONS
            .iter()
            .filter_map(|name| text(span, name))
            .any(|operation| UNANSWERED_OPERATIONS.contains(&&*operation));
    }
    if span.kind == SpanKind::Producer || has("faas.invoked_") {
        return true;
    }
    let storage = STORAGE.iter().any(|prefix| has(prefix));
    let cloud = CLOUD.iter().any(|(name, value)| text(span, name).is_some_and(|is| &*is == *value));
    let model = has("gen_ai.") && !has("http.");
    !(storage || cloud || model)
}

/// Whom the span calls, in the words that the span has for it.
pub(super) fn peer(span: &Span) -> Option<Arc<str>> {
    PEERS.iter().find_map(|name| text(span, name))
}

/// Databases, caches and files keep no trace of their own.
const STORAGE: [&str; 5] = ["db.", "cache.", "file.", "aws.s3.", "aws.dynamodb."];
/// The APIs of a cloud are not ours to see into.
const CLOUD: [(&str, &str); 2] = [("rpc.system", "aws-api"), ("rpc.system.name", "aws-api")];
/// Where a message's operation is written.
const OPERATIONS: [&str; 3] = ["messaging.operation.type", "messaging.operation.name", "messaging.operation"];
/// What is done with messages without sending one.
const UNANSWERED_OPERATIONS: [&str; 10] =
    ["receive", "process", "deliver", "settle", "ack", "nack", "commit", "poll", "peek", "delete"];
const PEERS: [&str; 9] = [
    "peer.service",
    "messaging.destination.name",
    "messaging.destination",
    "rpc.service",
    "url.full",
    "http.url",
    "server.address",
    "net.peer.name",
    "faas.invoked_name",
];

fn text(span: &Span, name: &str) -> Option<Arc<str>> {
    match span.attributes.get(name) {
        Some(Value::String(text)) => Some(Arc::clone(text)),
        _ => None,
    }
}
