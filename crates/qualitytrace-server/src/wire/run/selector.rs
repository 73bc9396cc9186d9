//! A selector with its structure.

use qualitytrace_core::lang::ast::{Chain, Clause, Condition, Literal, Pseudo, Step, Test};
use qualitytrace_core::lang::parse_selector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_blank;

/// A selector; empty if it matches every span.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Selector {
    /// The selector, as written.
    #[serde(skip_serializing_if = "is_blank")]
    pub query: String,
    /// The structure of each alternative between commas.
    #[serde(skip_serializing_if = "is_blank")]
    pub structure: Vec<Structure>,
}

/// One step of a selector, with the next one inside it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "SelectorStructure")]
pub struct Structure {
    filters: Vec<Filter>,
    #[serde(skip_serializing_if = "is_blank")]
    pseudo_class: Option<PseudoClass>,
    #[serde(skip_serializing_if = "is_blank")]
    child_selector: Option<Box<Structure>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "SelectorFilter")]
struct Filter {
    property: String,
    operator: String,
    value: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "SelectorPseudoClass")]
struct PseudoClass {
    name: String,
    #[serde(skip_serializing_if = "is_blank")]
    argument: Option<u64>,
}

/// Parses a selector; the structure of an invalid one is empty.
pub fn selector(query: &str) -> Selector {
    if query.is_empty() {
        return Selector::default();
    }
    let parsed = parse_selector(query);
    let structure =
        if parsed.is_valid() { parsed.tree.chains.iter().filter_map(chain).collect() } else { Vec::new() };
    Selector { query: query.to_owned(), structure }
}

fn chain(chain: &Chain) -> Option<Structure> {
    let steps: Vec<&Step> =
        std::iter::once(&chain.first).chain(chain.rest.iter().map(|(_, step)| step)).collect();
    steps.iter().rev().fold(None, |inner: Option<Structure>, one| {
        Some(Structure { child_selector: inner.map(Box::new), ..step(one) })
    })
}

fn step(step: &Step) -> Structure {
    let mut filters = Vec::new();
    collect(&step.condition, &mut filters);
    let named = |name: &str, argument: Option<u64>| PseudoClass { name: name.to_owned(), argument };
    let pseudo_class = step.pseudos.first().map(|pseudo| match pseudo {
        Pseudo::First => named("first", None),
        Pseudo::Last => named("last", None),
        Pseudo::Nth(number) => named("nth_child", Some(*number)),
        Pseudo::Root => named("root", None),
        Pseudo::Leaf => named("leaf", None),
        Pseudo::Has { .. } => named("has", None),
        Pseudo::Not(_) => named("not", None),
    });
    Structure { filters, pseudo_class, child_selector: None }
}

/// Flattens the clauses of a condition: clients only display them.
fn collect(condition: &Condition, filters: &mut Vec<Filter>) {
    match condition {
        Condition::Clause(clause) => filters.push(filter(clause)),
        Condition::Not(inner) => collect(inner, filters),
        Condition::All(inner) | Condition::Any(inner) => {
            for inner in inner {
                collect(inner, filters);
            }
        }
    }
}

fn filter(clause: &Clause) -> Filter {
    let (operator, value) = match &clause.test {
        Test::Compare(comparator, literal) => (comparator.as_str(), text(literal)),
        Test::Matches { negated, pattern, .. } => (if *negated { "!~" } else { "=~" }, pattern.clone()),
        Test::OneOf { negated, choices } => {
            let choices: Vec<String> = choices.iter().map(text).collect();
            (if *negated { "not in" } else { "in" }, choices.join(", "))
        }
        Test::Exists { negated } => (if *negated { "not exists" } else { "exists" }, String::new()),
    };
    Filter { property: clause.name.text.clone(), operator: operator.to_owned(), value }
}

fn text(literal: &Literal) -> String {
    match literal {
        Literal::Text(text) | Literal::Number(text) | Literal::Duration(text) | Literal::Word(text) => {
            text.clone()
        }
        Literal::Bool(truth) => truth.to_string(),
    }
}
