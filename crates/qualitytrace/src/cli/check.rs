//! `qualitytrace check`.

use std::path::PathBuf;

use clap::Args;
use qualitytrace_core::lang::Severity;

use super::Exit;
use super::files;
use super::references::{self, NO_FILE};
use crate::report;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Files, or folders to search
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Take warnings for errors
    #[arg(long)]
    strict: bool,
}

/// Reads every file and says what is wrong with it.
pub(crate) fn check(options: &Options) -> anyhow::Result<Exit> {
    let mut bad = 0;
    let mut files = files::read_all(&options.paths)?;
    files::find_twins(&mut files);
    for file in &mut files {
        let missing = references::missing_steps(file, |_| false);
        file.reading.diagnostics.extend(missing);
        // The text is judged here, wherever it is read; whoever runs it needs the files that it names.
        for missing in file.reading.diagnostics.iter_mut().filter(|found| found.code == NO_FILE) {
            missing.severity = Severity::Warning;
        }
        report::out(&file.complaints());
        let usable = file.reading.is_usable(options.strict);
        bad += usize::from(!usable);
        let mark = if usable { report::style::good("✔") } else { report::style::bad("✘") };
        report::out(&format!("{mark} {}\n", file.path.display()));
    }
    match bad {
        0 => Ok(Exit::Passed),
        _ => {
            report::out(&format!("\n{bad} of {} files cannot be used\n", files.len()));
            Ok(Exit::Error)
        }
    }
}
