//! Comparison of two responses, with paths to ignore.

use serde_json::{Map, Value};

use super::entry::Answer;

/// What a comparison ignores.
#[derive(Debug, Clone, Default)]
pub(crate) struct Masks {
    /// Paths like `$.items[*].spec.id`, `$[#]` for a list of any length, `line:key` for YAML.
    pub(crate) paths: Vec<String>,
    /// Paths of lists of keys and values whose order is ignored.
    pub(crate) unordered: Vec<String>,
}

impl Masks {
    fn has(&self, path: &str) -> bool {
        self.paths.iter().any(|mask| mask == path)
    }

    /// Whether a YAML key is ignored everywhere.
    fn has_line(&self, key: &str) -> bool {
        self.paths.iter().any(|mask| mask.strip_prefix("line:") == Some(key))
    }
}

/// Returns the differences of two responses, a line each.
pub(crate) fn differences(expected: &Answer, actual: &Answer, masks: &Masks) -> Vec<String> {
    let mut found = Vec::new();
    if expected.status != actual.status {
        found.push(format!("status: expected {}, got {}", expected.status, actual.status));
    }
    for (name, value) in &expected.headers {
        let got = actual.headers.get(name).map_or("", String::as_str);
        if !got.eq_ignore_ascii_case(value) {
            found.push(format!("{name}: expected `{value}`, got `{got}`"));
        }
    }
    let content_type = expected.headers.get("content-type").map_or("", String::as_str);
    match (documents(content_type, &expected.body), documents(content_type, &actual.body)) {
        (Some(expected), Some(actual)) if expected.len() == actual.len() => {
            for (expected, actual) in expected.iter().zip(&actual) {
                values(expected, actual, "$", masks, &mut found);
            }
        }
        _ if plain(&expected.body) == plain(&actual.body) => {}
        _ => found.push(format!(
            "body: expected {}\n           got {}",
            short(&expected.body),
            short(&actual.body)
        )),
    }
    found
}

/// Parses the documents of a body; `None` if it is text.
fn documents(content_type: &str, body: &str) -> Option<Vec<Value>> {
    if body.trim().is_empty() {
        return None;
    }
    if content_type.starts_with("application/json") || content_type.is_empty() {
        return serde_json::from_str(body).ok().map(|value| vec![value]);
    }
    if content_type.contains("yaml") {
        return body
            .split("---\n")
            .filter(|document| !document.trim().is_empty())
            .map(|document| serde_saphyr::from_str(document).ok())
            .collect();
    }
    None
}

/// Removes what depends on the clock: seconds in JUnit files.
fn plain(body: &str) -> String {
    let mut out = String::new();
    let mut rest = body.trim_end();
    while let Some(at) = rest.find(" time=\"") {
        out.push_str(&rest[..at]);
        rest = &rest[at + 7..];
        rest = rest.find('"').map_or("", |end| &rest[end + 1..]);
    }
    out + rest
}

fn values(expected: &Value, actual: &Value, path: &str, masks: &Masks, found: &mut Vec<String>) {
    if masks.has(path) {
        return;
    }
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => objects(expected, actual, path, masks, found),
        (Value::Array(expected), Value::Array(actual)) => {
            if masks.has(&format!("{path}[#]")) {
                return;
            }
            if expected.len() != actual.len() {
                found.push(format!(
                    "{path}: expected {} items, got {}: {} / {}",
                    expected.len(),
                    actual.len(),
                    short(&Value::Array(expected.clone()).to_string()),
                    short(&Value::Array(actual.clone()).to_string()),
                ));
                return;
            }
            let (mut expected, mut actual): (Vec<_>, Vec<_>) =
                (expected.iter().collect(), actual.iter().collect());
            if masks.unordered.iter().any(|list| list == path) {
                expected.sort_by_key(|item| item["key"].to_string());
                actual.sort_by_key(|item| item["key"].to_string());
            }
            let path = format!("{path}[*]");
            for (expected, actual) in expected.into_iter().zip(actual) {
                values(expected, actual, &path, masks, found);
            }
        }
        (Value::String(text), Value::String(_)) if text == "<text>" => {}
        _ if expected == actual => {}
        _ => found.push(format!(
            "{path}: expected {}, got {}",
            short(&expected.to_string()),
            short(&actual.to_string())
        )),
    }
}

fn objects(
    expected: &Map<String, Value>,
    actual: &Map<String, Value>,
    path: &str,
    masks: &Masks,
    found: &mut Vec<String>,
) {
    let any_span = format!("{path}.<spanId>");
    if masks.has(&any_span) {
        if expected.len() != actual.len() {
            found.push(format!("{path}: expected {} spans, got {}", expected.len(), actual.len()));
        }
        return;
    }
    let compared = |key: &str| !masks.has(&format!("{path}.{key}")) && !masks.has_line(key);
    for (key, value) in expected {
        if !compared(key) {
            continue;
        }
        let path = format!("{path}.{key}");
        match actual.get(key) {
            Some(actual) => values(value, actual, &path, masks, found),
            // Our own texts may be missing where Tracetest has one.
            None if value == "<text>" => {}
            None => found.push(format!("{path}: expected {}, got nothing", short(&value.to_string()))),
        }
    }
    for (key, value) in actual {
        if compared(key) && !expected.contains_key(key) {
            found.push(format!("{path}.{key}: expected nothing, got {}", short(&value.to_string())));
        }
    }
    let order = |object: &Map<String, Value>, other: &Map<String, Value>| -> Vec<String> {
        object.keys().filter(|key| other.contains_key(*key) && compared(key)).cloned().collect()
    };
    let (wanted, got) = (order(expected, actual), order(actual, expected));
    if wanted != got {
        found.push(format!("{path}: expected the keys in the order {wanted:?}, got {got:?}"));
    }
}

fn short(text: &str) -> String {
    const LONGEST: usize = 400;
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain("…".chars()).collect()
}
