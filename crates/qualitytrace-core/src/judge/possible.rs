//! Whether a selector could match a span that is not here.
//!
//! An unknown property of such a span matches anything, so the answer is "yes" unless a known one rules it out.

use std::sync::Arc;

use crate::lang::ast::{Clause, Comparator, Condition, Literal, Selector, Step, Test};
use crate::names;
use crate::wait::{Absence, Whose};

/// The spans that a value rests on.
pub(super) struct Basis<'s> {
    /// The selection that it is read from.
    pub(super) selector: &'s Selector,
    /// Whether later spans can only be added to it.
    pub(super) grows_only: bool,
    /// How many spans it has.
    pub(super) selected: usize,
    /// Whether the value says the same of each span that was found, or their number.
    pub(super) is_about_each: bool,
    /// Other selections.
    pub(super) others: &'s [&'s Selector],
}

impl Basis<'_> {
    /// Whether it is read only from the trigger's span, which is always here.
    pub(super) fn is_closed(&self) -> bool {
        !matters(&Absence::of_anyone(String::new()), self.selector, false, false)
    }
}

/// Returns the first absence that could change a value.
pub(super) fn first<'a>(absences: &'a [Absence], basis: &Basis<'_>) -> Option<&'a Absence> {
    absences.iter().find(|absence| {
        let is_content = basis.is_about_each && basis.selected > 0;
        matters(absence, basis.selector, basis.grows_only, is_content)
            || matters_elsewhere(absence, basis.others)
    })
}

/// Returns the first absence that could change what rests on other selections.
pub(super) fn first_elsewhere<'a>(absences: &'a [Absence], others: &[&Selector]) -> Option<&'a Absence> {
    absences.iter().find(|absence| matters_elsewhere(absence, others))
}

fn matters_elsewhere(absence: &Absence, others: &[&Selector]) -> bool {
    others.iter().any(|other| matters(absence, other, false, false))
}

/// `is_content` says that the value is about each of the spans that were found.
fn matters(absence: &Absence, selector: &Selector, grows_only: bool, is_content: bool) -> bool {
    // The result of a selector may depend on spans that it only passes through; else only the last step counts.
    let mut steps: Box<dyn Iterator<Item = &Step>> = if grows_only {
        Box::new(selector.chains.iter().map(|chain| chain.rest.last().map_or(&chain.first, |(_, step)| step)))
    } else {
        Box::new(selector.steps())
    };
    let names_one = || selector.steps().any(|step| names_service(&step.condition));
    match absence.of {
        // Every system calls peers that send no spans, and two complete runs have shown that this one sends none.
        Whose::AnyoneButIfNamed(_) => {
            return selector
                .steps()
                .any(|step| names_service(&step.condition) && possible(&step.condition, absence).can_hold);
        }
        // Most systems call peers that send no spans, and most selectors name no service. A claim about each span
        // found, or about their number, is not taken to include the spans of such a peer; `none`, `any`, an
        // extreme or a sum is.
        Whose::AnyoneBut(_) if is_content && !names_one() => return false,
        Whose::Refused if is_content => return false,
        Whose::Anyone | Whose::Refused | Whose::Service(_) | Whose::AnyoneBut(_) => {}
    }
    selector.chains.is_empty() || steps.any(|step| possible(&step.condition, absence).can_hold)
}

/// Returns the services whose spans a selector selects; empty where one of its members does not say.
pub(super) fn services(selector: &Selector) -> Vec<Arc<str>> {
    let meant = selector.chains.iter().map(|chain| chain.rest.last().map_or(&chain.first, |(_, step)| step));
    let named: Option<Vec<&str>> = meant.map(|step| service_of(&step.condition)).collect();
    named.unwrap_or_default().into_iter().map(Arc::from).collect()
}

/// Returns the service that a span must belong to in order to satisfy the condition.
fn service_of(condition: &Condition) -> Option<&str> {
    match condition {
        Condition::Clause(clause) => match &clause.test {
            Test::Compare(Comparator::Equal, Literal::Text(name)) if is_service(clause) => Some(name),
            Test::Compare(..) | Test::OneOf { .. } | Test::Exists { .. } | Test::Matches { .. } => None,
        },
        Condition::All(all) => all.iter().find_map(service_of),
        Condition::Not(_) | Condition::Any(_) => None,
    }
}

fn names_service(condition: &Condition) -> bool {
    match condition {
        Condition::Clause(clause) => is_service(clause),
        Condition::Not(inner) => names_service(inner),
        Condition::All(all) | Condition::Any(all) => all.iter().any(names_service),
    }
}

/// The possible results of a condition for a span of which little is known.
#[derive(Debug, Clone, Copy)]
struct Possible {
    can_hold: bool,
    can_fail: bool,
}

impl Possible {
    const ANYTHING: Self = Self { can_hold: true, can_fail: true };

    fn known(holds: bool) -> Self {
        Self { can_hold: holds, can_fail: !holds }
    }
}

fn possible(condition: &Condition, absence: &Absence) -> Possible {
    match condition {
        Condition::Clause(clause) => clause_possible(clause, absence),
        Condition::Not(inner) => {
            let Possible { can_hold, can_fail } = possible(inner, absence);
            Possible { can_hold: can_fail, can_fail: can_hold }
        }
        Condition::All(all) => Possible {
            can_hold: all.iter().all(|inner| possible(inner, absence).can_hold),
            can_fail: all.iter().any(|inner| possible(inner, absence).can_fail),
        },
        Condition::Any(any) => Possible {
            can_hold: any.iter().any(|inner| possible(inner, absence).can_hold),
            can_fail: any.iter().all(|inner| possible(inner, absence).can_fail),
        },
    }
}

fn is_service(clause: &Clause) -> bool {
    matches!(clause.name.text.as_str(), "service.name" | "resource.service.name")
}

fn clause_possible(clause: &Clause, absence: &Absence) -> Possible {
    let own = |name: &str| !clause.name.quoted && clause.name.text == name;
    if is_service(clause) {
        return match &absence.of {
            Whose::Anyone | Whose::Refused => Possible::ANYTHING,
            Whose::Service(service) => compare(clause, service),
            Whose::AnyoneBut(heard) | Whose::AnyoneButIfNamed(heard) => match &clause.test {
                Test::Compare(Comparator::Equal, Literal::Text(name))
                    if heard.contains(&Arc::from(name.as_str())) =>
                {
                    Possible::known(false)
                }
                _ => Possible::ANYTHING,
            },
        };
    }
    if own("kind") || names::attribute(&clause.name.text) == "tracetest.span.kind" {
        return absence.kind.map_or(Possible::ANYTHING, |kind| compare(clause, kind.as_str()));
    }
    if own("name") || names::attribute(&clause.name.text) == "tracetest.span.name" {
        // The trigger's span is always here.
        if let Test::Compare(Comparator::Equal, Literal::Text(name)) = &clause.test
            && names::span(name) == names::TRIGGER_SPAN
        {
            return Possible::known(false);
        }
        return absence.name.as_deref().map_or(Possible::ANYTHING, |name| compare(clause, name));
    }
    Possible::ANYTHING
}

/// Evaluates the clause on a known value, as far as it compares texts.
fn compare(clause: &Clause, value: &str) -> Possible {
    let is = |literal: &Literal| match literal {
        Literal::Text(text) | Literal::Word(text) => text == value,
        Literal::Number(_) | Literal::Bool(_) | Literal::Duration(_) => false,
    };
    match &clause.test {
        Test::Compare(Comparator::Equal, literal) => Possible::known(is(literal)),
        Test::Compare(Comparator::NotEqual, literal) => Possible::known(!is(literal)),
        Test::OneOf { negated, choices } => Possible::known(choices.iter().any(is) != *negated),
        Test::Exists { negated } => Possible::known(!negated),
        Test::Compare(..) | Test::Matches { .. } => Possible::ANYTHING,
    }
}
