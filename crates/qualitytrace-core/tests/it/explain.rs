//! Every diagnostic code has an explanation, and every example shows its code.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use qualitytrace_core::explain::{Example, explain, explanations};
use regex::Regex;

#[test]
fn every_example_shows_its_code() {
    let wrong: Vec<String> = explanations()
        .into_iter()
        .filter(|known| known.wrong != Example::None)
        .filter_map(|known| {
            let codes: Vec<&str> = known.wrong.diagnostics().iter().map(|found| found.code).collect();
            (!codes.contains(&known.code)).then(|| format!("{}: {codes:?}", known.code))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_code_is_explained_once() {
    let all = explanations();
    let codes: BTreeSet<&str> = all.iter().map(|known| known.code).collect();
    assert_eq!(codes.len(), all.len(), "a code is explained twice");
    let mut missing = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut used = BTreeSet::new();
    collect(&root.join("src/definition"), &mut used);
    collect(&root.join("src/lang"), &mut used);
    used.extend(codes_in(&std::fs::read_to_string(root.join("src/definition.rs")).unwrap()));
    collect(&root.join("../qualitytrace/src/cli/files"), &mut used);
    used.extend(codes_in(&std::fs::read_to_string(root.join("../qualitytrace/src/cli/files.rs")).unwrap()));
    assert!(used.len() > 90, "only {} codes are found in the sources", used.len());
    for code in &used {
        if explain(code).is_none() {
            missing.push(code.clone());
        }
    }
    assert!(missing.is_empty(), "not explained: {missing:?}");
    let gone: Vec<&str> = codes.into_iter().filter(|code| !used.contains(*code)).collect();
    assert!(gone.is_empty(), "explained, but used nowhere: {gone:?}");
}

fn collect(folder: &Path, codes: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, codes);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            codes.extend(codes_in(&std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// The codes that a source gives to the functions that make diagnostics, and those that are constants.
fn codes_in(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]").next().unwrap_or_default();
    let pattern = r#"(?s)(?:(?:error|warning|unexpected|refuse_as)\(\s*|const (?:EMPTY_FILE|NO_FILE|TWIN): &str = )"([a-z]+(?:-[a-z0-9]+)+)""#;
    let codes = Regex::new(pattern).unwrap();
    codes.captures_iter(source).map(|found| found[1].to_owned()).collect()
}
