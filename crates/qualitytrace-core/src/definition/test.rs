//! Tests, and their reader.

use qualitytrace_config::tree::Node;

use super::is_map;
use super::reader::{Fields, Reader};
use super::settings::{self, PollingProfile};
use super::text::{Text, is_path};
use super::trigger::{self, Trigger};
use crate::lang::Diagnostic;
use crate::series::Attempts;

/// The id of singletons.
const CURRENT: &str = "current";

/// A trigger, and what must hold for the trace that it causes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Test {
    /// The test's id; `None` until it is stored, when one is generated.
    pub id: Option<String>,
    /// The title for the user.
    pub name: String,
    /// A description.
    pub description: String,
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

/// The polling profile of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Profile {
    /// An id, or a path for the command line, which substitutes the profile itself.
    Named(Text),
    /// Its own profile.
    Own(Box<PollingProfile>),
}

impl Profile {
    /// Returns the path, if it is named by one.
    pub fn path(&self) -> Option<&Text> {
        match self {
            Self::Named(name) if is_path(&name.value) => Some(name),
            Self::Named(_) | Self::Own(_) => None,
        }
    }
}

/// What must hold for the spans that a selector selects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spec {
    /// A title for reports.
    pub name: Option<String>,
    /// The selector; an empty text selects all spans.
    pub selector: Text,
    /// What must hold for each of them.
    pub assertions: Vec<Text>,
}

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
        trigger: fields.get("trigger").and_then(|node| trigger::read(reader, node)),
        specs: fields.items("specs").iter().filter_map(|node| spec(reader, node)).collect(),
        outputs: fields.items("outputs").iter().filter_map(|node| output(reader, node)).collect(),
        skip_trace_collection: fields.flag("skipTraceCollection").unwrap_or_default(),
        polling_profile: fields.get("pollingProfile").and_then(|node| profile(reader, node)),
        uninstrumented: settings::uninstrumented(&mut fields),
        attempts: Attempts {
            retries: fields.count("retries", Attempts::MOST).unwrap_or(0),
            repeat: fields.count("repeat", Attempts::MOST).unwrap_or(1).max(1),
        },
    };
    if let Err(excess) = test.attempts.check() {
        reader.error("wrong-count", node.span.clone(), excess.to_string());
    }
    // The server sets these; exported files contain them.
    fields.int("version");
    fields.text("createdAt");
    fields.ignore(&["summary"]);
    fields.finish();
    Some(test)
}

fn profile(reader: &Reader<'_>, node: &Node) -> Option<Profile> {
    if is_map(node) {
        return Some(Profile::Own(Box::new(settings::polling_profile(reader, node)?)));
    }
    let name = reader.text(node, "`pollingProfile`").filter(|text| !text.is_empty())?;
    if name.value != CURRENT && !is_path(&name.value) {
        let message = format!(
            "the server has one polling profile, `{CURRENT}`, and waits by it; `{}` is not known",
            name.value
        );
        let help = "name a file, like `./profile.yaml`, or write the profile itself in its place";
        reader.report(Diagnostic::warning("unknown-profile", node.span.clone(), message).helped(help));
    }
    Some(Profile::Named(name))
}

fn spec(reader: &Reader<'_>, node: &Node) -> Option<Spec> {
    if let Some(value) = legacy_value(node) {
        let mut outer = reader.fields(node, "a spec")?;
        let selector = selector(&mut outer, "Key");
        outer.ignore(&["Value"]);
        outer.finish();
        let mut inner = reader.fields(value, "a spec")?;
        let spec = Spec {
            name: inner.string("Name").filter(|name| !name.is_empty()),
            selector,
            assertions: inner.texts("Assertions"),
        };
        inner.finish();
        check_spec(reader, node, &spec);
        return Some(spec);
    }
    let mut fields = reader.fields(node, "a spec")?;
    let spec = Spec {
        name: fields.string("name").filter(|name| !name.is_empty()),
        selector: selector(&mut fields, "selector"),
        assertions: fields.texts("assertions"),
    };
    fields.finish();
    check_spec(reader, node, &spec);
    Some(spec)
}

/// Reports an empty spec: it would pass on any trace.
fn check_spec(reader: &Reader<'_>, node: &Node, spec: &Spec) {
    // An invalid selector was reported already.
    let is_broken = node.get("selector").is_some_and(|node| is_map(node) && node.get("query").is_none());
    if spec.selector.is_empty() && spec.assertions.is_empty() && !is_broken {
        let message = "the spec has neither a `selector` nor `assertions`";
        let diagnostic = Diagnostic::error("empty-spec", node.span.clone(), message);
        reader.report(diagnostic.helped("say which spans it is about and what must hold for them"));
    }
}

fn output(reader: &Reader<'_>, node: &Node) -> Option<Output> {
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
