//! How well an attribute identifies a span: whether its value is the same in the next run.

use crate::definition::secrets::MASK;
use crate::names;

/// How well an attribute identifies a span, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AttributeRank {
    /// It says which operation of which service it is.
    Identity,
    /// A convention says that it describes the operation; the number is its place in the list of these.
    Convention(usize),
    /// Any other attribute.
    Ordinary,
    /// It says how the operation went, which a test asserts rather than presumes.
    Outcome,
    /// Its value differs from run to run.
    Volatile,
}

/// Attributes that describe an operation, the most telling first.
const CONVENTIONS: [&str; 36] = [
    "http.route",
    "http.method",
    "http.request.method",
    "rpc.service",
    "rpc.method",
    "messaging.destination",
    "messaging.destination.name",
    "messaging.operation",
    "messaging.operation.type",
    "messaging.operation.name",
    "db.operation",
    "db.operation.name",
    "db.sql.table",
    "db.collection.name",
    "db.name",
    "db.namespace",
    "db.system",
    "db.system.name",
    "graphql.operation.name",
    "graphql.operation.type",
    "faas.name",
    "faas.trigger",
    "messaging.system",
    "rpc.system",
    "rpc.system.name",
    "peer.service",
    "service.peer.name",
    "http.target",
    "url.path",
    "http.scheme",
    "url.scheme",
    "code.function",
    "code.function.name",
    "code.namespace",
    "db.query.summary",
    "db.statement",
];

/// Last parts of names whose values differ from run to run.
const VOLATILE_ENDS: [&str; 29] = [
    "address",
    "addr",
    "age",
    "client_ip",
    "duration",
    "elapsed",
    "end_time",
    "guid",
    "hash",
    "hostname",
    "ip",
    "lag",
    "latency",
    "length",
    "lineno",
    "nonce",
    "offset",
    "pid",
    "port",
    "pod",
    "seed",
    "sequence",
    "size",
    "start_time",
    "time",
    "timestamp",
    "token",
    "user_agent",
    "uuid",
];

/// Beginnings of names whose values belong to the machine, the process or the run.
const VOLATILE_BEGINNINGS: [&str; 15] = [
    "thread.",
    "process.",
    "host.",
    "k8s.",
    "container.",
    "os.",
    "net.sock.",
    "network.peer.",
    "telemetry.",
    "client.",
    "user_agent.",
    "browser.",
    "busy_ns",
    "idle_ns",
    "span.events",
];

/// Words in names of attributes that say how an operation went.
const OUTCOMES: [&str; 8] =
    ["status_code", "status_text", "error", "exception", "response", "resend_count", "retry", "otel.status"];

/// Returns how well the attribute of this name identifies a span.
pub(super) fn standing(name: &str) -> AttributeRank {
    let name = names::attribute(name);
    match &*name {
        "name"
        | "kind"
        | "service.name"
        | "tracetest.span.name"
        | "tracetest.span.type"
        | "tracetest.span.kind" => return AttributeRank::Identity,
        "status" | "tracetest.span.status_code" | "tracetest.span.status_description" => {
            return AttributeRank::Outcome;
        }
        "duration" => return AttributeRank::Volatile,
        _ => {}
    }
    if let Some(place) = CONVENTIONS.iter().position(|known| *known == name) {
        return AttributeRank::Convention(place);
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_id = last == "id" || last.ends_with("_id") || last.ends_with("Id");
    let ends = VOLATILE_ENDS
        .iter()
        .any(|end| last == *end || last.strip_suffix(end).is_some_and(|rest| rest.ends_with('_')));
    if is_id || ends || VOLATILE_BEGINNINGS.iter().any(|begin| name.starts_with(begin)) {
        return AttributeRank::Volatile;
    }
    if name.starts_with("tracetest.") || OUTCOMES.iter().any(|word| name.contains(word)) {
        return AttributeRank::Outcome;
    }
    AttributeRank::Ordinary
}

/// Longest text that a selector compares with.
const MAX_TEXT: usize = 200;
/// Length from which digits are a time or an id.
const MAX_DIGITS: usize = 9;
/// Length from which hexadecimal digits are an id.
const HEX: usize = 8;
/// Length from which letters mixed with digits are an id.
const MIXED: usize = 16;

/// Whether a text was probably made for one run: it holds an id, a time, a free port or a masked secret.
pub(super) fn is_random(text: &str) -> bool {
    if text.len() > MAX_TEXT || text.contains(MASK) || text.chars().any(char::is_control) {
        return true;
    }
    let mut parts = text.split(|c: char| !c.is_ascii_alphanumeric());
    parts.any(is_random_part) || has_port(text) || has_date(text)
}

fn is_random_part(part: &str) -> bool {
    let digits = part.bytes().filter(u8::is_ascii_digit).count();
    if digits == part.len() {
        return digits >= MAX_DIGITS;
    }
    let is_hex = part.bytes().all(|b| b.is_ascii_hexdigit());
    digits > 0 && (part.len() >= HEX && is_hex || part.len() >= MIXED && digits >= 3)
}

/// Whether the text holds a `:` and four or five digits.
fn has_port(text: &str) -> bool {
    text.split(':').skip(1).any(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        (4..=5).contains(&digits) && !rest[digits..].starts_with(|c: char| c.is_alphanumeric())
    })
}

/// Whether the text holds a date of this century.
fn has_date(text: &str) -> bool {
    text.as_bytes().windows(10).any(|part| {
        part.starts_with(b"20")
            && part.iter().enumerate().all(|(at, byte)| match at {
                4 | 7 => *byte == b'-',
                _ => byte.is_ascii_digit(),
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_stand_by_how_well_they_identify_a_span() {
        let sorted = ["name", "http.route", "db.system", "shop.items", "http.status_code", "user.id"];
        let standings: Vec<AttributeRank> = sorted.iter().map(|name| standing(name)).collect();
        assert!(standings.is_sorted(), "{standings:?}");
        assert_eq!(standing("qualitytrace.span.type"), AttributeRank::Identity);
        for volatile in
            ["net.peer.port", "http.request.body.size", "thread.id", "messaging.kafka.offset", "x_time"]
        {
            assert_eq!(standing(volatile), AttributeRank::Volatile, "{volatile}");
        }
    }

    #[test]
    fn values_made_for_one_run_are_known() {
        for random in [
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "guest-f031313f",
            "1794850700390",
            "127.0.0.1:46509",
            "at 2026-11-16T17:39:12",
            "a ******** b",
        ] {
            assert!(is_random(random), "{random}");
        }
        for stable in [
            "POST /orders/{id}",
            "espresso-beans",
            "v1.2.3",
            "SELECT * FROM t1",
            "127.0.0.1",
            "shop.Stock/Reserve",
        ] {
            assert!(!is_random(stable), "{stable}");
        }
    }
}
