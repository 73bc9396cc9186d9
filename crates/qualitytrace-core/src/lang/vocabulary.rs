//! Warnings about values that no span can have: kinds, span types and special attributes that do not exist.

use std::ops::Range;

use super::ast::{Clause, Comparator, Condition, Literal, Selector, Test};
use super::diagnostic::{Diagnostic, nearest};
use crate::names;
use crate::trace::special;

pub(crate) const KINDS: [&str; 6] = ["server", "client", "producer", "consumer", "internal", "unspecified"];
pub(crate) const STATUSES: [&str; 3] = ["ok", "error", "unset"];
pub(crate) const TYPES: [&str; 7] = ["http", "database", "rpc", "messaging", "faas", "exception", "general"];

/// Special attributes besides those that every span has.
pub(crate) const OTHER_SPECIAL: [&str; 8] = [
    names::RESPONSE_STATUS,
    names::RESPONSE_BODY,
    names::RESPONSE_HEADERS,
    names::RESPONSE_MESSAGE,
    names::RESPONSE_DETAILS,
    names::RESPONSE_MESSAGES,
    names::RESPONSE_STDERR,
    "tracetest.selected_spans.count",
];

/// Reserved prefixes: names with these exist only as special attributes.
const RESERVED: [&str; 3] = ["tracetest.span.", "tracetest.response.", "tracetest.selected_spans."];

/// Prefixes of attributes that the server records about its own runs.
const RECORDED: [&str; 2] = ["tracetest.run.", "tracetest.testsuite_run."];

/// Warns of values in a selector that can never match.
pub(super) fn check_selector(selector: &Selector, found: &mut Vec<Diagnostic>) {
    let steps = selector
        .chains
        .iter()
        .flat_map(|chain| std::iter::once(&chain.first).chain(chain.rest.iter().map(|(_, step)| step)));
    let mut conditions: Vec<&Condition> = steps.map(|step| &step.condition).collect();
    while let Some(condition) = conditions.pop() {
        match condition {
            Condition::Clause(clause) => check_clause(clause, found),
            Condition::Not(inner) => conditions.push(inner),
            Condition::All(inner) | Condition::Any(inner) => conditions.extend(inner),
        }
    }
    found.sort_by_key(|diagnostic| diagnostic.span.start);
}

fn check_clause(clause: &Clause, found: &mut Vec<Diagnostic>) {
    let name = names::attribute(&clause.name.text);
    if let Test::Compare(_, Literal::Number(number)) = &clause.test
        && is_duration(&name)
    {
        found.extend(without_unit(number, &clause.place.0));
    }
    let known: &[&str] = match &*name {
        "kind" if !clause.name.quoted => &KINDS,
        "tracetest.span.kind" | "span.kind" => &KINDS,
        "tracetest.span.type" | "span.type" => &TYPES,
        _ => return check_attribute(&clause.name.text, &clause.place.0, found),
    };
    let literals: &[Literal] = match &clause.test {
        Test::Compare(Comparator::Equal | Comparator::NotEqual, literal) => std::slice::from_ref(literal),
        Test::OneOf { choices, .. } => choices,
        Test::Compare(..) | Test::Matches { .. } | Test::Exists { .. } => &[],
    };
    for literal in literals {
        let (Literal::Text(value) | Literal::Word(value)) = literal else { continue };
        if known.contains(&value.as_str()) {
            continue;
        }
        let message = format!("no span has the {} `{value}`", clause.name.text);
        let help = match nearest(&value.to_lowercase(), known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("use one of {}", known.join(", ")),
        };
        found.push(Diagnostic::warning("unknown-value", clause.place.0.clone(), message).helped(help));
    }
}

/// Whether the attribute is the duration of a span.
pub(super) fn is_duration(name: &str) -> bool {
    matches!(&*names::attribute(name), "tracetest.span.duration" | "span.duration")
}

/// Warns of a number without a unit that a duration is compared with. Zero needs none, and a number from a million on is
/// meant in nanoseconds.
pub(super) fn without_unit(number: &str, place: &Range<usize>) -> Option<Diagnostic> {
    let size: f64 = number.parse().ok()?;
    let is_small = size != 0.0 && size.abs() < 1e6;
    is_small.then(|| {
        let message = format!("durations are in nanoseconds, so `{number}` is less than a millisecond");
        Diagnostic::warning("no-unit", place.clone(), message)
            .helped(format!("write a unit: `{number}ms`, or `{number}ns` if that is meant"))
    })
}

/// Warns of a special attribute that does not exist.
pub(super) fn check_attribute(name: &str, place: &Range<usize>, found: &mut Vec<Diagnostic>) {
    let folded = names::attribute(name);
    let known = || special::names().chain(OTHER_SPECIAL);
    let is_recorded = RECORDED.iter().any(|prefix| folded.starts_with(prefix));
    if !folded.starts_with("tracetest.") || is_recorded || known().any(|known| known == folded) {
        return;
    }
    let near = nearest(&folded, known());
    if near.is_none() && !RESERVED.iter().any(|prefix| folded.starts_with(prefix)) {
        // Programs under test may have attributes with this prefix, as the server itself does.
        return;
    }
    let mut warning =
        Diagnostic::warning("unknown-attribute", place.clone(), format!("no span has an attribute `{name}`"));
    if let Some(near) = near {
        warning = warning.helped(format!("did you mean `{near}`?"));
    }
    found.push(warning);
}
