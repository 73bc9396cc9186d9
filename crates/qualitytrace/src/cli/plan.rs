//! What is to be run, in which order, and carrying it out: tests on their own at one time, the steps of a suite one
//! after the other, each with the outputs of those before it.

use std::path::{Path, PathBuf};

use anyhow::bail;
use futures_util::{StreamExt, TryStreamExt};
use qualitytrace_core::definition::{Format, Resource, Test, TestSuite};
use qualitytrace_server::wire::Outcome;

use super::files::File;
use super::references;
use crate::client::Client;
use crate::report::progress::Progress;
use crate::report::{self, Ending, TestReport};

/// Names and values of variables.
type Variables = Vec<(String, String)>;

/// What is to be run.
#[derive(Debug)]
pub(crate) struct Plan {
    sequences: Vec<Sequence>,
}

/// Tests that follow one another: the steps of a suite, or one test on its own.
#[derive(Debug)]
struct Sequence {
    suite: Option<String>,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
struct Step {
    name: String,
    test: StepTest,
}

/// Where a step's test comes from.
#[derive(Debug, Clone)]
enum StepTest {
    /// A definition, sent to the server first.
    Defined { source: String, format: Format },
    /// A test that the server knows already.
    Stored { id: String },
}

/// A test that was read, and where.
struct Found {
    path: PathBuf,
    id: Option<String>,
    step: Step,
    is_step: bool,
}

impl Plan {
    /// Plans the tests of these files. `None` when something is wrong with them, which has been said by then.
    ///
    /// Tests that are steps of a suite among them run in that suite only: they may need its outputs.
    pub(crate) fn of(mut files: Vec<File>) -> anyhow::Result<Option<Self>> {
        read_missing_steps(&mut files)?;
        for file in &files {
            report::out(&file.complaints());
        }
        if !files.iter().all(File::is_usable) {
            return Ok(None);
        }
        let mut tests = Vec::new();
        let mut suites = Vec::new();
        for file in &files {
            for document in &file.reading.documents {
                match &document.resource {
                    Resource::Test(test) => {
                        tests.push(found(file, test, references::inlined(file, document)?));
                    }
                    Resource::TestSuite(suite) => suites.push((&file.path, suite)),
                    Resource::VariableSet(_)
                    | Resource::DataStore(_)
                    | Resource::PollingProfile(_)
                    | Resource::Analyzer(_)
                    | Resource::TestRunner(_)
                    | Resource::Config(_)
                    | Resource::Demo(_) => {}
                }
            }
        }
        let mut sequences: Vec<Sequence> =
            suites.into_iter().map(|(path, suite)| sequence(path, suite, &mut tests)).collect();
        let alone = tests.into_iter().filter(|test| !test.is_step);
        sequences.extend(alone.map(|test| Sequence { suite: None, steps: vec![test.step] }));
        if sequences.is_empty() {
            bail!("the files hold no test; a test has `type: Test`");
        }
        Ok(Some(Self { sequences }))
    }

    /// Runs everything, as much at a time as allowed, and shows each test as it ends.
    pub(crate) async fn run(
        &self,
        client: &Client,
        variables: &Variables,
        parallel: usize,
    ) -> anyhow::Result<Vec<TestReport>> {
        let total = self.sequences.iter().map(|sequence| sequence.steps.len()).sum();
        let progress = Progress::start(total);
        let runs = self.sequences.iter().map(|sequence| sequence.run(client, variables.clone(), &progress));
        let reports: Vec<Vec<TestReport>> =
            futures_util::stream::iter(runs).buffered(parallel.max(1)).try_collect().await?;
        Ok(reports.into_iter().flatten().collect())
    }
}

impl Sequence {
    async fn run(
        &self,
        client: &Client,
        mut variables: Variables,
        progress: &Progress,
    ) -> anyhow::Result<Vec<TestReport>> {
        let mut reports = Vec::new();
        for step in &self.steps {
            progress.began(&step.name);
            let mut report = step.run(client, &variables).await?;
            report.suite.clone_from(&self.suite);
            progress.ended(&step.name, &report::pretty::test(&report));
            if let Ending::Judged(verdict) = &report.ending {
                variables
                    .extend(verdict.outputs.iter().map(|output| (output.name.clone(), output.value.clone())));
            }
            let is_broken = matches!(report.ending, Ending::Broken(_));
            reports.push(report);
            // Later steps would run on values that were never made.
            if is_broken {
                break;
            }
        }
        Ok(reports)
    }
}

impl Step {
    async fn run(&self, client: &Client, variables: &Variables) -> anyhow::Result<TestReport> {
        let id = match &self.test {
            StepTest::Defined { source, format } => client.put_test(source, *format).await?,
            StepTest::Stored { id } => id.clone(),
        };
        let run = client.start(&id, variables).await?;
        let events: Vec<_> = client.events(&id, run.number).await?.try_collect().await?;
        let mut report = TestReport::fold(self.name.clone(), id, run.number, run.trace_id.clone(), &events);
        if report.outcome() != Outcome::Passed {
            report.trace = client.trace(&run.trace_id).await?;
        }
        Ok(report)
    }
}

fn found(file: &File, test: &Test, source: String) -> Found {
    let name = if test.name.is_empty() { file.path.display().to_string() } else { test.name.clone() };
    Found {
        path: file.path.clone(),
        id: test.id.clone(),
        step: Step { name, test: StepTest::Defined { source, format: file.format } },
        is_step: false,
    }
}

/// The steps of a suite: files among those read, or tests that the server knows.
fn sequence(path: &Path, suite: &TestSuite, tests: &mut [Found]) -> Sequence {
    let steps = suite.steps.iter().map(|step| {
        let file = step_path(path, &step.value);
        let known = tests.iter_mut().find(|test| match &file {
            Some(file) => same_file(&test.path, file),
            None => test.id.as_deref() == Some(&step.value),
        });
        match known {
            Some(test) => {
                test.is_step = true;
                test.step.clone()
            }
            None => Step { name: step.value.clone(), test: StepTest::Stored { id: step.value.clone() } },
        }
    });
    Sequence { suite: Some(suite.name.clone()), steps: steps.collect() }
}

/// Reads the step files of suites that were not named themselves.
fn read_missing_steps(files: &mut Vec<File>) -> anyhow::Result<()> {
    let mut wanted = Vec::new();
    for file in files.iter() {
        for document in &file.reading.documents {
            if let Resource::TestSuite(suite) = &document.resource {
                wanted.extend(suite.steps.iter().filter_map(|step| step_path(&file.path, &step.value)));
            }
        }
    }
    for path in wanted {
        if !files.iter().any(|file| same_file(&file.path, &path)) {
            files.push(File::read(&path)?);
        }
    }
    Ok(())
}

/// The file that a step names, relative to the suite's; `None` when the step is an id.
pub(crate) fn step_path(suite: &Path, step: &str) -> Option<PathBuf> {
    let is_path = ["./", "../", "/"].iter().any(|start| step.starts_with(start));
    is_path.then(|| suite.parent().unwrap_or(Path::new("")).join(step))
}

fn same_file(a: &Path, b: &Path) -> bool {
    let plain = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.components().collect());
    plain(a) == plain(b)
}
