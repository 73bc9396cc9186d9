//! `run` as Tracetest's command line has it: files by `-f` or stored tests by `--id`, on a server, with its result text.

pub(in crate::cli) mod deprecated;
mod junit;
mod result;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use futures_util::TryStreamExt;
use qualitytrace_core::definition::Kind;
use qualitytrace_server::wire::series::Series;
use qualitytrace_server::wire::suite::{INTERRUPTED, Part, SuiteEventKind};

use super::confirm::until_certain;
use super::follow::SeriesEnd;
use super::interrupt::Interrupt;
use super::plan::StoredRunnable;
use crate::cli::Exit;
use crate::cli::target::Output;
use crate::client::answer;
use crate::client::resources::Form;
use crate::client::{Client, EndedRun, MissingVariablesError, RunOptions, StartedRun};
use crate::report::Outcome;
use crate::terminal;
use result::{SuiteResult, TestResult};

/// The words that may come before `-f` or `--id`, and whether they mean a suite.
const RESOURCES: [(&str, bool); 3] = [("test", false), ("testsuite", true), ("transaction", true)];

/// Flags of Tracetest's `run`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Definition to run on the server, as `tracetest` takes it; may be given more than once
    #[arg(
        long = "file",
        short,
        value_name = "FILE",
        value_delimiter = ',',
        help_heading = "As in tracetest"
    )]
    pub(crate) files: Vec<PathBuf>,
    /// Stored test or suite to run, after `test` or `testsuite`; with files, which of their tests to run
    #[arg(long = "id", value_name = "ID", value_delimiter = ',', help_heading = "As in tracetest")]
    pub(crate) ids: Vec<String>,
    /// Do not wait for results: start the runs and exit
    #[arg(long, short = 'W', help_heading = "As in tracetest")]
    pub(crate) skip_result_wait: bool,
    /// Run group of the hosted service, passed on to the server
    #[arg(long, short, value_name = "ID", hide = true)]
    pub(crate) group: Option<String>,
    /// The old name of --vars
    #[arg(long, short, value_name = "FILE|ID", hide = true)]
    pub(crate) environment: Option<String>,
}

/// What is to be run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RunSubject {
    /// Files and folders, with our own report.
    Paths(Vec<PathBuf>),
    /// Files, with Tracetest's result text.
    Files(Vec<PathBuf>),
    /// Stored tests or suites.
    Stored { ids: Vec<String>, is_suite: bool },
}

impl Flags {
    /// Reads what is to be run; the error lists the flags that do not fit.
    pub(crate) fn asked(
        &self,
        paths: &[PathBuf],
        exists: impl Fn(&Path) -> bool,
    ) -> Result<RunSubject, Vec<String>> {
        let word = paths.first().and_then(|path| path.to_str()).and_then(resource);
        let given = !self.files.is_empty() || !self.ids.is_empty();
        let (word, rest) = match word {
            // Without these flags, a folder called `test` is meant.
            Some(word) if given || !exists(&paths[0]) => (Some(word), &paths[1..]),
            _ => (None, paths),
        };
        let mut wrong = Vec::new();
        match (self.files.as_slice(), self.ids.as_slice(), rest, word) {
            ([], [], [], None) => {
                wrong.push(
                    "[resource] name what to run: `qualitytrace run tests/`, or `paths` under `run` in qualitytrace.yaml; \
                     `qualitytrace new URL` writes a first test"
                        .to_owned(),
                );
            }
            ([], [], [], Some(_)) => {
                wrong.push(
                    "[resource] you must specify at least one definition file or resource ID".to_owned(),
                );
            }
            ([_, ..], [_, ..], _, _) => {
                wrong.push("[resource] you cannot specify both a definition file and resource ID".to_owned());
            }
            ([_, ..], [], [path, ..], _) => {
                wrong.push(format!("[file] write `{}` after -f, or leave out -f", path.display()));
            }
            ([_, ..], [], [], _) => return Ok(RunSubject::Files(self.files.clone())),
            ([], [_, ..], [], Some(is_suite)) => {
                return Ok(RunSubject::Stored { ids: self.ids.clone(), is_suite });
            }
            ([], [_, ..], [], None) => {
                wrong.push("[resource] name the kind before --id: test or testsuite".to_owned());
            }
            ([], _, [_, ..], _) => return Ok(RunSubject::Paths(rest.to_vec())),
        }
        Err(wrong)
    }
}

/// Whether a word means a suite; `None` when it is no resource that can be run.
fn resource(word: &str) -> Option<bool> {
    RESOURCES.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, is_suite)| *is_suite)
}

/// Checks that stored tests or suites exist.
pub(crate) async fn stored(
    client: &Client,
    ids: &[String],
    is_suite: bool,
) -> anyhow::Result<Vec<StoredRunnable>> {
    let (kind, word) = if is_suite { (Kind::TestSuite, "testsuite") } else { (Kind::Test, "test") };
    let mut found = Vec::new();
    for id in ids {
        if client.resource(kind, id, Form::Json).await?.is_none() {
            bail!("Resource {word} with ID {id} not found");
        }
        found.push(StoredRunnable { id: id.clone(), is_suite });
    }
    Ok(found)
}

/// How to run them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LegacyRunOptions<'a> {
    pub(crate) output: Output,
    /// Whether only to start them.
    pub(crate) skip_wait: bool,
    /// The file of the JUnit report.
    pub(crate) junit: Option<&'a Path>,
    /// How long failures by absence are checked again; `None` leaves it to the polling profiles.
    pub(crate) confirm: Option<Duration>,
    /// Whether nothing new begins after one that did not pass.
    pub(crate) fail_fast: bool,
    /// Whether a test that passed only after a retry counts as failed.
    pub(crate) fail_on_flaky: bool,
}

/// Runs them one after the other, and prints the result of each.
pub(crate) async fn run(
    client: &Client,
    runnables: &[StoredRunnable],
    mut wanted: RunOptions,
    LegacyRunOptions { output, skip_wait, junit, confirm, fail_fast, fail_on_flaky }: LegacyRunOptions<'_>,
) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::listen();
    let (mut ended, mut reports) = (Vec::new(), Vec::new());
    for runnable in runnables {
        if interrupt.is_raised() || (fail_fast && !ended.iter().all(LegacyResult::passed)) {
            break;
        }
        let run = start(client, runnable, &mut wanted).await?;
        let gates = wanted.gates().to_vec();
        let certainty = Certainty { client, gates: &gates, confirm, fail_on_flaky, interrupt: &interrupt };
        let result = if runnable.is_suite {
            suite(certainty, &runnable.id, &run, skip_wait).await?
        } else {
            LegacyResult::Test(test(certainty, &runnable.id, &run, skip_wait).await?)
        };
        terminal::out(&result.shown(output)?);
        if junit.is_some() {
            for (test, run) in result.runs() {
                reports.push(client.junit(test, run).await?);
            }
        }
        ended.push(result);
    }
    if let Some(path) = junit {
        std::fs::write(path, junit::merged(reports))
            .with_context(|| format!("failed to write the JUnit report {}", path.display()))?;
    }
    Ok(if interrupt.is_raised() {
        Exit::Interrupted
    } else if ended.iter().all(LegacyResult::passed) {
        Exit::Passed
    } else if ended.iter().all(|ended| ended.passed() || ended.is_inconclusive()) {
        Exit::Inconclusive
    } else {
        Exit::NotPassed
    })
}

/// Starts a run. Missing variables are asked for where the user can answer.
async fn start(
    client: &Client,
    runnable: &StoredRunnable,
    wanted: &mut RunOptions,
) -> anyhow::Result<StartedRun> {
    loop {
        let started = if runnable.is_suite {
            client.start_suite(&runnable.id, wanted).await
        } else {
            client.start(&runnable.id, wanted).await
        };
        let error = match started {
            Ok(run) => return Ok(run),
            Err(error) => error,
        };
        let Some(missing) = error.downcast_ref::<MissingVariablesError>() else { return Err(error) };
        for name in missing.names() {
            match terminal::ask(&format!("Value of the variable {name}"), None) {
                Some(value) => wanted.variables.push((name.to_owned(), value)),
                None => return Err(error),
            }
        }
    }
}

/// A result.
#[derive(Debug)]
enum LegacyResult {
    Test(TestResult),
    Suite(SuiteResult),
}

impl LegacyResult {
    fn shown(&self, output: Output) -> anyhow::Result<String> {
        Ok(match (self, output) {
            (Self::Test(test), Output::Pretty) => format!("{}\n", test.pretty(0)),
            (Self::Suite(suite), Output::Pretty) => format!("{}\n", suite.pretty()),
            (Self::Test(test), Output::Json) => {
                format!("{}\n\n", terminal::filter::json(&format!("{:#}", test.json())))
            }
            (Self::Suite(suite), Output::Json) => {
                format!("{}\n\n", terminal::filter::json(&format!("{:#}", suite.json())))
            }
            (Self::Test(test), Output::Yaml) => serde_saphyr::to_string(&test.json())?,
            (Self::Suite(suite), Output::Yaml) => serde_saphyr::to_string(&suite.json())?,
        })
    }

    /// The runs of tests in it: test and number.
    fn runs(&self) -> Vec<(&str, u64)> {
        match self {
            Self::Test(test) => vec![(&test.id, test.run)],
            Self::Suite(suite) => suite.steps.iter().map(|test| (test.id.as_str(), test.run)).collect(),
        }
    }

    fn passed(&self) -> bool {
        match self {
            Self::Test(test) => test.passed(),
            Self::Suite(suite) => suite.passed(),
        }
    }

    fn is_inconclusive(&self) -> bool {
        match self {
            Self::Test(test) => test.is_inconclusive(),
            Self::Suite(suite) => suite.is_inconclusive(),
        }
    }
}

/// What is needed to know a result for certain.
#[derive(Debug, Clone, Copy)]
struct Certainty<'a> {
    client: &'a Client,
    gates: &'a [String],
    confirm: Option<Duration>,
    fail_on_flaky: bool,
    interrupt: &'a Interrupt,
}

impl Certainty<'_> {
    /// Follows the runs of a test to their end, and further while missing spans could make it pass. Returns the last
    /// run, and the outcome over all of them; without `ended` there is only one.
    async fn runs(
        self,
        test: &str,
        runs: &[u64],
        ended: Option<SeriesEnd>,
    ) -> anyhow::Result<(EndedRun, Outcome)> {
        let Self { client, gates, confirm, interrupt, .. } = self;
        let outcome = until_certain(client, gates, (test, runs), ended, confirm, interrupt).await?;
        let last = runs.last().copied().unwrap_or_default();
        Ok((client.run(test, last).await?, self.counted(outcome)))
    }

    /// The outcome as it counts.
    fn counted(self, outcome: Outcome) -> Outcome {
        let is_refused = self.fail_on_flaky && outcome == Outcome::Flaky { recovered: true };
        if is_refused { Outcome::Flaky { recovered: false } } else { outcome }
    }
}

/// Follows a run of a test to its end.
async fn test(
    certainty: Certainty<'_>,
    id: &str,
    run: &StartedRun,
    skip_wait: bool,
) -> anyhow::Result<TestResult> {
    let Certainty { client, interrupt, .. } = certainty;
    let (name, titles) = definition(client, Kind::Test, id).await?;
    if skip_wait {
        let ended = EndedRun { trace_id: run.trace_id.clone(), ..EndedRun::default() };
        return Ok(TestResult::new(&client.page(), id, run.number, name, titles, ended, Outcome::Passed));
    }
    let end = async {
        let series = if run.series.is_some() { Some(series(client, id, run.number).await?) } else { None };
        let runs: Vec<u64> = match &series {
            Some(series) => series.runs.iter().map(|attempt| attempt.run).collect(),
            None => vec![run.number],
        };
        let (ended, outcome) = certainty.runs(id, &runs, series.as_ref().map(SeriesEnd::of)).await?;
        anyhow::Ok((runs.last().copied().unwrap_or(run.number), ended, outcome))
    };
    let followed = interrupt.follow(end, async || client.stop(id, run).await).await;
    let (last, ended, outcome) = followed.with_context(|| client.unfinished_test(id, run.number))?;
    Ok(TestResult::new(&client.page(), id, last, name, titles, ended, outcome))
}

/// Waits for the end of a series.
async fn series(client: &Client, test: &str, first: u64) -> anyhow::Result<Series> {
    let mut seen = 1;
    loop {
        let series = client.series_after(test, first, seen).await?;
        if series.outcome.is_some() {
            return Ok(series);
        }
        seen = u32::try_from(series.runs.len()).unwrap_or(u32::MAX).max(seen);
    }
}

/// Follows a run of a suite to its end.
async fn suite(
    certainty: Certainty<'_>,
    id: &str,
    run: &StartedRun,
    skip_wait: bool,
) -> anyhow::Result<LegacyResult> {
    let Certainty { client, interrupt, .. } = certainty;
    let (name, _) = definition(client, Kind::TestSuite, id).await?;
    let link = format!("{}/testsuite/{id}/run/{}", client.page(), run.number);
    let mut result = SuiteResult {
        name,
        link,
        steps: Vec::new(),
        error: None,
        is_cut_short: false,
        is_running: skip_wait,
    };
    if skip_wait {
        return Ok(LegacyResult::Suite(result));
    }
    let end = async {
        let ended = steps(certainty, id, run, &mut result).await?;
        for (step, (runs, end)) in result.steps.iter_mut().zip(ended).filter(|(step, _)| !step.passed()) {
            let (ended, outcome) = certainty.runs(&step.id, &runs, Some(end)).await?;
            step.renew(ended, outcome);
        }
        anyhow::Ok(())
    };
    let followed = interrupt.follow(end, async || client.stop_suite(id, run).await).await;
    followed.with_context(|| client.unfinished_suite(id, run.number))?;
    Ok(LegacyResult::Suite(result))
}

/// Follows the steps of a suite. Returns the runs of each step of the result, and how they ended.
async fn steps(
    certainty: Certainty<'_>,
    id: &str,
    run: &StartedRun,
    result: &mut SuiteResult,
) -> anyhow::Result<Vec<(Vec<u64>, SeriesEnd)>> {
    let client = certainty.client;
    let (mut ended_steps, mut places) = (Vec::new(), Vec::new());
    let mut events = std::pin::pin!(client.suite_events(id, run.number));
    let mut planned = Vec::new();
    let mut runs: Vec<Vec<u64>> = Vec::new();
    while let Some(event) = events.try_next().await? {
        match event.what {
            SuiteEventKind::Planned { steps } => {
                runs = vec![Vec::new(); steps.len()];
                planned = steps;
            }
            SuiteEventKind::StepStarted { step, run, .. } => {
                runs.get_mut(step).into_iter().for_each(|known| known.push(run));
            }
            SuiteEventKind::StepEnded { step, outcome, recovered, message, .. } => {
                let number = step;
                let (Some(step), Some(runs)) = (planned.get(step), runs.get(step)) else { continue };
                let Some(run) = runs.last() else { continue };
                let end = SeriesEnd::of_step(step, outcome, recovered);
                // A step that the server could not bring to its end has a message.
                let ends_suite = step.role == Part::Setup || message.is_some();
                result.is_cut_short |= ends_suite && end.outcome == Outcome::Inconclusive;
                let (name, titles) = definition(client, Kind::Test, &step.test).await?;
                let ended = client.run(&step.test, *run).await?;
                let (page, outcome) = (client.page(), certainty.counted(end.outcome));
                let test = TestResult::new(&page, &step.test, *run, name, titles, ended, outcome);
                // Steps whose windows overlap may end in another order.
                let place = places.partition_point(|before| *before <= number);
                places.insert(place, number);
                result.steps.insert(place, test);
                ended_steps.insert(place, (runs.clone(), end));
            }
            SuiteEventKind::Ended { passed, message } => result.error = message.filter(|_| !passed),
            SuiteEventKind::Interrupted => {
                (result.error, result.is_cut_short) = (Some(INTERRUPTED.to_owned()), true);
            }
            SuiteEventKind::StepsSkipped { .. } | SuiteEventKind::Stopping | SuiteEventKind::Resumed => {}
        }
    }
    Ok(ended_steps)
}

/// The name of a test or suite, and the titles of the specs of a test.
async fn definition(client: &Client, kind: Kind, id: &str) -> anyhow::Result<(String, Vec<String>)> {
    let body = client.resource(kind, id, Form::Json).await?;
    let body = body.with_context(|| format!("the server no longer has `{id}`"))?;
    let shown: serde_json::Value = answer::document(&body)?;
    let spec = &shown["spec"];
    let title = |spec: &serde_json::Value| {
        let texts = [&spec["name"], &spec["selector"]].map(|text| text.as_str().unwrap_or_default());
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let titles = spec["specs"].as_array().into_iter().flatten().map(title).collect();
    Ok((spec["name"].as_str().unwrap_or_default().to_owned(), titles))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &[&str], files: &[&str], ids: &[&str], expected: Result<RunSubject, &str>) {
        let flags = Flags {
            files: files.iter().map(PathBuf::from).collect(),
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            skip_result_wait: false,
            group: None,
            environment: None,
        };
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let asked = flags.asked(&paths, |path| path == Path::new("testsuite"));
        assert_eq!(asked.map_err(|wrong| wrong.join("\n")), expected.map_err(ToOwned::to_owned));
    }

    #[test]
    fn the_form_of_the_original_is_told_from_our_own() {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let stored = |is_suite| Ok(RunSubject::Stored { ids: vec!["x".to_owned()], is_suite });
        check(&["a.yaml", "b"], &[], &[], Ok(RunSubject::Paths(paths(&["a.yaml", "b"]))));
        check(&["test"], &["a.yaml"], &[], Ok(RunSubject::Files(paths(&["a.yaml"]))));
        check(&[], &["a.yaml"], &[], Ok(RunSubject::Files(paths(&["a.yaml"]))));
        check(&["test"], &[], &["x"], stored(false));
        check(&["Transaction"], &[], &["x"], stored(true));
        // A folder of this name is there.
        check(&["testsuite"], &[], &[], Ok(RunSubject::Paths(paths(&["testsuite"]))));
        check(&["a.yaml"], &[], &["x"], Ok(RunSubject::Paths(paths(&["a.yaml"]))));
        check(
            &["test"],
            &[],
            &[],
            Err("[resource] you must specify at least one definition file or resource ID"),
        );
        check(
            &[],
            &["a"],
            &["x"],
            Err("[resource] you cannot specify both a definition file and resource ID"),
        );
        check(&["b.yaml"], &["a"], &[], Err("[file] write `b.yaml` after -f, or leave out -f"));
        check(&[], &[], &["x"], Err("[resource] name the kind before --id: test or testsuite"));
    }
}
