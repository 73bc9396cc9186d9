//! The test runner: the default gates of a run.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Reader;
use crate::definition::text::Text;
use crate::gates::Gate;
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;

/// The default gates of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestRunner {
    /// The title for the user.
    pub name: String,
    /// The gates.
    pub required_gates: Vec<Gate>,
}

impl Default for TestRunner {
    fn default() -> Self {
        Self { name: "default".to_owned(), required_gates: vec![Gate::TestSpecs] }
    }
}

pub(in crate::definition) fn read(reader: &Reader<'_>, node: &Node) -> Option<TestRunner> {
    let mut fields = reader.fields(node, "a test runner")?;
    fields.text("id");
    let name = fields.string("name").unwrap_or_default();
    let required_gates = fields.texts("requiredGates").iter().filter_map(|text| gate(reader, text)).collect();
    fields.finish();
    Some(TestRunner { name, required_gates })
}

fn gate(reader: &Reader<'_>, text: &Text) -> Option<Gate> {
    let found = Gate::named(&text.value);
    if found.is_none() {
        let names = Gate::ALL.map(Gate::as_str);
        let help = match nearest(&text.value, names) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("use {}", names.join(", ")),
        };
        let message = format!("`{}` is not a gate", text.value);
        let span = text.place(0..text.value.len());
        reader.report(Diagnostic::error("unknown-gate", span, message).helped(help));
    }
    found
}

/// What a run must pass.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::definition) struct TestRunnerSpec<'a> {
    /// The id; a server has one test runner, `current`.
    id: &'a str,
    /// The title of the test runner.
    name: &'a str,
    /// Null only in the answer to a definition without it.
    #[schemars(with = "Option<Vec<Gate>>")]
    required_gates: Option<Vec<&'static str>>,
}

impl<'a> TestRunnerSpec<'a> {
    pub(in crate::definition) fn of(id: &'a str, runner: &'a TestRunner) -> Self {
        let required_gates = runner.required_gates.iter().copied().map(Gate::as_str).collect();
        Self { id, name: &runner.name, required_gates: Some(required_gates) }
    }
}
