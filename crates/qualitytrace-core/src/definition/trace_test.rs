//! Tests: their type, reader and JSON, and the same for their parts.

mod output;
mod profile;
mod spec;

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

pub use output::Output;
pub use profile::Profile;
pub use spec::Spec;

use super::is_map;
use super::reader::{Fields, Reader};
use super::shape::is_blank;
use super::stored::{Stored, Summary};
use super::text::Text;
use super::trigger::{self, Trigger, TriggerSpec};
use crate::lang::Diagnostic;
use crate::series::Attempts;
use output::OutputSpec;
use profile::ProfileSpec;
use spec::SpanSpec;

/// A trigger, and what must hold for the trace that it causes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Test {
    /// The test's id; `None` until it is stored, when one is generated.
    pub id: Option<String>,
    /// The title for the user.
    pub name: String,
    /// A description.
    pub description: String,
    /// Words to select it by.
    pub tags: Vec<String>,
    /// The trigger; a test without one can be stored but not run.
    pub trigger: Option<Trigger>,
    /// The specs.
    pub specs: Vec<Spec>,
    /// Values for its own specs and for later tests.
    pub outputs: Vec<Output>,
    /// Whether to judge only the trigger's response, without waiting for a trace.
    pub skip_trace_collection: bool,
    /// The polling profile; `None` means the current one.
    pub polling_profile: Option<Profile>,
    /// Peers that send no spans, besides those of its profile and the server: calls to them owe no answer.
    pub uninstrumented: Vec<String>,
    /// The number of retries and repetitions.
    pub attempts: Attempts,
}

impl Test {
    /// Returns the texts in the language of tests: selectors, assertions and values of outputs.
    pub(super) fn language_texts(&self) -> impl Iterator<Item = &Text> {
        let specs =
            self.specs.iter().flat_map(|spec| std::iter::once(&spec.selector).chain(&spec.assertions));
        specs.chain(self.outputs.iter().flat_map(|output| [&output.selector, &output.value]))
    }
}

pub(super) fn read(reader: &Reader<'_>, node: &Node) -> Option<Test> {
    let mut fields = reader.fields(node, "a test")?;
    if !fields.has("name") && !fields.has("trigger") {
        reader.report(
            Diagnostic::error(
                "empty-test",
                node.span.clone(),
                "the test has neither a `name` nor a `trigger`",
            )
            .helped("give it both"),
        );
    }
    let test = Test {
        id: fields.string("id").filter(|id| !id.is_empty()),
        name: fields.string("name").unwrap_or_default(),
        description: fields.string("description").unwrap_or_default(),
        tags: fields.words("tags"),
        trigger: fields.get("trigger").and_then(|node| trigger::read(reader, node)),
        specs: fields.items("specs").iter().filter_map(|node| spec::read(reader, node)).collect(),
        outputs: fields.items("outputs").iter().filter_map(|node| output::read(reader, node)).collect(),
        skip_trace_collection: fields.flag("skipTraceCollection").unwrap_or_default(),
        polling_profile: fields.get("pollingProfile").and_then(|node| profile::read(reader, node)),
        uninstrumented: fields.words("uninstrumented"),
        attempts: Attempts {
            retries: fields.count("retries", Attempts::MOST).unwrap_or(0),
            repeat: fields.count("repeat", Attempts::MOST).unwrap_or(1).max(1),
        },
    };
    if let Err(excess) = test.attempts.check() {
        reader.error("wrong-count", node.span.clone(), excess.to_string());
    }
    if let Some(entry) = fields.entry("spec") {
        let message = "`spec` is not a key of a test, so what stands below it would not be checked";
        let error = Diagnostic::error("unknown-key", entry.key_span.clone(), message);
        reader.report(error.helped("write `specs`, a list of selectors with their assertions"));
    }
    // The server sets these; exported files contain them.
    fields.int("version");
    fields.text("createdAt");
    fields.ignore(&["summary"]);
    fields.finish();
    Some(test)
}

/// Returns the `Value` of the oldest JSON layout, `{Key, Value}`.
fn legacy_value(node: &Node) -> Option<&Node> {
    node.get("Key")?;
    node.get("Value").filter(|value| is_map(value))
}

/// Reads a selector: a text, or an object that holds it as `query`; responses of the API have it parsed as well.
fn selector(fields: &mut Fields<'_, '_>, key: &'static str) -> Text {
    let reader = fields.reader;
    let mut query = |key: &'static str| {
        let node = fields.get(key)?;
        if !is_map(node) {
            return reader.text(node, "a selector");
        }
        let mut inner = reader.fields(node, "a selector")?;
        inner.ignore(&["parsedSelector", "structure"]);
        let text = inner.text("query");
        inner.finish();
        text
    };
    let parsed = query("selectorParsed");
    query(key).or(parsed).unwrap_or_default()
}

/// A test.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TestSpec<'a> {
    /// The id of the test; a test without one gets one when it is stored.
    #[serde(skip_serializing_if = "is_blank")]
    id: &'a str,
    /// When the test was stored; set by the server, in answers with the augmented header only.
    #[serde(skip_serializing_if = "is_blank")]
    created_at: Option<&'a str>,
    /// The title of the test in lists and reports.
    #[serde(skip_serializing_if = "is_blank")]
    name: &'a str,
    /// What the test is about.
    #[serde(skip_serializing_if = "is_blank")]
    description: &'a str,
    /// Words to select the test by, as in `qualitytrace run --tag smoke`.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    /// The number of its version; set by the server, in answers with the augmented header only.
    #[serde(skip_serializing_if = "is_blank")]
    version: Option<u32>,
    /// How the test starts the work of the system.
    trigger: TriggerSpec<'a>,
    /// What must hold for the spans of the trace.
    #[serde(skip_serializing_if = "is_blank")]
    specs: Vec<SpanSpec<'a>>,
    /// Values of the trace for its own specs and for later tests of a suite.
    #[serde(skip_serializing_if = "is_blank")]
    outputs: Vec<OutputSpec<'a>>,
    /// Its latest runs; set by the server, in answers with the augmented header only.
    #[serde(skip_serializing_if = "is_blank")]
    summary: Option<&'a Summary>,
    /// Whether only the answer to the trigger is judged, without waiting for a trace.
    #[serde(skip_serializing_if = "is_blank")]
    skip_trace_collection: bool,
    /// How to wait for the trace: a path of a polling profile, or the profile itself; without it, the current one.
    #[serde(skip_serializing_if = "is_blank")]
    polling_profile: Option<ProfileSpec<'a>>,
    /// Services that send no spans, like `mail:25` or `*.example.com`; calls to them owe no answer.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    uninstrumented: &'a [String],
    /// How often the test is run again while it does not pass.
    #[serde(skip_serializing_if = "is_blank")]
    retries: u32,
    /// How often the test is run in any case.
    #[serde(skip_serializing_if = "is_blank")]
    repeat: Option<u32>,
}

impl<'a> TestSpec<'a> {
    pub(super) fn of(id: &'a str, test: &'a Test, stored: &'a Stored) -> Self {
        Self {
            id,
            created_at: stored.created_at.as_deref(),
            name: &test.name,
            description: &test.description,
            tags: &test.tags,
            version: stored.version,
            trigger: TriggerSpec::of(test.trigger.as_ref()),
            specs: test.specs.iter().map(SpanSpec::of).collect(),
            outputs: test.outputs.iter().map(OutputSpec::of).collect(),
            summary: stored.summary.as_ref(),
            skip_trace_collection: test.skip_trace_collection,
            polling_profile: test.polling_profile.as_ref().map(ProfileSpec::of),
            uninstrumented: &test.uninstrumented,
            retries: test.attempts.retries,
            repeat: Some(test.attempts.repeat).filter(|repeat| *repeat > 1),
        }
    }
}
