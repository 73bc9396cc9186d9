//! How two values compare.

use std::cmp::Ordering;

use super::ast::Comparator;
use super::filters;
use super::item::Item;
use super::json::{self, Json};
use super::number;
use super::select::ordered;
use crate::time;
use crate::value::{Inferred, Value};

/// What came of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// It holds.
    Match,
    /// It does not hold; the text says so, and ends in `no match`.
    NoMatch(String),
    /// The two cannot be compared; the text says why.
    Impossible(String),
}

/// Compares two texts by the comparator of this name.
pub fn compare_texts(comparator: &str, actual: &str, expected: &str) -> Comparison {
    match Comparator::ALL.into_iter().find(|known| known.as_str() == comparator) {
        Some(comparator) => compare(&Item::plain(actual), comparator, &Item::plain(expected)),
        None => Comparison::Impossible(format!("there is no comparator `{comparator}`")),
    }
}

pub(crate) fn compare(left: &Item, comparator: Comparator, right: &Item) -> Comparison {
    let truth = match comparator {
        Comparator::Equal => equal(left, right),
        Comparator::NotEqual => !equal(left, right),
        Comparator::Less | Comparator::LessOrEqual | Comparator::Greater | Comparator::GreaterOrEqual => {
            match order(left, right) {
                Ok(order) => ordered(comparator, order),
                Err(text) => return Comparison::Impossible(text),
            }
        }
        Comparator::Contains => match contains(left, right) {
            Ok(truth) => truth,
            Err(comparison) => return comparison,
        },
        Comparator::NotContains => !contains(left, right).unwrap_or(false),
        Comparator::JsonContains => return json_contains(&left.text(), &right.text()),
        Comparator::NotJsonContains => match json_contains(&left.text(), &right.text()) {
            Comparison::Match => false,
            Comparison::NoMatch(_) => true,
            impossible @ Comparison::Impossible(_) => return impossible,
        },
        Comparator::StartsWith => left.text().starts_with(&*right.text()),
        Comparator::EndsWith => left.text().ends_with(&*right.text()),
        Comparator::Matches | Comparator::NotMatches => match filters::regex(&right.text()) {
            Ok(regex) => regex.is_match(&left.text()) == (comparator == Comparator::Matches),
            Err(text) => return Comparison::Impossible(text),
        },
    };
    no_match_unless(truth)
}

pub(crate) fn no_match_unless(truth: bool) -> Comparison {
    if truth { Comparison::Match } else { Comparison::NoMatch("no match".to_owned()) }
}

/// Whether the value equals one of the items.
pub(crate) fn one_of(left: &Item, right: &Item) -> bool {
    match right.items() {
        Some(items) => items.iter().any(|item| equal(left, &Item::plain(item.clone()))),
        None => equal(left, right),
    }
}

/// Whether a comparison of these two is one of durations.
pub(crate) fn in_time(left: &Item, right: &Item) -> Option<(i64, i64)> {
    if left.is_duration() || right.is_duration() { Some((left.nanos()?, right.nanos()?)) } else { None }
}

fn compare_in_time(left: &Item, right: &Item) -> Option<Ordering> {
    let (left_nanos, right_nanos) = in_time(left, right)?;
    Some(match (left.is_duration(), right.is_duration()) {
        (false, _) => measured_against(left_nanos, right_nanos),
        (_, false) => measured_against(right_nanos, left_nanos).reverse(),
        (true, true) => left_nanos.cmp(&right_nanos),
    })
}

/// How a measured duration stands to a written one: nobody means 25.187564 ms to differ from `25ms`.
pub(crate) fn measured_against(nanos: i64, written: i64) -> Ordering {
    if time::measured(nanos) == written { Ordering::Equal } else { nanos.cmp(&written) }
}

fn equal(left: &Item, right: &Item) -> bool {
    if let (Value::String(left), Value::String(right)) = (&left.value, &right.value)
        && left == right
    {
        return true;
    }
    if let Some(order) = compare_in_time(left, right) {
        return order.is_eq();
    }
    if let (Value::List(left), Value::List(right)) = (&left.value, &right.value) {
        return left.len() == right.len()
            && left.iter().zip(right).all(|(left, right)| equal_values(left, right));
    }
    let (left_text, right_text) = (left.text(), right.text());
    if left_text == right_text {
        return true;
    }
    if !left.is_quoted()
        && !right.is_quoted()
        && number::compare(&left_text, &right_text) == Some(Ordering::Equal)
    {
        return true;
    }
    match (left.json(), right.json()) {
        (Some(left), Some(right)) => left.same(&right),
        _ => false,
    }
}

fn equal_values(left: &Value, right: &Value) -> bool {
    equal(&Item::plain(left.clone()), &Item::plain(right.clone()))
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

/// Whether `right` is part of `left`: an item of a list, a subset of JSON, a part of a text.
fn contains(left: &Item, right: &Item) -> Result<bool, Comparison> {
    let (left_type, right_type) = (left.inferred(), right.inferred());
    if let (Inferred::Json(_), Inferred::Json(_) | Inferred::Array(_)) = (&right_type, &left_type) {
        return match json_contains(&left.text(), &right.text()) {
            Comparison::Match => Ok(true),
            other => Err(other),
        };
    }
    let text = || left.text().contains(&*right.text());
    let Some(items) = left.items() else {
        return Ok(text());
    };
    let found = |wanted: &Item| items.iter().any(|item| equal(&Item::plain(item.clone()), wanted));
    let listed = match right.items() {
        Some(wanted) if !wanted.is_empty() => wanted.iter().all(|wanted| found(&Item::plain(wanted.clone()))),
        _ => found(right),
    };
    // A text that only looks like a list is still a text.
    Ok(listed || (matches!(left.value, Value::String(_)) && text()))
}

/// Whether every object on the right is part of some object on the left.
fn json_contains(left: &str, right: &str) -> Comparison {
    let objects = |text: &str, side: &str| match json::parse(text) {
        Ok(Json::Array(items)) if items.iter().all(|item| matches!(item, Json::Object(_))) => Ok(items),
        Ok(object @ Json::Object(_)) => Ok(vec![object]),
        _ => Err(Comparison::Impossible(format!("{side} side is not a JSON object"))),
    };
    let (left, right) = match (objects(left, "left"), objects(right, "right")) {
        (Ok(left), Ok(right)) => (left, right),
        (Err(impossible), _) | (_, Err(impossible)) => return impossible,
    };
    match right.iter().position(|wanted| !left.iter().any(|candidate| is_part(candidate, wanted))) {
        None => Comparison::Match,
        Some(at) => Comparison::NoMatch(format!(
            "item {at} of the right side is part of no object on the left side: no match"
        )),
    }
}

fn is_part(candidate: &Json, wanted: &Json) -> bool {
    match (candidate, wanted) {
        (Json::Object(_), Json::Object(members)) => members
            .iter()
            .all(|(name, wanted)| candidate.get(name).is_some_and(|value| is_part(value, wanted))),
        (candidate, wanted) => candidate.same(wanted),
    }
}
