//! Filters: functions applied to a value as `| name arguments`.

use std::borrow::Cow;

use super::item::{Item, Origin, from_json, is_plain_number};
use super::json_path::Path;
use super::pattern::Pattern;
use crate::budget::Budget;
use crate::json;
use crate::value::{Inferred, Value};

/// The filters and their number of arguments.
pub(crate) const FILTERS: [(&str, usize); 6] =
    [("json_path", 1), ("regex", 1), ("regex_group", 1), ("get_index", 1), ("length", 0), ("type", 0)];

/// Bytes of text for each step of the search for a further match. Most searches end long before the end of the text.
const BYTES_OF_STEP: usize = 256;

/// Applies the filter with this name; `None` when there is none.
pub(crate) fn apply(
    name: &str,
    input: &Item,
    arguments: &[Item],
    budget: &Budget,
) -> Option<Result<Item, String>> {
    let (_, expected) = FILTERS.iter().find(|(known, _)| *known == name)?;
    if arguments.len() != *expected {
        return Some(Err(format!("wrong number of arguments: expected {expected}, got {}", arguments.len())));
    }
    if let Err(exceeded) = budget.read(input.size()) {
        return Some(Err(exceeded.to_string()));
    }
    Some(match name {
        "json_path" => json_path(input, &arguments[0], budget),
        "regex" => regex_matches(input, &arguments[0], budget),
        "regex_group" => regex_groups(input, &arguments[0], budget),
        "get_index" => get_index(input, &arguments[0], budget),
        "length" => length(input, budget),
        _ => Ok(Item::plain(type_of(input))),
    })
}

fn one_text(input: &Item) -> Result<Cow<'_, str>, String> {
    match (&input.value, input.origin) {
        (Value::List(items), origin) if !(origin == Origin::Path && items.len() == 1) => {
            Err("it works on one value, not on a list".to_owned())
        }
        _ => Ok(input.text()),
    }
}

fn json_path(input: &Item, argument: &Item, budget: &Budget) -> Result<Item, String> {
    let path = argument.text();
    budget.work(path.len()).map_err(|exceeded| exceeded.to_string())?;
    let path = Path::parse(&path).map_err(|error| format!("invalid path: {error}"))?;
    let text = one_text(input)?;
    let found = budget.meanwhile(|| {
        let document = json::parse(&text, budget).map_err(|error| match error {
            json::Error::Invalid(error) => format!("invalid JSON: {error}"),
            json::Error::Exceeded(exceeded) => exceeded.to_string(),
        })?;
        let found = path.find(&document, budget).map_err(|exceeded| exceeded.to_string())?;
        let mut values = Vec::with_capacity(found.len());
        for json in found {
            let value = from_json(&json);
            budget.work(1).and_then(|()| budget.hold(value_size(&value))).map_err(|it| it.to_string())?;
            values.push(value);
        }
        Ok::<_, String>(values)
    })?;
    held(&found, budget)?;
    Ok(if path.is_definite() {
        Item::plain(found.into_iter().next().unwrap_or(Value::Null))
    } else {
        Item { value: Value::List(found), origin: Origin::Path }
    })
}

/// Holds the bytes of values that outlive their input.
fn held(values: &[Value], budget: &Budget) -> Result<(), String> {
    budget.hold(values.iter().map(value_size).sum()).map_err(|exceeded| exceeded.to_string())
}

fn value_size(value: &Value) -> usize {
    size_of::<Value>() + value.size()
}

fn single_or_list(mut found: Vec<Value>) -> Item {
    Item::plain(if found.len() == 1 { found.remove(0) } else { Value::List(found) })
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::List(items)
    }
}

fn regex_matches(input: &Item, argument: &Item, budget: &Budget) -> Result<Item, String> {
    let text = one_text(input)?;
    let pattern = pattern(argument, budget)?;
    let regex = pattern.search(&text, budget).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for one in regex.find_iter(&text) {
        searched(&text[one.start()..], budget)?;
        push(&mut found, one.as_str(), budget)?;
    }
    Ok(single_or_list(found))
}

fn regex_groups(input: &Item, argument: &Item, budget: &Budget) -> Result<Item, String> {
    let text = one_text(input)?;
    let pattern = pattern(argument, budget)?;
    if !pattern.has_groups() {
        return Err("the pattern has no group; put parentheses around what to take out of it".to_owned());
    }
    let regex = pattern.search(&text, budget).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for captures in regex.captures_iter(&text) {
        searched(captures.get(0).map_or("", |whole| &text[whole.start()..]), budget)?;
        for group in captures.iter().skip(1) {
            push(&mut found, group.map_or("", |group| group.as_str()), budget)?;
        }
    }
    Ok(single_or_list(found))
}

fn pattern(argument: &Item, budget: &Budget) -> Result<Pattern, String> {
    Pattern::within(&argument.text(), budget).map_err(|error| error.to_string())
}

/// Charges the search for a match. It may look at the whole rest of the text before it decides for a short one.
fn searched(rest: &str, budget: &Budget) -> Result<(), String> {
    budget.work(rest.len() / BYTES_OF_STEP).map_err(|exceeded| exceeded.to_string())
}

fn push(found: &mut Vec<Value>, text: &str, budget: &Budget) -> Result<(), String> {
    let value = Value::from(text);
    budget.work(1).and_then(|()| budget.hold(value_size(&value))).map_err(|exceeded| exceeded.to_string())?;
    found.push(value);
    Ok(())
}

fn get_index(input: &Item, argument: &Item, budget: &Budget) -> Result<Item, String> {
    if input.value == Value::Null {
        return Err("there is no value to take an item from".to_owned());
    }
    let items = input.items(budget).map_err(|exceeded| exceeded.to_string())?;
    let items = items.unwrap_or_else(|| vec![input.value.clone()]);
    let wanted = argument.text();
    let outside = |wanted: &str| Err(format!("index {wanted} is outside of a list of {}", items.len()));
    let index = if wanted == "last" {
        items.len().checked_sub(1)
    } else {
        let digits = wanted.strip_prefix('-').unwrap_or(&wanted);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err("the index must be a whole number or 'last'".to_owned());
        }
        if digits.len() < wanted.len() {
            return outside(&wanted);
        }
        digits.parse().ok()
    };
    match index.and_then(|index| items.get(index)) {
        Some(item) => Ok(Item::plain(item.clone())),
        None => outside(&wanted),
    }
}

fn length(input: &Item, budget: &Budget) -> Result<Item, String> {
    let size = |length: usize| Ok(Item::plain(i64::try_from(length).unwrap_or(i64::MAX)));
    let items = input.items(budget).map_err(|exceeded| exceeded.to_string())?;
    match (&input.value, items) {
        (Value::Null, _) => size(0),
        (_, Some(items)) => size(items.len()),
        (Value::String(text), None) if input.type_name() == "string" => size(text.chars().count()),
        (Value::Bytes(bytes), None) => size(bytes.len()),
        _ => Err(format!("it measures lists and texts, not a {}", input.type_name())),
    }
}

fn type_of(input: &Item) -> &'static str {
    match &input.value {
        Value::String(text) if &**text == "null" => "nil",
        // Tracetest can write these only in quotes, so the quotes do not make them texts.
        Value::String(text) if input.inferred() == Inferred::Number && !is_plain_number(text) => "number",
        _ => input.type_name(),
    }
}
