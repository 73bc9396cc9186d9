//! The tools around tests, as users and editors call them.

mod checking;
mod collected;
mod doctor;
mod formats;
mod layout;
mod lsp;
mod schema;
mod traces;
mod watch;

use std::path::Path;
use std::process::{Command, Output};

use crate::program;

/// Runs a command in a folder, apart from the environment of this machine.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    run_with(folder, &[], arguments)
}

/// The same with these variables.
fn run_with(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    apart(&mut Command::new(program()), folder)
        .envs(variables.iter().copied())
        .args(arguments)
        .output()
        .unwrap()
}

/// Neither the user's files nor exporter settings reach the command.
fn apart<'c>(command: &'c mut Command, folder: &Path) -> &'c mut Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["OTEL_", "QUALITYTRACE_", "TRACETEST_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command.current_dir(folder).env("HOME", folder)
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn codes_are_explained_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let one = run(folder.path(), &["explain", "unknown-key"]);
    assert_eq!(one.status.code(), Some(0));
    let text = stdout(&one);
    assert!(
        text.contains("unknown-key") && text.contains("triger: {}") && text.contains("This has not"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "colours are for terminals: {text}");
    let all = stdout(&run(folder.path(), &["explain"]));
    assert!(all.lines().count() > 90, "{all}");
    let wrong = run(folder.path(), &["explain", "unknown-kye"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("did you mean `unknown-key`?"));
}

#[test]
fn every_tool_has_help_with_an_example() {
    let folder = tempfile::tempdir().unwrap();
    for tool in [
        &["fmt"][..],
        &["schema"],
        &["explain"],
        &["eval"],
        &["select"],
        &["trace", "list"],
        &["trace", "show"],
        &["trace", "export"],
        &["trace", "import"],
        &["trace", "tail"],
        &["watch"],
        &["doctor"],
        &["ready"],
        &["lsp"],
    ] {
        let help = stdout(&run(folder.path(), &[tool, &["--help"]].concat()));
        assert!(
            help.contains("Example") && help.contains(&format!("qualitytrace {}", tool.join(" "))),
            "{help}"
        );
    }
}
