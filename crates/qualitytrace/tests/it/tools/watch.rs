//! `watch`.

use std::path::Path;
use std::process::{Command, Stdio};

use qualitytrace_testing::{DEADLINE, within};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr};

use super::{apart, run};
use crate::program;

async fn until(lines: &mut Lines<BufReader<ChildStderr>>, part: &str) {
    within(DEADLINE, format!("it says `{part}`"), async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(part) {
                return;
            }
        }
        panic!("the output ends without `{part}`");
    })
    .await;
}

/// Watches a path in a folder, or those of its project; also returns what the program says.
fn watching(folder: &Path, path: Option<&str>) -> (Child, Lines<BufReader<ChildStderr>>) {
    let mut command = Command::new(program());
    apart(&mut command, folder);
    let mut child = tokio::process::Command::from(command)
        .arg("watch")
        .args(path)
        .args(["--", "--list"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    (child, lines)
}

#[tokio::test]
async fn a_change_runs_the_tests_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    let test = |name: &str| {
        format!(
            "type: Test\nspec:\n  id: a\n  name: {name}\n  trigger: {{type: http, httpRequest: {{url: 'http://x'}}}}\n"
        )
    };
    std::fs::write(&file, test("one")).unwrap();
    let (mut child, mut lines) = watching(folder.path(), Some("."));
    until(&mut lines, "run 1").await;
    until(&mut lines, "waiting for changes").await;
    // A file that is no definition changes nothing.
    std::fs::write(folder.path().join("notes.json"), "{}").unwrap();
    std::fs::write(&file, test("two")).unwrap();
    until(&mut lines, "run 2").await;
    until(&mut lines, "waiting for changes").await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = within(DEADLINE, "it ends", child.wait()).await.unwrap();
    assert_eq!(ended.code(), Some(130));
}

#[tokio::test]
async fn a_change_of_a_file_that_a_suite_or_its_steps_name_runs_the_suite_again() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join("steps")).unwrap();
    let step = "type: Test\nspec:\n  id: a\n  name: A\n  trigger:\n    type: http\n    httpRequest: {method: POST, \
                url: 'http://x', bodyFile: ./body.txt}\n";
    write("steps/a.yaml", step);
    write("steps/body.txt", "one");
    write("rows.csv", "N\n1\n");
    write(
        "suite.yaml",
        "type: TestSuite\nspec:\n  id: s\n  name: S\n  steps: [./steps/a.yaml]\n  data: {csv: ./rows.csv}\n",
    );
    let (_child, mut lines) = watching(folder.path(), Some("suite.yaml"));
    let changes =
        [("steps/a.yaml", step.replace("name: A", "name: B")), ("steps/body.txt", "two".to_owned())];
    let changes = changes.into_iter().chain([("rows.csv", "N\n2\n".to_owned())]);
    for (number, (file, text)) in (2..).zip(changes) {
        until(&mut lines, "waiting for changes").await;
        write(file, &text);
        until(&mut lines, &format!("run {number}")).await;
    }
}

#[test]
fn a_path_that_is_not_there_is_an_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), &["watch", "gone.yaml"]).status.code(), Some(3));
}

#[tokio::test]
async fn files_of_the_project_are_watched() {
    let folder = tempfile::tempdir().unwrap();
    let test =
        "type: Test\nspec:\n  id: a\n  name: one\n  trigger: {type: http, httpRequest: {url: 'http://x'}}\n";
    std::fs::create_dir(folder.path().join("tests")).unwrap();
    std::fs::write(folder.path().join("tests/a.yaml"), test).unwrap();
    std::fs::write(folder.path().join("qualitytrace.yaml"), "run:\n  paths: tests\n").unwrap();
    let (_child, mut lines) = watching(folder.path(), None);
    until(&mut lines, "waiting for changes").await;
    std::fs::write(folder.path().join("tests/a.yaml"), test.replace("one", "two")).unwrap();
    until(&mut lines, "run 2").await;
}
