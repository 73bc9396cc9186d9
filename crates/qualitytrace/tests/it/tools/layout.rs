//! `fmt`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use qualitytrace_core::definition::{Format, Resource, read};

use super::{apart, collected, run, stderr, stdout};
use crate::program;

fn resources(name: &str, text: &str) -> Vec<Resource> {
    let is_json = Path::new(name).extension().is_some_and(|extension| extension == "json");
    let format = if is_json { Format::Json } else { Format::Yaml };
    read(text, format).documents.into_iter().map(|document| document.resource).collect()
}

fn comments(text: &str) -> Vec<String> {
    let mut found: Vec<String> =
        text.lines().filter_map(|line| line.find("# ").map(|at| line[at..].trim_end().to_owned())).collect();
    found.sort();
    found
}

#[test]
fn every_collected_file_keeps_its_meaning_and_its_comments() {
    let folder = tempfile::tempdir().unwrap();
    let all = collected::all();
    for one in &all {
        std::fs::write(folder.path().join(one.file()), &one.text).unwrap();
    }
    let first = run(folder.path(), &["fmt", "."]);
    let said = stderr(&first);
    assert!(matches!(first.status.code(), Some(0 | 3)), "{said}");
    let left: Vec<&str> = said.lines().filter(|line| line.contains("left as it is")).collect();
    // Anchors and tags are rare.
    assert!(left.len() <= all.len() / 50, "{left:#?}");
    let mut changed = 0;
    for one in &all {
        let text = std::fs::read_to_string(folder.path().join(one.file())).unwrap();
        assert_eq!(resources(&one.file(), &one.text), resources(&one.file(), &text), "{}", one.text);
        assert_eq!(comments(&one.text), comments(&text), "{}", one.text);
        changed += usize::from(text != one.text);
    }
    assert!(changed > 20, "only {changed} files had another layout");
    let second = run(folder.path(), &["fmt", "."]);
    assert_eq!(stdout(&second), "", "a second time changes nothing");
    assert_eq!(second.status.code(), first.status.code());
}

#[test]
fn a_check_changes_nothing_and_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    let text = "spec:\n    name: a # b\ntype: Test\n";
    std::fs::write(&file, text).unwrap();
    let check = run(folder.path(), &["fmt", "--check", "a.yaml"]);
    assert_eq!(check.status.code(), Some(2), "{}", stderr(&check));
    assert!(stdout(&check).contains("+type: Test"), "{}", stdout(&check));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    assert_eq!(run(folder.path(), &["fmt", "a.yaml"]).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "type: Test\nspec:\n  name: a # b\n");
    assert_eq!(run(folder.path(), &["fmt", "--check", "a.yaml"]).status.code(), Some(0));
    std::fs::write(&file, "type: [\n").unwrap();
    let broken = run(folder.path(), &["fmt", "a.yaml"]);
    assert_eq!(broken.status.code(), Some(3));
    assert!(stderr(&broken).contains("yaml-syntax"), "{}", stderr(&broken));
    assert_eq!(run(folder.path(), &["fmt", "gone.yaml"]).status.code(), Some(3));
}

#[test]
fn standard_input_goes_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program());
    let mut child = apart(&mut command, folder.path())
        .args(["fmt", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"spec: {}\ntype: Config\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "type: Config\nspec: {}\n");
}

#[test]
fn tests_of_a_folder_get_the_names_of_current_conventions() {
    let folder = tempfile::tempdir().unwrap();
    let old = "type: Test
spec:
  name: a # b
  specs:
    - selector: span[rpc.service=\"a.B\" rpc.method=\"C\"]
      assertions:
        - attr:rpc.grpc.status_code = 0
";
    let new = old
        .replace("rpc.service=\"a.B\" rpc.method=\"C\"", "rpc.method=\"a.B/C\"")
        .replace("rpc.grpc.status_code = 0", "rpc.response.status_code = \"OK\"");
    let files = ["a.yaml", "b.yaml"].map(|name| folder.path().join(name));
    for file in &files {
        std::fs::write(file, old).unwrap();
    }
    let check = run(folder.path(), &["fmt", "--conventions", "--check", "."]);
    assert_eq!(check.status.code(), Some(2), "{}", stderr(&check));
    assert_eq!(run(folder.path(), &["fmt", "--check", "."]).status.code(), Some(0), "only on demand");
    let changed = run(folder.path(), &["fmt", "--conventions", "."]);
    assert_eq!(changed.status.code(), Some(0), "{}", stderr(&changed));
    for file in &files {
        assert_eq!(std::fs::read_to_string(file).unwrap(), new);
    }
    assert_eq!(run(folder.path(), &["fmt", "--conventions", "--check", "."]).status.code(), Some(0));
}
