//! A trace twice: as a tree, and as a table by span id.

use qualitytrace_core::names;
use qualitytrace_core::time::format_duration;
use qualitytrace_core::trace::{Trace, special};
use serde_json::{Map, Value, json};

/// The attribute that is shown with a unit.
const DURATION: &str = "tracetest.span.duration";
/// The attribute that names the parent in the tree.
const PARENT: &str = "tracetest.span.parent_id";

/// Attributes that only spans have that were sent.
const UNSENT: [&str; 2] = ["span.events", "tracetest.span.status_code"];

/// The trace as clients read it.
pub fn tree_and_flat(trace: &Trace) -> Value {
    let mut flat: Vec<(String, Value)> =
        (0..trace.spans().len()).map(|at| (id(trace, at), Value::Object(span(trace, at)))).collect();
    flat.sort_by(|a, b| a.0.cmp(&b.0));
    let tree = trace.roots().next().map_or_else(|| json!({}), |root| tree(trace, root));
    json!({
        "traceId": trace.id().to_string(),
        "tree": tree,
        "flat": flat.into_iter().collect::<Map<_, _>>(),
    })
}

fn tree(trace: &Trace, at: usize) -> Value {
    // Built from the leaves up: a trace may be deeper than the stack.
    let end = trace.descendants(at).end;
    let mut built: Vec<Option<Map<String, Value>>> = (at..end).map(|here| Some(span(trace, here))).collect();
    for here in (at..end).rev() {
        let children: Vec<Value> =
            trace.children(here).filter_map(|child| built[child - at].take()).map(Value::Object).collect();
        if let Some(span) = built[here - at].as_mut().filter(|_| !children.is_empty()) {
            span.insert("children".to_owned(), children.into());
        }
    }
    built.first_mut().and_then(Option::take).map_or_else(|| json!({}), Value::Object)
}

fn span(trace: &Trace, at: usize) -> Map<String, Value> {
    let span = trace.span(at);
    let parent = trace.parent(at).map(|parent| id(trace, parent));
    let is_trigger = parent.is_none() && &*span.name == names::TRIGGER_SPAN;
    let mut attributes: Vec<(String, Value)> = special::texts(span)
        .into_iter()
        .filter(|(name, _)| name != PARENT && !(is_trigger && UNSENT.contains(&name.as_str())))
        .map(|(name, text)| {
            let text = match text.parse() {
                Ok(nanos) if name == DURATION => format_duration(nanos),
                _ => text,
            };
            (name, text.into())
        })
        .collect();
    if let Some(parent) = &parent {
        attributes.push((PARENT.to_owned(), parent.clone().into()));
        attributes.sort_by(|a, b| a.0.cmp(&b.0));
    }
    let mut out = Map::new();
    out.insert("id".to_owned(), id(trace, at).into());
    if let Some(parent) = parent {
        out.insert("parentId".to_owned(), parent.into());
    }
    out.insert("name".to_owned(), span.name.to_string().into());
    out.insert("kind".to_owned(), kind(span.kind.as_str()).into());
    out.insert("startTime".to_owned(), span.start.as_millis().into());
    out.insert("endTime".to_owned(), span.end.unwrap_or(span.start).as_millis().into());
    out.insert("attributes".to_owned(), attributes.into_iter().collect::<Map<_, _>>().into());
    out
}

fn id(trace: &Trace, at: usize) -> String {
    trace.span(at).id.map_or_else(|| "0".repeat(16), |id| id.to_string())
}

/// Clients know this word in this spelling.
fn kind(kind: &str) -> &str {
    if kind.starts_with("unsp") || kind.is_empty() { "unespecified" } else { kind }
}
