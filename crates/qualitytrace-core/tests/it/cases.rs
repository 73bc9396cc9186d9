//! Every case about the language: what Tracetest answered, or what it should have.

use std::path::Path;

use crate::language;

#[test]
fn every_case_about_the_language_is_kept() {
    let folder = std::env::var_os("CASES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../qualitytrace-server/tests/cases"),
        Into::into,
    );
    let mut checked = 0;
    let mut failures = Vec::new();
    for file in [
        "comparators",
        "expressions",
        "filters",
        "functions",
        "runs",
        "selectors",
        "traces",
        "triggers",
        "variables",
    ] {
        let path = folder.join(file).with_extension("json");
        let cases: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for case in cases.as_array().unwrap() {
            let kind = case["input"]["kind"].as_str().unwrap();
            if !language::KINDS.contains(&kind) {
                continue;
            }
            checked += 1;
            if let Err(reason) = language::check(case) {
                failures.push(format!("{} {}: {reason}", case["id"], case["input"]));
            }
        }
    }
    assert!(checked > 500, "only {checked} cases were found");
    assert!(failures.is_empty(), "{} of {checked}:\n{}", failures.len(), failures.join("\n"));
}
