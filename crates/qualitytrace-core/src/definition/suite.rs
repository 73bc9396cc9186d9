//! Test suites: their type, reader and JSON, and the references between their steps.

mod data;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use qualitytrace_config::tree::{Node, Shape};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub use data::Data;

use super::period::{self, Period};
use super::reader::Reader;
use super::shape::{is_blank, texts};
use super::stored::{Stored, Summary};
use super::text::{Text, is_path};
use super::trace_test::TestSpec;
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;
use crate::lang::limits::MAX_DIAGNOSTICS;
use data::TableSpec;

/// Maximum number of steps of a suite.
const MOST_STEPS: usize = 1_000;
/// Maximum of steps times rows: each is a run.
const MOST_RUNS: usize = 20_000;

/// Tests that run in order; the outputs of each are variables of those after it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TestSuite {
    /// The suite's id; `None` until it is stored, when one is generated.
    pub id: Option<String>,
    /// The title for the user.
    pub name: String,
    /// A description.
    pub description: String,
    /// Words to select it by.
    pub tags: Vec<String>,
    /// The steps that run before all others, in order.
    pub setup: Vec<Step>,
    /// The tests.
    pub steps: Vec<Step>,
    /// The steps that run after all others, in order, in any case.
    pub teardown: Vec<Step>,
    /// A table of values: the steps run once per row; `None` when they run once.
    pub data: Option<Data>,
}

impl TestSuite {
    /// Returns setup, steps and teardown, in this order.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.setup.iter().chain(&self.steps).chain(&self.teardown)
    }
}

/// A test as part of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// The test: an id, or a path for the command line.
    pub test: Text,
    /// Its name, by which other steps refer to it.
    pub name: Option<Text>,
    /// The steps that it waits for; `None` means the one before it.
    pub depends_on: Option<Vec<Text>>,
    /// Its timeout, retries included.
    pub timeout: Option<Period>,
}

impl Step {
    /// Returns its title: its own name, else the test's id, else the name of the test's file.
    pub fn title(&self) -> &str {
        let test = self.test.value.as_str();
        match &self.name {
            Some(name) => &name.value,
            None if self.is_path() => {
                let file = test.rsplit('/').next().unwrap_or(test);
                file.rsplit_once('.').map_or(file, |(stem, _)| stem)
            }
            None => test,
        }
    }

    /// Whether the test is named by its file.
    pub fn is_path(&self) -> bool {
        is_path(&self.test.value)
    }
}

impl From<&str> for Step {
    fn from(test: &str) -> Self {
        Self { test: test.into(), ..Self::default() }
    }
}

pub(super) fn read(reader: &Reader<'_>, node: &Node) -> Option<TestSuite> {
    let mut fields = reader.fields(node, "a test suite")?;
    let mut steps = |key| fields.items(key).iter().filter_map(|node| step(reader, node)).collect();
    let (setup, main, teardown) = (steps("setup"), steps("steps"), steps("teardown"));
    let mut suite = TestSuite {
        id: fields.string("id").filter(|id| !id.is_empty()),
        name: fields.required_name("test suite name cannot be empty"),
        description: fields.string("description").unwrap_or_default(),
        tags: fields.words("tags"),
        setup,
        steps: main,
        teardown,
        data: fields.get("data").and_then(|node| data::read(reader, node)),
    };
    fields.int("version");
    fields.text("createdAt");
    fields.ignore(&["summary", "fullSteps"]);
    fields.unused(
        "env",
        "`env` has no effect on a suite",
        "put the values into a variable set, or give them to the run",
    );
    fields.finish();
    if suite.all_steps().next().is_none() {
        let span = fields.entry("steps").map_or_else(|| node.span.clone(), |entry| entry.key_span.clone());
        let diagnostic =
            Diagnostic::warning("empty-suite", span, "this suite has no steps: a run of it tests nothing");
        reader.report(diagnostic.helped("name its tests under `steps`"));
    }
    let steps = suite.all_steps().count();
    if steps > MOST_STEPS {
        let message = format!("a suite has at most {MOST_STEPS} steps, and this one has {steps}");
        reader.error("too-large", node.span.clone(), message);
        // The suite is refused, so the references between its steps are not checked.
        for steps in [&mut suite.setup, &mut suite.steps, &mut suite.teardown] {
            steps.truncate(MOST_STEPS);
        }
    }
    let runs = suite.steps.len() * suite.data.as_ref().map_or(1, |data| data.values().len());
    if runs > MOST_RUNS {
        let message = format!("steps times rows of a suite are at most {MOST_RUNS}, and these are {runs}");
        reader.report(
            Diagnostic::error("too-large", node.span.clone(), message)
                .helped("split the table, or the suite"),
        );
    }
    Some(suite)
}

/// Reads a step: the test alone, or a mapping with more fields.
fn step(reader: &Reader<'_>, node: &Node) -> Option<Step> {
    let step = if let Shape::Map(_) = node.shape {
        let mut fields = reader.fields(node, "a step")?;
        let step = Step {
            test: fields.text("test").unwrap_or_default(),
            name: fields.text("name").filter(|name| !name.is_empty()),
            depends_on: fields.entry("dependsOn").is_some().then(|| fields.texts("dependsOn")),
            timeout: period::read(&mut fields, "timeout"),
        };
        if let (Some(timeout), Some(node)) = (&step.timeout, fields.get("timeout"))
            && timeout.duration.is_zero()
        {
            let message = format!("a step that may take `{}` can never be run", timeout.text);
            let diagnostic = Diagnostic::error("wrong-duration", node.span.clone(), message);
            reader.report(diagnostic.helped("give it more time, or remove `timeout`"));
        }
        fields.finish();
        step
    } else {
        Step { test: reader.text(node, "an item of `steps`")?, ..Step::default() }
    };
    if step.test.is_empty() {
        reader.error("empty-step", node.span.clone(), "this step names no test");
    }
    Some(step)
}

/// Checks how the steps refer to one another.
pub(super) fn check(suite: &TestSuite) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for step in suite.setup.iter().chain(&suite.teardown) {
        for name in step.depends_on.iter().flatten() {
            let message = "steps of `setup` and `teardown` run in order and cannot name others";
            let diagnostic = Diagnostic::error("ordered-step", place(name), message);
            found.push(diagnostic.helped("remove `dependsOn`, or move the step to `steps`"));
        }
    }
    let mut called: HashMap<&str, usize> = HashMap::new();
    for step in &suite.steps {
        *called.entry(step.title()).or_default() += 1;
    }
    let mut earlier = HashSet::new();
    for step in &suite.steps {
        if let Some(name) = &step.name
            && earlier.contains(&*name.value)
        {
            let message = format!("two steps are called `{}`", name.value);
            found.push(
                Diagnostic::error("duplicate-step", place(name), message).helped("give one another `name`"),
            );
        }
        for name in step.depends_on.iter().flatten() {
            if found.len() < MAX_DIAGNOSTICS {
                found.extend(reference(suite, step, name, called.get(&*name.value).copied().unwrap_or(0)));
            }
        }
        earlier.insert(step.title());
    }
    if found.is_empty() {
        found.extend(cycle(suite));
    }
    found
}

/// Checks one name in `dependsOn`.
fn reference(suite: &TestSuite, step: &Step, name: &Text, called: usize) -> Option<Diagnostic> {
    match called {
        0 => {
            let message = format!("no step is called `{}`", name.value);
            let diagnostic = Diagnostic::error("unknown-step", place(name), message);
            let help = match nearest(&name.value, suite.steps.iter().map(Step::title)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "name a step by its `name`, its test's id, or its file without the ending".to_owned(),
            };
            Some(diagnostic.helped(help))
        }
        1 if step.title() == name.value => {
            let message = format!("the step `{}` waits for itself", name.value);
            Some(Diagnostic::error("step-cycle", place(name), message).helped("remove the name"))
        }
        1 => None,
        _ => {
            let message = format!("more than one step is called `{}`", name.value);
            Some(
                Diagnostic::error("ambiguous-step", place(name), message)
                    .helped("give each a `name` of its own"),
            )
        }
    }
}

/// Finds the first cycle of steps that wait for one another.
fn cycle(suite: &TestSuite) -> Option<Diagnostic> {
    let before = waits_for(&suite.steps);
    let mut done = vec![false; suite.steps.len()];
    // Repeatedly takes a step that can run; the remaining ones wait in a cycle, or for one.
    while let Some(ready) =
        (0..done.len()).find(|at| !done[*at] && before[*at].iter().all(|other| done[*other]))
    {
        done[ready] = true;
    }
    let mut at = done.iter().position(|done| !done)?;
    let mut path = Vec::new();
    while !path.contains(&at) {
        path.push(at);
        at = *before[at].iter().find(|other| !done[**other])?;
    }
    let circle = &path[path.iter().position(|seen| *seen == at)?..];
    let names: Vec<String> =
        circle.iter().chain([&at]).map(|at| format!("`{}`", suite.steps[*at].title())).collect();
    let message = format!("these steps wait for one another: {}", names.join(" → "));
    // At least one step of the cycle has an explicit `dependsOn`.
    let named = circle.iter().find_map(|at| suite.steps[*at].depends_on.as_ref()?.first());
    let span = named.map_or(0..0, place);
    Some(Diagnostic::error("step-cycle", span, message).helped("remove one of the names from `dependsOn`"))
}

/// Returns the positions of the steps for which each one waits. Unknown names are left out.
pub(crate) fn waits_for(steps: &[Step]) -> Vec<Vec<usize>> {
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        positions.entry(step.title()).or_insert(at);
    }
    let position = |name: &Text| positions.get(&*name.value).copied();
    steps
        .iter()
        .enumerate()
        .map(|(at, step)| match &step.depends_on {
            Some(names) => names.iter().filter_map(position).collect(),
            None => at.checked_sub(1).into_iter().collect(),
        })
        .collect()
}

fn place(text: &Text) -> Range<usize> {
    text.place(0..text.value.len())
}

/// A suite of tests.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TestSuiteSpec<'a> {
    /// The id of the suite; a suite without one gets one when it is stored.
    #[serde(skip_serializing_if = "is_blank")]
    id: &'a str,
    /// When the suite was stored; set by the server, in answers with the augmented header only.
    #[serde(skip_serializing_if = "is_blank")]
    created_at: Option<&'a str>,
    /// The title of the suite in lists and reports.
    name: &'a str,
    /// What the suite is about.
    description: &'a str,
    /// Words to select the suite by, as in `qualitytrace run --tag smoke`.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    /// The number of its version; set by the server, in answers with the augmented header only.
    #[serde(skip_serializing_if = "is_blank")]
    version: Option<u32>,
    /// Steps that run first, in order; if one does not pass, only `teardown` follows.
    #[serde(skip_serializing_if = "is_blank")]
    setup: Vec<StepSpec<'a>>,
    /// Null if there are none, as older clients expect.
    steps: Option<Vec<StepSpec<'a>>>,
    /// Steps that run last, in order and in any case.
    #[serde(skip_serializing_if = "is_blank")]
    teardown: Vec<StepSpec<'a>>,
    /// Rows of variables; the steps are run once for each.
    #[serde(skip_serializing_if = "is_blank")]
    data: Option<TableSpec<'a>>,
    /// The tests of its steps; set by the server, in answers with the augmented header only.
    #[serde(skip_serializing_if = "is_blank")]
    #[schemars(with = "Vec<TestSpec<'_>>")]
    full_steps: &'a [Value],
    /// Its latest runs; set by the server, in answers with the augmented header only.
    #[serde(skip_serializing_if = "is_blank")]
    summary: Option<&'a Summary>,
}

impl<'a> TestSuiteSpec<'a> {
    pub(super) fn of(id: &'a str, suite: &'a TestSuite, stored: &'a Stored) -> Self {
        let steps = |steps: &'a [Step]| steps.iter().map(StepSpec::of).collect::<Vec<_>>();
        Self {
            id,
            created_at: stored.created_at.as_deref(),
            name: &suite.name,
            description: &suite.description,
            tags: &suite.tags,
            version: stored.version,
            setup: steps(&suite.setup),
            steps: Some(steps(&suite.steps)).filter(|steps| !steps.is_empty()),
            teardown: steps(&suite.teardown),
            data: suite.data.as_ref().map(TableSpec::of),
            full_steps: stored.full_steps.as_deref().unwrap_or_default(),
            summary: stored.summary.as_ref(),
        }
    }
}

/// A step: the test alone, as older clients expect, or an object if it has further keys.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
enum StepSpec<'a> {
    Test(&'a str),
    #[serde(rename_all = "camelCase")]
    More {
        /// The test: its id or, for the command line, a path.
        test: &'a str,
        /// The name of the step, for `dependsOn` and reports.
        #[serde(skip_serializing_if = "is_blank")]
        name: &'a str,
        /// The steps that it waits for; without it, the one before it, and `[]` for none.
        #[serde(skip_serializing_if = "is_blank")]
        depends_on: Option<Vec<&'a str>>,
        /// How long the step may take, retries included.
        #[serde(skip_serializing_if = "is_blank")]
        timeout: Option<&'a str>,
    },
}

impl<'a> StepSpec<'a> {
    fn of(step: &'a Step) -> Self {
        if *step == (Step { test: step.test.clone(), ..Step::default() }) {
            return Self::Test(&step.test.value);
        }
        Self::More {
            test: &step.test.value,
            name: step.name.as_ref().map_or("", |name| &name.value),
            depends_on: step.depends_on.as_deref().map(texts),
            timeout: period::text(step.timeout.as_ref()),
        }
    }
}
