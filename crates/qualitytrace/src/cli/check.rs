//! `qualitytrace check`.

use std::collections::HashSet;
use std::path::PathBuf;

use clap::Args;
use qualitytrace_core::definition::{Resource, Step, TestSuite, asserts_nothing};
use qualitytrace_core::lang::Severity;
use qualitytrace_server::trigger::unverified_secret;

use super::Exit;
use super::files::references::{self, NO_FILE};
use super::files::{self, File};
use crate::terminal;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Files, folders to search, or patterns like 'tests/**/*.yaml'
    #[arg(required = true, value_name = "FILE|DIR|GLOB")]
    paths: Vec<PathBuf>,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
}

/// Reads every file and reports its diagnostics.
pub(crate) fn check(options: &Options) -> anyhow::Result<Exit> {
    let mut bad = 0;
    let mut files = files::read_all(&options.paths, files::of_process)?;
    files::find_twins(&mut files);
    let known: HashSet<String> = files.iter().flat_map(File::test_ids).map(str::to_owned).collect();
    for file in &mut files {
        examine(file);
        terminal::out(&file.complaints());
        for warning in unverified(file) {
            terminal::out(&format!(
                "{} {}: {warning}\n",
                terminal::style::strong("warning:"),
                file.path.display()
            ));
        }
        for note in elsewhere(file, &known) {
            terminal::out(&format!("{} {note}\n", terminal::style::strong("note:")));
        }
        let usable = file.reading.is_usable(options.strict);
        bad += usize::from(!usable);
        let mark = if usable { terminal::style::good("✔") } else { terminal::style::bad("✘") };
        terminal::out(&format!("{mark} {}\n", file.path.display()));
    }
    match bad {
        0 => Ok(Exit::Passed),
        _ => {
            terminal::out(&format!("\n{bad} of {} files cannot be used\n", files.len()));
            Ok(Exit::Definition)
        }
    }
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
fn elsewhere(file: &File, known: &HashSet<String>) -> Vec<String> {
    let suites = file.reading.documents.iter().filter_map(|document| match &document.resource {
        Resource::TestSuite(suite) => Some(suite),
        _ => None,
    });
    let steps = suites.flat_map(TestSuite::all_steps).filter(|step| !step.is_path());
    let missing = steps.filter(|step| !known.contains(&step.test.value));
    let note = |step: &Step| {
        let at = step.test.origin.as_ref().map_or(0, |origin| origin.span.start);
        let (place, id) = (file.place(at), &step.test.value);
        format!("{place}: none of these files has a test with the id `{id}`; it must be on the server")
    };
    missing.map(note).collect()
}

/// Warnings about tests that send secrets without verifying the receiver. Files of the original do so, and stay usable.
fn unverified(file: &File) -> impl Iterator<Item = String> {
    file.reading.documents.iter().filter_map(|document| match &document.resource {
        Resource::Test(test) => test.trigger.as_ref().and_then(unverified_secret),
        _ => None,
    })
}
