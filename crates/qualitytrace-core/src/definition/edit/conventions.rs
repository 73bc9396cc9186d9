//! Tests in the names and values of the current semantic conventions.

use super::{Change, EditError, MAX_CHANGES, edit};
use crate::budget::Budget;
use crate::definition::{Format, Output, Resource, Spec, Test, Text, read};
use crate::lang::{modern_assertions, modern_expression, modern_selector};

/// Rewrites the selectors, assertions and outputs of every test of a file. Everything else in the text stays as it is.
pub fn with_current_conventions(source: &str, format: Format, budget: &Budget) -> Result<String, EditError> {
    let mut text = source.to_owned();
    for (index, document) in read(source, format).documents.iter().enumerate() {
        let Resource::Test(test) = &document.resource else { continue };
        for changes in changes(test).chunks(MAX_CHANGES) {
            text = edit(&text, format, index, changes, budget)?;
        }
    }
    Ok(text)
}

fn changes(test: &Test) -> Vec<Change> {
    let specs = test.specs.iter().enumerate().filter_map(|(at, spec)| {
        let modern = modern_spec(spec);
        (modern != *spec).then_some(Change::ChangeSpec { at, spec: modern })
    });
    let outputs = test.outputs.iter().enumerate().filter_map(|(at, output)| {
        let modern = modern_output(output);
        (modern != *output).then_some(Change::ChangeOutput { at, output: modern })
    });
    specs.chain(outputs).collect()
}

fn modern_spec(spec: &Spec) -> Spec {
    let assertions = modern_assertions(spec.assertions.iter().map(|assertion| assertion.value.as_str()));
    Spec {
        selector: modern_selector(&spec.selector.value).into(),
        assertions: assertions.into_iter().map(Text::from).collect(),
        ..spec.clone()
    }
}

fn modern_output(output: &Output) -> Output {
    Output {
        selector: modern_selector(&output.selector.value).into(),
        value: modern_expression(&output.value.value).into(),
        ..output.clone()
    }
}
