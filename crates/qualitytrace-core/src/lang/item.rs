//! A value during evaluation: the value itself, and its origin.

use std::borrow::Cow;

use crate::budget::{Budget, BudgetError};
use crate::json::{self, Json};
use crate::number::{Number, print_f64};
use crate::time;
use crate::value::{Inferred, Value, infer};

/// A value and its origin. Text keeps its exact characters; its type is inferred when needed.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The value.
    pub value: Value,
    pub(crate) origin: Origin,
}

/// The origin of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An attribute, a variable, a literal without quotes, a calculation.
    Plain,
    /// A text in quotes: digits in it are text.
    Quoted,
    /// A span's duration: a number of nanoseconds.
    Nanoseconds,
    /// A path that may have many results: a single result counts as the value itself.
    Path,
}

/// The numeric meaning of a value in a calculation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Quantity {
    Number(Number),
    /// A number that cannot be held exactly.
    Float(f64),
    Duration(i64),
}

impl Item {
    /// Makes an item of a value from outside the expression.
    pub fn plain(value: impl Into<Value>) -> Self {
        Self { value: value.into(), origin: Origin::Plain }
    }

    pub(crate) fn quoted(text: String) -> Self {
        Self { value: text.into(), origin: Origin::Quoted }
    }

    /// Returns the value as text.
    pub fn text(&self) -> Cow<'_, str> {
        match (&self.value, self.origin) {
            (Value::List(items), Origin::Path) if items.len() < 2 => {
                items.first().map_or(Cow::Borrowed(""), Value::text)
            }
            (value, _) => value.text(),
        }
    }

    /// Returns the name of its type, in Tracetest's words.
    pub fn type_name(&self) -> &'static str {
        match (&self.value, self.origin) {
            (Value::List(items), Origin::Path) if items.is_empty() => "nil",
            (Value::List(items), Origin::Path) if items.len() == 1 => items[0].type_name(),
            (Value::String(text), Origin::Quoted) => match self.inferred() {
                Inferred::Number if is_plain_number(text) => "string",
                Inferred::Duration(_) => "string",
                other => other.type_name(),
            },
            (value, _) => value.type_name(),
        }
    }

    /// Infers the type of its text; a value that is neither text nor an object counts as text.
    pub(crate) fn inferred(&self) -> Inferred {
        match self.single() {
            Value::String(text) => infer(text),
            Value::Object(_) => Inferred::Json,
            _ => Inferred::Text,
        }
    }

    /// Returns the value, or the only one of a path's results.
    pub(crate) fn single(&self) -> &Value {
        match (&self.value, self.origin) {
            (Value::List(items), Origin::Path) if items.len() == 1 => &items[0],
            (value, _) => value,
        }
    }

    /// Whether it is the result of a path or a pattern that found nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        match &self.value {
            Value::Null => true,
            Value::List(items) => items.is_empty(),
            _ => false,
        }
    }

    pub(crate) fn is_quoted(&self) -> bool {
        self.origin == Origin::Quoted
    }

    /// Returns the items, if it is a list or a text that holds one.
    pub(crate) fn items(&self, budget: &Budget) -> Result<Option<Vec<Value>>, BudgetError> {
        match &self.value {
            Value::List(items) => {
                budget.work(items.len())?;
                Ok(Some(items.clone()))
            }
            Value::String(text) => match document(text, budget)? {
                Some(Json::Array(items)) => Ok(Some(items.iter().map(from_json).collect())),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Returns its JSON, if it is an object or a list.
    pub(crate) fn json(&self, budget: &Budget) -> Result<Option<Json>, BudgetError> {
        match self.single() {
            Value::String(text) => document(text, budget),
            value @ (Value::Object(_) | Value::List(_)) => typed_json(value, budget).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the approximate size of its text in bytes.
    pub(crate) fn size(&self) -> usize {
        self.value.size()
    }

    /// Returns its numeric meaning; digits in quotes count.
    pub(crate) fn quantity(&self) -> Option<Quantity> {
        let float = |text: &str| text.parse().ok().map(Quantity::Float);
        match self.single() {
            Value::Int(number) => Some(Quantity::Number(Number::from_i64(*number))),
            // These are in no order, and nothing can be calculated with them.
            Value::Float(number) if !number.is_finite() => None,
            Value::Float(number) => {
                Number::from_f64(*number).map(Quantity::Number).or(Some(Quantity::Float(*number)))
            }
            Value::Duration(nanos) => Some(Quantity::Duration(*nanos)),
            Value::String(text) => match infer(text) {
                Inferred::Number => Number::parse(text).map(Quantity::Number).or_else(|| float(text)),
                Inferred::Duration(nanos) => Some(Quantity::Duration(nanos)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns its nanoseconds beside a duration: of a duration, or of a whole number of nanoseconds. Of what was
    /// calculated from a span's duration, fractions of a nanosecond are dropped.
    pub(crate) fn nanos(&self) -> Option<i64> {
        match self.single() {
            Value::Duration(nanos) | Value::Int(nanos) => Some(*nanos),
            Value::String(text) => time::parse_duration(text).or_else(|| self.calculated_nanos(text)),
            _ => None,
        }
    }

    fn calculated_nanos(&self, text: &str) -> Option<i64> {
        let nanos: f64 = text.parse().ok().filter(|_| self.origin == Origin::Nanoseconds)?;
        #[expect(clippy::cast_possible_truncation, reason = "fractions of a nanosecond are dropped")]
        let whole = nanos as i64;
        nanos.is_finite().then_some(whole)
    }

    /// Whether it is a duration by itself; text in quotes never is.
    pub(crate) fn is_duration(&self) -> bool {
        match self.single() {
            Value::Duration(_) => true,
            Value::String(text) => {
                let size = text.strip_prefix('-').unwrap_or(text);
                !self.is_quoted() && time::parse_plain_duration(size).is_some()
            }
            _ => false,
        }
    }
}

/// Whether the text is digits with an optional fraction: a number that could always be written without quotes.
pub(crate) fn is_plain_number(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// Converts JSON to a value: lists and objects become JSON text.
pub(crate) fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::from("null"),
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => Value::from(print_number(number)),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(_) | Json::Object(_) => Value::from(json.to_text()),
    }
}

/// Formats a JSON number: whole ones digit by digit, others as a double, too long ones as written.
fn print_number(written: &str) -> String {
    let digits = written.bytes().filter(u8::is_ascii_digit).count();
    if !written.contains(['.', 'e', 'E']) {
        return if written == "-0" { "0".to_owned() } else { written.to_owned() };
    }
    if digits > 17 && !written.contains(['e', 'E']) {
        return written.to_owned();
    }
    match written.parse::<f64>() {
        Ok(number) if number.is_finite() => print_f64(number),
        _ => written.to_owned(),
    }
}

/// Parses a text that is a JSON list or object.
fn document(text: &str, budget: &Budget) -> Result<Option<Json>, BudgetError> {
    if !text.trim_start().starts_with(['{', '[']) {
        return Ok(None);
    }
    match json::parse(text, budget) {
        Ok(value) => Ok(Some(value)),
        Err(json::Error::Invalid(_)) => Ok(None),
        Err(json::Error::Exceeded(exceeded)) => Err(exceeded),
    }
}

/// Converts a value to JSON, where text that is a number or JSON counts as such: how a list of items compares with
/// JSON text.
fn typed_json(value: &Value, budget: &Budget) -> Result<Json, BudgetError> {
    budget.read(value.size())?;
    Ok(match value {
        Value::String(text) => match infer(text) {
            Inferred::Number if json::look(text).is_some() => Json::Number(text.to_string()),
            Inferred::Json | Inferred::Array => {
                document(text, budget)?.unwrap_or_else(|| Json::String(text.to_string()))
            }
            Inferred::Number | Inferred::Duration(_) | Inferred::Text => Json::String(text.to_string()),
        },
        Value::List(items) => {
            Json::Array(items.iter().map(|item| typed_json(item, budget)).collect::<Result<_, _>>()?)
        }
        other => other.to_json(),
    })
}
