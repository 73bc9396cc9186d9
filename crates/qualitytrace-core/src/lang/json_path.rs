//! JSONPath queries on JSON documents.
//!
//! The dialect is that of Tracetest's files; results are in the order of the document.

#[cfg(test)]
mod compliance;
mod parser;

use std::borrow::Cow;
use std::cmp::Ordering;

use super::pattern::{Pattern, PatternError};
use crate::budget::{Budget, BudgetError};
use crate::json::{self, Json};
use crate::number;
use parser::Parser;

/// A parsed path.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
enum Step {
    Name(String),
    Index(i64),
    All,
    Descend,
    Names(Vec<String>),
    Indexes(Vec<i64>),
    Slice(Option<i64>, Option<i64>, i64),
    Filter(Test),
}

/// An expression inside `[?( )]`.
#[derive(Debug, Clone)]
enum Test {
    Value(Json),
    List(Vec<Test>),
    Path(bool, Path),
    Regex(Box<Pattern>),
    Not(Box<Test>),
    /// Operators of equal precedence, evaluated from left to right; any number of them.
    Chain(Box<Test>, Vec<(&'static str, Test)>),
}

/// Size of an intermediate result, in bytes.
const RESULT: usize = 32;

impl Path {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("the path is empty".to_owned());
        }
        let mut parser = Parser::new(text);
        let steps = parser.path(true)?;
        if parser.cursor.at_end() { Ok(Self { steps }) } else { Err(parser.wrong("unexpected text")) }
    }

    /// Whether the path has at most one result.
    pub(crate) fn is_definite(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Name(_) | Step::Index(_)))
    }

    /// Finds the values that the path selects.
    pub(crate) fn find<'d>(&self, document: &'d Json, budget: &Budget) -> Result<Found<'d>, BudgetError> {
        Walk { root: document, budget }.follow(&self.steps, document)
    }
}

/// The results of a path: values in the document, or a length, which is not in it.
type Found<'d> = Vec<Cow<'d, Json>>;

/// The evaluation of paths in one document.
struct Walk<'d, 'b> {
    root: &'d Json,
    budget: &'b Budget,
}

impl<'d> Walk<'d, '_> {
    fn follow(&self, steps: &[Step], from: &'d Json) -> Result<Found<'d>, BudgetError> {
        let mut found = vec![Cow::Borrowed(from)];
        for step in steps {
            let mut next = Vec::new();
            for value in found {
                self.budget.work(1)?;
                // A length has no children.
                if let Cow::Borrowed(value) = value {
                    self.take(step, value, &mut next)?;
                }
            }
            found = next;
        }
        Ok(found)
    }

    fn push(&self, found: &mut Found<'d>, value: impl Into<Option<&'d Json>>) -> Result<(), BudgetError> {
        if let Some(value) = value.into() {
            self.budget.work(1)?;
            self.budget.hold(RESULT)?;
            found.push(Cow::Borrowed(value));
        }
        Ok(())
    }

    fn take(&self, step: &Step, value: &'d Json, found: &mut Found<'d>) -> Result<(), BudgetError> {
        match step {
            Step::Name(name) => match (self.get(value, name)?, value) {
                (None, Json::Array(items)) if name == "length" => {
                    found.push(Cow::Owned(Json::Number(items.len().to_string())));
                }
                (member, _) => self.push(found, member)?,
            },
            Step::Index(index) => self.push(found, at(value, *index))?,
            Step::All => {
                for child in children(value) {
                    self.push(found, child)?;
                }
            }
            Step::Descend => self.descend(value, found)?,
            Step::Names(names) => {
                for name in names {
                    self.push(found, self.get(value, name)?)?;
                }
            }
            Step::Indexes(indexes) => {
                for index in indexes {
                    self.push(found, at(value, *index))?;
                }
            }
            Step::Slice(start, end, step) => self.slice(value, (*start, *end, *step), found)?,
            Step::Filter(test) => {
                for child in children(value) {
                    if self.accepts(test, child)? {
                        self.push(found, child)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn get(&self, value: &'d Json, name: &str) -> Result<Option<&'d Json>, BudgetError> {
        match value {
            Json::Object(members) => json::Members::of(members, 1, self.budget)?.get(name, self.budget),
            _ => Ok(None),
        }
    }

    /// Visits children before the value itself, as Tracetest's library does.
    fn descend(&self, value: &'d Json, found: &mut Found<'d>) -> Result<(), BudgetError> {
        for child in children(value) {
            if matches!(child, Json::Array(_) | Json::Object(_)) {
                self.descend(child, found)?;
            }
        }
        self.push(found, value)
    }

    fn slice(
        &self,
        value: &'d Json,
        (start, end, step): (Option<i64>, Option<i64>, i64),
        found: &mut Found<'d>,
    ) -> Result<(), BudgetError> {
        let Json::Array(items) = value else { return Ok(()) };
        let Ok(length) = i64::try_from(items.len()) else { return Ok(()) };
        let absolute = |index: i64| {
            if index < 0 { (index + length).max(-1) } else { index.min(length) }
        };
        let pick = |index: i64| usize::try_from(index).ok().and_then(|index| items.get(index));
        if step > 0 {
            let (mut index, end) = (absolute(start.unwrap_or(0)).max(0), absolute(end.unwrap_or(length)));
            while index < end {
                self.push(found, pick(index))?;
                index = index.saturating_add(step);
            }
        } else if step < 0 {
            let (mut index, end) =
                (absolute(start.unwrap_or(length - 1)).min(length - 1), end.map_or(-1, absolute));
            while index > end {
                self.push(found, pick(index))?;
                index = index.saturating_add(step);
            }
        }
        Ok(())
    }

    /// Whether a filter accepts a value; a path alone tests for existence.
    fn accepts(&self, test: &Test, here: &'d Json) -> Result<bool, BudgetError> {
        let value = self.evaluate(test, here)?;
        Ok(if matches!(test, Test::Path(..)) { value.is_some() } else { is_true(value.as_deref()) })
    }

    fn evaluate<'t>(&self, test: &'t Test, here: &'d Json) -> Result<Option<Cow<'t, Json>>, BudgetError>
    where
        'd: 't,
    {
        self.budget.work(1)?;
        match test {
            Test::Value(value) => Ok(Some(Cow::Borrowed(value))),
            Test::List(items) => {
                let mut values = Vec::new();
                for item in items {
                    values.extend(self.evaluate(item, here)?.map(Cow::into_owned));
                }
                Ok(Some(Cow::Owned(Json::Array(values))))
            }
            Test::Path(from_root, path) => {
                let from = if *from_root { self.root } else { here };
                self.budget.meanwhile(|| Ok(self.follow(&path.steps, from)?.into_iter().next()))
            }
            Test::Regex(_) => Ok(None),
            Test::Not(inner) => {
                let value = self.evaluate(inner, here)?;
                Ok(Some(Cow::Owned(Json::Bool(!holds(inner, value.as_deref())))))
            }
            Test::Chain(first, rest) => {
                let mut left_test = &**first;
                let mut left = self.evaluate(first, here)?;
                for (operator, right_test) in rest {
                    left = self.binary((left_test, left), operator, right_test, here)?.map(Cow::Owned);
                    left_test = test;
                }
                Ok(left)
            }
        }
    }

    fn binary(
        &self,
        (left_test, left): (&Test, Option<Cow<'_, Json>>),
        operator: &str,
        right_test: &Test,
        here: &'d Json,
    ) -> Result<Option<Json>, BudgetError> {
        let budget = self.budget;
        let left = left.as_deref();
        if let ("=~", Test::Regex(pattern)) = (operator, right_test) {
            let matches = match left {
                Some(Json::String(text)) => {
                    pattern.is_match(text, budget).map_err(|error| error.give_up(budget))?
                }
                _ => false,
            };
            return Ok(Some(Json::Bool(matches)));
        }
        let right = self.evaluate(right_test, here)?;
        let right = right.as_deref();
        let truth = match operator {
            "&&" => holds(left_test, left) && holds(right_test, right),
            "||" => holds(left_test, left) || holds(right_test, right),
            "==" => same(left, right, budget)?,
            "!=" => !same(left, right, budget)?,
            "in" => match right {
                Some(Json::Array(items)) => json::any(items, |item| same(left, Some(item), budget))?,
                _ => false,
            },
            "empty" => match left {
                Some(Json::Array(items)) => is_wanted(items.is_empty(), right),
                Some(Json::Object(members)) => is_wanted(members.is_empty(), right),
                Some(Json::String(text)) => is_wanted(text.is_empty(), right),
                _ => false,
            },
            "=~" => match (left, right) {
                (Some(Json::String(text)), Some(Json::String(pattern))) => {
                    let matched =
                        Pattern::within(pattern, budget).and_then(|pattern| pattern.is_match(text, budget));
                    match matched {
                        Ok(is_match) => is_match,
                        Err(PatternError::Invalid(_)) => false,
                        Err(PatternError::Exceeded(exceeded)) => return Err(exceeded),
                    }
                }
                _ => false,
            },
            "<" | "<=" | ">" | ">=" => {
                let order = match (left, right) {
                    (Some(Json::Number(left)), Some(Json::Number(right))) => number::compare(left, right),
                    (Some(Json::String(left)), Some(Json::String(right))) => Some(left.cmp(right)),
                    _ => return Ok(Some(Json::Bool(false))),
                };
                let Some(order) = order else { return Ok(None) };
                match operator {
                    "<" => order == Ordering::Less,
                    "<=" => order != Ordering::Greater,
                    ">" => order == Ordering::Greater,
                    _ => order != Ordering::Less,
                }
            }
            _ => return Ok(left.zip(right).and_then(|(left, right)| arithmetic(left, operator, right))),
        };
        Ok(Some(Json::Bool(truth)))
    }
}

/// Whether an operand of `&&`, `||` or `!` is true: a path to any value that is not a boolean is.
fn holds(test: &Test, value: Option<&Json>) -> bool {
    match value {
        Some(Json::Bool(truth)) => *truth,
        Some(_) => matches!(test, Test::Path(..)),
        None => false,
    }
}

fn is_true(value: Option<&Json>) -> bool {
    matches!(value, Some(Json::Bool(true)))
}

/// Compares `empty` with the operand; the default operand is `true`.
fn is_wanted(empty: bool, wanted: Option<&Json>) -> bool {
    match wanted {
        None => empty,
        Some(Json::Bool(wanted)) => empty == *wanted,
        Some(_) => false,
    }
}

fn children(value: &Json) -> impl Iterator<Item = &Json> {
    let (items, members): (&[Json], &[(String, Json)]) = match value {
        Json::Array(items) => (items, &[]),
        Json::Object(members) => (&[], members),
        _ => (&[], &[]),
    };
    items.iter().chain(members.iter().map(|(_, value)| value))
}

fn at(value: &Json, index: i64) -> Option<&Json> {
    let Json::Array(items) = value else { return None };
    let length = i64::try_from(items.len()).ok()?;
    let index = if index < 0 { index + length } else { index };
    items.get(usize::try_from(index).ok()?)
}

fn same(left: Option<&Json>, right: Option<&Json>, budget: &Budget) -> Result<bool, BudgetError> {
    match (left, right) {
        (Some(left), Some(right)) => left.same(right, budget),
        // A missing value equals null.
        (None, Some(Json::Null) | None) | (Some(Json::Null), None) => Ok(true),
        _ => Ok(false),
    }
}

fn arithmetic(left: &Json, operator: &str, right: &Json) -> Option<Json> {
    let (Json::Number(left), Json::Number(right)) = (left, right) else {
        return None;
    };
    let (left, right) = (number::Number::parse(left)?, number::Number::parse(right)?);
    let floats = (left.to_f64(), right.to_f64());
    let result = match operator {
        "/" if right.is_zero() => return None,
        _ if left.is_rounded() || right.is_rounded() => number::Number::from_f64(match operator {
            "+" => floats.0 + floats.1,
            "-" => floats.0 - floats.1,
            "*" => floats.0 * floats.1,
            _ => floats.0 / floats.1,
        })?,
        "+" => left.add(right)?,
        "-" => left.subtract(right)?,
        "*" => left.multiply(right)?,
        _ => left.divide_evenly(right).or_else(|| number::Number::from_f64(floats.0 / floats.1))?,
    };
    Some(Json::Number(result.to_text()))
}
