//! Kinds `yaml` and `json`: definition files.

use qualitytrace_core::definition::{self, Format, Reading, Resource, Test, Trigger};
use serde_json::{Value, json};

use super::expected::{compare, expected};

/// Keys that are not compared: parts of Tracetest only (its command line and its second path), and texts.
const FREE: [&str; 6] = ["server_error", "apply_ok", "apply_error", "cli_ok", "cli_error", "invalid"];

/// Checks one case.
pub(crate) fn check(case: &Value) -> Result<(), String> {
    let reading = match &case["input"]["yaml"] {
        Value::String(yaml) => definition::read(yaml, Format::Yaml),
        _ => definition::read(&case["input"]["json"].to_string(), Format::Json),
    };
    let expected = expected(case);
    let mut actual = answer(&reading);
    // A refused file has no content to compare.
    if actual["server_ok"] == json!(false) && expected["server_ok"] == json!(false) {
        actual = expected.clone();
        actual["server_ok"] = json!(false);
    }
    compare(expected, &actual, &FREE).map_err(|trouble| format!("{trouble}\n{:?}", reading.diagnostics))
}

fn answer(reading: &Reading) -> Value {
    let checked = reading.documents.iter().flat_map(|document| definition::check(&document.resource));
    // The cases know no warnings: they expect a file with meaningless keys to be refused.
    let refused = reading
        .diagnostics
        .iter()
        .cloned()
        .chain(checked)
        .any(|diagnostic| diagnostic.is_error() || diagnostic.code == "unknown-key");
    let kinds: Vec<&str> =
        reading.documents.iter().map(|document| document.resource.kind().as_str()).collect();
    let test = reading.documents.iter().find_map(|document| match &document.resource {
        Resource::Test(test) => Some(test),
        _ => None,
    });
    json!({ "server_ok": !refused, "documents": kinds, "content": test.map(content) })
}

fn content(test: &Test) -> Value {
    json!({
        "name": test.name,
        "trigger": test.trigger.as_ref().map_or("", Trigger::kind),
        "specs": test.specs.len(),
        "assertions": test.specs.iter().map(|spec| spec.assertions.len()).sum::<usize>(),
        "outputs": test.outputs.len(),
    })
}
