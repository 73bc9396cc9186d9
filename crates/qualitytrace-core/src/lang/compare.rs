//! Comparison of values.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::ast::Comparator;
use super::item::{Item, Origin};
use super::pattern::{Pattern, PatternError};
use super::select::ordered;
use crate::budget::{Budget, BudgetError};
use crate::json::{self, Json};
use crate::number;
use crate::time;
use crate::value::{Inferred, Value};

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// It holds.
    Match,
    /// It does not hold; the text says so, and ends in `no match`.
    NoMatch(String),
    /// The values cannot be compared; the text says why.
    Impossible(String),
}

/// Compares two texts by the comparator with this name.
pub fn compare_texts(comparator: &str, actual: &str, expected: &str) -> Comparison {
    match Comparator::ALL.into_iter().find(|known| known.as_str() == comparator) {
        Some(comparator) => {
            compare(&Item::plain(actual), comparator, &Item::plain(expected), &Budget::default())
        }
        None => Comparison::Impossible(format!("there is no comparator `{comparator}`")),
    }
}

/// Compares two values; exceeding the budget makes it impossible.
pub(crate) fn compare(left: &Item, comparator: Comparator, right: &Item, budget: &Budget) -> Comparison {
    // Temporary values of the comparison are released afterwards.
    budget
        .meanwhile(|| compared(left, comparator, right, budget))
        .unwrap_or_else(|exceeded| Comparison::Impossible(exceeded.to_string()))
}

fn compared(
    left: &Item,
    comparator: Comparator,
    right: &Item,
    budget: &Budget,
) -> Result<Comparison, BudgetError> {
    let comparison = compared_as_written(left, comparator, right, budget)?;
    // Tracetest compares texts without the backslashes before quotes, so files have them where the span has none.
    match (&comparison, unescaped(right)) {
        (Comparison::NoMatch(_), Some(right)) if !is_negated(comparator) => {
            compared_as_written(left, comparator, &right, budget)
        }
        (Comparison::Match, Some(right)) if is_negated(comparator) => {
            compared_as_written(left, comparator, &right, budget)
        }
        _ => Ok(comparison),
    }
}

fn is_negated(comparator: Comparator) -> bool {
    matches!(comparator, Comparator::NotEqual | Comparator::NotContains | Comparator::NotMatches)
}

/// Removes the backslashes before quotes from a text in quotes; `None` where there are none.
fn unescaped(item: &Item) -> Option<Item> {
    let text = item.text();
    let found = item.is_quoted() && text.contains("\\\"");
    found.then(|| Item { value: text.replace("\\\"", "\"").into(), origin: item.origin })
}

fn compared_as_written(
    left: &Item,
    comparator: Comparator,
    right: &Item,
    budget: &Budget,
) -> Result<Comparison, BudgetError> {
    budget.read(left.size() + right.size())?;
    let truth = match comparator {
        Comparator::Equal => equal(left, right, budget)?,
        Comparator::NotEqual => !equal(left, right, budget)?,
        Comparator::Less | Comparator::LessOrEqual | Comparator::Greater | Comparator::GreaterOrEqual => {
            match order(left, right) {
                Ok(order) => ordered(comparator, order),
                Err(text) => return Ok(Comparison::Impossible(text)),
            }
        }
        Comparator::Contains => return contains(left, right, budget),
        // A list without objects cannot be compared with one, but it has none.
        Comparator::NotContains => contains(left, right, budget)? != Comparison::Match,
        Comparator::JsonContains => return json_contains(left, right, budget),
        Comparator::NotJsonContains => match json_contains(left, right, budget)? {
            Comparison::Match => false,
            Comparison::NoMatch(_) => true,
            impossible @ Comparison::Impossible(_) => return Ok(impossible),
        },
        Comparator::StartsWith => left.text().starts_with(&*right.text()),
        Comparator::EndsWith => left.text().ends_with(&*right.text()),
        Comparator::Matches | Comparator::NotMatches => match matches(&left.text(), &right.text(), budget) {
            Ok(is_match) => is_match == (comparator == Comparator::Matches),
            Err(PatternError::Invalid(text)) => return Ok(Comparison::Impossible(text)),
            Err(PatternError::Exceeded(exceeded)) => return Err(exceeded),
        },
    };
    Ok(no_match_unless(truth))
}

fn matches(text: &str, pattern: &str, budget: &Budget) -> Result<bool, PatternError> {
    Pattern::within(pattern, budget)?.is_match(text, budget)
}

pub(crate) fn no_match_unless(truth: bool) -> Comparison {
    if truth { Comparison::Match } else { Comparison::NoMatch("no match".to_owned()) }
}

/// Whether the value equals one of these choices; each may have backslashes before quotes where the value has none.
pub(crate) fn one_of_these(left: &Item, choices: &[Item], budget: &Budget) -> Result<bool, BudgetError> {
    budget.meanwhile(|| {
        json::any(choices, |choice| {
            budget.read(choice.size())?;
            Ok(equal(left, choice, budget)?
                || match unescaped(choice) {
                    Some(choice) => equal(left, &choice, budget)?,
                    None => false,
                })
        })
    })
}

/// Whether the value equals one of the items.
pub(crate) fn one_of(left: &Item, right: &Item, budget: &Budget) -> Result<bool, BudgetError> {
    budget.meanwhile(|| match right.items(budget)? {
        Some(items) => json::any(&items, |item| equals_item(left, right, item, budget)),
        None => equal(left, right, budget),
    })
}

/// Whether a value equals an item of a list. As elsewhere, a text in the list may have backslashes before quotes
/// where the value has none.
fn equals_item(value: &Item, list: &Item, item: &Value, budget: &Budget) -> Result<bool, BudgetError> {
    if equal(value, &Item::plain(item.clone()), budget)? {
        return Ok(true);
    }
    // Lists of spans are texts; results of paths are taken as they are.
    let is_written = matches!(list.value, Value::List(_)) && list.origin != Origin::Path;
    match plain_text(item).filter(|text| is_written && text.contains("\\\"")) {
        Some(text) => equal(value, &Item::plain(text.replace("\\\"", "\"")), budget),
        None => Ok(false),
    }
}

/// Returns both in nanoseconds if either is a duration and both can be one.
pub(crate) fn in_time(left: &Item, right: &Item) -> Option<(i64, i64)> {
    if left.is_duration() || right.is_duration() { Some((left.nanos()?, right.nanos()?)) } else { None }
}

fn compare_in_time(left: &Item, right: &Item) -> Option<Ordering> {
    let (left_nanos, right_nanos) = in_time(left, right)?;
    Some(match (left.is_duration(), right.is_duration()) {
        (false, _) => time::measured_against(left_nanos, right_nanos),
        (_, false) => time::measured_against(right_nanos, left_nanos).reverse(),
        (true, true) => left_nanos.cmp(&right_nanos),
    })
}

fn equal(left: &Item, right: &Item, budget: &Budget) -> Result<bool, BudgetError> {
    budget.work(4)?;
    if let (Value::String(left), Value::String(right)) = (&left.value, &right.value)
        && left == right
    {
        return Ok(true);
    }
    if let Some(order) = compare_in_time(left, right) {
        return Ok(order.is_eq());
    }
    if let (Value::List(left), Value::List(right)) = (&left.value, &right.value) {
        return Ok(left.len() == right.len()
            && json::all(left.iter().zip(right), |(left, right)| equal_values(left, right, budget))?);
    }
    let (left_text, right_text) = (left.text(), right.text());
    budget.read(left_text.len().min(right_text.len()))?;
    if left_text == right_text {
        return Ok(true);
    }
    if !left.is_quoted()
        && !right.is_quoted()
        && number::compare(&left_text, &right_text) == Some(Ordering::Equal)
    {
        return Ok(true);
    }
    match left.json(budget)? {
        Some(left) => match right.json(budget)? {
            Some(right) => left.same(&right, budget),
            None => Ok(false),
        },
        None => Ok(false),
    }
}

fn equal_values(left: &Value, right: &Value, budget: &Budget) -> Result<bool, BudgetError> {
    equal(&Item::plain(left.clone()), &Item::plain(right.clone()), budget)
}

fn order(left: &Item, right: &Item) -> Result<Ordering, String> {
    if let Some(order) = compare_in_time(left, right) {
        return Ok(order);
    }
    let (left, right) = (left.text(), right.text());
    if let Some(order) = number::compare(&left, &right) {
        return Ok(order);
    }
    let durations = (time::parse_plain_duration(&left), time::parse_plain_duration(&right));
    if let (Some(left), Some(right)) = durations {
        return Ok(left.cmp(&right));
    }
    let wrong = if number::is_number(&right) { left } else { right };
    Err(format!("cannot parse \"{wrong}\" as a number"))
}

/// Whether `right` is part of `left`: an item of a list, a subset of JSON, a substring of a text.
fn contains(left: &Item, right: &Item, budget: &Budget) -> Result<Comparison, BudgetError> {
    let is_json = matches!(left.single(), Value::List(_))
        || matches!(left.inferred(), Inferred::Json | Inferred::Array);
    if is_json && right.inferred() == Inferred::Json {
        return json_contains(left, right, budget);
    }
    let text = || left.text().contains(&*right.text());
    let Some(items) = left.items(budget)? else {
        return Ok(no_match_unless(text()));
    };
    let listed = match right.items(budget)? {
        Some(wanted) if !wanted.is_empty() => {
            let texts: HashSet<&str> = items.iter().filter_map(plain_text).collect();
            json::all(&wanted, |wanted| match plain_text(wanted) {
                // Equal texts are equal values; only other spellings need a search.
                Some(text) if texts.contains(text) => Ok(true),
                _ => is_item(left, &items, &Item::plain(wanted.clone()), budget),
            })?
        }
        _ => is_item(left, &items, right, budget)?,
    };
    // A text that looks like a list is also searched as a text.
    Ok(no_match_unless(listed || (matches!(left.value, Value::String(_)) && text())))
}

fn plain_text(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn is_item(list: &Item, items: &[Value], wanted: &Item, budget: &Budget) -> Result<bool, BudgetError> {
    json::any(items, |item| equals_item(wanted, list, item, budget))
}

/// Whether every object on the right is part of some object on the left. What else a list on the left has is no
/// part of the comparison.
fn json_contains(left: &Item, right: &Item, budget: &Budget) -> Result<Comparison, BudgetError> {
    let is_object = |json: &Json| matches!(json, Json::Object(_));
    let impossible = |side: &str| Ok(Comparison::Impossible(format!("{side} side is not a JSON object")));
    let left = match left.json(budget)? {
        Some(Json::Array(items)) if items.is_empty() || items.iter().any(is_object) => items,
        Some(object @ Json::Object(_)) => vec![object],
        _ => return impossible("left"),
    };
    let right = match right.json(budget)? {
        Some(Json::Array(items)) if items.iter().all(is_object) => items,
        Some(object @ Json::Object(_)) => vec![object],
        _ => return impossible("right"),
    };
    for (at, wanted) in right.iter().enumerate() {
        if !json::any(&left, |candidate| is_part(candidate, wanted, budget))? {
            return Ok(Comparison::NoMatch(format!(
                "item {at} of the right side is part of no object on the left side: no match"
            )));
        }
    }
    Ok(Comparison::Match)
}

/// Whether all wanted parts are present: members of objects, and objects of lists of objects.
fn is_part(candidate: &Json, wanted: &Json, budget: &Budget) -> Result<bool, BudgetError> {
    budget.work(1)?;
    let objects = |items: &[Json]| items.iter().all(|item| matches!(item, Json::Object(_)));
    match (candidate, wanted) {
        (Json::Object(members), Json::Object(wanted)) => {
            let members = json::Members::of(members, wanted.len(), budget)?;
            json::all(wanted, |(name, wanted)| match members.get(name, budget)? {
                Some(value) => is_part(value, wanted, budget),
                None => Ok(false),
            })
        }
        (Json::Array(items), Json::Array(wanted))
            if !wanted.is_empty() && objects(wanted) && objects(items) =>
        {
            json::all(wanted, |wanted| json::any(items, |item| is_part(item, wanted, budget)))
        }
        (candidate, wanted) => candidate.same(wanted, budget),
    }
}
