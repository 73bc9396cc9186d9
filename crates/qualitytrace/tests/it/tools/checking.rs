//! `check`: formats, standard input, and the paths of a project.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{apart, run, stderr, stdout};
use crate::program;

const GOOD: &str = "type: Test\nspec:\n  id: a\n  name: A\n  trigger:\n    type: http\n    httpRequest:\n      \
                    method: GET\n      url: http://localhost\n  specs:\n    - selector: span[]\n      \
                    assertions:\n        - attr:tracetest.selected_spans.count = 1\n";
const BAD: &str =
    "type: Test\nspec:\n  name: B\n  specs:\n  - selector: span[\n    assertions:\n    - attr:a = 1\n";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.yaml"), GOOD).unwrap();
    std::fs::write(folder.path().join("bad.yaml"), BAD).unwrap();
    folder
}

/// Checks a text on standard input.
fn check_stdin(folder: &Path, text: &str) -> (Option<i32>, String) {
    let mut command = Command::new(program());
    apart(&mut command, folder).args(["check", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), stdout(&output))
}

#[test]
fn diagnostics_are_written_for_programs() {
    let folder = folder();
    let checked = run(folder.path(), &["check", "good.yaml", "bad.yaml", "-o", "json"]);
    assert_eq!(checked.status.code(), Some(3), "{}", stderr(&checked));
    let document: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let files = json!([{ "file": "good.yaml", "usable": true }, { "file": "bad.yaml", "usable": false }]);
    assert_eq!(document["files"], files);
    let found = &document["diagnostics"].as_array().unwrap();
    let error = found.iter().find(|found| found["severity"] == "error").unwrap();
    assert_eq!((&error["file"], &error["line"]), (&json!("bad.yaml"), &json!(5)), "{error}");
    assert!(
        error["code"].is_string() && error["message"].is_string() && error["endColumn"].is_u64(),
        "{error}"
    );
}

#[test]
fn diagnostics_are_annotations_of_a_job() {
    let folder = folder();
    let checked = run(folder.path(), &["check", ".", "-o", "github"]);
    assert_eq!(checked.status.code(), Some(3), "{}", stderr(&checked));
    let text = stdout(&checked);
    assert!(text.starts_with("::error file=bad.yaml,line=5,col="), "{text}");
    assert!(text.lines().all(|line| line.starts_with("::")), "{text}");
}

#[test]
fn standard_input_is_a_file() {
    let folder = folder();
    assert_eq!(check_stdin(folder.path(), GOOD), (Some(0), "✔ standard input\n".to_owned()));
    let (code, text) = check_stdin(folder.path(), BAD);
    assert!(code == Some(3) && text.contains("standard input:5"), "{text}");
}

#[test]
fn files_of_the_project_are_checked_and_formatted() {
    let folder = folder();
    let here = folder.path();
    for command in ["check", "fmt", "watch"] {
        let lost = run(here, &[command]);
        assert_eq!(lost.status.code(), Some(1), "{command}");
        assert!(stderr(&lost).contains("`paths` under `run` in qualitytrace.yaml"), "{}", stderr(&lost));
    }
    std::fs::write(here.join("qualitytrace.yaml"), "run:\n  paths: good.yaml\n").unwrap();
    std::fs::create_dir(here.join("inner")).unwrap();
    let checked = run(&here.join("inner"), &["check"]);
    assert_eq!((checked.status.code(), stdout(&checked).as_str()), (Some(0), "✔ ../good.yaml\n"));
    let formatted = run(here, &["fmt", "--check"]);
    assert_eq!(formatted.status.code(), Some(0), "{}", stderr(&formatted));
    assert!(stderr(&formatted).contains("1 file in the canonical layout"), "{}", stderr(&formatted));
}
