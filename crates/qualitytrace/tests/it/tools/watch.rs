//! `watch`.

use std::process::{Command, Stdio};

use qualitytrace_testing::{DEADLINE, within};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::ChildStderr;

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
    let mut command = Command::new(program());
    apart(&mut command, folder.path());
    let mut child = tokio::process::Command::from(command)
        .args(["watch", ".", "--", "--list"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
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

#[test]
fn a_path_that_is_not_there_is_an_error_at_once() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(folder.path(), &["watch", "gone.yaml"]).status.code(), Some(3));
}
