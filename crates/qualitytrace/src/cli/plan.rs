//! The plan of a run: tests and suites from files, and their concurrent execution on a server.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use qualitytrace_core::definition::{Format, Resource, Spec, Test, TestSuite, Text, Trigger};
use qualitytrace_core::suite;
use qualitytrace_core::wait::CONFIRM;
use tokio::time::Instant;

use super::Exit;
use super::confirm;
use super::files::ids::IdWriter;
use super::files::references::{self, step_path};
use super::files::{self, File, NoDefinition};
use super::follow::{self, FailFast, RunContext, SeriesEnd};
use super::interrupt::Interrupt;
use super::parallel::{TriggerLimit, UnderWay};
use super::selection::{self, Candidate};
use crate::client::{Client, RunOptions};
use crate::report::progress::Progress;
use crate::report::{Level, Source, SpecLines, TestReport, visible};
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
    file: usize,
    document: usize,
    path: PathBuf,
    id: Option<String>,
    name: String,
    tags: Vec<String>,
    source: String,
    format: Format,
    is_step: bool,
    is_selected: bool,
}

/// A suite, and where it was found.
#[derive(Debug)]
struct FoundSuite {
    suite: TestSuite,
    file: usize,
    document: usize,
    /// The tests that it needs, each with the path of the step that names it, if it does so by path.
    tests: Vec<(Option<PathBuf>, usize)>,
    is_selected: bool,
}

/// How long the server of a run stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerLifetime {
    /// It ends with the run.
    Run,
    /// It can be looked at after the run: reports name addresses of its page.
    AfterRun,
    /// It outlives the command: generated ids are written into the files, too.
    Lasting,
}

/// How to run a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanOptions {
    /// Limit on concurrent triggers.
    pub(crate) parallel: usize,
    /// How long failures by absence are checked again; `None` leaves it to the polling profiles.
    pub(crate) confirm: Option<Duration>,
    /// Whether nothing new begins after a test that did not pass.
    pub(crate) fail_fast: bool,
    /// How long the server stays.
    pub(crate) stay: ServerLifetime,
    /// How much is shown of tests as they end.
    pub(crate) level: Level,
}

/// A stored test or suite.
#[derive(Debug)]
pub(crate) struct StoredRunnable {
    pub(crate) id: String,
    pub(crate) is_suite: bool,
}

impl Plan {
    /// Plans the tests of these files. Returns `None` when they have errors. `print` gets the diagnostics.
    ///
    /// Tests that are steps of one of the suites run in that suite only: they may need its outputs.
    /// `value` are the variables of the environment for files of steps.
    pub(crate) fn of(
        mut files: Vec<File>,
        value: impl Fn(&str) -> Option<String>,
        print: fn(&str),
    ) -> anyhow::Result<Option<Self>> {
        read_missing_steps(&mut files, value);
        files::find_twins(&mut files);
        for file in &files {
            print(&file.complaints());
        }
        if !files.iter().all(File::is_usable) {
            return Ok(None);
        }
        let mut plan = Self { files: Vec::new(), tests: Vec::new(), suites: Vec::new() };
        for (at, file) in files.iter().enumerate() {
            for (index, document) in file.reading.documents.iter().enumerate() {
                if let Resource::Test(test) = &document.resource {
                    let source = references::inlined(file, document)?;
                    plan.tests.push(found(file, test, (at, index), source));
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
            return Err(NoDefinition("the files hold no test; a test has `type: Test`".to_owned()).into());
        }
        Ok(Some(plan))
    }

    /// Whether a test of the files runs a command or a script on the server's machine.
    pub(crate) fn runs_commands(&self) -> bool {
        let mut documents = self.files.iter().flat_map(|file| &file.reading.documents);
        documents.any(|document| match &document.resource {
            Resource::Test(test) => {
                matches!(test.trigger, Some(Trigger::Exec(_) | Trigger::PlaywrightEngine(_)))
            }
            _ => false,
        })
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
        self.suites.push(FoundSuite { suite: suite.clone(), file, document, tests, is_selected: true });
    }

    /// The files.
    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    /// The ids that the files give to tests.
    pub(crate) fn ids(&self) -> BTreeSet<String> {
        self.tests.iter().filter_map(|test| test.id.clone()).collect()
    }

    /// Selects what is run.
    pub(crate) fn select(&mut self, selection: &selection::Options, ids: &[String]) -> anyhow::Result<()> {
        let alone: Vec<usize> = (0..self.tests.len()).filter(|at| !self.tests[*at].is_step).collect();
        let suites = self.suites.iter().map(|suite| self.candidate_of_suite(suite));
        let tests = alone.iter().map(|at| self.candidate_of_test(&self.tests[*at]));
        let candidates: Vec<Candidate> = suites.chain(tests).collect();
        let selected = selection.selected(ids, &candidates)?;
        let (suites, tests) = selected.split_at(self.suites.len());
        for (suite, is_selected) in self.suites.iter_mut().zip(suites) {
            suite.is_selected = *is_selected;
        }
        for (at, is_selected) in alone.into_iter().zip(tests) {
            self.tests[at].is_selected = *is_selected;
        }
        Ok(())
    }

    fn candidate_of_test(&self, test: &FoundTest) -> Candidate {
        let file = &self.files[test.file];
        let ids: Vec<String> = test.id.iter().cloned().collect();
        let named = references::paths(file, &file.reading.documents[test.document]);
        Candidate {
            name: test.name.clone(),
            words: ids.iter().chain([&test.name]).cloned().collect(),
            ids,
            tags: test.tags.clone(),
            paths: named.into_iter().chain([test.path.clone()]).collect(),
        }
    }

    fn candidate_of_suite(&self, found: &FoundSuite) -> Candidate {
        let file = &self.files[found.file];
        let mut all = Candidate { name: found.suite.name.clone(), ..Candidate::default() };
        all.ids.extend(found.suite.id.clone());
        all.words.extend(all.ids.iter().chain([&found.suite.name]).cloned());
        all.paths.push(file.path.clone());
        all.paths.extend(references::paths(file, &file.reading.documents[found.document]));
        all.tags.extend(found.suite.tags.iter().cloned());
        for (_, test) in &found.tests {
            let step = self.candidate_of_test(&self.tests[*test]);
            all.words.extend(step.words);
            all.ids.extend(step.ids);
            all.tags.extend(step.tags);
            all.paths.extend(step.paths);
        }
        all
    }

    /// Whether nothing is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.alone().next().is_none() && !self.suites.iter().any(|suite| suite.is_selected)
    }

    /// Prints what is selected, a line each.
    pub(crate) fn list(&self) -> Exit {
        let line = |kind: &str, path: &Path, id: Option<&str>, name: &str, tags: &[String]| {
            let id = id.map(|id| format!(" ({})", visible::text(id))).unwrap_or_default();
            let tags: Vec<String> = tags.iter().map(|tag| format!("  #{}", visible::text(tag))).collect();
            let tags = tags.concat();
            terminal::out(&format!("{kind:<5}  {}  {}{id}{tags}\n", path.display(), visible::text(name)));
        };
        for found in self.suites.iter().filter(|suite| suite.is_selected) {
            let TestSuite { id, name, tags, .. } = &found.suite;
            line("suite", &self.files[found.file].path, id.as_deref(), name, tags);
        }
        for test in self.alone() {
            line("test", &test.path, test.id.as_deref(), &test.name, &test.tags);
        }
        Exit::Passed
    }

    /// Where a test is defined.
    fn source(&self, test: &FoundTest) -> Source {
        let file = &self.files[test.file];
        let document = &file.reading.documents[test.document];
        let specs = match &document.resource {
            Resource::Test(test) => test.specs.as_slice(),
            _ => &[],
        };
        let line = |span: &Range<usize>| file.line(span.start);
        let first = line(&document.span);
        let of_text = |text: &Text| text.origin.as_ref().map_or(first, |origin| line(&origin.span));
        let lines = |spec: &Spec| SpecLines {
            line: of_text(&spec.selector),
            assertions: spec.assertions.iter().map(of_text).collect(),
        };
        let path = files::plain(&file.path).display().to_string();
        Source { path, line: first, specs: specs.iter().map(lines).collect() }
    }

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
        let progress = &Progress::start(steps.sum::<usize>() + self.alone().count(), manner.level);
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
            let (id, _) = self.store_suite(suite, client, Some(&ids)).await?;
            stored.push(StoredRunnable { id, is_suite: true });
        }
        for test in self.alone() {
            let id = self.store_test(test, client, Some(&ids)).await?;
            stored.push(StoredRunnable { id, is_suite: false });
        }
        Ok(stored)
    }

    /// The selected tests that are no steps of a suite.
    fn alone(&self) -> impl Iterator<Item = &FoundTest> {
        self.tests.iter().filter(|test| !test.is_step && test.is_selected)
    }

    /// Runs a suite; an error becomes a report once the server was reached.
    async fn run_suite(
        &self,
        found: &FoundSuite,
        context: RunContext<'_>,
        ids: Option<&IdWriter>,
    ) -> anyhow::Result<Vec<TestReport>> {
        let suite = &found.suite;
        let Some(trigger) = context.admit().await else {
            return Ok(vec![context.left_alone(&suite.name, suite.id.as_deref())]);
        };
        let carried_out = async {
            let (id, tests) = self.store_suite(found, context.client, ids).await?;
            let mut reports = Box::pin(follow::suite(context, &suite.name, &id, trigger)).await?;
            for report in &mut reports {
                let test = tests.iter().find(|(_, id)| **id == report.id);
                report.source = test.map(|(at, _)| self.source(&self.tests[*at]));
            }
            anyhow::Ok(reports)
        };
        let reports = match carried_out.await {
            Err(error) if context.client.was_reached() => {
                let id = suite.id.as_deref().unwrap_or_default();
                vec![context.without_result(&suite.name, id, &error)]
            }
            reports => reports?,
        };
        context.halt.note(&reports);
        Ok(reports)
    }

    /// Stores a suite and its tests; returns its id and theirs.
    async fn store_suite(
        &self,
        found: &FoundSuite,
        client: &Client,
        ids: Option<&IdWriter>,
    ) -> anyhow::Result<(String, HashMap<usize, String>)> {
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
        Ok((id, stored))
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
            return Ok(vec![context.left_alone(&test.name, test.id.as_deref())]);
        };
        context.progress.began(&test.name);
        let carried_out = async {
            let id = self.store_test(test, context.client, ids).await?;
            follow_test(context, &test.name, &id, trigger).await
        };
        let report = match carried_out.await {
            Ok(mut report) => {
                report.source = Some(self.source(test));
                context.progress.ended(&test.name, &report);
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

/// Runs a stored test and follows it to its end.
async fn follow_test(
    context: RunContext<'_>,
    name: &str,
    id: &str,
    trigger: UnderWay<'_>,
) -> anyhow::Result<TestReport> {
    let client = context.client;
    let run = client.start(id, context.wanted).await?;
    let end = async {
        if run.series.is_some() {
            let series = follow::series(context, name, id, run.number, trigger).await?;
            let ended = SeriesEnd::of(&series);
            let attempts: Vec<_> = series.runs.into_iter().map(|run| (run.run, run.trace_id)).collect();
            follow::report(context, name, id, &attempts, Some(ended), None).await
        } else {
            let attempts = [(run.number, run.trace_id.clone())];
            follow::report(context, name, id, &attempts, None, Some(trigger)).await
        }
    };
    let report = context.interrupt.follow(end, async || client.stop(id, &run).await).await;
    report.with_context(|| client.unfinished_test(id, run.number))
}

fn found(file: &File, test: &Test, at: (usize, usize), source: String) -> FoundTest {
    let name = if test.name.is_empty() { file.path.display().to_string() } else { test.name.clone() };
    let (path, id, format) = (file.path.clone(), test.id.clone(), file.format);
    let ((file, document), is_step, is_selected, tags) = (at, false, true, test.tags.clone());
    FoundTest { file, document, path, id, name, tags, source, format, is_step, is_selected }
}

/// The suites of a file, with their indices.
fn suites(file: &File) -> impl Iterator<Item = (usize, &TestSuite)> {
    file.reading.documents.iter().enumerate().filter_map(|(at, document)| match &document.resource {
        Resource::TestSuite(suite) => Some((at, suite)),
        _ => None,
    })
}

/// Reads the step files of suites that were not named themselves. Unreadable ones are reported where they are named.
fn read_missing_steps(files: &mut Vec<File>, value: impl Fn(&str) -> Option<String>) {
    let mut paths = Vec::new();
    for at in 0..files.len() {
        let is_known = |path: &Path| files.iter().any(|file| same_file(&file.path, path));
        let missing = references::missing_steps(&files[at], is_known);
        paths.extend(references::step_paths(&files[at]));
        files[at].reading.diagnostics.extend(missing);
    }
    for path in paths {
        if !files.iter().any(|file| same_file(&file.path, &path))
            && let Ok(file) = File::read_expanded(&path, &value)
        {
            files.push(file);
        }
    }
}

pub(super) fn same_file(a: &Path, b: &Path) -> bool {
    let plain = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.components().collect());
    plain(a) == plain(b)
}
