//! Expectations of cases, and their comparison with answers.

use serde_json::Value;

/// Returns the expected answer: the judged aspect, else Tracetest's answer, else the right one.
pub(crate) fn expected(case: &Value) -> &Value {
    match (&case["sane"], &case["judged"]) {
        (Value::Bool(false), _) => &case["sane_expect"],
        (_, Value::Null) => &case["upstream"],
        (_, judged) => judged,
    }
}

/// Whether an error is expected.
pub(crate) fn is_error(expected: &Value) -> bool {
    match &expected["error"] {
        Value::Bool(error) => *error,
        Value::String(_) => true,
        _ => false,
    }
}

/// Compares `actual` with `expected` in the keys that both have; the error names the first difference.
///
/// Keys in `free` are texts, or parts of Tracetest only, and are not compared.
pub(crate) fn compare(expected: &Value, actual: &Value, free: &[&str]) -> Result<(), String> {
    difference(expected, actual, free, "$").map_or(Ok(()), |place| {
        Err(format!("expected {expected}\nactual   {actual}\nthey differ at {place}"))
    })
}

fn difference(expected: &Value, actual: &Value, free: &[&str], place: &str) -> Option<String> {
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(given)) => wanted.iter().find_map(|(key, value)| {
            if free.contains(&key.as_str()) {
                return None;
            }
            let place = format!("{place}.{key}");
            match given.get(key) {
                Some(actual) => difference(value, actual, free, &place),
                None => Some(place),
            }
        }),
        (Value::Array(wanted), Value::Array(given)) if wanted.len() == given.len() => {
            wanted.iter().zip(given).enumerate().find_map(|(index, (wanted, given))| {
                difference(wanted, given, free, &format!("{place}[{index}]"))
            })
        }
        (wanted, given) => (wanted != given).then(|| place.to_owned()),
    }
}
