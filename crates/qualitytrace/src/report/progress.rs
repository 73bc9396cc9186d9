//! Shows tests as they end and, at a terminal, the running ones below them.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::level::Level;
use super::live::{Running, Stage, frame};
use super::{TestReport, pretty};
use crate::client::events::StreamItem;
use crate::terminal::{out, redraw, style};

/// How often the running tests are drawn again.
const REDRAW: Duration = Duration::from_millis(100);
/// The size of a terminal that does not tell it.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// Prints finished tests as they come, and below them the running ones.
#[derive(Debug)]
pub(crate) struct Progress {
    total: usize,
    is_live: bool,
    level: Level,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    done: usize,
    running: Vec<Running>,
    /// How many lines are drawn.
    drawn: usize,
}

/// A test that is being confirmed; it is shown until this is dropped.
#[derive(Debug)]
pub(crate) struct Confirming<'p> {
    progress: &'p Progress,
    name: String,
}

impl Drop for Confirming<'_> {
    fn drop(&mut self) {
        let mut state = self.progress.state();
        state.remove(&self.name);
        self.progress.redraw(&mut state);
    }
}

impl State {
    fn remove(&mut self, name: &str) {
        if let Some(at) = self.running.iter().position(|running| running.name == name) {
            self.running.remove(at);
        }
    }
}

impl Progress {
    /// No test of `total` has begun.
    pub(crate) fn start(total: usize, level: Level) -> Self {
        // A dumb terminal cannot erase a line, and where colours are unwanted, other escape codes are, too.
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_plain = anstream::AutoStream::choice(&std::io::stderr()) == anstream::ColorChoice::Never;
        let is_terminal = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        // Log lines would be drawn over.
        let is_live = is_terminal && !is_dumb && !is_plain && level != Level::Details;
        Self { total, is_live, level, state: Mutex::default() }
    }

    /// How much is shown.
    pub(crate) const fn level(&self) -> Level {
        self.level
    }

    /// Whether running tests are shown.
    pub(crate) const fn is_live(&self) -> bool {
        self.is_live
    }

    /// Adds a running test.
    pub(crate) fn began(&self, name: &str) {
        self.add(name, Stage::Queued);
    }

    fn add(&self, name: &str, stage: Stage) {
        let mut state = self.state();
        state.running.push(Running { name: name.to_owned(), since: Instant::now(), stage });
        self.redraw(&mut state);
    }

    /// Takes note of a message about a running test; it is shown with the next drawing.
    pub(crate) fn note(&self, name: &str, seen: &StreamItem) {
        let mut state = self.state();
        if let Some(running) = state.running.iter_mut().find(|running| running.name == name)
            && let Some(stage) = running.stage.after(seen, Instant::now())
        {
            running.stage = stage;
        }
    }

    /// Shows a test that is being confirmed, until the returned guard is dropped.
    pub(crate) fn confirming(&self, name: &str, until: Instant) -> Confirming<'_> {
        self.add(name, Stage::Confirming { until });
        Confirming { progress: self, name: name.to_owned() }
    }

    /// Removes a running test and prints its report.
    pub(crate) fn ended(&self, name: &str, report: &TestReport) {
        let mut state = self.state();
        state.done += 1;
        state.remove(name);
        self.print(&mut state, report);
    }

    /// Prints the report of a test again, because it has changed.
    pub(crate) fn corrected(&self, report: &TestReport) {
        self.print(&mut self.state(), report);
    }

    /// Draws the running tests again and again.
    pub(crate) async fn keep_drawing(&self) -> Infallible {
        loop {
            tokio::time::sleep(REDRAW).await;
            self.redraw(&mut self.state());
        }
    }

    fn print(&self, state: &mut State, report: &TestReport) {
        self.write(std::mem::take(&mut state.drawn), "");
        if self.level.shows(report.outcome) {
            out(&pretty::test(report, self.level));
        }
        self.redraw(state);
    }

    fn redraw(&self, state: &mut State) {
        if !self.is_live {
            return;
        }
        let size = style::width().zip(style::height()).unwrap_or(USUAL_SIZE);
        let lines = frame((state.done, self.total), &state.running, Instant::now(), size);
        let drawn = std::mem::replace(&mut state.drawn, lines.len());
        let lines: Vec<String> = lines.iter().map(style::faint).collect();
        self.write(drawn, &lines.join("\n"));
    }

    fn write(&self, erased: usize, text: &str) {
        if self.is_live && (erased > 0 || !text.is_empty()) {
            redraw(erased, text);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
