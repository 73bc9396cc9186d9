//! Checks verdicts again when the runs of a test have ended: late spans may have changed them, and a failure by absence
//! counts only after it was confirmed.

use std::time::Duration;

use futures_util::TryStreamExt;
use qualitytrace_core::series::{self, Attempts, Next, RunEnding};
use qualitytrace_core::wait::CONFIRM;
use qualitytrace_server::wire;
use tokio::time::Instant;

use super::follow::{RunContext, SeriesEnd};
use super::interrupt::Interrupt;
use crate::client::Client;
use crate::report::{Outcome, TestEnding, TestReport};

/// How often a failure is checked again while it is being confirmed.
const CONFIRM_INTERVAL: Duration = Duration::from_millis(250);

/// Checks the verdict of a test again: once, or, if it failed because spans are missing, until they are known to be
/// absent, and no later than `until`. A verdict that late spans have changed is shown.
pub(super) async fn confirmed(context: RunContext<'_>, report: TestReport, until: Instant) -> TestReport {
    if !matches!(report.ending, TestEnding::Judged(_)) && !report.has_no_trace {
        return report;
    }
    // If the server no longer answers, the earlier verdict stays.
    match checked(context, &report, until).await {
        Ok(runs) => corrected(context, report, runs).await,
        Err(_) => report,
    }
}

/// The runs of a test, each folded again.
async fn checked(
    RunContext { client, wanted, progress, interrupt, .. }: RunContext<'_>,
    report: &TestReport,
    until: Instant,
) -> anyhow::Result<Vec<TestReport>> {
    let known = SeriesEnd { attempts: report.attempts, outcome: report.outcome };
    let mut runs = Vec::new();
    for run in report.earlier.iter().chain([report]) {
        runs.push(folded(client, wanted.gates(), run).await?);
    }
    if can_still_pass(known, &runs) && Instant::now() < until {
        let _shown = progress.confirming(&report.name, until.into_std());
        confirm(client, wanted.gates(), known, &mut runs, until, interrupt).await?;
    }
    Ok(runs)
}

/// Takes over what late spans have changed, and shows it.
async fn corrected(context: RunContext<'_>, mut report: TestReport, mut runs: Vec<TestReport>) -> TestReport {
    let known = report.earlier.iter().chain([&report]).map(|run| run.corrections);
    if known.eq(runs.iter().map(|run| run.corrections)) {
        return report;
    }
    report.outcome = outcome(SeriesEnd { attempts: report.attempts, outcome: report.outcome }, &runs);
    if let Some(last) = runs.pop() {
        report = TestReport {
            ending: last.ending,
            notes: last.notes,
            has_no_trace: last.has_no_trace,
            is_open: last.is_open,
            failed_gates: last.failed_gates,
            corrections: last.corrections,
            earlier: runs,
            ..report
        };
    }
    if report.outcome != Outcome::Passed && report.trace.is_none() {
        report.trace = context.client.trace(&report.trace_id).await.unwrap_or_default();
    }
    context.progress.corrected(&report);
    report
}

/// Waits while more spans could make a test pass whose runs have ended: until they are known to be absent, and no longer
/// than `confirm`, or than its polling profile says. Returns the outcome over all runs.
///
/// Without `ended` there was only one run, and its outcome counts.
pub(super) async fn until_certain(
    client: &Client,
    gates: &[String],
    (test, runs): (&str, &[u64]),
    ended: Option<SeriesEnd>,
    confirm: Option<Duration>,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let known = ended.unwrap_or(SeriesEnd { attempts: Attempts::default(), outcome: Outcome::Unknown });
    let mut folds = Vec::new();
    for run in runs {
        let run = TestReport { run: *run, ..TestReport::skipped(String::new(), test.to_owned()) };
        folds.push(folded(client, gates, &run).await?);
    }
    let of_profile = folds.last().and_then(|last| last.confirm);
    let until = Instant::now() + confirm.or(of_profile).unwrap_or(CONFIRM);
    self::confirm(client, gates, known, &mut folds, until, interrupt).await?;
    Ok(outcome(known, &folds))
}

/// Folds the runs whose failures rest on absence again and again, while the test could still pass.
async fn confirm(
    client: &Client,
    gates: &[String],
    known: SeriesEnd,
    runs: &mut [TestReport],
    until: Instant,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    while can_still_pass(known, runs) && Instant::now() < until && !interrupt.is_raised() {
        tokio::time::sleep_until(until.min(Instant::now() + CONFIRM_INTERVAL)).await;
        for run in runs.iter_mut().filter(|run| rests_on_absence(run)) {
            *run = folded(client, gates, run).await?;
        }
    }
    Ok(())
}

/// Folds the events of a run again.
async fn folded(client: &Client, gates: &[String], run: &TestReport) -> anyhow::Result<TestReport> {
    let events: Vec<_> = client.events(&run.id, run.run).try_collect().await?;
    let (name, id, trace_id) = (run.name.clone(), run.id.clone(), run.trace_id.clone());
    Ok(TestReport::fold(name, id, run.run, trace_id, &events, gates))
}

/// Whether more spans could make the last run pass, which is shown in full, or a test that has not passed.
fn can_still_pass(known: SeriesEnd, runs: &[TestReport]) -> bool {
    let is_last_open = runs.last().is_some_and(rests_on_absence);
    is_last_open || (!outcome(known, runs).is_pass() && runs.iter().any(rests_on_absence))
}

/// The outcome over the runs of a test. A test that was stopped stays so.
fn outcome(SeriesEnd { attempts, outcome }: SeriesEnd, runs: &[TestReport]) -> Outcome {
    match runs {
        _ if outcome == Outcome::Stopped => outcome,
        [] => outcome,
        [only] => only.outcome,
        several => of_series(attempts, &several.iter().map(|run| ended(run.outcome)).collect::<Vec<_>>()),
    }
}

/// The outcome of a series that is over. When late spans took a pass from it, there may be a retry left, which is not
/// made any more: the repetition then counts as lost. When they gave it one, there may be a run too many, which counts.
fn of_series(attempts: Attempts, ended: &[RunEnding]) -> Outcome {
    let as_it_is = Attempts::default();
    let done = [attempts, as_it_is].into_iter().find_map(|attempts| match series::next(attempts, ended) {
        Next::Done(outcome) => Some(outcome),
        Next::Start => None,
    });
    let done = done.unwrap_or(series::Outcome::Failed);
    let is_recovered = done == series::Outcome::Flaky { recovered: true };
    Outcome::of(done.into(), is_recovered && ended.last() == Some(&RunEnding::Passed))
}

/// The outcome of one run of a series.
fn ended(outcome: Outcome) -> RunEnding {
    match outcome {
        Outcome::Passed => RunEnding::Passed,
        Outcome::Failed => RunEnding::Failed,
        Outcome::Inconclusive => RunEnding::Inconclusive,
        Outcome::Stopped => RunEnding::Stopped,
        Outcome::Broken | Outcome::Flaky { .. } | Outcome::Unknown | Outcome::Skipped => RunEnding::Broken,
    }
}

/// Whether more spans could make a run pass: there was no trace, or only specs failed that select nothing or too little, the
/// trace was incomplete when it was judged, and the absence of the rest is not proven. Of the runs that are inconclusive,
/// those that lack nothing but what specs ask for.
fn rests_on_absence(run: &TestReport) -> bool {
    let TestEnding::Judged(verdict) = &run.ending else { return run.has_no_trace };
    let lacking = match run.outcome {
        Outcome::Failed => wire::Outcome::Failed,
        Outcome::Inconclusive if run.debts.is_empty() => wire::Outcome::Inconclusive,
        _ => return false,
    };
    let mut failed = verdict.specs.iter().filter(|spec| spec.outcome == lacking).peekable();
    run.is_open
        && failed.peek().is_some()
        && failed.all(|spec| {
            let title = if spec.name.is_empty() { &spec.selector } else { &spec.name };
            let wants_more = run.undecided.iter().any(|open| open.contains(&format!("`{title}`")));
            let is_valid = spec.problem.as_deref().is_none_or(|why| !why.contains("invalid"));
            (spec.selected == 0 || wants_more) && is_valid
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use RunEnding::{Broken, Failed, Inconclusive, Passed};

    fn check(retries: u32, repeat: u32, ended: &[RunEnding], expected: Outcome) {
        assert_eq!(of_series(Attempts { retries, repeat }, ended), expected, "{ended:?}");
    }

    #[test]
    fn a_corrected_run_counts_as_if_it_had_ended_so() {
        check(1, 1, &[Failed, Passed], Outcome::Flaky { recovered: true });
        check(1, 1, &[Passed, Passed], Outcome::Passed);
        check(1, 1, &[Passed, Failed], Outcome::Flaky { recovered: false });
        check(0, 2, &[Passed, Failed], Outcome::Flaky { recovered: false });
        check(0, 2, &[Failed, Failed], Outcome::Failed);
        check(0, 2, &[Failed, Inconclusive], Outcome::Inconclusive);
    }

    #[test]
    fn a_retry_that_would_be_due_by_now_is_not_made() {
        check(1, 2, &[Passed, Failed], Outcome::Flaky { recovered: false });
        check(2, 1, &[Failed, Failed], Outcome::Failed);
        check(2, 1, &[Failed, Broken], Outcome::Broken);
    }

    #[test]
    fn a_series_that_was_stopped_stays_so() {
        let run = |outcome| TestReport { outcome, ..TestReport::skipped(String::new(), String::new()) };
        let runs = [run(Outcome::Passed), run(Outcome::Passed)];
        let known = |outcome| SeriesEnd { attempts: Attempts { retries: 0, repeat: 2 }, outcome };
        assert_eq!(outcome(known(Outcome::Stopped), &runs), Outcome::Stopped);
        assert_eq!(outcome(known(Outcome::Failed), &runs), Outcome::Passed);
    }
}
