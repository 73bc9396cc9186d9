//! Checks of the language inside definitions.

use std::collections::HashSet;

use super::{Document, Resource, Test, Text, Trigger, suite};
use crate::lang::limits::MAX_LANGUAGE_BYTES;
use crate::lang::{
    Diagnostic, Severity, diagnose_assertion, diagnose_expression, diagnose_selector, diagnose_template,
};

/// Checks the selectors, assertions, expressions and names in a resource; each diagnostic has its place in the
/// file.
pub fn check(resource: &Resource) -> Vec<Diagnostic> {
    let mut found = match resource {
        Resource::Test(test) => check_test(test),
        Resource::TestSuite(suite) => suite::check(suite),
        Resource::VariableSet(_)
        | Resource::DataStore(_)
        | Resource::PollingProfile(_)
        | Resource::Analyzer(_)
        | Resource::TestRunner(_)
        | Resource::Config(_)
        | Resource::Demo(_) => Vec::new(),
    };
    found.sort_by_key(|diagnostic| diagnostic.span.start);
    found
}

/// Warns of a test without any assertion: it passes whatever its trigger is answered. One with outputs is there to
/// provide them.
pub fn asserts_nothing(source: &str, document: &Document) -> Option<Diagnostic> {
    let Resource::Test(test) = &document.resource else { return None };
    if !test.outputs.is_empty() || test.specs.iter().any(|spec| !spec.assertions.is_empty()) {
        return None;
    }
    let text = source.get(document.span.clone())?;
    let first = text.lines().next().unwrap_or_default().trim_end();
    let place = document.span.start..document.span.start + first.len();
    let message = "the test asserts nothing: it passes whatever the answer is";
    Some(Diagnostic::warning("asserts-nothing", place, message).helped(
        "add a spec, like `- selector: span[name=\"Tracetest trigger\"]` with assertions such as \
         `attr:tracetest.response.status = 200`",
    ))
}

fn check_test(test: &Test) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let bytes: usize = test.language_texts().map(|text| text.value.len()).sum();
    if bytes > MAX_LANGUAGE_BYTES {
        let message = format!(
            "selectors, assertions and outputs of a test take at most {MAX_LANGUAGE_BYTES} bytes, and these take {bytes}"
        );
        let place = test.language_texts().next().map_or(0..0, |text| text.place(0..0));
        return vec![Diagnostic::error("too-large", place, message).helped("split the test")];
    }
    for spec in &test.specs {
        found.extend(lifted(&spec.selector, diagnose_selector(&spec.selector.value)));
        for assertion in &spec.assertions {
            found.extend(lifted(assertion, diagnose_assertion(&assertion.value)));
        }
    }
    let mut names = HashSet::new();
    for output in &test.outputs {
        found.extend(lifted(&output.selector, diagnose_selector(&output.selector.value)));
        found.extend(lifted(&output.value, diagnose_expression(&output.value.value)));
        if !names.insert(&output.name.value) {
            let span = output.name.place(0..output.name.value.len());
            let message = format!("two outputs are called `{}`; the later one counts", output.name.value);
            found.push(Diagnostic::warning("duplicate-output", span, message));
        }
    }
    found.extend(test.trigger.iter().flat_map(check_trigger));
    found
}

/// Checks the expressions in the texts of a trigger.
pub(super) fn check_trigger(trigger: &Trigger) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    trigger.each_text(|text| {
        let troubles = lifted(text, diagnose_template(&text.value));
        // The command line may substitute values before the server sees the text.
        found.extend(troubles.map(|trouble| Diagnostic { severity: Severity::Warning, ..trouble }));
    });
    found
}

/// Moves the diagnostics of a text to its place in the file.
fn lifted(text: &Text, diagnostics: Vec<Diagnostic>) -> impl Iterator<Item = Diagnostic> {
    diagnostics
        .into_iter()
        .map(|diagnostic| Diagnostic { span: text.place(diagnostic.span.clone()), ..diagnostic })
}
