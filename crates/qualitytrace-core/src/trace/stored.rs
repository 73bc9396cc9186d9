//! Traces in the format in which Tracetest stores and exports them: a tree of spans whose attributes are texts.
//!
//! Both reading and writing are supported. Times are milliseconds there, so writing loses finer precision.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::span::{Attributes, Dropped, Resource, Scope, Span, SpanKind};
use super::{Trace, special};
use crate::id::{ParseIdError, SpanId, TraceId};
use crate::time::Timestamp;

/// Maximum nesting of spans when they are read.
const MAX_DEPTH: usize = 512;
/// Maximum number of levels that are written: readers of JSON recurse for each, and many stop at a depth of 128.
const MAX_LEVELS: usize = 50;

/// Why a stored trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trace's id is not valid.
    #[error("the stored trace has no valid id")]
    TraceId(#[source] ParseIdError),
    /// A span's id is not valid.
    #[error("span `{name}` of the stored trace has no valid id")]
    SpanId {
        /// The span's name.
        name: String,
        /// The cause.
        #[source]
        source: ParseIdError,
    },
    /// A time is neither a number nor RFC 3339.
    #[error("`{text}` in span `{name}` of the stored trace is not a time")]
    Time {
        /// The span's name.
        name: String,
        /// The text found.
        text: String,
    },
    /// Spans are nested too deeply.
    #[error("the stored trace is nested more than {MAX_DEPTH} levels deep")]
    Depth,
}

/// Reads `{ID, RootSpan: {ID, Name, Kind, StartTime, EndTime, Attributes, Children}}`. A span may name another
/// parent than the one that it is nested in, as `ParentID`.
pub fn read(stored: &Value) -> Result<Trace, Error> {
    let id: TraceId = text(&stored["ID"]).parse().map_err(Error::TraceId)?;
    let mut reading = Reading::default();
    if stored["RootSpan"].is_object() {
        reading.span(&stored["RootSpan"], None, 0)?;
    }
    Ok(Trace::assemble(id, reading.spans).as_stored())
}

#[derive(Default)]
struct Reading {
    spans: Vec<Span>,
    known: HashSet<SpanId>,
}

impl Reading {
    fn span(&mut self, stored: &Value, parent: Option<SpanId>, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(Error::Depth);
        }
        let name = text(&stored["Name"]);
        let id: SpanId =
            text(&stored["ID"]).parse().map_err(|source| Error::SpanId { name: name.to_owned(), source })?;
        let time = |key: &str| {
            parse_time(&stored[key])
                .ok_or_else(|| Error::Time { name: name.to_owned(), text: stored[key].to_string() })
        };
        let end = time("EndTime")?;
        let parent = text(&stored["ParentID"]).parse().ok().or(parent);
        self.spans.push(Span {
            // The position in the tree distinguishes two spans with one id; the second one loses it.
            id: self.known.insert(id).then_some(id),
            parent,
            name: name.into(),
            kind: kind(text(&stored["Kind"])),
            start: time("StartTime")?,
            end: (end != Timestamp::default()).then_some(end),
            status: None,
            attributes: attributes(&stored["Attributes"]),
            events: Vec::new(),
            links: Vec::new(),
            resource: Arc::new(Resource::default()),
            scope: Arc::new(Scope::default()),
            trace_state: "".into(),
            flags: 0,
            dropped: Dropped::default(),
        });
        let children = stored["Children"].as_array().into_iter().flatten();
        for child in children {
            self.span(child, Some(id), depth + 1)?;
        }
        Ok(())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn kind(word: &str) -> SpanKind {
    let kinds =
        [SpanKind::Internal, SpanKind::Server, SpanKind::Client, SpanKind::Producer, SpanKind::Consumer];
    kinds.into_iter().find(|kind| kind.as_str() == word).unwrap_or_default()
}

fn attributes(stored: &Value) -> Attributes {
    let pairs = stored.as_object().into_iter().flatten();
    pairs.map(|(name, value)| (name.as_str(), text(value).into())).collect()
}

/// Parses a time by the number of its digits (seconds, milliseconds, nanoseconds), or in RFC 3339.
fn parse_time(value: &Value) -> Option<Timestamp> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Null => return Some(Timestamp::default()),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    if let Ok(number) = text.parse::<u64>() {
        let unit = match text.len() {
            ..=10 => 1_000_000_000,
            11..=13 => 1_000_000,
            _ => 1,
        };
        return number.checked_mul(unit).map(Timestamp::from_nanos);
    }
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_nanosecond()).ok().map(Timestamp::from_nanos)
}

/// Formats a time in RFC 3339.
pub fn time(time: Timestamp) -> String {
    crate::time::rfc3339(time.as_nanos())
}

/// Writes the trace in the format that [`read`] reads. Several roots are put under the first.
pub fn write(trace: &Trace) -> Value {
    let mut roots = trace.roots();
    let root = roots.next().map(|root| {
        let mut top = write_span(trace, root);
        if let Some(children) = top["Children"].as_array_mut() {
            children.extend(roots.map(|other| write_span(trace, other)));
        }
        top
    });
    json!({ "ID": trace.id().to_string(), "RootSpan": root })
}

/// Writes the span with its descendants. Below the last level, spans are siblings and name their parent.
fn write_span(trace: &Trace, root: usize) -> Value {
    let places = root..trace.descendants(root).end;
    // The span that holds each span, and its level. Parents come before their children.
    let mut holders: Vec<(usize, usize)> = vec![(0, 0)];
    let mut built: Vec<Value> = places.clone().map(|at| one_span(trace, at)).collect();
    for at in places.skip(1) {
        let parent = trace.parent(at).map_or(0, |parent| parent - root);
        let (above, level) = holders[parent];
        let is_last = level >= MAX_LEVELS;
        holders.push(if is_last { (above, level) } else { (parent, level + 1) });
        if is_last {
            built[at - root]["ParentID"] = trace.span(at).parent.map(|id| id.to_string()).into();
        }
    }
    let mut below: Vec<Vec<Value>> = vec![Vec::new(); built.len()];
    // From the last to the first: the children of a span are complete when the span is reached.
    while let Some(mut span) = built.pop() {
        let at = built.len();
        let mut children = std::mem::take(&mut below[at]);
        children.reverse();
        span["Children"] = children.into();
        if at == 0 {
            return span;
        }
        below[holders[at].0].push(span);
    }
    Value::Null
}

fn one_span(trace: &Trace, at: usize) -> Value {
    let span = trace.span(at);
    let attributes: Map<String, Value> =
        span.attributes.iter().map(|(name, value)| (name.to_owned(), special::text(value).into())).collect();
    json!({
        "ID": span.id.map(|id| id.to_string()),
        "Name": &*span.name,
        "Kind": span.kind.as_str(),
        "StartTime": span.start.as_millis().to_string(),
        "EndTime": span.end.unwrap_or_default().as_millis().to_string(),
        "Attributes": attributes,
        "Children": [],
    })
}
