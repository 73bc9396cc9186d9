//! Following what a server runs, and making reports of it.

use std::collections::HashMap;

use futures_util::TryStreamExt;
use qualitytrace_server::wire::series;
use qualitytrace_server::wire::suite::{Part, Step, What};

use super::plan::Course;
use crate::client::{Client, StartedRun};
use crate::report::{self, Ending, Outcome, TestReport};

/// Runs a suite that the server knows, and shows each of its steps as it ends. What is known when contact is lost for good
/// is reported.
pub(super) async fn suite(course: Course<'_>, name: &str, id: &str) -> anyhow::Result<Vec<TestReport>> {
    let run = course.client.start_suite(id, course.wanted).await?;
    let stop = async || course.client.stop_suite(id, &run).await;
    let mut reports = Vec::new();
    let followed = course.interrupt.follow(steps(course, name, id, &run, &mut reports), stop).await;
    if let Err(error) = followed {
        let error = error.context(course.client.unfinished_suite(id, run.number));
        reports.push(course.without_result(name, id, &error));
    }
    Ok(reports)
}

/// Makes reports of the steps of a suite that is under way.
async fn steps(
    Course { client, progress, .. }: Course<'_>,
    name: &str,
    id: &str,
    run: &StartedRun,
    reports: &mut Vec<TestReport>,
) -> anyhow::Result<()> {
    let mut events = std::pin::pin!(client.suite_events(id, run.number));
    let mut steps: Vec<Step> = Vec::new();
    let mut runs: HashMap<usize, Vec<(u64, String)>> = HashMap::new();
    let mut why = None;
    while let Some(event) = events.try_next().await? {
        match event.what {
            What::Planned { steps: planned } => steps = planned,
            What::StepStarted { step, attempt, run, trace_id } => {
                if attempt == 1 {
                    progress.began(&steps[step].title);
                }
                runs.entry(step).or_default().push((run, trace_id));
            }
            What::StepEnded { step, outcome, recovered, message, .. } => {
                let (step, runs) = (&steps[step], runs.remove(&step).unwrap_or_default());
                let ended = Some((outcome, recovered));
                let mut report = self::report(client, &step.title, &step.test, &runs, ended).await?;
                if let Some(message) = message {
                    report.ending = Ending::Broken(report::brief(&message));
                }
                report.place(name, step);
                progress.ended(&step.title, &report::pretty::test(&report));
                reports.push(report);
            }
            What::StepsSkipped { steps: skipped } => {
                for step in skipped.into_iter().map(|step| &steps[step]) {
                    let mut report = TestReport::skipped(step.title.clone(), step.test.clone());
                    report.place(name, step);
                    progress.ended(&step.title, &report::pretty::test(&report));
                    reports.push(report);
                }
            }
            What::Stopping | What::Resumed => {}
            What::Ended { passed, message } => why = message.filter(|_| !passed),
            What::Interrupted => why = Some("the server went away while the suite was under way".to_owned()),
        }
    }
    // What ended the suite is part of a report, unless it happened outside of every step.
    let is_told = reports.iter().any(|report| !report.outcome.is_pass());
    if let Some(why) = why.filter(|_| !is_told) {
        let mut report = TestReport::skipped(name.to_owned(), id.to_owned());
        (report.outcome, report.ending) = (Outcome::Broken, Ending::Broken(why));
        report::out(&report::pretty::test(&report));
        reports.push(report);
    }
    Ok(())
}

/// The report of a test that was run: the last run in full, and what the earlier ones say.
///
/// Without `ended` there was only one, and it speaks for itself.
pub(super) async fn report(
    client: &Client,
    name: &str,
    id: &str,
    runs: &[(u64, String)],
    ended: Option<(series::Outcome, bool)>,
) -> anyhow::Result<TestReport> {
    let mut reports = Vec::new();
    for (run, trace_id) in runs {
        let events: Vec<_> = client.events(id, *run).try_collect().await?;
        reports.push(TestReport::fold(name.to_owned(), id.to_owned(), *run, trace_id.clone(), &events));
    }
    let mut report = match reports.pop() {
        Some(report) => report,
        None => TestReport::skipped(name.to_owned(), id.to_owned()),
    };
    report.earlier = reports;
    if let Some((outcome, recovered)) = ended {
        report.outcome = Outcome::of(outcome, recovered);
    }
    if report.outcome != Outcome::Passed {
        report.trace = client.trace(&report.trace_id).await?;
    }
    if !report.earlier.is_empty() {
        report.flakiness = client.flakiness(id).await?;
    }
    Ok(report)
}

/// Looks at a test again that was judged while others were under way: spans may have come since and changed the verdict,
/// which is shown then.
pub(super) async fn again(course: Course<'_>, mut report: TestReport) -> TestReport {
    if !matches!(report.ending, Ending::Judged(_)) {
        return report;
    }
    // Whoever cannot be asked any more has said what counts.
    let events: Result<Vec<_>, _> = course.client.events(&report.id, report.run).try_collect().await;
    let late = TestReport::fold(
        report.name.clone(),
        report.id.clone(),
        report.run,
        report.trace_id.clone(),
        &events.unwrap_or_default(),
    );
    if !late.is_corrected || report.is_corrected {
        return report;
    }
    report = TestReport { ending: late.ending, notes: late.notes, is_corrected: true, ..report };
    if report.earlier.is_empty() {
        report.outcome = late.outcome;
    }
    if report.outcome != Outcome::Passed && report.trace.is_none() {
        report.trace = course.client.trace(&report.trace_id).await.unwrap_or_default();
    }
    course.progress.ended(&report.name, &report::pretty::test(&report));
    report
}

impl TestReport {
    /// Says where in a suite it belongs.
    fn place(&mut self, suite: &str, step: &Step) {
        self.suite = Some(suite.to_owned());
        // A step without a name is called by the id of its test.
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
