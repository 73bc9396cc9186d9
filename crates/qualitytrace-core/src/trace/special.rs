//! The attributes that no sender wrote: what a span is, said under names that selectors and assertions can use.
//!
//! Senders cannot shadow them: an attribute of such a name that did arrive gives way.

use std::fmt::Write as _;

use super::span::{Attributes, Event, Span, StatusCode};
use crate::value::Value;

/// The prefix of the names that belong to the span itself.
const PREFIX: &str = "tracetest.span.";
/// The span's events as JSON.
const EVENTS: &str = "span.events";
/// What a span without a parent has in place of the parent's id.
const NO_PARENT: &str = "0000000000000000";

/// The families of attributes that decide what type a span is of, most telling first.
const FAMILIES: [(&str, &str); 6] = [
    ("http.", "http"),
    ("db.", "database"),
    ("rpc.", "rpc"),
    ("messaging.", "messaging"),
    ("faas.", "faas"),
    ("exception.", "exception"),
];

/// Every name that [`special`] answers to, sorted.
const NAMES: [&str; 10] = [
    EVENTS,
    "tracetest.span.duration",
    "tracetest.span.end_time",
    "tracetest.span.kind",
    "tracetest.span.name",
    "tracetest.span.parent_id",
    "tracetest.span.start_time",
    "tracetest.span.status_code",
    "tracetest.span.status_description",
    "tracetest.span.type",
];

/// The value of a special attribute, by its `tracetest.` spelling; `None` for any other name, and for a status
/// description that was not given.
pub fn special(span: &Span, name: &str) -> Option<Value> {
    if name == EVENTS {
        return Some(events(&span.events).into());
    }
    let value = match name.strip_prefix(PREFIX)? {
        "name" => Value::String(span.name.clone()),
        "type" => span_type(span).into(),
        "kind" => span.kind.as_str().into(),
        "duration" => Value::Duration(i64::try_from(span.duration().as_nanos()).unwrap_or(i64::MAX)),
        "start_time" => nanos(span.start.as_nanos()),
        "end_time" => nanos(span.end?.as_nanos()),
        "status_code" => status_code(span).into(),
        "status_description" => match &span.status {
            Some(status) if !status.message.is_empty() => Value::String(status.message.clone()),
            _ => return None,
        },
        "parent_id" => span
            .parent
            .map_or_else(|| NO_PARENT.into(), |parent| parent.to_string().into()),
        _ => return None,
    };
    Some(value)
}

/// Whether the name belongs to us: no sender's attribute is shown under it.
pub fn is_special(name: &str) -> bool {
    name == EVENTS || name.starts_with("tracetest.")
}

/// What a span is about: `http`, `database`, `rpc`, `messaging`, `faas`, `exception` or `general`.
///
/// A span with attributes of several families belongs to the first of them in this order.
pub fn span_type(span: &Span) -> &'static str {
    // Browser spans carry `http.` attributes of the page they belong to.
    let from_browser = matches!(span.attribute("event_type"), Some(value) if !text(value).is_empty());
    if from_browser || &*span.name == "documentLoad" {
        return "general";
    }
    FAMILIES
        .iter()
        .find(|(prefix, _)| span.attributes.iter().any(|(name, _)| name.starts_with(prefix)))
        .map_or("general", |(_, family)| family)
}

/// Every attribute of a span as text, sorted by name: its own, its scope's, its resource's and the special ones.
///
/// The kind is left out: it is a field of its own wherever this is shown.
pub fn texts(span: &Span) -> Vec<(String, String)> {
    let mut all = Attributes::default();
    for attributes in [
        &span.resource.attributes,
        &span.scope.attributes,
        &span.attributes,
    ] {
        for (name, value) in attributes.iter() {
            all.set(name, value.clone());
        }
    }
    for name in NAMES {
        if name != "tracetest.span.kind"
            && let Some(value) = special(span, name)
        {
            all.set(name, value);
        }
    }
    all.iter()
        .map(|(name, value)| (name.to_owned(), text(value)))
        .collect()
}

/// A value as attributes show it: texts bare, durations in nanoseconds, lists and objects as JSON, bytes in base64.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.to_string(),
        Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::List(_)
        | Value::Object(_) => {
            let mut out = String::new();
            write_json(&mut out, value, false);
            out
        }
    }
}

/// Writes a value as JSON; `quoted` says whether bytes stand in quotes, as they do inside lists and objects.
fn write_json(out: &mut String, value: &Value, quoted: bool) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(number) | Value::Duration(number) => drop(write!(out, "{number}")),
        Value::Float(number) => drop(write!(out, "{number}")),
        Value::String(text) => out.push_str(&json_string(text)),
        Value::Bytes(bytes) => {
            let text = base64(bytes);
            out.push_str(&if quoted { json_string(&text) } else { text });
        }
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_json(out, item, true);
            }
            out.push(']');
        }
        Value::Object(pairs) => {
            out.push('{');
            for (index, (name, item)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&json_string(name));
                out.push(':');
                write_json(out, item, true);
            }
            out.push('}');
        }
    }
}

/// A list of `{name, timestamp, attributes}`; the attributes are texts.
fn events(events: &[Event]) -> String {
    let mut out = String::from("[");
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        let _ = write!(
            out,
            r#"{{"name":{},"timestamp":{},"attributes":{{"#,
            json_string(&event.name),
            json_string(&timestamp(event.time.as_nanos())),
        );
        for (index, (name, value)) in event.attributes.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            let _ = write!(out, "{}:{}", json_string(name), json_string(&text(value)));
        }
        out.push_str("}}");
    }
    out.push(']');
    out
}

pub(super) fn timestamp(nanos: u64) -> String {
    // An event without a time has always been shown with Go's zero time.
    let time = i64::try_from(nanos).ok().filter(|nanos| *nanos > 0);
    match time.map(|nanos| jiff::Timestamp::from_nanosecond(nanos.into())) {
        Some(Ok(time)) => time.to_string(),
        Some(Err(_)) | None => "0001-01-01T00:00:00Z".to_owned(),
    }
}

fn status_code(span: &Span) -> &'static str {
    match span.status.as_ref().map(|status| status.code) {
        None | Some(StatusCode::Unset) => "STATUS_CODE_UNSET",
        Some(StatusCode::Ok) => "STATUS_CODE_OK",
        Some(StatusCode::Error) => "STATUS_CODE_ERROR",
    }
}

fn nanos(nanos: u64) -> Value {
    Value::Int(i64::try_from(nanos).unwrap_or(i64::MAX))
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().enumerate().fold(0_u32, |group, (index, byte)| {
            group | u32::from(*byte) << (16 - 8 * index)
        });
        for index in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * index) & 63) as usize];
            out.push(if index <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    out
}
