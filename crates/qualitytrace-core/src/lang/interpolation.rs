//! Variables in selectors: `${var:NAME}` in a text is replaced in the parsed tree, so that no value can change what the
//! selector asks for.

use super::ast::{
    AggregateInput, Claim, Condition, Expr, ExprKind, Literal, Part, Pseudo, Selector, Step, Test,
};
use super::functions::Generator;
use super::parser::Parsed;
use super::template::{resolve_text, variables_used};
use super::variables::Variables;
use crate::budget::Budget;

/// Returns the variables that a selector refers to, in order of first use, each once.
pub fn variables_in_selector(selector: &Parsed<Selector>) -> Vec<String> {
    let mut names = Vec::new();
    if selector.is_valid() {
        each_text(&mut selector.tree.clone(), &mut |text| {
            names.extend(variables_used(text));
        });
    }
    let mut known = std::collections::HashSet::new();
    names.retain(|name| known.insert(name.clone()));
    names
}

/// Replaces the variables in the texts of a selector; a text that cannot be resolved stays as it is.
pub(crate) fn fill_selector(selector: &mut Selector, variables: &Variables, generator: &Generator) {
    each_text(selector, &mut |text| {
        if text.contains("${")
            && let Ok(filled) = resolve_text(text, variables, &mut generator.clone(), &Budget::default())
        {
            *text = filled;
        }
    });
}

/// Replaces the variables in the selectors of a claim.
pub(crate) fn fill_claim(claim: &mut Claim, variables: &Variables, generator: &Generator) {
    let mut fill = |selector: &mut Selector| fill_selector(selector, variables, generator);
    match claim {
        Claim::Time { selector, .. } => fill(selector),
        Claim::Compare { left, right, .. } | Claim::OneOf { left, right, .. } => {
            each_selector(left, &mut fill);
            each_selector(right, &mut fill);
        }
        Claim::Exists { left, .. } => each_selector(left, &mut fill),
        Claim::Hole => {}
    }
}

/// Replaces the variables in the selectors of an expression.
pub(crate) fn fill_expression(expr: &mut Expr, variables: &Variables, generator: &Generator) {
    each_selector(expr, &mut |selector| fill_selector(selector, variables, generator));
}

fn each_selector(expr: &mut Expr, visit: &mut impl FnMut(&mut Selector)) {
    match &mut expr.kind {
        ExprKind::Aggregate { over: AggregateInput::Selection { selector, .. }, .. } => visit(selector),
        ExprKind::Aggregate { over: AggregateInput::Own(Some(inner)), .. } => each_selector(inner, visit),
        ExprKind::Text(parts) => {
            for part in parts {
                if let Part::Interpolation(inner) = part {
                    each_selector(inner, visit);
                }
            }
        }
        ExprKind::Array(items) | ExprKind::Call { arguments: items, .. } => {
            for item in items {
                each_selector(item, visit);
            }
        }
        ExprKind::Calculation { first, rest } => {
            each_selector(first, visit);
            for (_, operand) in rest {
                each_selector(operand, visit);
            }
        }
        ExprKind::Filtered { input, .. } => each_selector(input, visit),
        ExprKind::Aggregate { over: AggregateInput::Own(None), .. }
        | ExprKind::Number(_)
        | ExprKind::Duration(_)
        | ExprKind::Bool(_)
        | ExprKind::Attribute(_)
        | ExprKind::Variable(_)
        | ExprKind::Hole => {}
    }
}

fn each_text(selector: &mut Selector, visit: &mut impl FnMut(&mut String)) {
    for chain in &mut selector.chains {
        in_step(&mut chain.first, visit);
        chain.rest.iter_mut().for_each(|(_, step)| in_step(step, visit));
    }
}

fn in_step(step: &mut Step, visit: &mut impl FnMut(&mut String)) {
    in_condition(&mut step.condition, visit);
    for pseudo in &mut step.pseudos {
        match pseudo {
            Pseudo::Has { selector, .. } | Pseudo::Not(selector) => each_text(selector, visit),
            Pseudo::First | Pseudo::Last | Pseudo::Nth(_) | Pseudo::Root | Pseudo::Leaf => {}
        }
    }
}

fn in_condition(condition: &mut Condition, visit: &mut impl FnMut(&mut String)) {
    match condition {
        Condition::Clause(clause) => {
            let literals = match &mut clause.test {
                Test::Compare(_, literal) => std::slice::from_mut(literal),
                Test::OneOf { choices, .. } => choices.as_mut_slice(),
                Test::Matches { .. } | Test::Exists { .. } => &mut [],
            };
            for literal in literals {
                if let Literal::Text(text) = literal {
                    visit(text);
                }
            }
        }
        Condition::Not(inner) => in_condition(inner, visit),
        Condition::All(inner) | Condition::Any(inner) => {
            for condition in inner {
                in_condition(condition, visit);
            }
        }
    }
}
