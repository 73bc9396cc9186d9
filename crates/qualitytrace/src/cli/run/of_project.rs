//! What `run` takes from the project file, and whether it may.

use std::path::PathBuf;

use clap::Args;

use crate::cli::project::Project;
use crate::cli::run::plan::Plan;
use crate::cli::run::system_under_test;
use crate::cli::run::trust;

/// How commands in tests are called, which are too many to be listed.
const OF_TESTS: &str = "(the commands and browser scripts of its tests)";

/// The project file of a run.
#[derive(Debug, Default, Args)]
#[group(skip)]
pub(super) struct ProjectSettings {
    /// Project file, whose section `run` has values for these flags; `off` for none [default: qualitytrace.yaml in this
    /// folder or above]
    #[arg(long = "project", id = "project", value_name = "FILE|off")]
    named: Option<PathBuf>,
    /// Do without asking what the project file says: start its commands (`with`), and count it if it belongs to another
    /// user; for CI
    #[arg(long)]
    trust_project: bool,
    /// The file that counts.
    #[arg(skip)]
    pub(super) file: Option<Project>,
    #[arg(skip)]
    pub(super) gives: Gives,
}

/// What the file gives in place of flags.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gives {
    pub(super) with: bool,
    pub(super) paths: bool,
    pub(super) token_file: bool,
}

impl ProjectSettings {
    /// Fails if the file has commands started here that nobody has confirmed.
    pub(super) fn require_trust(&self, with: &system_under_test::Options, plan: &Plan) -> anyhow::Result<()> {
        let asks = |file: &&Project| !self.trust_project && !file.is_named;
        let Some(file) = self.file.as_ref().filter(asks) else { return Ok(()) };
        let with = if self.gives.with { with.commands() } else { &[] };
        let of_tests = (self.gives.paths && plan.runs_commands()).then(|| OF_TESTS.to_owned());
        let commands: Vec<String> = with.iter().cloned().chain(of_tests).collect();
        trust::require(file.file(), &commands)
    }
}
