//! Rewrites selectors and assertions in the names and values of the current semantic conventions. Only what changes its
//! name or value is replaced; the rest of a text stays as it is written.

use std::ops::Range;

use super::ast::{
    Assertion, Claim, Clause, Comparator, Condition, Expr, ExprKind, Literal, Part, Pseudo, Selector, Step,
    Test,
};
use super::parser::{Parsed, parse_assertion, parse_expression, parse_selector};
use super::print::{quote, quote_in_selector};
use crate::names;

/// Names of a call: older conventions split the full name of a method.
const SERVICE: &str = "rpc.service";
const METHOD: &str = "rpc.method";

/// A part of a text and what it becomes.
type Edit = (Range<usize>, String);

/// Returns a selector in the current conventions; a text that does not parse stays as it is.
pub fn modern_selector(text: &str) -> String {
    rewritten(text, &parse_selector(text), |tree, edits| in_selector(text, tree, edits))
}

/// Returns an expression in the current conventions; a text that does not parse stays as it is.
pub fn modern_expression(text: &str) -> String {
    rewritten(text, &parse_expression(text), |tree, edits| in_expression(text, tree, edits))
}

/// Returns the assertions of one spec in the current conventions. They are rewritten together, because the service and
/// the method of a call became one attribute.
pub fn modern_assertions<'t>(texts: impl IntoIterator<Item = &'t str>) -> Vec<String> {
    let parsed: Vec<(&str, Parsed<Assertion>)> =
        texts.into_iter().map(|text| (text, parse_assertion(text))).collect();
    let claims =
        || parsed.iter().filter(|(_, parsed)| parsed.is_valid()).map(|(_, parsed)| &parsed.tree.claim);
    let service = claims().find_map(|claim| equals(claim, SERVICE)).map(ToOwned::to_owned);
    let rewrite = |(text, parsed): &(&str, Parsed<Assertion>)| {
        rewritten(text, parsed, |tree, edits| in_claim(text, &tree.claim, service.as_deref(), edits))
    };
    parsed.iter().map(rewrite).collect()
}

/// Applies the edits that are found in the tree of a text.
fn rewritten<T>(text: &str, parsed: &Parsed<T>, find: impl FnOnce(&T, &mut Vec<Edit>)) -> String {
    let mut edits = Vec::new();
    if parsed.is_valid() {
        find(&parsed.tree, &mut edits);
    }
    edits.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    let mut text = text.to_owned();
    for (place, new) in edits {
        text.replace_range(place, &new);
    }
    text
}

fn in_selector(text: &str, selector: &Selector, edits: &mut Vec<Edit>) {
    selector.steps().for_each(|step| in_step(text, step, edits));
}

fn in_step(text: &str, step: &Step, edits: &mut Vec<Edit>) {
    in_condition(text, &step.condition, edits);
    for pseudo in &step.pseudos {
        match pseudo {
            Pseudo::Has { selector, .. } | Pseudo::Not(selector) => in_selector(text, selector, edits),
            Pseudo::First | Pseudo::Last | Pseudo::Nth(_) | Pseudo::Root | Pseudo::Leaf => {}
        }
    }
}

fn in_condition(text: &str, condition: &Condition, edits: &mut Vec<Edit>) {
    match condition {
        Condition::Clause(clause) => in_clause(text, clause, edits),
        Condition::Not(inner) => in_condition(text, inner, edits),
        Condition::Any(inner) => inner.iter().for_each(|inner| in_condition(text, inner, edits)),
        Condition::All(inner) => {
            let call = call_of(inner);
            for condition in inner {
                match (condition, &call) {
                    (Condition::Clause(clause), Some((service, method))) if clause.name.text == METHOD => {
                        let full = quote_in_selector(&format!("{service}/{method}"));
                        edits.push((written(text, clause), format!("{METHOD}={full}")));
                    }
                    (Condition::Clause(clause), Some(_)) if clause.name.text == SERVICE => {
                        edits.push((with_blanks(text, written(text, clause)), String::new()));
                    }
                    (condition, _) => in_condition(text, condition, edits),
                }
            }
        }
    }
}

/// Returns the service and the method that conditions on one span ask for, in the older form.
fn call_of(conditions: &[Condition]) -> Option<(&str, &str)> {
    let value = |name: &str| {
        conditions.iter().find_map(|condition| match condition {
            Condition::Clause(Clause {
                name: own, test: Test::Compare(Comparator::Equal, literal), ..
            }) if own.text == name => text_of(literal),
            _ => None,
        })
    };
    Some((value(SERVICE)?, value(METHOD).filter(|method| !method.contains('/'))?))
}

fn text_of(literal: &Literal) -> Option<&str> {
    match literal {
        Literal::Text(text) | Literal::Number(text) => Some(text),
        Literal::Bool(_) | Literal::Duration(_) | Literal::Word(_) => None,
    }
}

fn in_clause(text: &str, clause: &Clause, edits: &mut Vec<Edit>) {
    let name = clause.name.text.as_str();
    let place = written(text, clause);
    let value = match &clause.test {
        Test::Compare(Comparator::Equal | Comparator::NotEqual, literal) => text_of(literal),
        Test::Compare(..) | Test::Matches { .. } | Test::OneOf { .. } | Test::Exists { .. } => None,
    };
    if let Test::Compare(Comparator::Equal, _) = &clause.test
        && let Some(test) = value.and_then(|value| part_of_call(name, value))
    {
        edits.push((place, format!("{METHOD} {} {}", test.0, quote_in_selector(&test.1))));
        return;
    }
    let Some(modern) = names::current(name) else { return };
    let changed = value.and_then(|value| names::current_value(name, modern, value));
    match (&clause.test, changed) {
        (Test::Compare(comparator, _), Some(value)) => {
            let new = format!("{modern}{}{}", comparator.as_str(), quote_in_selector(value));
            edits.push((place, new));
        }
        _ => edits.push((clause.name.place.0.clone(), modern.to_owned())),
    }
}

/// Returns the comparator and text that find a service or a method in the full name of a method.
fn part_of_call(name: &str, value: &str) -> Option<(&'static str, String)> {
    match name {
        SERVICE => Some((Comparator::StartsWith.as_str(), format!("{value}/"))),
        METHOD if !value.contains('/') => Some((Comparator::EndsWith.as_str(), format!("/{value}"))),
        _ => None,
    }
}

/// Returns the place of a clause without the blanks after it.
fn written(text: &str, clause: &Clause) -> Range<usize> {
    trimmed(text, clause.place.0.clone())
}

/// Extends a place over the blanks, and the comma, that separate it from the next condition.
fn with_blanks(text: &str, place: Range<usize>) -> Range<usize> {
    let rest = text.get(place.end..).unwrap_or_default();
    let after = rest.len() - rest.trim_start_matches([' ', ',']).len();
    if after > 0 {
        return place.start..place.end + after;
    }
    let before = text.get(..place.start).unwrap_or_default();
    before.trim_end_matches([' ', ',']).len()..place.end
}

fn in_claim(text: &str, claim: &Claim, service: Option<&str>, edits: &mut Vec<Edit>) {
    match claim {
        Claim::Compare { left, comparator, right } => {
            let whole = left.place.0.start..left.place.0.start.max(right.place.0.end);
            if let Some(call) = call_claim(claim, service) {
                edits.push((trimmed(text, whole), call));
                return;
            }
            in_expression(text, left, edits);
            let is_equality = matches!(comparator, Comparator::Equal | Comparator::NotEqual);
            match attribute(left).zip(constant(right)).filter(|_| is_equality) {
                Some((name, value)) => {
                    let modern = names::current(name);
                    let value = modern.and_then(|modern| names::current_value(name, modern, value));
                    edits.extend(value.map(|value| (trimmed(text, right.place.0.clone()), quote(value))));
                }
                None => in_expression(text, right, edits),
            }
        }
        Claim::OneOf { left, right, .. } => {
            in_expression(text, left, edits);
            in_expression(text, right, edits);
        }
        Claim::Exists { left, .. } => in_expression(text, left, edits),
        Claim::Time { selector, .. } => in_selector(text, selector, edits),
        Claim::Hole => {}
    }
}

/// Returns a claim about the service or the method of a call, as one about the full name of the method.
fn call_claim(claim: &Claim, service: Option<&str>) -> Option<String> {
    if let (Some(service), Some(method)) = (service, equals(claim, METHOD))
        && !method.contains('/')
    {
        return Some(format!("attr:{METHOD} = {}", quote(&format!("{service}/{method}"))));
    }
    let (comparator, value) =
        [SERVICE, METHOD].into_iter().find_map(|name| part_of_call(name, equals(claim, name)?))?;
    Some(format!("attr:{METHOD} {comparator} {}", quote(&value)))
}

/// Returns the constant that the claim wants this attribute to equal.
fn equals<'c>(claim: &'c Claim, name: &str) -> Option<&'c str> {
    match claim {
        Claim::Compare { left, comparator: Comparator::Equal, right } if attribute(left) == Some(name) => {
            constant(right)
        }
        _ => None,
    }
}

fn attribute(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Attribute(name) => Some(name),
        _ => None,
    }
}

fn constant(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Number(text) => Some(text),
        ExprKind::Text(parts) => match parts.as_slice() {
            [Part::Literal(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Renames the attributes that an expression reads.
fn in_expression(text: &str, expr: &Expr, edits: &mut Vec<Edit>) {
    expr.visit(&mut |node| {
        // The name stands after `attr:`.
        let written = || text.get(node.place.0.clone())?.find(attribute(node)?);
        if let Some(name) = attribute(node)
            && let Some(modern) = names::current(name)
            && let Some(before) = written()
        {
            let start = node.place.0.start + before;
            edits.push((start..start + name.len(), modern.to_owned()));
        }
    });
}

fn trimmed(text: &str, place: Range<usize>) -> Range<usize> {
    let length = text.get(place.clone()).map_or(place.len(), |part| part.trim_end().len());
    place.start..place.start + length
}
