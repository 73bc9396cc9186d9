//! Reading a test suite.

use super::node::{Node, Shape};
use super::reader::Reader;
use super::settings::{Period, period};
use super::text::Text;
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;

/// Rows of a data table. Each row runs every step.
const MOST_ROWS: usize = 1_000;
/// Steps of a suite.
const MOST_STEPS: usize = 1_000;

/// Tests that run in an order; what each gives out are variables of those that come after it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TestSuite {
    /// Names the suite; `None` until it is stored, when one is made up.
    pub id: Option<String>,
    /// A title for people.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// What runs before all else, in order.
    pub setup: Vec<Step>,
    /// The tests.
    pub steps: Vec<Step>,
    /// What runs after all else, in order, whatever happened.
    pub teardown: Vec<Step>,
    /// Values with which the steps run, once a row; `None` when they run once.
    pub data: Option<Data>,
}

/// A test as part of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// The test: an id, or a path for the command line.
    pub test: Text,
    /// What other steps call it.
    pub name: Option<Text>,
    /// The steps that it waits for; `None` means the one before it.
    pub depends_on: Option<Vec<Text>>,
    /// How long it may take, further tries included.
    pub timeout: Option<Period>,
}

impl Step {
    /// What it is called: its own name, else the test's id, else the name of the test's file.
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

pub(super) fn is_path(text: &str) -> bool {
    ["./", "../", "/"].iter().any(|start| text.starts_with(start))
}

impl From<&str> for Step {
    fn from(test: &str) -> Self {
        Self { test: test.into(), ..Self::default() }
    }
}

/// A table of values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Data {
    /// Its rows: names and values.
    pub rows: Vec<Vec<(String, Text)>>,
    /// Further rows as CSV whose first line has the names; a path for the command line.
    pub csv: Option<Text>,
}

impl Data {
    /// The file that the command line reads the CSV from; `None` when it is here.
    pub fn file(&self) -> Option<&Text> {
        self.csv.as_ref().filter(|csv| is_path(&csv.value) && !csv.value.contains('\n'))
    }

    /// Every row, those of the CSV included. A file is not read, and lines that are no CSV are left out.
    pub fn values(&self) -> Vec<Vec<(String, String)>> {
        let written = self
            .rows
            .iter()
            .map(|row| row.iter().map(|(name, value)| (name.clone(), value.value.clone())).collect());
        let csv = self.csv.as_ref().filter(|_| self.file().is_none());
        written.chain(csv.iter().flat_map(|csv| rows_of(&csv.value)).flatten()).collect()
    }
}

/// The rows of a CSV text, each with the names of the first line, or what is wrong with the text.
fn rows_of(text: &str) -> Result<Vec<Vec<(String, String)>>, csv::Error> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(text.as_bytes());
    let names: Vec<String> = reader.headers()?.iter().map(ToOwned::to_owned).collect();
    let row =
        |record: csv::StringRecord| names.iter().cloned().zip(record.iter().map(ToOwned::to_owned)).collect();
    reader.records().map(|record| Ok(row(record?))).collect()
}

pub(super) fn read(reader: &Reader<'_>, node: &Node) -> Option<TestSuite> {
    let mut fields = reader.fields(node, "a test suite")?;
    let mut steps = |key| fields.items(key).iter().filter_map(|node| step(reader, node)).collect();
    let (setup, main, teardown) = (steps("setup"), steps("steps"), steps("teardown"));
    let suite = TestSuite {
        id: fields.string("id").filter(|id| !id.is_empty()),
        name: fields.required_name("test suite name cannot be empty"),
        description: fields.string("description").unwrap_or_default(),
        setup,
        steps: main,
        teardown,
        data: fields.get("data").and_then(|node| data(reader, node)),
    };
    fields.int("version");
    fields.text("createdAt");
    // `env` belongs to the first suites ever; `fullSteps` and `summary` to answers of the API.
    fields.ignore(&["summary", "fullSteps", "env"]);
    fields.finish();
    if suite.steps.len() > MOST_STEPS {
        let message =
            format!("a suite has at most {MOST_STEPS} steps, and this one has {}", suite.steps.len());
        reader.error("too-large", node.span.clone(), message);
    }
    Some(suite)
}

/// A step: the test alone, or a mapping that says more.
fn step(reader: &Reader<'_>, node: &Node) -> Option<Step> {
    let step = if let Shape::Map(_) = node.shape {
        let mut fields = reader.fields(node, "a step")?;
        let step = Step {
            test: fields.text("test").unwrap_or_default(),
            name: fields.text("name").filter(|name| !name.is_empty()),
            depends_on: fields.entry("dependsOn").is_some().then(|| fields.texts("dependsOn")),
            timeout: period(&mut fields, "timeout"),
        };
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

fn data(reader: &Reader<'_>, node: &Node) -> Option<Data> {
    let mut fields = reader.fields(node, "`data`")?;
    let rows = fields.items("rows");
    let data = Data {
        rows: rows.iter().map(|row| reader.pairs(row, "a row")).collect(),
        csv: fields.text("csv").filter(|csv| !csv.is_empty()),
    };
    fields.finish();
    if let Some(csv) = data.csv.as_ref().filter(|_| data.file().is_none())
        && let Err(error) = rows_of(&csv.value)
    {
        let diagnostic = Diagnostic::error("wrong-csv", place(csv), format!("this is no CSV: {error}"));
        reader.report(
            diagnostic.helped("write the names in the first line and as many values in every other one"),
        );
    }
    let count = data.values().len();
    if count > MOST_ROWS {
        let message = format!("a table has at most {MOST_ROWS} rows, and this one has {count}");
        reader.error("too-large", node.span.clone(), message);
    }
    let columns: Vec<&str> =
        data.rows.first().map(|row| row.iter().map(|(name, _)| name.as_str()).collect()).unwrap_or_default();
    for (row, place) in data.rows.iter().zip(rows).skip(1) {
        for column in columns.iter().filter(|column| !row.iter().any(|(name, _)| name == *column)) {
            let message = format!("this row has no `{column}`, which the first row has");
            reader.report(
                Diagnostic::error("uneven-row", place.span.clone(), message)
                    .helped("give every row the same names"),
            );
        }
    }
    if data.rows.is_empty() && data.csv.is_none() {
        let diagnostic = Diagnostic::error("empty-data", node.span.clone(), "the table has no rows");
        reader.report(diagnostic.helped("give it `rows` or `csv`"));
    }
    Some(data)
}

/// What is wrong with the way in which the steps refer to one another.
pub(super) fn check(suite: &TestSuite) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for step in suite.setup.iter().chain(&suite.teardown) {
        for name in step.depends_on.iter().flatten() {
            let message = "steps of `setup` and `teardown` run in order and cannot name others";
            let diagnostic = Diagnostic::error("ordered-step", place(name), message);
            found.push(diagnostic.helped("remove `dependsOn`, or move the step to `steps`"));
        }
    }
    for (at, step) in suite.steps.iter().enumerate() {
        if let Some(name) = &step.name
            && suite.steps[..at].iter().any(|earlier| earlier.title() == name.value)
        {
            let message = format!("two steps are called `{}`", name.value);
            found.push(
                Diagnostic::error("duplicate-step", place(name), message).helped("give one another `name`"),
            );
        }
        for name in step.depends_on.iter().flatten() {
            found.extend(reference(suite, step, name));
        }
    }
    if found.is_empty() {
        found.extend(cycle(suite));
    }
    found
}

/// What is wrong with one name in `dependsOn`.
fn reference(suite: &TestSuite, step: &Step, name: &Text) -> Option<Diagnostic> {
    let called = suite.steps.iter().filter(|other| other.title() == name.value).count();
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

/// The first steps that wait for one another in a circle.
fn cycle(suite: &TestSuite) -> Option<Diagnostic> {
    let before = waits_for(&suite.steps);
    let mut done = vec![false; suite.steps.len()];
    // Whatever can run does; what is left over waits in a circle, or for one.
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
    // At least one of them says so in words.
    let named = circle.iter().find_map(|at| suite.steps[*at].depends_on.as_ref()?.first());
    let span = named.map_or(0..0, place);
    Some(Diagnostic::error("step-cycle", span, message).helped("remove one of the names from `dependsOn`"))
}

/// The positions of the steps for which each one waits. Names that nobody has are left out.
pub(crate) fn waits_for(steps: &[Step]) -> Vec<Vec<usize>> {
    let position = |name: &Text| steps.iter().position(|step| step.title() == name.value);
    steps
        .iter()
        .enumerate()
        .map(|(at, step)| match &step.depends_on {
            Some(names) => names.iter().filter_map(position).collect(),
            None => at.checked_sub(1).into_iter().collect(),
        })
        .collect()
}

fn place(text: &Text) -> std::ops::Range<usize> {
    text.place(0..text.value.len())
}
