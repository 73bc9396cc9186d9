//! Mistyped commands and lost output: the exit code is that of an error, never that of a test that did not pass.

use std::process::{Command, Stdio};

#[test]
fn a_mistyped_command_is_no_failed_test() {
    for (arguments, code) in [
        (&["rnu"][..], 1),
        (&["run", "--no-such-flag"], 1),
        (&["run", "no-such-file.yaml"], 3),
        (&["--help"], 0),
        (&[], 0),
        (&["version"], 0),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_qualitytrace")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn words_of_other_programs_and_mistyped_ones_get_a_tip() {
    for (arguments, tip) in [
        (&["init"][..], "qualitytrace new URL"),
        (&["rnu", "tests/"], "did you mean `qualitytrace run`?"),
        (&["test", "tests/"], "qualitytrace run tests/"),
        (&["run", "tests/", "--workers", "4"], "--parallel N"),
        (&["run", "tests/", "-k", "cart"], "--grep REGEX"),
        (&["run", "tests/", "--dry-run"], "--list"),
        (&["run", "tests/", "--timeout", "30"], "it has no unit: write 30s or 30ms"),
        (&["trace", "export", "x", "-o", "json"], "otlp"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_qualitytrace")).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(tip), "{arguments:?}: {said}");
    }
}

#[test]
fn output_that_is_lost_is_no_success_but_a_reader_that_has_seen_enough_is_none() {
    for arguments in
        [&["config", "show"][..], &["version"], &["--help"], &["serve", "--help"], &["--version"], &[]]
    {
        let run = |stdout: Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_qualitytrace"));
            let output = command.args(arguments).stdout(stdout).stderr(Stdio::piped()).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        };
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (code, said) = run(full.into());
        assert_eq!(code, Some(1), "{arguments:?}");
        assert!(said.starts_with("error: failed to write the output: No space left on device"), "{said}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(run(writer.into()), (Some(0), String::new()), "{arguments:?}");
    }
}

#[test]
fn flags_that_mean_nothing_are_refused_with_the_reason() {
    for (arguments, told) in [
        (&["run", ".", "--parallel", "0"][..], "write a whole number above 0"),
        (&["run", ".", "--var", "=x"], "the name is missing; write NAME=VALUE"),
        (&["run", ".", "--quiet", "10s", "--settle", "1s"], "--quiet 10s is longer than --settle 1s"),
        (&["run", ".", "--quiet", "7s"], "--quiet 7s is longer than --settle 6s"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_qualitytrace")).args(arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?} {said}");
        assert!(said.contains(told), "{said}");
    }
}
