//! Definition files that do not fit together: the diagnostics of `check`, `run` and `apply`, and their positions.

use std::process::Command;

use crate::program;
use crate::suites::{holds, test};

const SUITE: &str = "type: TestSuite
spec:
  id: s
  name: S
  steps:
";

/// Runs the program in a folder with these files, and returns its exit code and its output.
fn run(files: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let output = Command::new(program())
        .args(arguments)
        .envs([("QUALITYTRACE_OTLP_GRPC_ADDR", "off"), ("QUALITYTRACE_OTLP_HTTP_ADDR", "off")])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), told.into_owned())
}

#[test]
fn a_suite_without_steps_is_told_and_running_nothing_is_no_success() {
    let files = [("s.yaml", "type: TestSuite\nspec: {id: s, name: S, steps: []}\n")];
    let (code, text) = run(&files, &["check", "s.yaml"]);
    assert_eq!(code, Some(0), "{text}");
    holds(&text, &["warning[empty-suite]: this suite has no steps: a run of it tests nothing", "s.yaml:2:"]);
    let (code, text) = run(&files, &["run", "s.yaml"]);
    assert_eq!(code, Some(1), "{text}");
    holds(&text, &["warning[empty-suite]", "error: nothing was run"]);
}

#[test]
fn a_step_or_table_that_is_not_there_is_told_where_it_is_named() {
    let suite = format!("{SUITE}  - ./gone.yaml\n  data: {{csv: ./gone.csv}}\n");
    let files = [("suites/s.yaml", suite.as_str())];
    let told = [
        "the file `suites/gone.yaml` cannot be read: No such file",
        "suites/s.yaml:6:5",
        "the file `suites/gone.csv` cannot be read: No such file",
        "suites/s.yaml:7:15",
    ];
    for (arguments, expected) in [
        (&["check", "suites"][..], 3),
        (&["run", "suites"], 3),
        (&["apply", "testsuite", "-f", "suites/s.yaml"], 1),
    ] {
        let (code, text) = run(&files, arguments);
        assert_eq!(code, Some(expected), "{arguments:?} {text}");
        holds(&text, &told);
    }
}

#[test]
fn a_table_in_a_file_is_checked_where_it_is_named() {
    let suite = format!("{SUITE}  - t\n  data: {{csv: ./rows.csv}}\n");
    let (code, text) = run(&[("s.yaml", &suite), ("rows.csv", "A,A\n1,2\n")], &["check", "s.yaml"]);
    assert_eq!(code, Some(3), "{text}");
    holds(&text, &["the CSV has the column `A` twice", "s.yaml:7:15"]);
}

#[test]
fn one_id_for_two_tests_is_told_with_both_places() {
    let (one, other) = (test("t", "/", ""), test("t", "/other", ""));
    for command in ["check", "run"] {
        let (code, text) = run(&[("a.yaml", &one), ("b/c.yaml", &other)], &[command, "."]);
        assert_eq!(code, Some(3), "{text}");
        holds(&text, &["error[duplicate-id]: the id `t` is already given at ./a.yaml:3:7", "b/c.yaml:3:7"]);
    }
    let (code, text) = run(&[("a.yaml", &one)], &["check", "a.yaml", ".", "./a.yaml"]);
    assert_eq!((code, text.matches("a.yaml").count()), (Some(0), 1), "{text}");
}

#[test]
fn an_answer_of_the_server_is_a_sentence() {
    let suite = format!("{SUITE}  - missing\n");
    let (code, text) = run(&[("s.yaml", &suite)], &["run", "s.yaml"]);
    assert_eq!(code, Some(1), "{text}");
    let told = "the server answers 400 Bad Request: step `missing` names the test `missing`, which is not there; store it, or remove the step\n";
    holds(&text, &[told]);
}

#[test]
fn a_step_that_no_file_has_is_noted_and_a_pipe_is_no_file() {
    let suite = format!("{SUITE}  - missing\n  - t\n");
    let (code, text) = run(&[("s.yaml", &suite), ("t.yaml", &test("t", "/", ""))], &["check", "."]);
    assert_eq!(code, Some(0), "{text}");
    holds(&text, &["note: ./s.yaml:6:5: none of these files has a test with the id `missing`"]);
    assert_eq!(text.matches("note:").count(), 1, "{text}");

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.yaml"), test("t", "/", "")).unwrap();
    let pipe = folder.path().join("pipe.yaml");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let output = Command::new("timeout").arg("20").arg(program()).arg("check").arg(folder.path()).output();
    assert_eq!(output.unwrap().status.code(), Some(0));
}

#[test]
fn a_test_that_checks_nothing_is_told() {
    let empty =
        "type: Test\nspec: {id: t, name: T, trigger: {type: http, httpRequest: {url: http://localhost}}}\n";
    let (code, text) = run(&[("t.yaml", empty)], &["check", "t.yaml"]);
    assert_eq!(code, Some(0), "{text}");
    holds(&text, &["warning[asserts-nothing]: the test asserts nothing", "t.yaml:1:1"]);
    assert_eq!(run(&[("t.yaml", empty)], &["check", "--strict", "t.yaml"]).0, Some(3));
    let singular = test("t", "/", "").replace("  specs:\n", "  spec:\n");
    for command in ["check", "run"] {
        let (code, text) = run(&[("t.yaml", &singular)], &[command, "t.yaml"]);
        assert_eq!(code, Some(3), "{text}");
        holds(&text, &["error[unknown-key]: `spec` is not a key of a test", "write `specs`"]);
    }
}

#[test]
fn a_duration_without_a_unit_is_told() {
    let bare = test("t", "/", "")
        .replace("attr:tracetest.response.status = 200", "attr:tracetest.span.duration < 100");
    let (code, text) = run(&[("t.yaml", &bare)], &["check", "t.yaml"]);
    assert_eq!(code, Some(0), "{text}");
    holds(&text, &["warning[no-unit]: durations are in nanoseconds", "`100ms`"]);
}
