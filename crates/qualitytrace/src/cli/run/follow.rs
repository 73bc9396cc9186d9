//! Follows runs on a server, and makes reports of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, TryStreamExt};
use qualitytrace_core::series::Attempts;
use qualitytrace_server::wire::suite::{Part, Step, SuiteEventKind};
use qualitytrace_server::wire::{self, series};

use super::interrupt::Interrupt;
use super::parallel::{TriggerLimit, UnderWay};
use crate::client::events::StreamItem;
use crate::client::{Client, RunOptions, StartedRun};
use crate::report::progress::{Line, LineNumber, Progress};
use crate::report::{self, Level, Link, Outcome, TestEnding, TestReport};

/// How a series of runs ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeriesEnd {
    pub(super) attempts: Attempts,
    pub(super) outcome: Outcome,
}

impl SeriesEnd {
    /// The end of a series that is over.
    pub(super) fn of(series: &series::Series) -> Self {
        let outcome = series.outcome.unwrap_or(series::Outcome::Broken);
        Self {
            attempts: Attempts { retries: series.retries, repeat: series.repeat },
            outcome: Outcome::of(outcome, series.recovered),
        }
    }

    /// The end of a step.
    pub(super) fn of_step(step: &Step, outcome: series::Outcome, recovered: bool) -> Self {
        Self {
            attempts: Attempts { retries: step.retries, repeat: step.repeat },
            outcome: Outcome::of(outcome, recovered),
        }
    }
}

/// What all runs share.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunContext<'a> {
    pub(super) client: &'a Client,
    pub(super) wanted: &'a RunOptions,
    pub(super) progress: &'a Progress,
    pub(super) interrupt: &'a Interrupt,
    pub(super) limit: &'a TriggerLimit,
    pub(super) halt: &'a FailFast,
    /// Whether the server has a page that reports can lead to.
    pub(super) has_page: bool,
}

/// Whether a test that did not pass keeps others from being started.
#[derive(Debug)]
pub(crate) struct FailFast {
    is_wanted: bool,
    is_raised: AtomicBool,
}

impl FailFast {
    /// `is_wanted`: the first test that does not pass raises it.
    pub(super) const fn new(is_wanted: bool) -> Self {
        Self { is_wanted, is_raised: AtomicBool::new(false) }
    }

    /// Takes note of tests that ended.
    pub(super) fn note(&self, reports: &[TestReport]) {
        if self.is_wanted && reports.iter().any(|report| !report.outcome.is_pass()) {
            self.is_raised.store(true, Ordering::Relaxed);
        }
    }

    fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Relaxed)
    }
}

impl<'a> RunContext<'a> {
    /// Waits for a trigger permit; `None` when nothing new should begin.
    pub(super) async fn admit(&self) -> Option<UnderWay<'a>> {
        tokio::select! {
            biased;
            () = self.interrupt.raised() => None,
            trigger = self.limit.acquire() => Some(trigger).filter(|_| !self.halt.is_raised()),
        }
    }

    /// Reports a test, or a suite of so many tests, that was not begun.
    pub(super) fn left_alone(&self, name: &str, id: Option<&str>, tests: usize) -> TestReport {
        let id = id.unwrap_or_default().to_owned();
        let is_interrupted = self.interrupt.is_raised();
        let failed = "not begun: a test before it did not pass";
        let ending =
            TestEnding::Skipped(if is_interrupted { "interrupted before it began" } else { failed }.into());
        let report = TestReport { ending, ..TestReport::skipped(name.to_owned(), id) };
        self.progress.ended(tests, &report);
        report
    }

    /// Reports a test or suite whose result is unknown.
    pub(super) fn without_result(&self, name: &str, id: &str, error: &anyhow::Error) -> TestReport {
        let (outcome, ending) = (Outcome::Unknown, TestEnding::Broken(format!("{error:#}")));
        let report = TestReport { outcome, ending, ..TestReport::skipped(name.to_owned(), id.to_owned()) };
        self.progress.ended(1, &report);
        report
    }
}

/// Runs a stored suite, and shows each of its steps as it ends. When the connection is lost for good, what is known so
/// far is reported.
pub(super) async fn suite(
    context: RunContext<'_>,
    name: &str,
    id: &str,
    trigger: UnderWay<'_>,
) -> anyhow::Result<Vec<TestReport>> {
    let run = context.client.start_suite(id, context.wanted).await?;
    let stop = async || context.client.stop_suite(id, &run).await;
    let mut reports = Vec::new();
    let steps = Box::pin(steps(context, name, id, &run, &mut reports, trigger));
    let followed = context.interrupt.follow(steps, stop).await;
    if let Err(error) = followed {
        let error = error.context(context.client.unfinished_suite(id, run.number));
        reports.push(context.without_result(name, id, &error));
    }
    Ok(reports)
}

/// Makes reports of the steps of a running suite.
async fn steps(
    context: RunContext<'_>,
    name: &str,
    id: &str,
    run: &StartedRun,
    reports: &mut Vec<TestReport>,
    trigger: UnderWay<'_>,
) -> anyhow::Result<()> {
    let RunContext { client, progress, limit, .. } = context;
    // The permit of the suite is held until its first trigger starts.
    let mut acquired = Some(trigger);
    let mut triggers = FuturesUnordered::new();
    let mut events = std::pin::pin!(client.suite_events(id, run.number));
    let mut steps: Vec<Step> = Vec::new();
    let mut runs: HashMap<usize, Vec<(u64, String)>> = HashMap::new();
    let mut lines: HashMap<usize, Line<'_>> = HashMap::new();
    // The steps of the reports.
    let mut places = Vec::new();
    let (mut why, mut is_of_server) = (None, false);
    loop {
        let event = tokio::select! {
            event = events.try_next() => event?,
            Some(()) = triggers.next() => continue,
        };
        let Some(event) = event else { break };
        match event.what {
            SuiteEventKind::Planned { steps: all } => steps = all,
            SuiteEventKind::StepStarted { step, attempt, run, trace_id } => {
                let planned = planned(&steps, step)?;
                if attempt == 1 {
                    lines.insert(step, progress.began(&planned.title));
                }
                let (line, test) = (number(&lines, step), planned.test.clone());
                triggers.push(until_triggered(context, line, test, run, limit.count()));
                drop(acquired.take());
                runs.entry(step).or_default().push((run, trace_id));
            }
            SuiteEventKind::StepEnded { step, outcome, recovered, message, .. } => {
                places.push(step);
                let line = number(&lines, step);
                let (at, step, runs) = (step, planned(&steps, step)?, runs.remove(&step).unwrap_or_default());
                let ended = Some(SeriesEnd::of_step(step, outcome, recovered));
                let names = (step.title.as_str(), step.test.as_str());
                let mut report = self::report(context, names, line, &runs, ended, None).await?;
                if let Some(message) = message {
                    report.ending = TestEnding::Broken(report::brief(&message));
                }
                report.place(name, step);
                drop(lines.remove(&at));
                progress.ended(1, &report);
                reports.push(report);
            }
            SuiteEventKind::StepsSkipped { steps: skipped } => {
                for step in skipped {
                    places.push(step);
                    let step = planned(&steps, step)?;
                    let mut report = TestReport::skipped(step.title.clone(), step.test.clone());
                    report.place(name, step);
                    progress.ended(1, &report);
                    reports.push(report);
                }
            }
            SuiteEventKind::Stopping | SuiteEventKind::Resumed => {}
            SuiteEventKind::Ended { passed, message } => why = message.filter(|_| !passed),
            SuiteEventKind::Interrupted => {
                (why, is_of_server) = (Some(wire::suite::INTERRUPTED.to_owned()), true);
            }
        }
    }
    // Steps whose windows overlap may end in another order.
    let mut placed: Vec<(usize, TestReport)> = places.into_iter().zip(reports.drain(..)).collect();
    placed.sort_by_key(|(step, _)| *step);
    reports.extend(placed.into_iter().map(|(_, report)| report));
    // The error that ended the suite is part of a report, unless it happened outside of every step.
    let is_told = reports.iter().any(|report| !report.outcome.is_pass());
    if let Some(why) = why.filter(|_| !is_told) {
        let mut report = TestReport::skipped(name.to_owned(), id.to_owned());
        let outcome = if is_of_server { Outcome::Inconclusive } else { Outcome::Broken };
        (report.outcome, report.ending) = (outcome, TestEnding::Broken(why));
        // It is about no step, so it counts for none.
        progress.ended(0, &report);
        reports.push(report);
    }
    Ok(())
}

/// The line of a step that is shown.
fn number(lines: &HashMap<usize, Line<'_>>, step: usize) -> Option<LineNumber> {
    lines.get(&step).map(|line| line.number)
}

/// Returns the step of this number, as the server has planned it.
fn planned(steps: &[Step], step: usize) -> anyhow::Result<&Step> {
    steps.get(step).with_context(|| format!("the server names step {step}, which is not in its plan"))
}

/// Follows a series of runs to its end.
pub(super) async fn series(
    context: RunContext<'_>,
    line: Option<LineNumber>,
    test: &str,
    first: u64,
    trigger: UnderWay<'_>,
) -> anyhow::Result<series::Series> {
    let RunContext { client, limit, .. } = context;
    let (mut seen, mut latest, mut trigger) = (1, first, Some(trigger));
    loop {
        if let Some(trigger) = trigger.take() {
            until_triggered(context, line, test.to_owned(), latest, trigger).await;
        }
        let series = client.series_after(test, first, seen).await?;
        if series.outcome.is_some() {
            return Ok(series);
        }
        let runs = u32::try_from(series.runs.len()).unwrap_or(u32::MAX);
        if let Some(attempt) = series.runs.last().filter(|_| runs > seen) {
            (seen, latest, trigger) = (runs, attempt.run, Some(limit.count()));
        }
    }
}

/// Releases the permit of a run when its trigger is over, and returns then; where running tests are shown, returns when
/// the run is over. Errors are left to the code that follows the run itself.
async fn until_triggered(
    RunContext { client, progress, .. }: RunContext<'_>,
    line: Option<LineNumber>,
    test: String,
    run: u64,
    trigger: UnderWay<'_>,
) {
    let mut trigger = Some(trigger);
    let mut events = std::pin::pin!(client.watch(&test, run, progress.is_live()));
    while let Ok(Some(seen)) = events.try_next().await {
        if let Some(line) = line {
            progress.note(line, &seen);
        }
        if is_triggered(&seen) {
            drop(trigger.take());
            if !progress.is_live() {
                break;
            }
        }
    }
}

fn is_triggered(seen: &StreamItem) -> bool {
    matches!(seen, StreamItem::Event(wire::Event { what: wire::RunEventKind::Triggered { .. }, .. }))
}

/// The report of a test, of which name and id are given: the last run in full, and a summary of the earlier ones.
///
/// Without `ended` there was only one run, and its outcome counts. `trigger` is held until the trigger is answered.
pub(super) async fn report(
    RunContext { client, wanted, progress, has_page, .. }: RunContext<'_>,
    (name, id): (&str, &str),
    line: Option<LineNumber>,
    runs: &[(u64, String)],
    ended: Option<SeriesEnd>,
    mut trigger: Option<UnderWay<'_>>,
) -> anyhow::Result<TestReport> {
    let mut reports = Vec::new();
    for (run, trace_id) in runs {
        let mut all = std::pin::pin!(client.watch(id, *run, progress.is_live()));
        let mut events = Vec::new();
        while let Some(seen) = all.try_next().await? {
            if let Some(line) = line {
                progress.note(line, &seen);
            }
            if is_triggered(&seen) {
                drop(trigger.take());
            }
            events.extend(seen.event());
        }
        let (name, id) = (name.to_owned(), id.to_owned());
        reports.push(TestReport::fold(name, id, *run, trace_id.clone(), &events, wanted.gates()));
    }
    let mut report = match reports.pop() {
        Some(report) => report,
        None => TestReport::skipped(name.to_owned(), id.to_owned()),
    };
    report.earlier = reports;
    let page = (has_page && report.run > 0).then(|| client.page_of_run(&report.id, report.run));
    report.link = page.as_deref().and_then(Link::of);
    if let Some(SeriesEnd { attempts, outcome }) = ended {
        (report.attempts, report.outcome) = (attempts, outcome);
    }
    if report.outcome != Outcome::Passed || progress.level() == Level::Details {
        report.trace = client.trace(&report.trace_id).await?;
    }
    if !report.earlier.is_empty() {
        report.flakiness = client.flakiness(id).await?;
    }
    Ok(report)
}

impl TestReport {
    /// Sets its place in a suite.
    fn place(&mut self, suite: &str, step: &Step) {
        self.suite = Some(suite.to_owned());
        // A step without a name is named after its test.
        self.step = Some(&step.name).filter(|name| **name != step.test && **name != step.title).cloned();
        self.part = match (step.role, step.row) {
            (Part::Setup, _) => Some("setup".to_owned()),
            (Part::Teardown, _) => Some("teardown".to_owned()),
            (Part::Step, Some(row)) => {
                let values: Vec<String> = step
                    .values
                    .iter()
                    .map(|(name, value)| format!("{name}={}", report::brief(value)))
                    .collect();
                Some(format!("row {row}: {}", values.join(", ")))
            }
            (Part::Step, None) => None,
        };
    }
}
