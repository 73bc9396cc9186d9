//! Classification of spans that call another instrumented service.
//!
//! Both generations of the semantic conventions are read. A call without attributes of its peer is expected to be
//! answered: at worst a first run waits one settle window longer.

mod outcome;
mod uninstrumented;

use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

pub(super) use self::outcome::CallOutcome;
pub use self::uninstrumented::UninstrumentedPeers;

use super::shape::fold;
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
    let cloud = CLOUD.iter().any(|(name, value)| text(span, name).is_some_and(|is| &*is == *value));
    if cloud || STORES.iter().any(|name| has(name)) {
        return false;
    }
    // Other attributes that a caller records beside a call do not say what answers it.
    CALLS.iter().any(|prefix| has(prefix)) || !UNANSWERED.iter().any(|prefix| has(prefix))
}

/// Whether the caller does not wait for the other side.
pub(super) fn is_message(span: &Span) -> bool {
    span.kind == SpanKind::Producer || span.attributes.iter().any(|(name, _)| name.starts_with("messaging."))
}

/// Returns how the call ended.
pub(super) fn outcome(span: &Span) -> CallOutcome {
    CallOutcome::read(span, is_message(span))
}

/// Returns a number that tells the kinds of calls at one address apart.
pub(super) fn kind(span: &Span) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    (span.service(), &*fold(&span.name)).hash(&mut hasher);
    hasher.finish()
}

/// Returns the address as a part of what a kind of span is: without a port that the system chose at random.
pub(super) fn lasting_address(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok_and(|port| port > LAST_CHOSEN_PORT) => host,
        Some(_) | None => address,
    }
}

/// The port of an address that names a process itself and not a service: an IP address.
pub(super) fn direct_port(address: &str) -> Option<&str> {
    let (host, port) = address.rsplit_once(':')?;
    host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok().then_some(port)
}

/// Ports above this one are given to programs that ask for any.
const LAST_CHOSEN_PORT: u16 = 32_767;

/// Returns the name of the peer as the span's attributes give it.
pub(super) fn peer(span: &Span) -> Option<Arc<str>> {
    PEERS.iter().find_map(|name| text(span, name))
}

/// Returns the address of the other side: its destination, its host and port, or its RPC service.
pub(super) fn address(span: &Span) -> Option<Arc<str>> {
    if let Some(destination) = DESTINATIONS.iter().find_map(|name| text(span, name)) {
        return Some(destination);
    }
    let host = HOSTS.iter().find_map(|name| text(span, name));
    let port = PORTS.iter().find_map(|name| match span.attributes.get(name)? {
        Value::Int(port) => Some(port.to_string()),
        Value::String(port) => Some(port.to_string()),
        _ => None,
    });
    match (host, port) {
        (Some(host), Some(port)) => Some(format!("{host}:{port}").into()),
        (Some(host), None) => Some(host),
        (None, _) => URLS
            .iter()
            .find_map(|name| text(span, name))
            .map(|url| Arc::from(authority(&url)))
            .or_else(|| NAMES.iter().find_map(|name| text(span, name))),
    }
}

/// The host and port of a URL, without its user.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

const DESTINATIONS: [&str; 2] = ["messaging.destination.name", "messaging.destination"];
const HOSTS: [&str; 3] = ["server.address", "net.peer.name", "net.peer.ip"];
const PORTS: [&str; 2] = ["server.port", "net.peer.port"];
const URLS: [&str; 2] = ["url.full", "http.url"];
const NAMES: [&str; 3] = ["rpc.service", "peer.service", "faas.invoked_name"];

/// Attributes that only calls of databases and stores have, over any protocol: these record no spans of their own.
const STORES: [&str; 3] = ["db.system", "aws.s3.", "aws.dynamodb."];
/// Attributes of calls to services.
const CALLS: [&str; 5] = ["http.request.method", "http.method", "http.url", "rpc.", "mcp."];
/// Attributes of work that no instrumented service answers, unless it is a call to a service: databases, caches,
/// files, models.
const UNANSWERED: [&str; 4] = ["db.", "cache.", "file.", "gen_ai."];
/// The APIs of a cloud: they send no spans to this server.
const CLOUD: [(&str, &str); 2] = [("rpc.system", "aws-api"), ("rpc.system.name", "aws-api")];
/// Attributes that hold the operation of a message.
const OPERATIONS: [&str; 3] = ["messaging.operation.type", "messaging.operation.name", "messaging.operation"];
/// Messaging operations that send no message.
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
