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
    /// The number of the next line.
    next: u64,
    running: Vec<(LineNumber, Running)>,
}

/// Which line belongs to a running test: two tests may have one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineNumber(u64);

/// The line of a running test; it is shown until this is dropped.
#[derive(Debug)]
pub(crate) struct Line<'p> {
    progress: &'p Progress,
    pub(crate) number: LineNumber,
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let mut state = self.progress.state();
        state.running.retain(|(number, _)| *number != self.number);
        self.progress.redraw(&state);
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
    pub(crate) fn began(&self, name: &str) -> Line<'_> {
        self.add(name, Stage::Queued)
    }

    /// Adds a test that is being confirmed.
    pub(crate) fn confirming(&self, name: &str, until: Instant) -> Line<'_> {
        self.add(name, Stage::Confirming { until })
    }

    fn add(&self, name: &str, stage: Stage) -> Line<'_> {
        let mut state = self.state();
        let number = LineNumber(state.next);
        state.next += 1;
        state.running.push((number, Running { name: name.to_owned(), since: Instant::now(), stage }));
        self.redraw(&state);
        Line { progress: self, number }
    }

    /// Takes note of a message about a running test; it is shown with the next drawing.
    pub(crate) fn note(&self, line: LineNumber, seen: &StreamItem) {
        let mut state = self.state();
        if let Some((_, running)) = state.running.iter_mut().find(|(known, _)| *known == line)
            && let Some(stage) = running.stage.after(seen, Instant::now())
        {
            running.stage = stage;
        }
    }

    /// Counts as many tests as done, and prints the report about them.
    pub(crate) fn ended(&self, tests: usize, report: &TestReport) {
        self.state().done += tests;
        self.corrected(report);
    }

    /// Prints the report of a test again, because it has changed.
    pub(crate) fn corrected(&self, report: &TestReport) {
        if self.level.shows(report.outcome) {
            out(&pretty::test(report, self.level));
        }
        self.redraw(&self.state());
    }

    /// Draws the running tests again and again.
    pub(crate) async fn keep_drawing(&self) -> Infallible {
        loop {
            tokio::time::sleep(REDRAW).await;
            self.redraw(&self.state());
        }
    }

    fn redraw(&self, state: &State) {
        if !self.is_live {
            return;
        }
        let size = style::width().zip(style::height()).unwrap_or(USUAL_SIZE);
        let running: Vec<&Running> = state.running.iter().map(|(_, running)| running).collect();
        let lines = frame((state.done.min(self.total), self.total), &running, Instant::now(), size);
        let lines: Vec<String> = lines.iter().map(style::faint).collect();
        redraw(&lines);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use qualitytrace_server::wire;

    use super::*;

    #[test]
    fn two_tests_of_one_name_have_a_line_each() {
        let progress = Progress { total: 2, is_live: false, level: Level::Nothing, state: Mutex::default() };
        let (first, second) = (progress.began("Same"), progress.began("Same"));
        let what = wire::RunEventKind::Triggering { span_id: String::new() };
        progress.note(second.number, &StreamItem::Event(wire::Event { seq: 1, at: 1, what }));
        let stages = || -> Vec<Stage> {
            progress.state().running.iter().map(|(_, running)| running.stage.clone()).collect()
        };
        assert_eq!(stages(), [Stage::Queued, Stage::Triggered]);
        drop(first);
        assert_eq!(stages(), [Stage::Triggered]);
        drop(second);
        assert_eq!(stages(), []);
    }
}
