//! What a trace holds, for completion: the names of its attributes and the values of one of them, with how many
//! spans have them.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::budget::Budget;
use crate::definition::secrets::MASK;
use crate::lang::{Field, FieldValue, TraceIndex};
use crate::trace::{Attributes, Trace};
use crate::value::Value;

/// Maximum number of different names or values that are counted.
const MAX_DISTINCT: usize = 4096;
/// Maximum length of a name or a value that is offered, in bytes.
const MAX_LENGTH: usize = 200;

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AttributeValue<'t> {
    pub(super) text: Cow<'t, str>,
    /// Whether it was sent as a text.
    pub(super) is_text: bool,
    /// How many spans have it.
    pub(super) spans: usize,
}

/// Returns the names of attributes of the spans, their scopes and resources, with how many spans have them, most of
/// them first. Ends early when the budget is used up.
pub(super) fn names<'t>(trace: &'t Trace, budget: &Budget) -> Vec<(&'t str, usize)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut add = |attributes: &'t Attributes, spans: usize| {
        for (name, _) in attributes.iter() {
            if let Some(count) = counts.get_mut(name) {
                *count += spans;
            } else if counts.len() < MAX_DISTINCT && is_offered(name) {
                counts.insert(name, spans);
            }
        }
    };
    // Spans of one process share its attributes, which are read once.
    let mut shared: HashMap<*const Attributes, (&'t Attributes, usize)> = HashMap::new();
    for span in trace.spans() {
        if budget.work(1 + span.attributes.len()).is_err() {
            break;
        }
        add(&span.attributes, 1);
        for attributes in [&span.resource.attributes, &span.scope.attributes] {
            shared.entry(std::ptr::from_ref(attributes)).or_insert((attributes, 0)).1 += 1;
        }
    }
    let mut shared: Vec<_> = shared.into_values().collect();
    // The order of a map is random, and only so many names are counted.
    shared.sort_by_key(|(attributes, spans)| {
        (std::cmp::Reverse(*spans), attributes.iter().next().map(|(name, _)| name))
    });
    for (attributes, spans) in shared {
        if budget.work(attributes.len()).is_err() {
            break;
        }
        add(attributes, spans);
    }
    let mut names: Vec<(&str, usize)> = counts.into_iter().collect();
    names.sort_by_key(|(name, spans)| (std::cmp::Reverse(*spans), *name));
    names
}

/// Returns the values that the spans have in this field, most frequent first. Ends early when the budget is used up.
pub(super) fn values<'t>(trace: &'t Trace, field: &Field, budget: &'t Budget) -> Vec<AttributeValue<'t>> {
    let scene = TraceIndex::new(trace, budget);
    let mut counts: HashMap<Cow<'t, str>, (bool, usize)> = HashMap::new();
    for at in 0..trace.spans().len() {
        if budget.work(1).is_err() {
            break;
        }
        let Some((text, is_text)) = field.look(&scene, at).and_then(|(seen, _)| shown(seen)) else {
            continue;
        };
        if let Some((_, spans)) = counts.get_mut(&text) {
            *spans += 1;
        } else if counts.len() < MAX_DISTINCT {
            counts.insert(text, (is_text, 1));
        }
    }
    let mut values: Vec<AttributeValue<'t>> =
        counts.into_iter().map(|(text, (is_text, spans))| AttributeValue { text, is_text, spans }).collect();
    values.sort_by(|a, b| b.spans.cmp(&a.spans).then_with(|| a.text.cmp(&b.text)));
    values
}

/// Returns a value that a text can be compared with, and whether it is text; `None` for lists, bytes, long texts and
/// those with a masked secret.
fn shown(seen: FieldValue<'_>) -> Option<(Cow<'_, str>, bool)> {
    let (text, is_text) = match seen {
        FieldValue::Text(text) => (Cow::Borrowed(text), true),
        FieldValue::Value(Value::String(text)) => (Cow::Borrowed(&**text), true),
        FieldValue::Made(Value::String(text)) => (Cow::Owned(text.to_string()), true),
        FieldValue::Nanos(nanos) => (Cow::Owned(nanos.to_string()), false),
        FieldValue::Value(value) => (number_or_truth(value)?, false),
        FieldValue::Made(value) => (Cow::Owned(number_or_truth(&value)?.into_owned()), false),
    };
    is_offered(&text).then_some((text, is_text))
}

fn number_or_truth(value: &Value) -> Option<Cow<'_, str>> {
    matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_)).then(|| value.text())
}

/// Whether a name or value can be offered: it is short and printable, and no secret was masked in it.
fn is_offered(text: &str) -> bool {
    let is_plain = !text.chars().any(char::is_control) && !text.contains(MASK);
    !text.is_empty() && text.len() <= MAX_LENGTH && is_plain
}
