//! Variable sets: their type, reader and JSON.

use std::collections::HashSet;

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use super::reader::Reader;
use super::shape::is_blank;
use super::stored::Stored;
use super::text::Text;
use crate::lang::Diagnostic;

/// Named values that tests can refer to as `${var:NAME}`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VariableSet {
    /// The set's id; `None` until it is stored, when one is generated.
    pub id: Option<String>,
    /// The title for the user.
    pub name: String,
    /// A description.
    pub description: String,
    /// The variables in order.
    pub values: Vec<Variable>,
    /// Whether the definition has a list of them, even if it is empty.
    pub has_values: bool,
}

/// One named value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variable {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: Text,
    /// Whether the value is secret: `type: secret`.
    pub is_secret: bool,
}

pub(super) fn read(reader: &Reader<'_>, node: &Node) -> Option<VariableSet> {
    let mut fields = reader.fields(node, "a variable set")?;
    let set = VariableSet {
        id: fields.string("id").filter(|id| !id.is_empty()),
        name: fields.required_name("variable set name cannot be empty"),
        description: fields.string("description").unwrap_or_default(),
        has_values: fields.get("values").is_some(),
        values: values(reader, fields.items("values")),
    };
    fields.text("createdAt");
    fields.finish();
    Some(set)
}

fn values(reader: &Reader<'_>, nodes: &[Node]) -> Vec<Variable> {
    let mut known = HashSet::new();
    let mut values = Vec::new();
    for node in nodes {
        let Some(variable) = variable(reader, node) else { continue };
        if !known.insert(variable.key.clone()) {
            let message = format!("the variable `{}` is given twice", variable.key);
            let diagnostic = Diagnostic::warning("duplicate-variable", node.span.clone(), message);
            reader.report(diagnostic.helped("keep one of the two: only one can count"));
        }
        values.push(variable);
    }
    values
}

fn variable(reader: &Reader<'_>, node: &Node) -> Option<Variable> {
    let mut fields = reader.fields(node, "a variable")?;
    let kind = fields.text("type").unwrap_or_default();
    let variable = Variable {
        key: fields.string("key").unwrap_or_default(),
        value: fields.text("value").unwrap_or_default(),
        is_secret: kind.value == "secret",
    };
    fields.finish();
    if variable.key.is_empty() {
        reader.error("no-key", node.span.clone(), "variable set value key cannot be empty");
    }
    if !matches!(kind.value.as_str(), "" | "raw" | "secret") {
        let message = format!("a variable is `raw` or `secret`, not `{}`", kind.value);
        reader.error("unknown-variable-type", kind.place(0..kind.value.len()), message);
    }
    Some(variable)
}

/// Values that tests can refer to.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct VariableSetSpec<'a> {
    /// The id of the set; a set without one gets one when it is stored.
    #[serde(skip_serializing_if = "is_blank")]
    id: &'a str,
    /// The title of the set.
    name: &'a str,
    /// What the set is about.
    description: &'a str,
    /// When the set was stored; set by the server.
    #[serde(skip_serializing_if = "is_blank")]
    created_at: Option<&'a str>,
    /// The variables.
    values: Option<Vec<VariableSpec<'a>>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VariableSpec<'a> {
    /// The name of the variable, used as `${var:NAME}`.
    key: &'a str,
    /// Its value.
    value: &'a str,
    /// `secret`, or nothing.
    #[serde(skip_serializing_if = "is_blank", rename = "type")]
    kind: &'static str,
}

impl<'a> VariableSetSpec<'a> {
    pub(super) fn of(id: &'a str, set: &'a VariableSet, stored: &'a Stored) -> Self {
        let values = set.values.iter().map(|variable| VariableSpec {
            key: &variable.key,
            value: &variable.value.value,
            kind: if variable.is_secret { "secret" } else { "" },
        });
        Self {
            id,
            name: &set.name,
            description: &set.description,
            created_at: stored.created_at.as_deref(),
            values: set.has_values.then(|| values.collect()),
        }
    }
}
