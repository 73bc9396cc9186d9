//! Texts of a trigger, in which `${...}` is replaced before it is sent.

use std::cell::RefCell;

use super::ast::{Assertion, Claim, Expr, ExprKind, Over, Part};
use super::budget::Budget;
use super::eval::{Context, Memory, Subject, Trouble};
use super::functions::Generator;
use super::parser::{Parsed, parse_template};
use super::variables::Variables;

/// The text with every `${...}` replaced; variables and generators can stand there, attributes cannot.
pub fn resolve_text(
    text: &str,
    variables: &Variables,
    generator: &mut Generator,
    budget: &Budget,
) -> Result<String, Trouble> {
    if !text.contains("${") {
        return Ok(text.to_owned());
    }
    let parsed = parse_template(text);
    if let Some(error) = parsed.error() {
        return Err(Trouble::syntax(text, &error.message));
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

/// The variables that a text of a trigger refers to, in the order of their first use, each once.
///
/// What cannot be parsed refers to nothing.
pub fn variables_used(text: &str) -> Vec<String> {
    let parsed = parse_template(text);
    let mut names = Vec::new();
    if parsed.is_valid() {
        in_parts(&parsed.tree, &mut names);
    }
    names
}

/// The variables that an assertion refers to, in the order of their first use, each once.
pub fn variables_in_assertion(assertion: &Parsed<Assertion>) -> Vec<String> {
    let mut names = Vec::new();
    if assertion.is_valid() {
        match &assertion.tree.claim {
            Claim::Compare { left, right, .. } | Claim::OneOf { left, right, .. } => {
                in_expr(left, &mut names);
                in_expr(right, &mut names);
            }
            Claim::Exists { left, .. } => in_expr(left, &mut names),
            Claim::Time { .. } | Claim::Hole => {}
        }
    }
    names
}

/// The variables that an expression refers to, in the order of their first use, each once.
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
    match &expr.kind {
        ExprKind::Variable(name) => {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        ExprKind::Text(parts) => in_parts(parts, names),
        ExprKind::Array(items) | ExprKind::Call { arguments: items, .. } => {
            for item in items {
                in_expr(item, names);
            }
        }
        ExprKind::Calculation { first, rest } => {
            in_expr(first, names);
            for (_, operand) in rest {
                in_expr(operand, names);
            }
        }
        ExprKind::Filtered { input, filters } => {
            in_expr(input, names);
            filters.iter().flat_map(|filter| &filter.arguments).for_each(|argument| in_expr(argument, names));
        }
        ExprKind::Aggregate { over: Over::Own(Some(inner)), .. } => in_expr(inner, names),
        ExprKind::Aggregate { .. }
        | ExprKind::Number(_)
        | ExprKind::Duration(_)
        | ExprKind::Bool(_)
        | ExprKind::Attribute(_)
        | ExprKind::Hole => {}
    }
}
