//! The outputs of a test.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use super::{legacy_value, selector};
use crate::definition::reader::Reader;
use crate::definition::text::Text;
use crate::lang::Diagnostic;

/// A value that a test passes to its own specs and to later tests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The name of the variable.
    pub name: Text,
    /// The selector of the span to read it from.
    pub selector: Text,
    /// The expression that gives its value.
    pub value: Text,
}

pub(super) fn read(reader: &Reader<'_>, node: &Node) -> Option<Output> {
    let output = if let Some(value) = legacy_value(node) {
        let mut outer = reader.fields(node, "an output")?;
        let name = outer.text("Key").unwrap_or_default();
        outer.ignore(&["Value"]);
        outer.finish();
        let mut inner = reader.fields(value, "an output")?;
        let output = Output {
            name,
            selector: selector(&mut inner, "selector"),
            value: inner.text("value").unwrap_or_default(),
        };
        inner.finish();
        output
    } else {
        let mut fields = reader.fields(node, "an output")?;
        let output = Output {
            name: fields.text("name").unwrap_or_default(),
            selector: selector(&mut fields, "selector"),
            value: fields.text("value").unwrap_or_default(),
        };
        fields.finish();
        output
    };
    for (key, text) in [("name", &output.name), ("selector", &output.selector), ("value", &output.value)] {
        if text.is_empty() {
            reader.report(
                Diagnostic::error(
                    "incomplete-output",
                    node.span.clone(),
                    format!("the output has no `{key}`"),
                )
                .helped("an output needs a `name`, a `selector` and a `value`"),
            );
        }
    }
    Some(output)
}

/// An output of a run.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OutputSpec<'a> {
    /// The name of the variable.
    name: &'a str,
    /// The span that the value is taken from.
    selector: &'a str,
    /// The value, an expression like `attr:tracetest.response.body | json_path '$.id'`.
    value: &'a str,
}

impl<'a> OutputSpec<'a> {
    pub(super) fn of(output: &'a Output) -> Self {
        Self { name: &output.name.value, selector: &output.selector.value, value: &output.value.value }
    }
}
