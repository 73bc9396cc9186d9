//! Benchmarks that are example programs of other crates and print one JSON object per line.

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value};

use super::record::Record;
use crate::{
    process,
    workspace::{self, Profile},
};

/// Runs the example `bench_NAME`; the keys of its first object are the columns. An object with the key
/// `note` is a sentence below the table.
///
/// `environment` are its environment variables, and `arguments` its arguments.
pub(super) fn run(name: &'static str, environment: &[(&str, &str)], arguments: &[String]) -> Result<Record> {
    let example = format!("bench_{name}");
    let mut command = workspace::example(&example, Profile::Release)?;
    command.args(arguments).envs(environment.iter().copied());
    let text = process::output(&mut command)?;
    record(name, &text).with_context(|| format!("the example `{example}`"))
}

/// The results in lines of JSON.
pub(super) fn record(name: &'static str, text: &str) -> Result<Record> {
    let (mut raw, mut notes) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let said: Value = serde_json::from_str(line).with_context(|| format!("`{line}` is not JSON"))?;
        match said["note"].as_str() {
            Some(note) => notes.push(note.to_owned()),
            None => raw.push(said),
        }
    }
    let Some(header) =
        raw.first().and_then(Value::as_object).map(|first| first.keys().cloned().collect::<Vec<_>>())
    else {
        bail!("`{name}` gave no results");
    };
    let row = |of: &Map<String, Value>| header.iter().map(|key| cell(of.get(key))).collect();
    let rows = raw.iter().filter_map(Value::as_object).map(row).collect();
    Ok(Record { name, header, rows, notes, raw })
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}
