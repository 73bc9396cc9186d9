//! The specs of a test: selectors and assertions.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use super::{legacy_value, selector};
use crate::definition::is_map;
use crate::definition::period::{self, Period};
use crate::definition::reader::Reader;
use crate::definition::shape::{is_blank, texts};
use crate::definition::text::Text;
use crate::lang::Diagnostic;

/// What must hold for the spans that a selector selects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spec {
    /// A title for reports.
    pub name: Option<String>,
    /// The selector; an empty text selects all spans.
    pub selector: Text,
    /// How long after the rest of the trace its spans may end before they count as absent; `None` means the default of
    /// the polling profile.
    pub within: Option<Period>,
    /// What must hold for each of them.
    pub assertions: Vec<Text>,
}

pub(super) fn read(reader: &Reader<'_>, node: &Node) -> Option<Spec> {
    if let Some(value) = legacy_value(node) {
        let mut outer = reader.fields(node, "a spec")?;
        let selector = selector(&mut outer, "Key");
        outer.ignore(&["Value"]);
        outer.finish();
        let mut inner = reader.fields(value, "a spec")?;
        let spec = Spec {
            name: inner.string("Name").filter(|name| !name.is_empty()),
            selector,
            within: None,
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
        within: period::read(&mut fields, "within"),
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

/// Assertions about the spans that a selector selects.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SpanSpec<'a> {
    /// Which spans the assertions are about; without it, all.
    selector: &'a str,
    /// The title in reports; without it, the selector.
    #[serde(skip_serializing_if = "is_blank")]
    name: &'a str,
    /// How long after the rest of the trace its spans may end before they count as absent, like `30s`.
    #[serde(skip_serializing_if = "is_blank")]
    within: Option<&'a str>,
    /// What must hold for each selected span.
    assertions: Vec<&'a str>,
}

impl<'a> SpanSpec<'a> {
    pub(super) fn of(spec: &'a Spec) -> Self {
        Self {
            selector: &spec.selector.value,
            name: spec.name.as_deref().unwrap_or_default(),
            within: spec.within.as_ref().map(|within| within.text.as_str()),
            assertions: texts(&spec.assertions),
        }
    }
}
