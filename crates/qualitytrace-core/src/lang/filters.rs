//! The filters: what `| name arguments` makes of a value.

use super::item::{Item, Origin, from_json, is_plain_number};
use super::json;
use super::json_path::Path;
use crate::value::{Inferred, Value};

/// Names and how many arguments each takes.
pub(crate) const FILTERS: [(&str, usize); 6] =
    [("json_path", 1), ("regex", 1), ("regex_group", 1), ("get_index", 1), ("length", 0), ("type", 0)];

/// Applies the filter of this name; `None` when there is none.
pub(crate) fn apply(name: &str, input: &Item, arguments: &[Item]) -> Option<Result<Item, String>> {
    let (_, expected) = FILTERS.iter().find(|(known, _)| *known == name)?;
    if arguments.len() != *expected {
        return Some(Err(format!("wrong number of arguments: expected {expected}, got {}", arguments.len())));
    }
    Some(match name {
        "json_path" => json_path(input, &arguments[0]),
        "regex" => regex_matches(input, &arguments[0]),
        "regex_group" => regex_groups(input, &arguments[0]),
        "get_index" => get_index(input, &arguments[0]),
        "length" => length(input),
        _ => Ok(Item::plain(type_of(input))),
    })
}

fn one_text(input: &Item) -> Result<String, String> {
    match (&input.value, input.origin) {
        (Value::List(items), origin) if !(origin == Origin::Path && items.len() == 1) => {
            Err("it works on one value, not on a list".to_owned())
        }
        _ => Ok(input.text().into_owned()),
    }
}

fn json_path(input: &Item, argument: &Item) -> Result<Item, String> {
    let path = Path::parse(&argument.text()).map_err(|error| format!("invalid path: {error}"))?;
    let document = json::parse(&one_text(input)?).map_err(|error| format!("invalid JSON: {error}"))?;
    let found: Vec<Value> = path.find(&document).iter().map(from_json).collect();
    Ok(if path.is_definite() {
        Item::plain(found.into_iter().next().unwrap_or(Value::Null))
    } else {
        Item { value: Value::List(found), origin: Origin::Path }
    })
}

fn single_or_list(mut found: Vec<Value>) -> Item {
    Item::plain(if found.len() == 1 { found.remove(0) } else { Value::List(found) })
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::List(items)
    }
}

fn regex_matches(input: &Item, argument: &Item) -> Result<Item, String> {
    let text = one_text(input)?;
    let regex = regex(&argument.text())?;
    Ok(single_or_list(regex.find_iter(&text).map(|found| Value::from(found.as_str())).collect()))
}

fn regex_groups(input: &Item, argument: &Item) -> Result<Item, String> {
    let text = one_text(input)?;
    let regex = regex(&argument.text())?;
    let groups = regex.captures_iter(&text).flat_map(|captures| {
        captures
            .iter()
            .skip(1)
            .map(|group| Value::from(group.map_or("", |group| group.as_str())))
            .collect::<Vec<_>>()
    });
    Ok(single_or_list(groups.collect()))
}

fn get_index(input: &Item, argument: &Item) -> Result<Item, String> {
    let items = input.items().unwrap_or_else(|| vec![input.value.clone()]);
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

fn length(input: &Item) -> Result<Item, String> {
    let size = |length: usize| Ok(Item::plain(i64::try_from(length).unwrap_or(i64::MAX)));
    match (&input.value, input.items()) {
        (Value::Null, _) => size(0),
        (_, Some(items)) => size(items.len()),
        (Value::String(text), None) if input.type_name() == "string" => size(text.len()),
        (Value::Bytes(bytes), None) => size(bytes.len()),
        _ => Err(format!("it measures lists and texts, not a {}", input.type_name())),
    }
}

fn type_of(input: &Item) -> &'static str {
    match &input.value {
        Value::String(text) if &**text == "null" => "nil",
        // Tracetest has no other way to write these than in quotes, so the quotes say nothing.
        Value::String(text) if input.inferred() == Inferred::Number && !is_plain_number(text) => "number",
        _ => input.type_name(),
    }
}

/// A regular expression as in RE2: classes like `\w` mean ASCII only.
pub(crate) fn regex(pattern: &str) -> Result<regex::Regex, String> {
    let translated = translate(pattern);
    regex::Regex::new(&translated).map_err(|error| {
        let reason = match error {
            regex::Error::Syntax(text) => text
                .lines()
                .last()
                .map(|line| line.trim_start_matches("error: ").to_owned())
                .unwrap_or_default(),
            regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
            other => other.to_string(),
        };
        format!("invalid regular expression: {reason}")
    })
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut characters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some(escaped) => {
                    if let Some(class) = ascii_class(escaped, in_class) {
                        out.push_str(class);
                    } else {
                        out.push('\\');
                        out.push(escaped);
                    }
                }
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                for sign in ['^', ']'] {
                    if characters.peek() == Some(&sign) {
                        characters.next();
                        out.push_str(if sign == ']' { "\\]" } else { "^" });
                    }
                }
            }
            '[' if characters.peek() == Some(&':') => {
                out.push('[');
                for inner in characters.by_ref() {
                    out.push(inner);
                    if inner == ']' {
                        break;
                    }
                }
            }
            // Inside a class these are plain characters in RE2, but not here.
            '[' | '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            c => out.push(c),
        }
    }
    out
}

fn ascii_class(escaped: char, in_class: bool) -> Option<&'static str> {
    Some(match (escaped, in_class) {
        ('d', true) => "0-9",
        ('d', false) => "[0-9]",
        ('w', true) => "0-9A-Za-z_",
        ('w', false) => "[0-9A-Za-z_]",
        ('s', true) => r"\t\n\f\r ",
        ('s', false) => r"[\t\n\f\r ]",
        ('D', _) => "[^0-9]",
        ('W', _) => "[^0-9A-Za-z_]",
        ('S', _) => r"[^\t\n\f\r ]",
        ('b', false) => r"(?-u:\b)",
        ('B', false) => r"(?-u:\B)",
        _ => return None,
    })
}
