//! Aggregates: one value computed from many spans.

use std::cmp::Ordering;

use super::{Context, EvalError, EvalErrorKind, Subject, calculate};
use crate::lang::ast::{Aggregate, AggregateInput, Operator};
use crate::lang::field::Field;
use crate::lang::item::Item;
use crate::lang::select::Query;
use crate::number;

pub(super) fn evaluate(
    context: &Context<'_, '_>,
    function: Aggregate,
    over: &AggregateInput,
) -> Result<Item, EvalError> {
    let nowhere = || EvalError::evaluation("there are no spans here to aggregate");
    match over {
        AggregateInput::Own(None) => {
            let selection = context.selection.ok_or_else(nowhere)?;
            match function {
                Aggregate::Count => Ok(size(selection.len())),
                _ => Err(EvalError::evaluation("say what to aggregate: `sum(attr:...)`")),
            }
        }
        AggregateInput::Own(Some(inner)) => {
            let selection = context.selection.ok_or_else(nowhere)?;
            over_spans(function, selection, |at| context.evaluate(inner, Subject::Span(at)))
        }
        AggregateInput::Selection { selector, attribute } => {
            let scene = context.scene.ok_or_else(nowhere)?;
            let selection = Query::new(selector, context.aliases).run(scene)?;
            let Some(name) = attribute else {
                return match function {
                    Aggregate::Count => Ok(size(selection.len())),
                    _ => Err(EvalError::evaluation("say which attribute: `first(span[...]).name`")),
                };
            };
            if selection.is_empty() && function != Aggregate::Count {
                return Err(EvalError {
                    class: EvalErrorKind::Resolution,
                    text: format!("resolution error: no span matches `{selector}`"),
                });
            }
            let field = Field::attribute(name, true, context.aliases);
            over_spans(function, &selection, |at| context.read(scene, &field, name, at))
        }
    }
}

fn over_spans(
    function: Aggregate,
    selection: &[usize],
    value: impl Fn(usize) -> Result<Item, EvalError>,
) -> Result<Item, EvalError> {
    match function {
        Aggregate::First => return value(*selection.first().ok_or_else(nothing)?),
        Aggregate::Last => return value(*selection.last().ok_or_else(nothing)?),
        _ => {}
    }
    let mut items = Vec::with_capacity(selection.len());
    for at in selection {
        match value(*at) {
            Ok(item) => items.push(item),
            // A span without the attribute adds nothing.
            Err(trouble) if trouble.class == EvalErrorKind::Attribute => {}
            Err(trouble) => return Err(trouble),
        }
    }
    match function {
        Aggregate::Count => Ok(size(items.len())),
        Aggregate::Distinct => {
            let mut texts: Vec<_> = items.iter().map(|item| item.text().into_owned()).collect();
            texts.sort_unstable();
            texts.dedup();
            Ok(size(texts.len()))
        }
        Aggregate::Sum if items.is_empty() => Ok(size(0)),
        Aggregate::Sum => sum(&items),
        Aggregate::Avg => {
            let count = size(items.len());
            calculate(&sum(&items)?, Operator::Divide, &count)
        }
        Aggregate::Min => sorted(items)?.into_iter().next().ok_or_else(nothing),
        Aggregate::Max | Aggregate::Last => sorted(items)?.into_iter().next_back().ok_or_else(nothing),
        Aggregate::Percentile(percent) => {
            let items = sorted(items)?;
            let rank = (items.len() * usize::from(percent)).div_ceil(100).max(1);
            items.into_iter().nth(rank - 1).ok_or_else(nothing)
        }
        Aggregate::First => items.into_iter().next().ok_or_else(nothing),
    }
}

fn nothing() -> EvalError {
    EvalError {
        class: EvalErrorKind::Resolution,
        text: "resolution error: no selected span has a value to aggregate".to_owned(),
    }
}

fn size(count: usize) -> Item {
    Item::plain(i64::try_from(count).unwrap_or(i64::MAX))
}

fn sum(items: &[Item]) -> Result<Item, EvalError> {
    let (first, rest) = items.split_first().ok_or_else(nothing)?;
    if first.quantity().is_none() {
        return Err(EvalError::evaluation(format!(
            "cannot add up a {}: \"{}\"",
            first.type_name(),
            first.text()
        )));
    }
    let mut total = first.clone();
    for item in rest {
        total = calculate(&total, Operator::Add, item)?;
    }
    Ok(total)
}

fn sorted(mut items: Vec<Item>) -> Result<Vec<Item>, EvalError> {
    if let Some(item) = items.iter().find(|item| item.quantity().is_none()) {
        return Err(EvalError::evaluation(format!(
            "cannot put a {} in order: \"{}\"",
            item.type_name(),
            item.text()
        )));
    }
    let size = |item: &Item| match (item.is_duration(), item.nanos()) {
        (true, Some(nanos)) => nanos.to_string(),
        _ => item.text().into_owned(),
    };
    items.sort_by_cached_key(|item| ByNumber(size(item)));
    Ok(items)
}

/// A number as text, ordered by its value.
struct ByNumber(String);

impl Ord for ByNumber {
    fn cmp(&self, other: &Self) -> Ordering {
        number::compare(&self.0, &other.0).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for ByNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByNumber {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByNumber {}
