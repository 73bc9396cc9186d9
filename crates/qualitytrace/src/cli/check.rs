//! `qualitytrace check`.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use qualitytrace_config::Position;
use qualitytrace_core::definition::{Resource, Step, TestSuite, asserts_nothing};
use qualitytrace_core::lang::{Diagnostic, Severity};
use qualitytrace_server::outbound::trigger::unverified_secret;
use serde_json::{Value, json};

use super::Exit;
use super::files::references::{self, NO_FILE};
use super::files::{self, File, STDIN_NAME};
use super::project;
use crate::report::{github, visible};
use crate::terminal::{self, style};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Files, folders to search, or patterns like 'tests/**/*.yaml'; `-` for standard input [default: `run.paths` of the
    /// project file]
    #[arg(value_name = "FILE|DIR|GLOB")]
    paths: Vec<PathBuf>,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
    /// Format of the output; `github` makes annotations of a job
    #[arg(long, short, value_name = "FORMAT", default_value = "pretty")]
    output: Output,
}

/// Formats of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Pretty,
    Json,
    Github,
}

/// A remark about a file that is no diagnostic of its text.
#[derive(Debug)]
struct Remark {
    severity: &'static str,
    code: &'static str,
    /// Where it belongs in the text; the beginning, if it is about the whole file.
    at: usize,
    message: String,
}

/// Reads every file and reports its diagnostics.
pub(crate) fn check(options: &Options) -> anyhow::Result<Exit> {
    let mut files = read(options)?;
    files::find_twins(&mut files);
    let known: HashSet<String> = files.iter().flat_map(File::test_ids).map(str::to_owned).collect();
    let mut bad = 0;
    let mut rows = Rows::default();
    for file in &mut files {
        examine(file);
        let remarks: Vec<Remark> = unverified(file).chain(elsewhere(file, &known)).collect();
        let usable = file.reading.is_usable(options.strict);
        bad += usize::from(!usable);
        match options.output {
            Output::Pretty => terminal::out(&pretty(file, &remarks, usable)),
            Output::Json => rows.add(file, &remarks, usable),
            Output::Github => terminal::commands(&annotations(file, &remarks)),
        }
    }
    match options.output {
        Output::Pretty if bad > 0 => {
            terminal::out(&format!("\n{bad} of {} files cannot be used\n", files.len()));
        }
        Output::Json => {
            let document = json!({ "files": rows.files, "diagnostics": rows.diagnostics });
            terminal::out(&terminal::filter::json(&format!("{document:#}\n")));
        }
        Output::Pretty | Output::Github => {}
    }
    Ok(if bad == 0 { Exit::Passed } else { Exit::Definition })
}

/// Reads the files, and standard input where it is among them.
fn read(options: &Options) -> anyhow::Result<Vec<File>> {
    let paths = project::paths_or_own(&options.paths, &[])?;
    let (stdin, paths): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.into_iter().partition(|path| files::is_stdin(path));
    let mut files = files::read_all(&paths, files::of_process)?;
    if !stdin.is_empty() {
        files.push(File::expanded(Path::new(STDIN_NAME), files::read_stdin()?, files::of_process));
    }
    Ok(files)
}

fn pretty(file: &File, remarks: &[Remark], usable: bool) -> String {
    let mut text = file.complaints();
    for Remark { severity, at, message, .. } in remarks {
        let place = if *severity == "note" { file.place(*at) } else { file.path.display().to_string() };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {place}: {message}", style::strong(format!("{severity}:")));
    }
    let mark = if usable { style::good("✔") } else { style::bad("✘") };
    text + &format!("{mark} {}\n", file.path.display())
}

/// The rows of the JSON document.
#[derive(Debug, Default)]
struct Rows {
    files: Vec<Value>,
    diagnostics: Vec<Value>,
}

impl Rows {
    fn add(&mut self, file: &File, remarks: &[Remark], usable: bool) {
        let path = file.path.display().to_string();
        let row = |severity: &str, code: &str, span: &Range<usize>, message: &str, help: Option<&str>| {
            let [start, end] = [span.start, span.end].map(|at| Position::of(file.original(), at));
            json!({
                "file": path, "line": start.line, "column": start.column, "endLine": end.line,
                "endColumn": end.column, "severity": severity, "code": code, "message": message, "help": help,
            })
        };
        self.files.push(json!({ "file": path, "usable": usable }));
        for Diagnostic { code, severity, span, message, help, .. } in file.placed() {
            self.diagnostics.push(row(severity.as_str(), code, &span, &message, help.as_deref()));
        }
        for Remark { severity, code, at, message } in remarks {
            self.diagnostics.push(row(severity, code, &file.original_range(&(*at..*at)), message, None));
        }
    }
}

/// Annotations for a job of GitHub.
fn annotations(file: &File, remarks: &[Remark]) -> String {
    let path = files::plain(&file.path).display().to_string();
    let annotation = |level: &str, at: usize, title: &str, message: &str| {
        let Position { line, column } = Position::of(file.original(), at);
        github::annotation(level, Some((&path, line, Some(column))), title, &visible::text(message))
    };
    let diagnostics = file.placed().into_iter().map(|found| {
        let help = found.help.map(|help| format!(" ({help})")).unwrap_or_default();
        let message = format!("{}{help}", found.message);
        annotation(found.severity.as_str(), found.span.start, found.code, &message)
    });
    let remarks = remarks.iter().map(|remark| {
        let level = if remark.severity == "note" { "notice" } else { remark.severity };
        annotation(level, file.original_range(&(remark.at..remark.at)).start, remark.code, &remark.message)
    });
    diagnostics.chain(remarks).collect()
}

/// Completes the diagnostics of a file that is not run here and now.
pub(crate) fn examine(file: &mut File) {
    // A missing file is only a warning here: the text may be checked on another machine than the one that runs it.
    for missing in file.reading.diagnostics.iter_mut().filter(|found| found.code == NO_FILE) {
        missing.severity = Severity::Warning;
    }
    file.excuse_unset_variables();
    // A suite without one of its tests is an error anywhere.
    let missing = references::missing_steps(file, |_| false);
    file.reading.diagnostics.extend(missing);
    let documents = file.reading.documents.iter();
    let idle: Vec<_> = documents.filter_map(|document| asserts_nothing(&file.source, document)).collect();
    file.reading.diagnostics.extend(idle);
}

/// Notes about steps whose tests are in none of the files: they may be on the server.
fn elsewhere(file: &File, known: &HashSet<String>) -> impl Iterator<Item = Remark> {
    let suites = file.reading.documents.iter().filter_map(|document| match &document.resource {
        Resource::TestSuite(suite) => Some(suite),
        _ => None,
    });
    let steps = suites.flat_map(TestSuite::all_steps).filter(|step| !step.is_path());
    let missing = steps.filter(|step| !known.contains(&step.test.value));
    missing.map(|step: &Step| {
        let id = &step.test.value;
        Remark {
            severity: "note",
            code: "step-elsewhere",
            at: step.test.origin.as_ref().map_or(0, |origin| origin.span.start),
            message: format!("none of these files has a test with the id `{id}`; it must be on the server"),
        }
    })
}

/// Warnings about tests that send secrets without verifying the receiver. Files of the original do so, and stay usable.
fn unverified(file: &File) -> impl Iterator<Item = Remark> {
    file.reading.documents.iter().filter_map(|document| match &document.resource {
        Resource::Test(test) => {
            let message = test.trigger.as_ref().and_then(unverified_secret)?;
            Some(Remark {
                severity: "warning",
                code: "unverified-receiver",
                at: document.span.start,
                message,
            })
        }
        _ => None,
    })
}
