//! Every attribute of a span as text, including the special ones that no sender sets.
//!
//! Properties of a span have names that selectors and assertions can use, `tracetest.span.name` and so on. Senders
//! cannot shadow them: the special attribute replaces a sent one of the same name, except in traces that Tracetest
//! stored.

use super::span::{Attributes, Event, Span, StatusCode};
use crate::json::write_string;
use crate::time;
use crate::value::{Value, base64};

/// A special attribute, computed from the span itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    Name,
    Type,
    Kind,
    Duration,
    Start,
    End,
    StatusCode,
    StatusDescription,
    Id,
    ParentId,
    Events,
}

/// The special attributes by their names.
pub(crate) const SPECIAL: [(&str, Special); 11] = [
    ("tracetest.span.name", Special::Name),
    ("tracetest.span.type", Special::Type),
    ("tracetest.span.kind", Special::Kind),
    ("tracetest.span.duration", Special::Duration),
    ("tracetest.span.start_time", Special::Start),
    ("tracetest.span.end_time", Special::End),
    ("tracetest.span.status_code", Special::StatusCode),
    ("tracetest.span.status_description", Special::StatusDescription),
    ("tracetest.span.id", Special::Id),
    ("tracetest.span.parent_id", Special::ParentId),
    ("span.events", Special::Events),
];

/// Returns the names of special attributes.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SPECIAL.iter().map(|(name, _)| *name)
}

/// The value of a special attribute.
#[derive(Debug)]
pub(crate) enum Computed<'t> {
    Text(&'t str),
    /// Nanoseconds of the span's own duration.
    Nanos(i64),
    Value(Value),
}

impl Computed<'_> {
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Text(text) => Value::from(text),
            Self::Nanos(nanos) => Value::Int(nanos),
            Self::Value(value) => value,
        }
    }
}

/// Returns every attribute of a span as text, sorted by name: its own, its scope's, its resource's and the special
/// ones.
///
/// The kind is left out: it is a separate field where these texts are shown.
pub fn texts(span: &Span) -> Vec<(String, String)> {
    let mut all = Attributes::default();
    for attributes in [&span.resource.attributes, &span.scope.attributes, &span.attributes] {
        for (name, value) in attributes.iter() {
            all.set(name, value.clone());
        }
    }
    for (name, value) in special_attributes(span) {
        all.set(name, value);
    }
    all.iter().map(|(name, value)| (name.to_owned(), text(value))).collect()
}

/// Whether the name is reserved: no sender's attribute is shown under it.
pub fn is_special(name: &str) -> bool {
    name == "span.events" || name.starts_with("tracetest.")
}

/// Converts a value to text as the API shows it: texts bare, durations in nanoseconds, lists and objects as JSON,
/// bytes in base64.
pub fn text(value: &Value) -> String {
    match value {
        Value::Duration(nanos) => nanos.to_string(),
        Value::List(_) | Value::Object(_) => json(value).to_string(),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::String(_)
        | Value::Bytes(_) => value.text().into_owned(),
    }
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number) | Value::Duration(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::String(text) => (**text).into(),
        Value::Bytes(bytes) => base64(bytes).into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Object(pairs) => pairs.iter().map(|(name, value)| (name.to_string(), json(value))).collect(),
    }
}

/// Computes a special attribute; `None` where the span has no such value.
pub(crate) fn computed(special: Special, span: &Span) -> Option<Computed<'_>> {
    let time = |nanos: u64| Computed::Value(Value::Int(i64::try_from(nanos).unwrap_or(i64::MAX)));
    Some(match special {
        Special::Name => Computed::Text(&span.name),
        Special::Kind => Computed::Text(span.kind.as_str()),
        Special::Type => Computed::Text(span_type(span)),
        Special::Duration => {
            span.end?;
            Computed::Nanos(i64::try_from(span.duration().as_nanos()).unwrap_or(i64::MAX))
        }
        Special::Start => time(span.start.as_nanos()),
        Special::End => time(span.end?.as_nanos()),
        Special::StatusCode => Computed::Text(match span.status.as_ref().map(|status| status.code) {
            None | Some(StatusCode::Unset) => "STATUS_CODE_UNSET",
            Some(StatusCode::Ok) => "STATUS_CODE_OK",
            Some(StatusCode::Error) => "STATUS_CODE_ERROR",
        }),
        Special::StatusDescription => {
            let message = &*span.status.as_ref()?.message;
            (!message.is_empty()).then_some(Computed::Text(message))?
        }
        Special::Id => Computed::Value(span.id?.to_string().into()),
        Special::ParentId => Computed::Value(match span.parent {
            Some(parent) => parent.to_string().into(),
            None => "0000000000000000".into(),
        }),
        Special::Events => Computed::Value(events(&span.events).into()),
    })
}

/// Infers the type of a span from the namespaces of its attributes; the first family in this order counts.
pub fn span_type(span: &Span) -> &'static str {
    const FAMILIES: [(&str, &str); 6] = [
        ("http.", "http"),
        ("db.", "database"),
        ("rpc.", "rpc"),
        ("messaging.", "messaging"),
        ("faas.", "faas"),
        ("exception.", "exception"),
    ];
    let is_browser = &*span.name == "documentLoad"
        || span.attributes.get("event_type").is_some_and(|value| !value.text().is_empty());
    if is_browser {
        return "general";
    }
    let mut best = FAMILIES.len();
    for (name, _) in span.attributes.iter() {
        if best == 0 {
            break;
        }
        // Most names belong to none of the families, which the first letter shows.
        if matches!(name.as_bytes().first(), Some(b'h' | b'd' | b'r' | b'm' | b'f' | b'e'))
            && let Some(at) = FAMILIES[..best].iter().position(|(prefix, _)| name.starts_with(prefix))
        {
            best = at;
        }
    }
    FAMILIES.get(best).map_or("general", |(_, family)| family)
}

/// Returns the special attributes of a span that are shown beside its own.
fn special_attributes(span: &Span) -> Vec<(&'static str, Value)> {
    SPECIAL
        .iter()
        .filter(|(_, special)| !matches!(special, Special::Kind | Special::Id))
        .filter_map(|(name, special)| Some((*name, computed(*special, span)?.into_value())))
        .collect()
}

/// Formats the events of a span as JSON.
fn events(events: &[Event]) -> String {
    let mut text = String::from("[");
    for (at, event) in events.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str("{\"name\":");
        write_string(&event.name, &mut text);
        text.push_str(",\"timestamp\":");
        write_string(&time::rfc3339(event.time.as_nanos()), &mut text);
        text.push_str(",\"attributes\":{");
        for (at, (name, value)) in event.attributes.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            write_string(name, &mut text);
            text.push(':');
            write_string(&value.text(), &mut text);
        }
        text.push_str("}}");
    }
    text.push(']');
    text
}
