//! Explanations of diagnostic codes: what each means, and a text that shows it.
//!
//! A test reads every example and expects its code, and finds every code of the sources in these tables.

mod definitions;
mod language;

use crate::definition::{self, Format};
use crate::lang::{self, Diagnostic};

/// What a diagnostic code means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explanation {
    /// The code.
    pub code: &'static str,
    /// What it means and what to do.
    pub text: &'static str,
    /// A text that has it.
    pub wrong: Example,
    /// What to write instead; empty where the text says it all.
    pub right: &'static str,
}

/// A text that shows a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Example {
    /// A definition file in YAML.
    Definition(&'static str),
    /// The spec of a test, without the lines around it.
    Test(&'static str),
    /// A definition file in JSON.
    Json(&'static str),
    /// A trigger by itself, as the API takes it.
    Trigger(&'static str),
    /// A selector.
    Selector(&'static str),
    /// An assertion.
    Assertion(&'static str),
    /// A text of a trigger with `${...}` in it.
    Template(&'static str),
    /// It depends on the size of a file or on other files.
    None,
}

impl Example {
    /// The text as it is shown; empty when there is none.
    pub fn text(self) -> String {
        match self {
            Self::Test(spec) => {
                let lines: Vec<String> = spec.lines().map(|line| format!("  {line}")).collect();
                format!("type: Test\nspec:\n  name: Checkout\n{}", lines.join("\n"))
            }
            Self::Definition(text)
            | Self::Json(text)
            | Self::Trigger(text)
            | Self::Selector(text)
            | Self::Assertion(text)
            | Self::Template(text) => text.to_owned(),
            Self::None => String::new(),
        }
    }

    /// The diagnostics of the text.
    pub fn diagnostics(self) -> Vec<Diagnostic> {
        let text = self.text();
        match self {
            Self::Definition(_) | Self::Test(_) => of_file(&text, Format::Yaml),
            Self::Json(_) => of_file(&text, Format::Json),
            Self::Trigger(_) => definition::read_trigger(&text, Format::Yaml).1,
            Self::Selector(_) => lang::diagnose_selector(&text),
            Self::Assertion(_) => lang::diagnose_assertion(&text),
            Self::Template(_) => lang::diagnose_template(&text),
            Self::None => Vec::new(),
        }
    }
}

fn of_file(text: &str, format: Format) -> Vec<Diagnostic> {
    let mut reading = definition::read(text, format);
    for document in &reading.documents {
        reading.diagnostics.extend(definition::check(&document.resource));
        reading.diagnostics.extend(definition::asserts_nothing(text, document));
    }
    reading.diagnostics
}

/// Every explanation, sorted by code.
pub fn explanations() -> Vec<Explanation> {
    let mut all: Vec<Explanation> = definitions::ALL.iter().chain(language::ALL).copied().collect();
    all.sort_by_key(|explanation| explanation.code);
    all
}

/// The explanation of a code.
pub fn explain(code: &str) -> Option<Explanation> {
    explanations().into_iter().find(|known| known.code == code)
}

/// Builds a row of a table.
const fn row(code: &'static str, text: &'static str, wrong: Example, right: &'static str) -> Explanation {
    Explanation { code, text, wrong, right }
}
