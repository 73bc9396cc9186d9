//! A selector, with what it consists of.

use qualitytrace_core::lang::ast::{Chain, Clause, Condition, Literal, Pseudo, Step, Test};
use qualitytrace_core::lang::parse_selector;
use serde_json::{Map, Value, json};

/// The selector as `{query, structure}`; empty for the one that picks every span.
pub fn selector(query: &str) -> Value {
    if query.is_empty() {
        return json!({});
    }
    let parsed = parse_selector(query);
    let mut out = json!({ "query": query });
    if parsed.is_valid() && !parsed.tree.chains.is_empty() {
        out["structure"] = parsed.tree.chains.iter().map(chain).collect();
    }
    out
}

fn chain(chain: &Chain) -> Value {
    let steps: Vec<&Step> =
        std::iter::once(&chain.first).chain(chain.rest.iter().map(|(_, step)| step)).collect();
    let nested = steps.iter().rev().fold(None, |inner: Option<Value>, one| {
        let mut out = step(one);
        if let Some(inner) = inner {
            out.insert("childSelector".to_owned(), inner);
        }
        Some(Value::Object(out))
    });
    nested.unwrap_or_default()
}

fn step(step: &Step) -> Map<String, Value> {
    let mut filters = Vec::new();
    collect(&step.condition, &mut filters);
    let mut out = Map::new();
    out.insert("filters".to_owned(), filters.into());
    let pseudo = match step.pseudos.first() {
        Some(Pseudo::First) => Some(json!({ "name": "first" })),
        Some(Pseudo::Last) => Some(json!({ "name": "last" })),
        Some(Pseudo::Nth(number)) => Some(json!({ "name": "nth_child", "argument": number })),
        Some(Pseudo::Root) => Some(json!({ "name": "root" })),
        Some(Pseudo::Leaf) => Some(json!({ "name": "leaf" })),
        Some(Pseudo::Has { .. }) => Some(json!({ "name": "has" })),
        Some(Pseudo::Not(_)) => Some(json!({ "name": "not" })),
        None => None,
    };
    if let Some(pseudo) = pseudo {
        out.insert("pseudoClass".to_owned(), pseudo);
    }
    out
}

/// The clauses of a condition, one after the other: clients show them and do no more with them.
fn collect(condition: &Condition, filters: &mut Vec<Value>) {
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

fn filter(clause: &Clause) -> Value {
    let (operator, value) = match &clause.test {
        Test::Compare(comparator, literal) => (comparator.as_str(), text(literal)),
        Test::Matches { negated, pattern, .. } => (if *negated { "!~" } else { "=~" }, pattern.clone()),
        Test::OneOf { negated, choices } => {
            let choices: Vec<String> = choices.iter().map(text).collect();
            (if *negated { "not in" } else { "in" }, choices.join(", "))
        }
        Test::Exists { negated } => (if *negated { "not exists" } else { "exists" }, String::new()),
    };
    json!({ "property": clause.name.text, "operator": operator, "value": value })
}

fn text(literal: &Literal) -> String {
    match literal {
        Literal::Text(text) | Literal::Number(text) | Literal::Duration(text) | Literal::Word(text) => {
            text.clone()
        }
        Literal::Bool(truth) => truth.to_string(),
    }
}
