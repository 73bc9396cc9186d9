//! Definition files that were collected: examples, recorded requests, inputs of recorded command lines, cases. The
//! variable `COLLECTED_DEFINITIONS` names a folder with more.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A definition file.
pub(crate) struct Collected {
    /// A name for a file, without its ending.
    pub(crate) name: String,
    pub(crate) text: String,
}

impl Collected {
    /// The name of its file.
    pub(crate) fn file(&self) -> String {
        let ending = if self.text.trim_start().starts_with('{') { "json" } else { "yaml" };
        format!("{}.{ending}", self.name)
    }
}

/// Every file that is meant as a definition, good or bad.
pub(crate) fn all() -> Vec<Collected> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    let mut folders = vec![crates.join("../examples")];
    folders.extend(std::env::var_os("COLLECTED_DEFINITIONS").map(PathBuf::from));
    for folder in folders {
        files(&folder, &mut found);
    }
    for case in read(&crates.join("qualitytrace-server/tests/cases/definitions.json")).as_array().unwrap() {
        let text = ["yaml", "json"].iter().find_map(|key| case["input"][key].as_str());
        add(&mut found, "case", text.unwrap_or_default());
    }
    for golden in ["tests", "datastores", "variablesets", "errors", "runs"] {
        let path = crates.join(format!("qualitytrace-server/tests/golden/{golden}.json"));
        for request in read(&path).as_array().into_iter().flatten() {
            add(&mut found, golden, request["request_body"].as_str().unwrap_or_default());
        }
    }
    let inputs = read(&crates.join("qualitytrace/tests/transcripts/inputs.json"));
    for (_, text) in inputs.as_object().unwrap() {
        add(&mut found, "input", text.as_str().unwrap_or_default());
    }
    assert!(found.len() > 120, "only {} definitions are found", found.len());
    found
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Adds a text with `type` and `spec` that is not known yet.
fn add(found: &mut Vec<Collected>, group: &str, text: &str) {
    if text.contains("type") && text.contains("spec") && found.iter().all(|known| known.text != text) {
        found.push(Collected { name: format!("{group}-{}", found.len()), text: text.to_owned() });
    }
}

fn files(folder: &Path, found: &mut Vec<Collected>) {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.ends_with("node_modules") {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            add(found, "file", &std::fs::read_to_string(&path).unwrap());
        }
    }
}
