//! Commands that a project file starts: only after the user has confirmed them for this file, as a folder that was cloned
//! or unpacked is not its user.
//!
//! What was confirmed is kept in the user's own folder, with the commands themselves: changed ones are asked about again.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::cli::files::regular;
use crate::report::visible;
use crate::terminal;

/// Fails unless the user has confirmed that a project file starts these commands, or does so now.
pub(crate) fn require(project: &Path, commands: &[String]) -> anyhow::Result<()> {
    let file = project.canonicalize().unwrap_or_else(|_| project.to_owned());
    let mut confirmed = TrustedCommands::read();
    if commands.is_empty() || confirmed.has(&file, commands) {
        return Ok(());
    }
    let shown: Vec<String> =
        commands.iter().map(|command| format!("  {}\n", visible::text(command))).collect();
    let shown = shown.concat();
    let project = visible::text(&project.display().to_string());
    let question = format!(
        "The project file {project} starts\n{shown}which you have not confirmed yet. Start that, now and later? (yes/no)"
    );
    match terminal::ask(&question, Some("no")) {
        Some(answer) if matches!(&*answer.to_lowercase(), "y" | "yes") => confirmed.add(&file, commands),
        Some(_) => {
            bail!("nothing is run: what {project} starts was not confirmed; --project off leaves it out")
        }
        None => bail!(
            "the project file {project} starts\n{shown}which nobody has confirmed in this folder: run it once at a \
             terminal, or let it with --trust-project (in CI: QUALITYTRACE_RUN_TRUST_PROJECT=true)"
        ),
    }
    Ok(())
}

/// Project files and the commands that were confirmed for each.
#[derive(Debug, Default)]
struct TrustedCommands(BTreeMap<PathBuf, Vec<String>>);

impl TrustedCommands {
    /// Reads what was confirmed; nothing where that is unknown.
    fn read() -> Self {
        let text = path().and_then(|path| regular::read_text(&path).ok()).unwrap_or_default();
        Self(serde_json::from_str(&text).unwrap_or_default())
    }

    fn has(&self, file: &Path, commands: &[String]) -> bool {
        self.0.get(file).is_some_and(|known| known == commands)
    }

    /// Keeps it for later runs. Where that fails, they ask again.
    fn add(&mut self, file: &Path, commands: &[String]) {
        self.0.insert(file.to_owned(), commands.to_vec());
        if let Err(error) = self.write() {
            terminal::err(&format!(
                "{}: it is asked again next time: {error}\n",
                terminal::style::unsure("warning")
            ));
        }
    }

    fn write(&self) -> std::io::Result<()> {
        let path = path().ok_or(std::io::ErrorKind::NotFound)?;
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        // A rename, so that a concurrent reader sees the old file or the new one.
        let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(serde_json::to_string_pretty(&self.0)?.as_bytes())?;
        std::fs::rename(&unfinished, &path)
    }
}

fn path() -> Option<PathBuf> {
    Some(std::env::home_dir()?.join(".qualitytrace/confirmed.json"))
}
