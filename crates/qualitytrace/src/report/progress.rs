//! The progress line below the reports; only at a terminal.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use super::visible;
use crate::terminal::{out, style};

/// The longest progress line, in characters.
const LONGEST: usize = 100;

/// Prints finished tests as they come, and below them a line with the running ones.
#[derive(Debug)]
pub(crate) struct Progress {
    total: usize,
    is_live: bool,
    /// Whether tests are not shown as they end.
    is_quiet: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    done: usize,
    running: Vec<String>,
}

/// A test that is being confirmed; the line shows it until this is dropped.
#[derive(Debug)]
pub(crate) struct Confirming<'p> {
    progress: &'p Progress,
    told: String,
}

impl Drop for Confirming<'_> {
    fn drop(&mut self) {
        let mut state = self.progress.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running.retain(|running| *running != self.told);
        self.progress.clear();
        self.progress.draw(&state);
    }
}

impl Progress {
    /// No test of `total` has begun. `is_quiet`: tests are not shown as they end.
    pub(crate) fn start(total: usize, is_quiet: bool) -> Self {
        // A dumb terminal cannot erase a line.
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_live = !is_dumb && std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        Self { total, is_live, is_quiet, state: Mutex::default() }
    }

    /// Adds a running test.
    pub(crate) fn began(&self, name: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.running.push(name.to_owned());
        self.draw(&state);
    }

    /// Shows a test that is being confirmed, until the returned guard is dropped.
    pub(crate) fn confirming(&self, told: &str) -> Confirming<'_> {
        self.began(told);
        Confirming { progress: self, told: told.to_owned() }
    }

    /// Removes a running test and prints its report.
    pub(crate) fn ended(&self, name: &str, report: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done += 1;
        if let Some(at) = state.running.iter().position(|running| running == name) {
            state.running.remove(at);
        }
        self.clear();
        if !self.is_quiet {
            out(report);
        }
        self.draw(&state);
    }

    fn draw(&self, state: &State) {
        if !self.is_live || state.running.is_empty() {
            return;
        }
        self.clear();
        let running = visible::text(&state.running.join(", "));
        let line: String = format!("{}/{} done, running: {running}", state.done, self.total)
            .chars()
            .take(style::width().map_or(LONGEST, |width| LONGEST.min(width - 1)))
            .collect();
        let mut stderr = anstream::stderr().lock();
        let _ = write!(stderr, "{}", style::faint(line));
        let _ = stderr.flush();
    }

    /// Erases the progress line.
    fn clear(&self) {
        if self.is_live {
            let mut stderr = anstream::stderr().lock();
            let _ = write!(stderr, "\r\x1b[2K");
            let _ = stderr.flush();
        }
    }
}
