//! Resolution of names on a span: a field of the span, a special attribute, or an attribute under one of its
//! names.
//!
//! The exact attribute always wins. Only where a span has none of that name is the name read as a scope
//! (`resource.`, `event.`...), as a field (`status`, `duration`), or under the names of other conventions.

mod column;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

use column::Column;

use crate::budget::Budget;
use crate::names;
use crate::trace::special::{Computed, SPECIAL, Special, computed, span_type};
use crate::trace::{Event, Link, Span, StatusCode, Trace};
use crate::value::Value;

/// The method of a call, and the service that older conventions have beside it.
const METHOD: &str = "rpc.method";
const SERVICE: &str = "rpc.service";

/// A resolved name, computed once for all spans.
#[derive(Debug, Clone)]
pub(crate) enum Field {
    /// The span's name.
    Name,
    /// The span's kind.
    Kind,
    /// A special attribute, which every span has.
    Special(Special, Box<str>),
    /// The method of a call: with its service, as newer conventions have it, or without.
    Method { full: bool },
    /// Any other attribute.
    Attribute {
        name: Box<str>,
        /// How to read the name where there is no such attribute.
        reading: Option<Reading>,
        /// The names of the attribute in other conventions.
        aliases: Box<[&'static str]>,
    },
}

/// How a name is read when the span has no attribute of that name.
#[derive(Debug, Clone)]
pub(crate) enum Reading {
    Status,
    Duration,
    SpanName,
    SpanKind,
    SpanSpecial(Special),
    Span(Box<str>),
    Resource(Box<str>),
    ScopeName,
    ScopeVersion,
    InScope(Box<str>),
    Event(Box<str>),
    Link(Box<str>),
}

/// The value found.
#[derive(Debug)]
pub(crate) enum FieldValue<'t> {
    Text(&'t str),
    Value(&'t Value),
    /// Nanoseconds of the span's own duration.
    Nanos(i64),
    Made(Value),
}

impl<'t> From<Computed<'t>> for FieldValue<'t> {
    fn from(computed: Computed<'t>) -> Self {
        match computed {
            Computed::Text(text) => Self::Text(text),
            Computed::Nanos(nanos) => Self::Nanos(nanos),
            Computed::Value(value) => Self::Made(value),
        }
    }
}

impl FieldValue<'_> {
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Text(text) => Value::from(text),
            Self::Value(value) => value.clone(),
            Self::Nanos(nanos) => Value::Int(nanos),
            Self::Made(value) => value,
        }
    }
}

impl Field {
    /// Resolves a name in a selector.
    pub(crate) fn in_selector(name: &str, quoted: bool, aliases: bool) -> Self {
        match name {
            "name" if !quoted => Self::Name,
            "kind" if !quoted => Self::Kind,
            _ => Self::attribute(name, !quoted, aliases),
        }
    }

    /// Resolves a name after `attr:`.
    pub(crate) fn attribute(name: &str, scopes: bool, aliases: bool) -> Self {
        let name = names::attribute(name);
        if let Some((_, special)) = SPECIAL.iter().find(|(known, _)| *known == name) {
            return Self::Special(*special, name.into());
        }
        let aliases = if aliases { names::conventions(&name) } else { Vec::new() };
        Self::Attribute {
            reading: scopes.then(|| Reading::parse(&name)).flatten(),
            aliases: aliases.into(),
            name: name.into(),
        }
    }

    /// Resolves a name that is compared with these texts: the form of a method's name is theirs.
    pub(crate) fn compared_with<'v>(name: &str, texts: impl IntoIterator<Item = &'v str>) -> Option<Self> {
        let mut forms = texts.into_iter().map(|text| text.contains('/'));
        let full = forms.next().filter(|_| name == METHOD)?;
        forms.all(|form| form == full).then_some(Self::Method { full })
    }

    /// Returns the relative cost of reading it, so that cheap fields are read first.
    pub(crate) fn cost(&self) -> u8 {
        match self {
            Self::Name | Self::Kind => 0,
            Self::Special(Special::Type, _) => 1,
            Self::Special(..) => 2,
            Self::Method { .. } => 4,
            Self::Attribute { aliases, reading, .. } => {
                3 + u8::from(reading.is_some()) + u8::try_from(aliases.len()).unwrap_or(9)
            }
        }
    }

    /// Reads the field from a span; also returns the alias under which it was found.
    pub(crate) fn look<'t>(
        &self,
        scene: &TraceIndex<'t>,
        at: usize,
    ) -> Option<(FieldValue<'t>, Option<&'static str>)> {
        let span = scene.trace.span(at);
        let seen = match self {
            Self::Name => FieldValue::Text(&span.name),
            Self::Kind => FieldValue::Text(span.kind.as_str()),
            Self::Special(Special::Type, _) => FieldValue::Text(scene.span_type(at)),
            Self::Special(special, name) => match scene.stored(at, name) {
                Some(value) => match special {
                    Special::Duration => nanos(value),
                    _ => FieldValue::Value(value),
                },
                None => computed(*special, span)?.into(),
            },
            Self::Method { full } => return method(span, *full),
            Self::Attribute { name, reading, aliases } => {
                if let Some(value) = span.attribute(name) {
                    return Some((FieldValue::Value(value), None));
                }
                if let Some(seen) = reading.as_ref().and_then(|reading| reading.look(scene, at)) {
                    return Some((seen, None));
                }
                return aliases.iter().find_map(|alias| {
                    let seen = match names::converted(name, alias, span.attribute(alias)?)? {
                        Cow::Borrowed(value) => FieldValue::Value(value),
                        Cow::Owned(value) => FieldValue::Made(value),
                    };
                    Some((seen, Some(*alias)))
                });
            }
        };
        Some((seen, None))
    }

    /// Returns the identity of the field; `None` for fields that rarely repeat a value.
    fn key(&self) -> Option<(u8, &str)> {
        match self {
            Self::Name => Some((0, "")),
            Self::Kind => Some((1, "")),
            Self::Special(Special::Type, _) => Some((2, "")),
            Self::Special(..) => None,
            Self::Method { full } => Some((8 | u8::from(*full), "")),
            Self::Attribute { name, reading, aliases } => {
                let flags = u8::from(reading.is_some()) | u8::from(!aliases.is_empty()) << 1;
                Some((4 | flags, name))
            }
        }
    }

    pub(crate) fn is_duration(&self) -> bool {
        matches!(self, Self::Special(Special::Duration, _))
    }
}

impl Reading {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "status" => return Some(Self::Status),
            "duration" => return Some(Self::Duration),
            _ => {}
        }
        let (scope, rest) = name.split_once('.')?;
        Some(match (scope, rest) {
            ("span", "name") => Self::SpanName,
            ("span", "kind") => Self::SpanKind,
            ("span", "status") => Self::Status,
            ("span", "duration") => Self::Duration,
            ("span", "type") => Self::SpanSpecial(Special::Type),
            ("span", "id") => Self::SpanSpecial(Special::Id),
            ("span", "parent_id") => Self::SpanSpecial(Special::ParentId),
            ("span", rest) => Self::Span(rest.into()),
            ("resource", rest) => Self::Resource(rest.into()),
            ("scope", "name") => Self::ScopeName,
            ("scope", "version") => Self::ScopeVersion,
            ("scope", rest) => Self::InScope(rest.into()),
            ("event", rest) => Self::Event(rest.into()),
            ("link", rest) => Self::Link(rest.into()),
            _ => return None,
        })
    }

    fn look<'t>(&self, scene: &TraceIndex<'t>, at: usize) -> Option<FieldValue<'t>> {
        let span = scene.trace.span(at);
        let text = |text: &'t str| (!text.is_empty()).then_some(FieldValue::Text(text));
        match self {
            Self::Status => Some(FieldValue::Text(match span.status.as_ref().map(|status| status.code) {
                None | Some(StatusCode::Unset) => "unset",
                Some(StatusCode::Ok) => "ok",
                Some(StatusCode::Error) => "error",
            })),
            Self::Duration => computed(Special::Duration, span).map(FieldValue::from),
            Self::SpanName => Some(FieldValue::Text(&span.name)),
            Self::SpanKind => Some(FieldValue::Text(span.kind.as_str())),
            Self::SpanSpecial(Special::Type) => Some(FieldValue::Text(scene.span_type(at))),
            Self::SpanSpecial(special) => computed(*special, span).map(FieldValue::from),
            Self::Span(name) => span.attributes.get(name).map(FieldValue::Value),
            Self::Resource(name) => span.resource.attributes.get(name).map(FieldValue::Value),
            Self::ScopeName => text(&span.scope.name),
            Self::ScopeVersion => text(&span.scope.version),
            Self::InScope(name) => span.scope.attributes.get(name).map(FieldValue::Value),
            Self::Event(name) => many(scene.event_values(at, name)),
            Self::Link(name) => many(scene.link_values(at, name)),
        }
    }
}

fn many(values: Vec<Value>) -> Option<FieldValue<'static>> {
    match values.len() {
        0 => None,
        1 => values.into_iter().next().map(FieldValue::Made),
        _ => Some(FieldValue::Made(Value::List(values))),
    }
}

/// Reads the method of a call in one of its two forms; where the span has not enough to make it, as it is.
fn method(span: &Span, full: bool) -> Option<(FieldValue<'_>, Option<&'static str>)> {
    let value = span.attribute(METHOD)?;
    let Value::String(name) = value else { return Some((FieldValue::Value(value), None)) };
    let seen = match (name.rsplit_once('/'), span.attribute(SERVICE)) {
        (Some((_, method)), _) if !full => FieldValue::Text(method),
        (None, Some(service)) if full => {
            let made = Value::from(format!("{}/{name}", service.text()));
            return Some((FieldValue::Made(made), Some(SERVICE)));
        }
        (Some(_) | None, _) => FieldValue::Value(value),
    };
    Some((seen, None))
}

/// Reads a stored duration; only whole nanoseconds count as one.
fn nanos(value: &Value) -> FieldValue<'_> {
    match value {
        Value::Int(nanos) | Value::Duration(nanos) => FieldValue::Nanos(*nanos),
        Value::String(text) => text.parse().map_or(FieldValue::Value(value), FieldValue::Nanos),
        _ => FieldValue::Value(value),
    }
}

/// Fewer spans than this are read one by one.
const SMALL: usize = 64;

/// A trace with cached columns.
#[derive(Debug)]
pub(crate) struct TraceIndex<'t> {
    pub(crate) trace: &'t Trace,
    pub(crate) budget: &'t Budget,
    columns: RefCell<Columns<'t>>,
}

/// Columns by the kind of their field, with whether it has aliases, and by its name.
type Columns<'t> = BTreeMap<u8, BTreeMap<Box<str>, Rc<Column<'t>>>>;

/// The memory that columns may take. Further fields are read span by span.
const MAX_COLUMN_BYTES: usize = 128 * 1024 * 1024;
/// What a column takes for a span: the number of its value, and its position.
const COLUMN_BYTES: usize = 8;

impl<'t> TraceIndex<'t> {
    pub(crate) fn new(trace: &'t Trace, budget: &'t Budget) -> Self {
        Self { trace, budget, columns: RefCell::default() }
    }

    /// Reads all of these fields from every span, one span after the other: its attributes are loaded into the CPU
    /// cache once instead of once per field.
    pub(crate) fn ask_all<'f>(&self, fields: impl IntoIterator<Item = &'f Field>) {
        let spans = self.trace.spans().len();
        for field in fields {
            self.column(field, spans);
        }
        let columns: Vec<_> = self.columns.borrow().values().flat_map(BTreeMap::values).cloned().collect();
        for at in 0..spans {
            if self.budget.work(columns.len()).is_err() {
                return;
            }
            for column in &columns {
                column.ask(self, at);
            }
        }
    }

    /// Returns the column of a field; `None` where reading so few spans one by one is cheaper, and where there are too
    /// many columns.
    pub(crate) fn column(&self, field: &Field, spans: usize) -> Option<Rc<Column<'t>>> {
        let (kind, name) = field.key().filter(|_| spans >= SMALL)?;
        let mut columns = self.columns.borrow_mut();
        if let Some(column) = columns.get(&kind).and_then(|named| named.get(name)) {
            return Some(Rc::clone(column));
        }
        let length = self.trace.spans().len();
        let count: usize = columns.values().map(BTreeMap::len).sum();
        if (count + 1) * length * COLUMN_BYTES > MAX_COLUMN_BYTES {
            return None;
        }
        let column = Rc::new(Column::new(field, length));
        columns.entry(kind).or_default().insert(name.into(), Rc::clone(&column));
        Some(column)
    }

    fn span_type(&self, at: usize) -> &'t str {
        match self.stored(at, "tracetest.span.type") {
            Some(Value::String(stored)) => stored,
            _ => span_type(self.trace.span(at)),
        }
    }

    /// Returns a special attribute that Tracetest stored with the span. Where the trace was received, an attribute of
    /// that name is not one: its sender may not pass off its own for a measured one.
    fn stored(&self, at: usize, name: &str) -> Option<&'t Value> {
        self.trace.is_stored().then(|| self.trace.span(at).attributes.get(name)).flatten()
    }

    fn event_values(&self, at: usize, name: &str) -> Vec<Value> {
        let value = |event: &Event| match name {
            "name" => Some(Value::String(event.name.clone())),
            name => event.attributes.get(name).cloned(),
        };
        self.trace.span(at).events.iter().filter_map(value).collect()
    }

    fn link_values(&self, at: usize, name: &str) -> Vec<Value> {
        let value = |link: &Link| match name {
            "trace_id" => Some(link.trace?.to_string().into()),
            "span_id" => Some(link.span?.to_string().into()),
            name => link.attributes.get(name).cloned(),
        };
        self.trace.span(at).links.iter().filter_map(value).collect()
    }
}

/// Compares what is written to it with a text, without storing it.
pub(crate) struct TextComparison<'s>(pub(crate) Option<&'s str>);

impl Write for TextComparison<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 = self.0.and_then(|rest| rest.strip_prefix(text));
        Ok(())
    }
}
