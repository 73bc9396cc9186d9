//! Asserts and captures of hurl, in the language of tests.

use crate::names::{RESPONSE_BODY, RESPONSE_STATUS};

/// The assertion that the answer has this status.
pub(super) fn status(status: u64) -> String {
    format!("attr:{RESPONSE_STATUS} = {status}")
}

/// Translates an assert about the status, the duration or a value of the body; `None` if that is not possible.
pub(super) fn assertion(line: &str) -> Option<String> {
    let (query, operator, value) = parts(line)?;
    let operator = match operator {
        "==" | "equals" => "=",
        "!=" => "!=",
        "<" | "lessThan" => "<",
        "<=" => "<=",
        ">" | "greaterThan" => ">",
        ">=" => ">=",
        "contains" => "contains",
        _ => return None,
    };
    let is_number = value.parse::<f64>().is_ok_and(f64::is_finite);
    match query {
        "status" if is_number => Some(format!("attr:{RESPONSE_STATUS} {operator} {value}")),
        "duration" if value.parse::<u64>().is_ok() => {
            Some(format!("attr:tracetest.span.duration {operator} {value}ms"))
        }
        "body" if operator == "contains" => Some(format!("attr:{RESPONSE_BODY} contains {}", text(value)?)),
        query => {
            let value =
                if is_number || matches!(value, "true" | "false") { value.to_owned() } else { text(value)? };
            Some(format!("{} {operator} {value}", captured(query)?))
        }
    }
}

/// Translates the query of a capture: a path in the body, the body or the status.
pub(super) fn captured(query: &str) -> Option<String> {
    match query {
        "status" => Some(format!("attr:{RESPONSE_STATUS}")),
        "body" => Some(format!("attr:{RESPONSE_BODY}")),
        query => {
            let path = query.strip_prefix("jsonpath")?.trim().strip_prefix('"')?.strip_suffix('"')?;
            is_path(path).then(|| format!("attr:{RESPONSE_BODY} | json_path '{path}'"))
        }
    }
}

/// Whether the path can be written in single quotes as it is.
fn is_path(path: &str) -> bool {
    path.strip_prefix('$').is_some_and(|rest| !rest.contains(['\'', '\\', '"', '{', '$']))
}

/// Splits `query operator value`: the query may have an argument in quotes.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let after_query = match line.split_once(' ') {
        Some(("jsonpath", argument)) => {
            let inner = argument.trim_start().strip_prefix('"')?;
            let end = inner.find('"')?;
            line.len() - inner.len() + end + 1
        }
        Some((query, _)) => query.len(),
        None => return None,
    };
    let (query, rest) = line.split_at(after_query);
    let (operator, value) = rest.trim().split_once(char::is_whitespace)?;
    Some((query.trim(), operator, value.trim()))
}

/// Translates a text in double quotes without escapes or templates.
fn text(value: &str) -> Option<String> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains(['"', '\\', '{', '$'])).then(|| format!("\"{inner}\""))
}
