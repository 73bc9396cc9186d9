//! What an import has found so far, within limits.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::answer::{no_error_spec, status_spec};
use super::name::{shortened, variable_name};
use super::{Definition, ImportError, Imported, Purpose};
use crate::budget::{Budget, BudgetError};
use crate::definition::trigger::{Body, Trigger};
use crate::definition::{
    Format, Resource, Step, Test, TestSuite, Variable, VariableSet, read, to_json, to_yaml,
};

/// Maximum number of tests of one import.
const MAX_TESTS: usize = 1_000;
/// Maximum number of warnings; all others are counted.
const MAX_WARNINGS: usize = 200;
/// Maximum size of all definitions of one import, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Maximum number of variables of one import.
const MAX_VARIABLES: usize = 1_000;

/// The definitions and warnings of an import.
pub(super) struct Collection<'b> {
    pub(super) budget: &'b Budget,
    purpose: Purpose,
    definitions: Vec<Definition>,
    bytes: usize,
    warnings: Vec<String>,
    known_warnings: HashSet<String>,
    more_warnings: usize,
    left_out: usize,
    variables: Vec<Variable>,
    known_variables: HashSet<String>,
    /// The ids of tests that need one another's outputs, in order.
    steps: Vec<String>,
}

impl<'b> Collection<'b> {
    pub(super) fn new(purpose: Purpose, budget: &'b Budget) -> Self {
        Self {
            budget,
            purpose,
            definitions: Vec::new(),
            bytes: 0,
            warnings: Vec::new(),
            known_warnings: HashSet::new(),
            more_warnings: 0,
            left_out: 0,
            variables: Vec::new(),
            known_variables: HashSet::new(),
            steps: Vec::new(),
        }
    }

    /// Whether the definitions become files.
    pub(super) const fn makes_files(&self) -> bool {
        matches!(self.purpose, Purpose::Files { .. })
    }

    /// Adds a warning, once.
    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if self.known_warnings.contains(&warning) {
            return;
        }
        if self.warnings.len() == MAX_WARNINGS {
            self.more_warnings += 1;
            return;
        }
        self.known_warnings.insert(warning.clone());
        self.warnings.push(warning);
    }

    /// Whether no more tests are taken. The request that is asked for is then counted as left out.
    pub(super) fn is_full(&mut self) -> bool {
        let is_full = self.definitions.len() >= MAX_TESTS || self.bytes >= MAX_BYTES;
        self.left_out += usize::from(is_full);
        is_full
    }

    /// Adds a test.
    pub(super) fn test(&mut self, mut test: Test) -> Result<(), BudgetError> {
        if let Some(Trigger::Http(http)) = &mut test.trigger
            && is_empty(&http.body)
        {
            http.body = Body::default();
        }
        if let Purpose::Files { status } = self.purpose
            && test.specs.is_empty()
        {
            test.specs.push(status.map_or_else(no_error_spec, status_spec));
        }
        let name = test.name.clone();
        self.add(&name, &Resource::Test(test))
    }

    /// Adds a test that may need the outputs of those before it. In files, they are steps of a suite.
    pub(super) fn step(&mut self, mut test: Test) -> Result<(), BudgetError> {
        if self.makes_files() {
            let id = id_of(&test.name, &self.steps);
            self.steps.push(id.clone());
            test.id = Some(id);
        }
        self.test(test)
    }

    /// Adds a secret variable and returns its name: another one, if it is taken by another value.
    pub(super) fn secret(&mut self, name: &str, value: &str) -> String {
        let names = std::iter::once(name.to_owned()).chain((2..).map(|number| format!("{name}_{number}")));
        let is_free = |key: &String| {
            let known = self.variables.iter().find(|known| known.key == *key);
            known.map_or(!self.known_variables.contains(key), |known| known.value.value == value)
        };
        let name = names.into_iter().find(is_free).unwrap_or_default();
        self.variable(&name, value, true);
        name
    }

    /// Adds a variable with a value; the first value counts.
    pub(super) fn variable(&mut self, name: &str, value: &str, is_secret: bool) {
        let key = variable_name(name);
        if self.variables.len() < MAX_VARIABLES && self.known_variables.insert(key.clone()) {
            self.variables.push(Variable { key, value: value.into(), is_secret });
        }
    }

    pub(super) fn finish(mut self) -> Result<Imported, ImportError> {
        if self.definitions.is_empty() {
            return Err(ImportError::Empty);
        }
        if self.steps.len() > 1 {
            let name = "The requests in their order";
            let step = |id: String| Step { test: id.into(), ..Step::default() };
            let steps = std::mem::take(&mut self.steps).into_iter().map(step).collect();
            let suite = TestSuite { name: name.to_owned(), steps, ..TestSuite::default() };
            self.add(name, &Resource::TestSuite(suite))?;
        }
        if !self.variables.is_empty() {
            let values = std::mem::take(&mut self.variables);
            let name = "Imported variables";
            let set =
                VariableSet { name: name.to_owned(), values, has_values: true, ..VariableSet::default() };
            self.add(name, &Resource::VariableSet(set))?;
        }
        if self.left_out > 0 {
            let message = format!(
                "{} more requests are left out: an import makes at most {MAX_TESTS} tests and {MAX_BYTES} bytes; split the text",
                self.left_out
            );
            self.warnings.push(message);
        }
        if self.more_warnings > 0 {
            self.warnings.push(format!("{} more warnings are left out", self.more_warnings));
        }
        Ok(Imported { definitions: self.definitions, warnings: self.warnings })
    }

    fn add(&mut self, name: &str, resource: &Resource) -> Result<(), BudgetError> {
        let json = to_json(resource);
        let is_same = |text: &str| {
            let reading = read(text, Format::Yaml);
            let is_usable = reading.is_usable(false);
            matches!(reading.documents.as_slice(), [only] if only.resource == *resource && is_usable)
        };
        // JSON is YAML too; some characters are only escaped there.
        let texts = [to_yaml(&json), escaped(&json.to_string())];
        self.budget.read(texts.iter().map(String::len).sum())?;
        match texts.into_iter().find(|text| is_same(text)) {
            Some(text) => {
                self.bytes += text.len();
                self.definitions.push(Definition { name: name.to_owned(), text });
            }
            None => self.warn(format!(
                "the request `{}` is left out: it cannot be written as a definition",
                shortened(name)
            )),
        }
        Ok(())
    }
}

/// The id of a test, made of its name; none of the known ones.
fn id_of(name: &str, known: &[String]) -> String {
    let words: Vec<String> = name
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let id = if words.is_empty() { "request".to_owned() } else { words.join("-") };
    let numbered = (2..).map(|number| format!("{id}-{number}"));
    std::iter::once(id.clone()).chain(numbered).find(|id| !known.contains(id)).unwrap_or_default()
}

/// Whether a form has no fields: a definition cannot say that.
fn is_empty(body: &Body) -> bool {
    match body {
        Body::Form(fields) => fields.is_empty(),
        Body::Multipart(parts) => parts.is_empty(),
        Body::Text(_) | Body::File(_) => false,
    }
}

/// Escapes what YAML does not allow in JSON as it is.
fn escaped(json: &str) -> String {
    let is_odd = |letter: char| {
        letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}')
    };
    let mut out = String::with_capacity(json.len() + 1);
    for letter in json.chars() {
        if is_odd(letter) {
            let _ = write!(out, "\\u{:04x}", u32::from(letter));
        } else {
            out.push(letter);
        }
    }
    out.push('\n');
    out
}
