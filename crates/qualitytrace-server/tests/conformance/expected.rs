//! What a case expects, and whether an answer says so.

use serde_json::Value;

/// What the answer must say: the judged aspect, else the original's answer, else what is right.
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

/// Whether `actual` says all that `expected` says about the keys that both know; says where not.
///
/// Keys in `free` are texts, or things that only the original has.
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
