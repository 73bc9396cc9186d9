//! Files, repositories and ids of others, beside the ones that are meant.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use qualitytrace_testing::{DEADLINE, eventually_blocking, port};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::program;
use crate::suites::{holds, test};

fn call(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    // A hang must end, as a failure.
    let mut command = Command::new("timeout");
    command.arg("60").arg(program()).args(arguments).current_dir(folder).env("HOME", folder.join("home"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status.code(), text(&output))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn git(folder: &Path, arguments: &[&str]) {
    let name = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
    let output = Command::new("git").args(name).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?} {}", text(&output));
}

#[test]
fn the_changes_of_a_repository_are_found_without_its_programs() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for name in ["a", "b"] {
        std::fs::write(here.join(format!("{name}.yaml")), test(name, "/a", "")).unwrap();
    }
    git(here, &["init", "-q"]);
    git(here, &["add", "."]);
    git(here, &["commit", "-q", "-m", "first"]);
    std::fs::write(here.join("b.yaml"), test("b", "/changed", "")).unwrap();
    let traps = tempfile::tempdir().unwrap();
    let program = traps.path().join("program");
    std::fs::write(&program, format!("#!/bin/sh\necho \"$0 $*\" >> {}/ran\ncat\n", traps.path().display()))
        .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    for key in
        ["core.fsmonitor", "diff.external", "filter.evil.clean", "diff.evil.textconv", "diff.evil.command"]
    {
        git(here, &["config", key, program]);
    }
    git(here, &["config", "filter.evil.required", "true"]);
    std::fs::write(here.join(".git/info/attributes"), "*.yaml filter=evil diff=evil\n").unwrap();
    let (code, said) = call(here, &["run", ".", "--only-changed", "--list"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said, "test   ./b.yaml  Test b (b)\n");
    let ran = std::fs::read_to_string(traps.path().join("ran")).unwrap_or_default();
    assert_eq!(ran, "", "programs of the repository");
}

/// A server whose list of tests has these ids.
async fn listing(ids: &[&str]) -> String {
    let items: Vec<_> =
        ids.iter().map(|id| serde_json::json!({ "spec": { "id": id, "name": id } })).collect();
    let body = serde_json::json!({ "count": items.len(), "items": items }).to_string();
    crate::escapes::hostile("200 OK", body).await
}

#[tokio::test]
async fn completions_are_words_and_no_commands() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let hostile = ["$(touch ran)", "`touch ran`", "a;touch ran", "a b", "x\ny", "-flag", "plain-1"];
    let url = listing(&hostile).await;
    for name in hostile.iter().filter(|name| !name.starts_with('-')) {
        std::fs::write(here.join(format!("{name}.yaml")), "").unwrap();
    }
    let offered = async |words: &[&str]| -> Vec<String> {
        let mut command = tokio::process::Command::new(program());
        command.arg("--").args(words).current_dir(here).env("HOME", here.join("home"));
        command.env("QUALITYTRACE_COMPLETE", "bash").env("_CLAP_IFS", "\u{b}");
        command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        let output = command.output().await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split('\u{b}').map(ToOwned::to_owned).collect()
    };
    let ids = offered(&["qualitytrace", "get", "test", "-s", &url, "--id", ""]).await;
    let files = offered(&["qualitytrace", "run", ""]).await;
    for (offered, end) in [(&ids, ""), (&files, ".yaml")] {
        // What bash makes of each word in a command line.
        let line = format!("printf '%s\\n' {}", offered.join(" "));
        let output = Command::new("bash").args(["-c", &line]).current_dir(here).output().unwrap();
        assert!(!here.join("ran").exists(), "{line}");
        for word in hostile.iter().filter(|word| !word.contains('\n') && !word.starts_with('-')) {
            let expected = format!("{word}{end}\n");
            assert!(text(&output).contains(&expected), "{expected}: {}", text(&output));
        }
    }
    assert!(!ids.iter().any(|id| id.starts_with('-')), "{ids:?}");
}

fn is_alive(process: i32) -> bool {
    // One that has ended and was not waited for is not alive.
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    test_kill_process(Pid::from_raw(process).unwrap()).is_ok() && !matches!(state, Some('Z' | 'X') | None)
}

#[test]
fn the_system_under_test_dies_with_the_run_even_by_sigkill() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("t.yaml"), test("a", "/a", "")).unwrap();
    let with = "sleep 1000 & echo $! > child; echo $$ > leader; wait";
    let never = port().to_string();
    let mut command = Command::new(program());
    command.args(["run", "t.yaml", "--with", with, "--ready", &never]).current_dir(here).env("HOME", here);
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = |name: &str| std::fs::read_to_string(here.join(name)).ok()?.trim().parse::<i32>().ok();
    eventually_blocking(DEADLINE, "the system runs", || pid("child").is_some() && pid("leader").is_some());
    let system = [pid("leader").unwrap(), pid("child").unwrap()];
    assert!(system.into_iter().all(is_alive));
    kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
    run.wait().unwrap();
    eventually_blocking(DEADLINE, "the system is gone", || !system.into_iter().any(is_alive));
}

#[test]
fn a_pipe_among_the_files_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("t.yaml"), test("a", "/a", "")).unwrap();
    let refers =
        test("b", "/b", "").replace("      method: GET\n", "      method: GET\n      body: ./pipe.yaml\n");
    let suite = "type: TestSuite\nspec:\n  id: s\n  name: S\n  steps: [./pipe.yaml]\n";
    std::fs::create_dir(here.join("more")).unwrap();
    std::fs::write(here.join("more/refers.yaml"), refers.replace("./pipe", "../pipe")).unwrap();
    std::fs::write(here.join("more/suite.yaml"), suite.replace("./pipe", "../pipe")).unwrap();
    assert!(Command::new("mkfifo").arg(here.join("pipe.yaml")).status().unwrap().success());
    for arguments in [
        &["check", "pipe.yaml"][..],
        &["run", "pipe.yaml", "--list"],
        &["fmt", "--check", "pipe.yaml"],
        &["apply", "test", "-f", "pipe.yaml"],
        &["new", "pipe.yaml"],
        &["trace", "list", "pipe.yaml"],
        &["report", "merge", "pipe.yaml"],
        &["run", "t.yaml", "--env-file", "pipe.yaml"],
    ] {
        let (code, said) = call(here, arguments);
        assert!(code == Some(1), "{arguments:?} {code:?} {said}");
        holds(&said, &["it is no regular file, and a pipe or a device may never end"]);
    }
    for arguments in [&["check", "*.yaml"][..], &["check", "."], &["check", "more"]] {
        let (code, said) = call(here, arguments);
        assert!(code != Some(124), "{arguments:?} hangs: {said}");
    }
    // What a shell passes as a file is read.
    let line = format!("{} check <(cat t.yaml)", program().display());
    let output = Command::new("bash").args(["-c", &line]).current_dir(here).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn a_new_definition_is_not_written_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let outside = here.join("outside.yaml");
    for (link, out) in [("made.yaml", "made.yaml"), ("tests/get-x.yaml", "tests")] {
        std::fs::create_dir_all(here.join("tests")).unwrap();
        std::os::unix::fs::symlink(&outside, here.join(link)).unwrap();
        let (code, said) = call(here, &["new", "http://127.0.0.1:1/x", "--out", out]);
        assert_eq!(code, Some(1), "{said}");
        holds(&said, &["is already there; remove it, or choose another --out"]);
        assert!(!outside.exists());
    }
}
