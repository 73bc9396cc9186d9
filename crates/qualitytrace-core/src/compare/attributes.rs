//! Differences of two spans' attributes, and which of them are volatile: they differ from call to call by their
//! nature, and say nothing about a change of the system.
//!
//! A difference is volatile if both sides have the attribute and
//! - its name ends in a word for an identity (`id`, `uuid`, `pid`, `offset`, ..), or is one of the listed names;
//! - its name ends in `port` and both ports are of those that a system assigns itself (32768 and above);
//! - both values are IP addresses, or both are points in time (RFC 3339, or an epoch of at least milliseconds);
//! - both texts are the same once ids in them are replaced; in names ending in `url`, `path` and the like, once numbers
//!   in them are replaced, too.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use crate::names;
use crate::trace::{Span, StatusCode};
use crate::value::Value;
use crate::wait::shape::{fold, fold_ids};

/// Last words of names whose values are identities.
const IDENTITIES: [&str; 12] = [
    "id",
    "ids",
    "uuid",
    "guid",
    "pid",
    "tid",
    "nonce",
    "timestamp",
    "offset",
    "etag",
    "traceparent",
    "tracestate",
];
/// Further names whose values belong to a process or a moment.
const PASSING: [&str; 6] = [
    "thread.name",
    "host.name",
    "k8s.pod.name",
    "process.command_args",
    "process.command_line",
    names::RESPONSE_HEADERS,
];
/// Last words of names whose texts have numbers in them like names of spans have.
const PLACES: [&str; 6] = ["url", "uri", "path", "target", "full", "query"];
/// The first port that Linux assigns itself.
const FIRST_ASSIGNED_PORT: i64 = 32_768;
/// The year 2001 in milliseconds since the epoch.
const FIRST_EPOCH: i64 = 1_000_000_000_000;
/// The year 2100 in nanoseconds since the epoch.
const LAST_EPOCH: i64 = 4_102_444_800_000_000_000;

/// An attribute that two spans do not have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference<'t> {
    /// Its name. Properties of the span have the names that selectors use: `tracetest.span.name`,
    /// `tracetest.span.status_code`, `tracetest.span.status_description`; `span.events` are the names of its events.
    pub name: &'t str,
    /// Its value in the first trace; `None` where it has none.
    pub before: Option<Value>,
    /// Its value in the second trace; `None` where it has none.
    pub after: Option<Value>,
    /// Whether it differs from call to call by its nature.
    pub is_volatile: bool,
}

/// Returns the differences of two spans that correspond: properties first, then attributes by name.
pub fn differences<'t>(a: &'t Span, b: &'t Span) -> Vec<Difference<'t>> {
    let mut found = Vec::new();
    let mut property = |name, before: Option<Value>, after: Option<Value>| {
        if before != after {
            // The folded names of spans that correspond are the same.
            let is_volatile = name == "tracetest.span.name";
            found.push(Difference { name, before, after, is_volatile });
        }
    };
    if a.name != b.name {
        property("tracetest.span.name", Some(Value::from(&*a.name)), Some(Value::from(&*b.name)));
    }
    property("tracetest.span.status_code", Some(status(a).into()), Some(status(b).into()));
    property("tracetest.span.status_description", description(a), description(b));
    if !(a.events.is_empty() && b.events.is_empty()) {
        property("span.events", Some(events(a)), Some(events(b)));
    }
    let (mut before, mut after) = (a.attributes.iter().peekable(), b.attributes.iter().peekable());
    loop {
        let (x, y) = (before.peek().copied(), after.peek().copied());
        let (name, x, y) = match (x, y) {
            (None, None) => return found,
            (Some((name, x)), Some((other, y))) if name == other => (name, Some(x), Some(y)),
            (Some((name, x)), Some((other, _))) if name < other => (name, Some(x), None),
            (Some((name, x)), None) => (name, Some(x), None),
            (_, Some((name, y))) => (name, None, Some(y)),
        };
        before.next_if(|_| x.is_some());
        after.next_if(|_| y.is_some());
        found.extend(difference(name, x, y));
    }
}

/// Returns the difference of two values of an attribute, if there is one.
pub(super) fn difference<'t>(
    name: &'t str,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Option<Difference<'t>> {
    if before == after || is_same_number(before, after) {
        return None;
    }
    let is_volatile = match (before, after) {
        (Some(before), Some(after)) => steady(name, before) == steady(name, after),
        (None, _) | (_, None) => false,
    };
    Some(Difference { name, before: before.cloned(), after: after.cloned(), is_volatile })
}

/// Whether both are the same bits: NaN does not equal itself.
fn is_same_number(before: Option<&Value>, after: Option<&Value>) -> bool {
    match (before, after) {
        (Some(Value::Float(before)), Some(Value::Float(after))) => before.to_bits() == after.to_bits(),
        _ => false,
    }
}

/// Returns a hash of what does not differ from call to call by its nature.
pub(super) fn signature(span: &Span) -> u64 {
    let mut hasher = DefaultHasher::new();
    status(span).hash(&mut hasher);
    for event in &span.events {
        fold(&event.name).hash(&mut hasher);
    }
    for (name, value) in span.attributes.iter() {
        name.hash(&mut hasher);
        match steady(name, value) {
            Steady::Nothing => 0_u8.hash(&mut hasher),
            Steady::Address => 1_u8.hash(&mut hasher),
            Steady::Time => 2_u8.hash(&mut hasher),
            Steady::Text(text) => text.hash(&mut hasher),
            Steady::Value(value) => hash(value, &mut hasher),
        }
    }
    hasher.finish()
}

/// The part of a value that does not differ from call to call by its nature.
#[derive(Debug, PartialEq)]
enum Steady<'v> {
    Nothing,
    Address,
    Time,
    Text(Cow<'v, str>),
    Value(&'v Value),
}

fn steady<'v>(name: &str, value: &'v Value) -> Steady<'v> {
    if is_identity(name) {
        return Steady::Nothing;
    }
    match value {
        Value::Int(number) => whole(name, *number).unwrap_or(Steady::Value(value)),
        Value::String(text) => {
            if let Some(steady) = text.parse().ok().and_then(|number| whole(name, number)) {
                return steady;
            }
            if text.parse::<IpAddr>().is_ok() {
                return Steady::Address;
            }
            if is_time(text) {
                return Steady::Time;
            }
            Steady::Text(if PLACES.contains(&last_word(name)) { fold(text) } else { fold_ids(text) })
        }
        Value::Null
        | Value::Bool(_)
        | Value::Float(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::List(_)
        | Value::Object(_) => Steady::Value(value),
    }
}

/// The steady part of a port that was assigned or of a point in time.
fn whole(name: &str, number: i64) -> Option<Steady<'static>> {
    if last_word(name) == "port" && number >= FIRST_ASSIGNED_PORT {
        return Some(Steady::Nothing);
    }
    (FIRST_EPOCH..LAST_EPOCH).contains(&number).then_some(Steady::Time)
}

fn is_time(text: &str) -> bool {
    let looks = text.len() >= 20 && text.as_bytes()[4] == b'-' && text.as_bytes()[0].is_ascii_digit();
    looks && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_identity(name: &str) -> bool {
    let last = last_word(name);
    let is_word = IDENTITIES.iter().any(|word| last.eq_ignore_ascii_case(word));
    // `messageId`, `requestID`
    let before = last.strip_suffix("Id").or_else(|| last.strip_suffix("ID"));
    is_word || before.is_some_and(|before| before.ends_with(char::is_lowercase)) || PASSING.contains(&name)
}

fn last_word(name: &str) -> &str {
    name.rsplit(['.', '_', '-', '/', ':', ' ']).next().unwrap_or(name)
}

const fn status(span: &Span) -> &'static str {
    match &span.status {
        None => "unset",
        Some(status) => match status.code {
            StatusCode::Unset => "unset",
            StatusCode::Ok => "ok",
            StatusCode::Error => "error",
        },
    }
}

fn description(span: &Span) -> Option<Value> {
    let message = span.status.as_ref().map(|status| &*status.message);
    message.filter(|message| !message.is_empty()).map(Value::from)
}

fn events(span: &Span) -> Value {
    Value::List(span.events.iter().map(|event| Value::from(&*event.name)).collect())
}

fn hash(value: &Value, hasher: &mut impl Hasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(truth) => truth.hash(hasher),
        Value::Int(number) | Value::Duration(number) => number.hash(hasher),
        Value::Float(number) => number.to_bits().hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Bytes(bytes) => bytes.hash(hasher),
        Value::List(items) => items.iter().for_each(|item| hash(item, hasher)),
        Value::Object(members) => {
            for (name, value) in members {
                name.hash(hasher);
                hash(value, hasher);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_volatile(name: &str, before: impl Into<Value>, after: impl Into<Value>) -> bool {
        difference(name, Some(&before.into()), Some(&after.into())).is_some_and(|found| found.is_volatile)
    }

    #[test]
    fn what_differs_by_its_nature_is_volatile() {
        for (name, before, after) in [
            ("order.id", "7", "8"),
            ("messageId", "a", "b"),
            ("aws.requestID", "a", "b"),
            ("thread.name", "worker-1", "worker-9"),
            ("client.port", "40123", "51234"),
            ("network.peer.address", "10.0.0.1", "10.0.0.7"),
            ("made", "2026-11-16T10:00:00Z", "2026-11-17T11:30:00.5Z"),
            ("made", "1763300000000", "1763300001234"),
            ("url.path", "/orders/17", "/orders/18"),
            (
                "key",
                "order 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
                "order 00000000-9dad-11d1-80b4-00c04fd430c8",
            ),
        ] {
            assert!(is_volatile(name, before, after), "{name}: {before} {after}");
        }
        assert!(is_volatile("net.peer.port", 40_000, 50_000));
        assert!(is_volatile("sent", 1_763_300_000_000_000_000, 1_763_300_000_000_000_007));
    }

    #[test]
    fn what_may_be_a_change_is_not_volatile() {
        for (name, before, after) in [
            ("http.response.status_code", "200", "500"),
            ("server.port", "8080", "9090"),
            ("server.address", "10.0.0.1", "shop"),
            ("service.version", "1.2.3", "1.2.4"),
            ("db.query.text", "select * from t limit 10", "select * from t limit 20"),
            ("url.path", "/orders/17", "/customers/17"),
            ("valid", "yes", "no"),
        ] {
            assert!(!is_volatile(name, before, after), "{name}: {before} {after}");
        }
        assert!(!is_volatile("http.response.status_code", 200, 500));
        assert!(!is_volatile("retries", 0, Value::Null));
        let lost = difference("order.id", Some(&Value::Int(1)), None);
        assert!(lost.is_some_and(|lost| !lost.is_volatile));
    }
}
