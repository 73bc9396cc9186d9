//! Playwright triggers: browser scripts, run by Tracetest's Playwright engine, which `npx` downloads.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use qualitytrace_core::definition::trigger::PlaywrightEngine;
use qualitytrace_core::run::Reply;
use tokio::process::Command;

use super::exec;
use super::failure::{Reason, TriggerError};
use super::propagation::Context;
use crate::base::private_files;

/// The npm package that runs a script.
const ENGINE: &str = "@tracetest/playwright-engine";
/// Timeout of a script, including the download of the engine.
const TIMEOUT: Duration = Duration::from_mins(3);

/// Lines of the output of a failed script that are reported.
const LAST_LINES: usize = 10;

/// Runs the script of a trigger.
pub(super) async fn send(
    trigger: &PlaywrightEngine,
    context: &Context,
    reply_bytes: u64,
) -> Result<Reply, TriggerError> {
    let npx = ["node", "npx"].map(program);
    let [Some(_), Some(npx)] = npx else {
        return Err(TriggerError::unsupported(
            "a trigger of type `playwrightengine` needs Node, and this machine has no `node` and `npx` on its PATH; \
             install Node where the server runs",
        ));
    };
    let script = Script::write(&trigger.script.value, context)?;
    let mut command = Command::new(npx);
    command
        .args(["--yes", ENGINE, "--scriptPath"])
        .arg(&script.0)
        .args(["--traceId", &context.trace.to_string(), "--spanId", &context.span.to_string()])
        .args(["--url", &trigger.target.value, "--method", &trigger.method.value]);
    match exec::run(command, ENGINE, TIMEOUT, reply_bytes).await? {
        Reply::Exec { code, stdout, stderr, .. } if code != 0 => {
            Err(TriggerError::told(Reason::Invalid, complaint(code, &format!("{stdout}{stderr}"))))
        }
        reply => Ok(reply),
    }
}

/// Describes the failure of a script, from the output of script and engine.
fn complaint(code: i32, written: &str) -> String {
    if written.contains("playwright install") {
        return "the browser script found no browser; run `npx playwright install chromium` where the server runs"
            .to_owned();
    }
    let lines: Vec<&str> = written.lines().filter(|line| !line.trim().is_empty()).collect();
    let end = &lines[lines.len().saturating_sub(LAST_LINES)..];
    format!("the browser script ended with code {code}: {}", end.join("\n").trim())
}

/// Finds a program on the PATH.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A script in a temporary file, which is removed when dropped.
struct Script(PathBuf);

impl Script {
    fn write(text: &str, context: &Context) -> Result<Self, TriggerError> {
        let script = Self(std::env::temp_dir().join(format!("{}-{}-script.js", context.trace, context.span)));
        // Only the owner may read it: secrets have been put into it.
        let written = private_files::file(&script.0).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| {
            TriggerError::invalid(format!("the script cannot be put into a file: {error}"))
        })?;
        Ok(script)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(Path::new(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_script_is_told_by_its_last_words() {
        let written = (1..=12).map(|line| format!("line {line}\n")).collect::<Vec<_>>().join("\n");
        let told = complaint(3, &written);
        assert!(told.starts_with("the browser script ended with code 3: line 3\nline 4"), "{told}");
        assert!(told.ends_with("line 12"), "{told}");
        let missing = "Executable doesn't exist at /x\nPlease run: npx playwright install\n";
        assert!(complaint(1, missing).starts_with("the browser script found no browser; run `npx"));
    }
}
