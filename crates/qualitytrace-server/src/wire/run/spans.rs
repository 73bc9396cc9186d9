//! The trace of a run in two forms: a tree, and a map by span id.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use qualitytrace_core::names;
use qualitytrace_core::time::format_duration;
use qualitytrace_core::trace::{Trace, special, stored};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::is_blank;

/// The attribute that is shown with a unit.
const DURATION: &str = "tracetest.span.duration";
/// The attribute that names the parent in the tree.
const PARENT: &str = "tracetest.span.parent_id";

/// Depth limit of the tree below its root. JSON writers and readers recurse for each level, and many readers support no
/// more than 128.
const LEVELS: usize = 50;

/// Attributes that the trigger's span does not have, because it was not received over OTLP.
const UNSENT: [&str; 2] = ["span.events", "tracetest.span.status_code"];

/// The trace of a run: assembled here, or read from JSON.
#[derive(Debug, Clone)]
pub enum RunTrace {
    /// Its JSON is built while it is serialized: that is many times larger than the trace itself.
    Assembled(Arc<Trace>),
    /// As read from another server.
    Read(Box<ShownTrace>),
}

impl Default for RunTrace {
    fn default() -> Self {
        Self::Read(Box::default())
    }
}

impl PartialEq for RunTrace {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Assembled(own), Self::Assembled(other)) => Arc::ptr_eq(own, other),
            (Self::Read(own), Self::Read(other)) => own == other,
            (Self::Assembled(_), Self::Read(_)) | (Self::Read(_), Self::Assembled(_)) => false,
        }
    }
}

impl Serialize for RunTrace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Assembled(trace) => tree_and_flat(trace, serializer),
            Self::Read(shown) => shown.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RunTrace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ShownTrace::deserialize(deserializer).map(|shown| Self::Read(Box::new(shown)))
    }
}

impl JsonSchema for RunTrace {
    fn schema_name() -> Cow<'static, str> {
        ShownTrace::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ShownTrace::json_schema(generator)
    }
}

/// The trace of a run; an empty tree if there is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "RunTrace")]
pub struct ShownTrace {
    /// The id of the trace.
    #[serde(skip_serializing_if = "is_blank")]
    pub trace_id: String,
    /// The first root with its descendants. From the 50th level on, they are flattened; `parentId` names their parents.
    pub tree: RunSpan,
    /// Every span by its id, without children.
    #[serde(skip_serializing_if = "is_blank")]
    pub flat: BTreeMap<String, RunSpan>,
}

/// A span.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RunSpan {
    #[serde(skip_serializing_if = "is_blank")]
    id: String,
    #[serde(skip_serializing_if = "is_blank")]
    parent_id: String,
    #[serde(skip_serializing_if = "is_blank")]
    name: String,
    #[serde(skip_serializing_if = "is_blank")]
    kind: String,
    /// Milliseconds since the epoch.
    #[serde(skip_serializing_if = "is_blank")]
    start_time: u64,
    /// Milliseconds since the epoch.
    #[serde(skip_serializing_if = "is_blank")]
    end_time: u64,
    #[serde(skip_serializing_if = "is_blank")]
    attributes: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "is_blank")]
    children: Vec<RunSpan>,
}

/// Serializes the trace for clients, span by span.
fn tree_and_flat<S: Serializer>(trace: &Trace, serializer: S) -> Result<S::Ok, S::Error> {
    let mut shown = serializer.serialize_struct("RunTrace", 3)?;
    shown.serialize_field("traceId", &trace.id().to_string())?;
    match trace.roots().next() {
        Some(root) => shown.serialize_field("tree", &Branch { tree: &Tree::of(trace, root), at: 0 })?,
        None => shown.serialize_field("tree", &RunSpan::default())?,
    }
    if !trace.spans().is_empty() {
        shown.serialize_field("flat", &Flat(trace))?;
    }
    shown.end()
}

/// Converts a trace back from the form for clients; `None` if there is none or it is invalid.
pub fn imported_trace(shown: &RunTrace) -> Option<Trace> {
    let shown = match shown {
        RunTrace::Assembled(trace) => return Some(Trace::clone(trace)),
        RunTrace::Read(shown) => shown,
    };
    (!shown.tree.id.is_empty())
        .then(|| stored::read(&json!({ "ID": shown.trace_id, "RootSpan": stored_form(&shown.tree) })).ok())
        .flatten()
}

fn stored_form(span: &RunSpan) -> Value {
    json!({
        "ID": span.id,
        "ParentID": span.parent_id,
        "Name": span.name,
        "Kind": span.kind,
        "StartTime": span.start_time,
        "EndTime": span.end_time,
        "Attributes": span.attributes,
        "Children": span.children.iter().map(stored_form).collect::<Vec<_>>(),
    })
}

/// A root with its descendants. Below the depth limit, they are flattened.
struct Tree<'t> {
    trace: &'t Trace,
    root: usize,
    /// The children of each span, as indices relative to the root.
    below: Vec<Vec<usize>>,
}

impl<'t> Tree<'t> {
    fn of(trace: &'t Trace, root: usize) -> Self {
        let places = root..trace.descendants(root).end;
        let mut holders: Vec<(usize, usize)> = vec![(0, 0)];
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); places.len()];
        // Parents come before their children.
        for at in places.skip(1) {
            let parent = trace.parent(at).map_or(0, |parent| parent - root);
            let (above, level) = holders[parent];
            let (holder, level) = if level < LEVELS { (parent, level + 1) } else { (above, level) };
            holders.push((holder, level));
            below[holder].push(at - root);
        }
        Self { trace, root, below }
    }
}

/// A span of a tree with its children, built while it is serialized.
struct Branch<'t> {
    tree: &'t Tree<'t>,
    at: usize,
}

impl Serialize for Branch<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { tree, at } = *self;
        let own = span(tree.trace, tree.root + at);
        let children = &tree.below[at];
        if children.is_empty() {
            return own.serialize(serializer);
        }
        Parent { own, children: Branches(tree, children) }.serialize(serializer)
    }
}

/// A span with its children.
#[derive(Serialize)]
struct Parent<'t> {
    #[serde(flatten)]
    own: RunSpan,
    children: Branches<'t>,
}

struct Branches<'t>(&'t Tree<'t>, &'t [usize]);

impl Serialize for Branches<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.1.iter().map(|at| Branch { tree: self.0, at: *at }))
    }
}

/// Every span by its id, sorted by id.
struct Flat<'t>(&'t Trace);

impl Serialize for Flat<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut order: Vec<usize> = (0..self.0.spans().len()).collect();
        order.sort_by_key(|at| self.0.span(*at).id);
        // Spans that were sent without an id share one entry: the last of them.
        let last =
            order.chunk_by(|a, b| self.0.span(*a).id == self.0.span(*b).id).filter_map(|same| same.last());
        serializer.collect_map(last.map(|at| (id(self.0, *at), span(self.0, *at))))
    }
}

fn span(trace: &Trace, at: usize) -> RunSpan {
    let span = trace.span(at);
    let parent = trace.parent(at).map(|parent| id(trace, parent));
    let is_trigger = parent.is_none() && &*span.name == names::TRIGGER_SPAN;
    let mut attributes: BTreeMap<String, String> = special::texts(span)
        .into_iter()
        .filter(|(name, _)| name != PARENT && !(is_trigger && UNSENT.contains(&name.as_str())))
        .map(|(name, text)| {
            let text = match text.parse() {
                Ok(nanos) if name == DURATION => format_duration(nanos),
                _ => text,
            };
            (name, text)
        })
        .collect();
    if let Some(parent) = &parent {
        attributes.insert(PARENT.to_owned(), parent.clone());
    }
    RunSpan {
        id: id(trace, at),
        parent_id: parent.unwrap_or_default(),
        name: span.name.to_string(),
        kind: kind(span.kind.as_str()).to_owned(),
        start_time: span.start.as_millis(),
        end_time: span.end.unwrap_or(span.start).as_millis(),
        attributes,
        children: Vec::new(),
    }
}

fn id(trace: &Trace, at: usize) -> String {
    trace.span(at).id.map_or_else(|| "0".repeat(16), |id| id.to_string())
}

/// Returns the kind in the spelling that clients know.
fn kind(kind: &str) -> &str {
    if kind.starts_with("unsp") || kind.is_empty() { "unespecified" } else { kind }
}
