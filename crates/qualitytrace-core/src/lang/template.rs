//! Texts of a trigger, in which `${...}` is replaced before sending.

use std::cell::RefCell;

use super::ast::{Assertion, Expr, ExprKind, Part};
use super::eval::{Context, EvalError, Memory, Subject};
use super::functions::Generator;
use super::parser::{Parsed, parse_template};
use super::variables::Variables;
use crate::budget::Budget;

/// Returns the text with every `${...}` replaced; variables and generators are allowed there, attributes are not.
pub fn resolve_text(
    text: &str,
    variables: &Variables,
    generator: &mut Generator,
    budget: &Budget,
) -> Result<String, EvalError> {
    if !text.contains("${") {
        return Ok(text.to_owned());
    }
    let parsed = parse_template(text);
    if let Some(error) = parsed.error() {
        return Err(EvalError::syntax(text, &error.message));
    }
    let cell = RefCell::new(generator.clone());
    let filled = Context {
        scene: None,
        selection: None,
        variables,
        generator: &cell,
        aliases: true,
        budget,
        memory: Memory::default(),
    }
    .fill(&parsed.tree, Subject::Nowhere);
    *generator = cell.into_inner();
    filled
}

/// Returns the variables that a text of a trigger refers to, in order of first use, each once.
///
/// A text that does not parse refers to none.
pub fn variables_used(text: &str) -> Vec<String> {
    let parsed = parse_template(text);
    let mut names = Vec::new();
    if parsed.is_valid() {
        in_parts(&parsed.tree, &mut names);
    }
    names
}

/// Returns the variables that an assertion refers to, in order of first use, each once.
pub fn variables_in_assertion(assertion: &Parsed<Assertion>) -> Vec<String> {
    let mut names = Vec::new();
    if assertion.is_valid() {
        assertion.tree.claim.expressions().for_each(|side| in_expr(side, &mut names));
    }
    names
}

/// Returns the variables that an expression refers to, in order of first use, each once.
pub fn variables_in_expression(expression: &Parsed<Expr>) -> Vec<String> {
    let mut names = Vec::new();
    if expression.is_valid() {
        in_expr(&expression.tree, &mut names);
    }
    names
}

fn in_parts(parts: &[Part], names: &mut Vec<String>) {
    for part in parts {
        if let Part::Interpolation(inner) = part {
            in_expr(inner, names);
        }
    }
}

fn in_expr(expr: &Expr, names: &mut Vec<String>) {
    expr.visit(&mut |node| {
        if let ExprKind::Variable(name) = &node.kind
            && !names.contains(name)
        {
            names.push(name.clone());
        }
    });
}
