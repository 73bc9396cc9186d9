//! A trace twice: as a tree, and as a table by span id.

use std::collections::BTreeMap;

use qualitytrace_core::names;
use qualitytrace_core::time::format_duration;
use qualitytrace_core::trace::{Trace, special, stored};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::is_blank;

/// The attribute that is shown with a unit.
const DURATION: &str = "tracetest.span.duration";
/// The attribute that names the parent in the tree.
const PARENT: &str = "tracetest.span.parent_id";

/// Levels of the tree below its root. Writers and readers of JSON call themselves for each level, and many readers go no
/// deeper than 128.
const LEVELS: usize = 50;

/// Attributes that only spans have that were sent.
const UNSENT: [&str; 2] = ["span.events", "tracetest.span.status_code"];

/// The trace as clients read it; an empty tree when there is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RunTrace {
    /// Names it.
    #[serde(skip_serializing_if = "is_blank")]
    pub trace_id: String,
    /// The first root with all that is below it. From the 50th level on, spans stand side by side; `parentId` says whose
    /// they are.
    pub tree: RunSpan,
    /// Every span by its id, without children.
    #[serde(skip_serializing_if = "is_blank")]
    pub flat: BTreeMap<String, RunSpan>,
}

/// A span as clients read it.
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

/// The trace as clients read it.
pub fn tree_and_flat(trace: &Trace) -> RunTrace {
    RunTrace {
        trace_id: trace.id().to_string(),
        tree: trace.roots().next().map(|root| tree(trace, root)).unwrap_or_default(),
        flat: (0..trace.spans().len()).map(|at| (id(trace, at), span(trace, at))).collect(),
    }
}

/// The trace that clients read, back again; `None` when there is none or it cannot be one.
pub fn imported_trace(shown: &RunTrace) -> Option<Trace> {
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

/// The span with all that is below it. Below the last level, spans stand side by side.
fn tree(trace: &Trace, root: usize) -> RunSpan {
    let places = root..trace.descendants(root).end;
    let mut holders: Vec<(usize, usize)> = vec![(0, 0)];
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); places.len()];
    // Parents stand before their children.
    for at in places.clone().skip(1) {
        let parent = trace.parent(at).map_or(0, |parent| parent - root);
        let (above, level) = holders[parent];
        let (holder, level) = if level < LEVELS { (parent, level + 1) } else { (above, level) };
        holders.push((holder, level));
        below[holder].push(at - root);
    }
    let mut built: Vec<Option<RunSpan>> = places.map(|at| Some(span(trace, at))).collect();
    for at in (0..built.len()).rev() {
        let children: Vec<RunSpan> = below[at].iter().filter_map(|child| built[*child].take()).collect();
        if let Some(span) = built[at].as_mut() {
            span.children = children;
        }
    }
    built.first_mut().and_then(Option::take).unwrap_or_default()
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

/// Clients know this word in this spelling.
fn kind(kind: &str) -> &str {
    if kind.starts_with("unsp") || kind.is_empty() { "unespecified" } else { kind }
}
