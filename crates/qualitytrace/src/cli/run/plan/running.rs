//! The run of a plan: its tests and suites are stored on a server, and carried out at the same time.

use std::collections::HashMap;

use anyhow::Context;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use qualitytrace_core::suite;
use qualitytrace_core::wait::CONFIRM;
use tokio::time::Instant;

use super::super::confirm;
use super::super::follow::{self, FailFast, RunContext, SeriesEnd};
use super::super::interrupt::Interrupt;
use super::super::parallel::{TriggerLimit, UnderWay};
use super::{FoundSuite, FoundTest, Plan, PlanOptions, ServerLifetime, StoredRunnable};
use crate::cli::files::ids::IdWriter;
use crate::cli::files::references;
use crate::client::{Client, RunOptions};
use crate::report::TestReport;
use crate::report::progress::{LineNumber, Progress};

impl Plan {
    /// Runs what is selected, with a limit on concurrent triggers, and shows each test as it ends.
    pub(crate) async fn run(
        &self,
        client: &Client,
        wanted: &RunOptions,
        manner: PlanOptions,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Vec<TestReport>> {
        let suites = || self.suites.iter().filter(|suite| suite.is_selected);
        let steps = suites().map(|suite| suite::Plan::of(&suite.suite).steps.len());
        let steps = steps.sum::<usize>() * wanted.rounds() as usize;
        let progress = &Progress::start(steps + self.alone().count(), manner.level);
        let limit = &TriggerLimit::new(manner.parallel);
        let halt = &FailFast::new(manner.fail_fast);
        let ids = IdWriter::default();
        let ids = (manner.stay == ServerLifetime::Lasting).then_some(&ids);
        let has_page = manner.stay != ServerLifetime::Run && client.has_page().await;
        let context = RunContext { client, wanted, progress, interrupt, limit, halt, has_page };
        let suites = suites().map(|suite| self.run_suite(suite, context, ids).boxed());
        let tests = self.alone().map(|test| self.run_test(test, context, ids).boxed());
        // To stop at a failure, the verdicts of the tests before must be known.
        let at_a_time = if manner.fail_fast { manner.parallel.max(1) } else { limit.followed() };
        let all = futures_util::stream::iter(suites.chain(tests)).buffered(at_a_time);
        let mut all = std::pin::pin!(all.try_collect::<Vec<Vec<TestReport>>>());
        let carried_out = async {
            let reports = tokio::select! {
                reports = &mut all => reports?,
                () = interrupt.raised() => {
                    client.hurry();
                    all.await?
                }
            };
            let began = Instant::now();
            let again = reports.into_iter().flatten().map(|report| {
                let until = began + manner.confirm.or(report.confirm).unwrap_or(CONFIRM);
                confirm::confirmed(context, report, until)
            });
            Ok(futures_util::stream::iter(again).buffered(manner.parallel.max(1)).collect().await)
        };
        tokio::select! {
            reports = carried_out => reports,
            never = progress.keep_drawing() => match never {},
        }
    }

    /// Stores everything that is selected on a server, in the order of the files.
    pub(crate) async fn store(&self, client: &Client) -> anyhow::Result<Vec<StoredRunnable>> {
        let ids = IdWriter::default();
        let mut stored = Vec::new();
        for suite in self.suites.iter().filter(|suite| suite.is_selected) {
            let StoredSuite { id, .. } = self.store_suite(suite, client, Some(&ids)).await?;
            stored.push(StoredRunnable { id, is_suite: true });
        }
        for test in self.alone() {
            let id = self.store_test(test, client, Some(&ids)).await?;
            stored.push(StoredRunnable { id, is_suite: false });
        }
        Ok(stored)
    }

    /// Runs a suite, as often as `--repeat` says: from its first step on each time.
    async fn run_suite(
        &self,
        found: &FoundSuite,
        context: RunContext<'_>,
        ids: Option<&IdWriter>,
    ) -> anyhow::Result<Vec<TestReport>> {
        let once = RunOptions { repeat: None, ..context.wanted.clone() };
        let rounds = context.wanted.rounds();
        let context = RunContext { wanted: &once, ..context };
        let mut stored = None;
        let mut reports = Vec::new();
        for round in 1..=rounds {
            let name = &found.suite.name;
            let name = if rounds == 1 { name.clone() } else { format!("{name} ({round} of {rounds})") };
            reports.extend(self.run_suite_once(found, &name, context, ids, &mut stored).await?);
        }
        Ok(reports)
    }

    /// Runs a suite, and stores it before if that was not done; an error becomes a report once the server was reached.
    async fn run_suite_once(
        &self,
        found: &FoundSuite,
        name: &str,
        context: RunContext<'_>,
        ids: Option<&IdWriter>,
        stored: &mut Option<StoredSuite>,
    ) -> anyhow::Result<Vec<TestReport>> {
        let id = found.suite.id.as_deref();
        let Some(trigger) = context.admit().await else {
            let steps = suite::Plan::of(&found.suite).steps.len();
            return Ok(vec![context.left_alone(name, id, steps)]);
        };
        let carried_out = async {
            let suite = match stored {
                Some(stored) => stored,
                None => stored.insert(self.store_suite(found, context.client, ids).await?),
            };
            let mut reports = Box::pin(follow::suite(context, name, &suite.id, trigger)).await?;
            for report in &mut reports {
                let test = suite.tests.iter().find(|(_, id)| **id == report.id);
                report.source = test.map(|(at, _)| self.source(&self.tests[*at]));
            }
            anyhow::Ok(reports)
        };
        let reports = match carried_out.await {
            Err(error) if context.client.was_reached() => {
                vec![context.without_result(name, id.unwrap_or_default(), &error)]
            }
            reports => reports?,
        };
        context.halt.note(&reports);
        Ok(reports)
    }

    /// Stores a suite and its tests.
    async fn store_suite(
        &self,
        found: &FoundSuite,
        client: &Client,
        ids: Option<&IdWriter>,
    ) -> anyhow::Result<StoredSuite> {
        let (file, suite) = (&self.files[found.file], &found.suite);
        let mut stored: HashMap<usize, String> = HashMap::new();
        let mut of_paths = HashMap::new();
        for (path, at) in &found.tests {
            let id = match stored.get(at) {
                Some(id) => id.clone(),
                None => self.store_test(&self.tests[*at], client, ids).await?,
            };
            stored.insert(*at, id.clone());
            if let Some(path) = path {
                of_paths.insert(path.clone(), id);
            }
        }
        let text = references::suite(file, &file.reading.documents[found.document], suite, &of_paths)?;
        let id = client.put_suite(&text, file.format).await?;
        if let Some(ids) = ids.filter(|_| suite.id.is_none()) {
            ids.write(file, found.document, &id);
        }
        Ok(StoredSuite { id, tests: stored })
    }

    async fn store_test(
        &self,
        test: &FoundTest,
        client: &Client,
        ids: Option<&IdWriter>,
    ) -> anyhow::Result<String> {
        let id = client.put_test(&test.source, test.format).await?;
        if let Some(ids) = ids.filter(|_| test.id.is_none()) {
            ids.write(&self.files[test.file], test.document, &id);
        }
        Ok(id)
    }

    /// Runs a test; an error becomes a report once the server was reached.
    async fn run_test(
        &self,
        test: &FoundTest,
        context: RunContext<'_>,
        ids: Option<&IdWriter>,
    ) -> anyhow::Result<Vec<TestReport>> {
        let Some(trigger) = context.admit().await else {
            return Ok(vec![context.left_alone(&test.name, test.id.as_deref(), 1)]);
        };
        let line = context.progress.began(&test.name);
        let carried_out = async {
            let id = self.store_test(test, context.client, ids).await?;
            follow_test(context, (&test.name, &id), line.number, trigger).await
        };
        let carried_out = carried_out.await;
        drop(line);
        let report = match carried_out {
            Ok(mut report) => {
                report.source = Some(self.source(test));
                context.progress.ended(1, &report);
                report
            }
            Err(error) if context.client.was_reached() => {
                let id = test.id.as_deref().unwrap_or_default();
                context.without_result(&test.name, id, &error)
            }
            Err(error) => return Err(error),
        };
        let reports = vec![report];
        context.halt.note(&reports);
        Ok(reports)
    }
}

/// A suite as a server has it.
#[derive(Debug)]
struct StoredSuite {
    id: String,
    /// The ids of its tests, by their places in the plan.
    tests: HashMap<usize, String>,
}

/// Runs a stored test and follows it to its end.
async fn follow_test(
    context: RunContext<'_>,
    (name, id): (&str, &str),
    line: LineNumber,
    trigger: UnderWay<'_>,
) -> anyhow::Result<TestReport> {
    let (client, line) = (context.client, Some(line));
    let run = client.start(id, context.wanted).await?;
    let end = async {
        if run.series.is_some() {
            let series = follow::series(context, line, id, run.number, trigger).await?;
            let ended = SeriesEnd::of(&series);
            let attempts: Vec<_> = series.runs.into_iter().map(|run| (run.run, run.trace_id)).collect();
            follow::report(context, (name, id), line, &attempts, Some(ended), None).await
        } else {
            let attempts = [(run.number, run.trace_id.clone())];
            follow::report(context, (name, id), line, &attempts, None, Some(trigger)).await
        }
    };
    let report = context.interrupt.follow(end, async || client.stop(id, &run).await).await;
    report.with_context(|| client.unfinished_test(id, run.number))
}
