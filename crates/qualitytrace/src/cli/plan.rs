//! The plan of a run: tests and suites from files, and their concurrent execution on a server.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use qualitytrace_core::definition::{Format, Resource, Test, TestSuite};
use qualitytrace_core::suite;
use qualitytrace_core::wait::CONFIRM;
use qualitytrace_server::wire::series;
use tokio::time::Instant;

use super::files::references::{self, step_path};
use super::files::{self, File};
use super::follow::{self, RunContext};
use super::interrupt::Interrupt;
use super::parallel::{TriggerLimit, UnderWay};
use crate::client::{Client, Wanted};
use crate::report::progress::Progress;
use crate::report::{self, TestReport};
use crate::terminal;

/// The tests and suites to run.
#[derive(Debug)]
pub(crate) struct Plan {
    files: Vec<File>,
    tests: Vec<FoundTest>,
    suites: Vec<FoundSuite>,
}

/// A test, and where it was found.
#[derive(Debug)]
struct FoundTest {
    path: PathBuf,
    id: Option<String>,
    name: String,
    source: String,
    format: Format,
    is_step: bool,
}

/// A suite, and where it was found.
#[derive(Debug)]
struct FoundSuite {
    suite: TestSuite,
    file: usize,
    document: usize,
    /// The tests that it needs, each with the path of the step that names it, if it does so by path.
    tests: Vec<(Option<PathBuf>, usize)>,
}

impl Plan {
    /// Plans the tests of these files. Returns `None` when they have errors, which are printed.
    ///
    /// Tests that are steps of one of the suites run in that suite only: they may need its outputs.
    pub(crate) fn of(mut files: Vec<File>) -> anyhow::Result<Option<Self>> {
        read_missing_steps(&mut files);
        files::find_twins(&mut files);
        for file in &files {
            terminal::out(&file.complaints());
        }
        if !files.iter().all(File::is_usable) {
            return Ok(None);
        }
        let mut plan = Self { files: Vec::new(), tests: Vec::new(), suites: Vec::new() };
        for file in &files {
            for document in &file.reading.documents {
                if let Resource::Test(test) = &document.resource {
                    plan.tests.push(found(file, test, references::inlined(file, document)?));
                }
            }
        }
        for (at, file) in files.iter().enumerate() {
            for (document, suite) in suites(file) {
                plan.add_suite(at, document, &file.path, suite);
            }
        }
        plan.files = files;
        if plan.tests.is_empty() && plan.suites.is_empty() {
            bail!("the files hold no test; a test has `type: Test`");
        }
        Ok(Some(plan))
    }

    fn add_suite(&mut self, file: usize, document: usize, path: &Path, suite: &TestSuite) {
        let mut tests = Vec::new();
        for step in suite.all_steps() {
            let path = step_path(path, step);
            let known = self.tests.iter().position(|test| match &path {
                Some(path) => same_file(&test.path, path),
                None => test.id.as_deref() == Some(&step.test.value),
            });
            if let Some(test) = known {
                self.tests[test].is_step = true;
                tests.push((path, test));
            }
        }
        self.suites.push(FoundSuite { suite: suite.clone(), file, document, tests });
    }

    /// The files.
    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    /// The ids that the files give to tests.
    pub(crate) fn ids(&self) -> BTreeSet<String> {
        self.tests.iter().filter_map(|test| test.id.clone()).collect()
    }

    /// Runs everything, with a limit on concurrent triggers, and shows each test as it ends.
    pub(crate) async fn run(
        &self,
        client: &Client,
        wanted: &Wanted,
        parallel: usize,
        confirm: Option<Duration>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Vec<TestReport>> {
        let alone = || self.tests.iter().filter(|test| !test.is_step);
        let steps = self.suites.iter().map(|suite| suite::Plan::of(&suite.suite).steps.len());
        let progress = &Progress::start(steps.sum::<usize>() + alone().count());
        let limit = &TriggerLimit::new(parallel);
        let context = RunContext { client, wanted, progress, interrupt, limit };
        let suites = self.suites.iter().map(|suite| self.run_suite(suite, context).boxed());
        let tests = alone().map(|test| test.run(context).boxed());
        let all = futures_util::stream::iter(suites.chain(tests)).buffered(limit.followed());
        let mut all = std::pin::pin!(all.try_collect::<Vec<Vec<TestReport>>>());
        let reports = tokio::select! {
            reports = &mut all => reports?,
            () = interrupt.raised() => {
                client.hurry();
                all.await?
            }
        };
        let began = Instant::now();
        let again = reports.into_iter().flatten().map(|report| {
            let until = began + confirm.or(report.confirm).unwrap_or(CONFIRM);
            follow::confirmed(context, report, until)
        });
        Ok(futures_util::stream::iter(again).buffered(parallel.max(1)).collect().await)
    }

    /// Runs a suite; an error becomes a report once the server was reached.
    async fn run_suite(
        &self,
        found: &FoundSuite,
        context: RunContext<'_>,
    ) -> anyhow::Result<Vec<TestReport>> {
        let suite = &found.suite;
        let Some(trigger) = context.admit().await else {
            return Ok(vec![context.left_alone(&suite.name, suite.id.as_deref())]);
        };
        match Box::pin(self.carry_out(found, context, trigger)).await {
            Err(error) if context.client.was_reached() => {
                let id = suite.id.as_deref().unwrap_or_default();
                Ok(vec![context.without_result(&suite.name, id, &error)])
            }
            reports => reports,
        }
    }

    async fn carry_out(
        &self,
        found: &FoundSuite,
        context: RunContext<'_>,
        trigger: UnderWay<'_>,
    ) -> anyhow::Result<Vec<TestReport>> {
        let (file, suite, client) = (&self.files[found.file], &found.suite, context.client);
        let mut stored: HashMap<usize, String> = HashMap::new();
        let mut ids = HashMap::new();
        for (path, at) in &found.tests {
            let id = match stored.get(at) {
                Some(id) => id.clone(),
                None => client.put_test(&self.tests[*at].source, self.tests[*at].format).await?,
            };
            stored.insert(*at, id.clone());
            if let Some(path) = path {
                ids.insert(path.clone(), id);
            }
        }
        let text = references::suite(file, &file.reading.documents[found.document], suite, &ids)?;
        let id = client.put_suite(&text, file.format).await?;
        follow::suite(context, &suite.name, &id, trigger).await
    }
}

impl FoundTest {
    /// Runs a test; an error becomes a report once the server was reached.
    async fn run(&self, context: RunContext<'_>) -> anyhow::Result<Vec<TestReport>> {
        let Some(trigger) = context.admit().await else {
            return Ok(vec![context.left_alone(&self.name, self.id.as_deref())]);
        };
        context.progress.began(&self.name);
        let report = match self.carry_out(context, trigger).await {
            Ok(report) => report,
            Err(error) if context.client.was_reached() => {
                let id = self.id.as_deref().unwrap_or_default();
                return Ok(vec![context.without_result(&self.name, id, &error)]);
            }
            Err(error) => return Err(error),
        };
        context.progress.ended(&self.name, &report::pretty::test(&report));
        Ok(vec![report])
    }

    async fn carry_out(&self, context: RunContext<'_>, trigger: UnderWay<'_>) -> anyhow::Result<TestReport> {
        let client = context.client;
        let id = client.put_test(&self.source, self.format).await?;
        let run = client.start(&id, context.wanted).await?;
        let end = async {
            if run.series.is_some() {
                let series = follow::series(context, &id, run.number, trigger).await?;
                let ended = (series.outcome.unwrap_or(series::Outcome::Broken), series.recovered);
                let attempts: Vec<_> = series.runs.into_iter().map(|run| (run.run, run.trace_id)).collect();
                follow::report(context, &self.name, &id, &attempts, Some(ended), None).await
            } else {
                let attempts = [(run.number, run.trace_id.clone())];
                follow::report(context, &self.name, &id, &attempts, None, Some(trigger)).await
            }
        };
        let report = context.interrupt.follow(end, async || client.stop(&id, &run).await).await;
        report.with_context(|| client.unfinished_test(&id, run.number))
    }
}

fn found(file: &File, test: &Test, source: String) -> FoundTest {
    let name = if test.name.is_empty() { file.path.display().to_string() } else { test.name.clone() };
    let (path, id, format) = (file.path.clone(), test.id.clone(), file.format);
    FoundTest { path, id, name, source, format, is_step: false }
}

/// The suites of a file, with their indices.
fn suites(file: &File) -> impl Iterator<Item = (usize, &TestSuite)> {
    file.reading.documents.iter().enumerate().filter_map(|(at, document)| match &document.resource {
        Resource::TestSuite(suite) => Some((at, suite)),
        _ => None,
    })
}

/// Reads the step files of suites that were not named themselves. Unreadable ones are reported where they are named.
fn read_missing_steps(files: &mut Vec<File>) {
    let mut paths = Vec::new();
    for at in 0..files.len() {
        let is_known = |path: &Path| files.iter().any(|file| same_file(&file.path, path));
        let missing = references::missing_steps(&files[at], is_known);
        for (_, suite) in suites(&files[at]) {
            let steps = suite.all_steps();
            paths.extend(steps.filter_map(|step| step_path(&files[at].path, step)));
        }
        files[at].reading.diagnostics.extend(missing);
    }
    for path in paths {
        if !files.iter().any(|file| same_file(&file.path, &path))
            && let Ok(file) = File::read(&path)
        {
            files.push(file);
        }
    }
}

pub(super) fn same_file(a: &Path, b: &Path) -> bool {
    let plain = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.components().collect());
    plain(a) == plain(b)
}
