//! Whether a span that is not here could change what a selector selects: by being selected itself, or by its place
//! among the others.
//!
//! An unknown property of such a span matches anything, so the answer is "yes" unless a known one rules it out.

use std::sync::Arc;

use crate::lang::ast::{
    Chain, Clause, Combinator, Comparator, Condition, Literal, Pseudo, Selector, Step, Test,
};
use crate::names;
use crate::wait::{Absence, AffectedServices};

/// What the spans that are here say about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// It holds.
    Holds,
    /// It fails because of spans that were found.
    Fails,
    /// It fails because there are too few spans.
    LacksSpans,
}

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
    /// What the spans that are here say.
    pub(super) finding: Finding,
    /// Other selections.
    pub(super) others: &'s [&'s Selector],
}

impl Basis<'_> {
    /// Whether it is read only from the trigger's span, which is always here.
    pub(super) fn is_closed(&self) -> bool {
        is_closed(self.selector)
    }
}

/// Whether no span that arrives can change what the selector selects: it speaks of the trigger's span alone.
pub(super) fn is_closed(selector: &Selector) -> bool {
    !matters(&Absence::of_anyone(String::new()), selector, false, false)
}

/// Returns the first absence that could change a value.
pub(super) fn first<'a>(absences: &'a [Absence], basis: &Basis<'_>) -> Option<&'a Absence> {
    absences.iter().find(|absence| {
        // One more span can turn a claim that fails, whatever it says of those that were found.
        let is_content = basis.is_about_each && basis.selected > 0 && basis.finding == Finding::Holds;
        let is_asked =
            basis.finding == Finding::LacksSpans || !matches!(absence.of, AffectedServices::StillWorking(_));
        is_asked
            && (matters(absence, basis.selector, basis.grows_only, is_content)
                || matters_elsewhere(absence, basis.others))
    })
}

/// Returns the first absence that could change what rests on other selections.
pub(super) fn first_elsewhere<'a>(absences: &'a [Absence], others: &[&Selector]) -> Option<&'a Absence> {
    let holds_up = |absence: &&Absence| {
        !matches!(absence.of, AffectedServices::StillWorking(_)) && matters_elsewhere(absence, others)
    };
    absences.iter().find(holds_up)
}

fn matters_elsewhere(absence: &Absence, others: &[&Selector]) -> bool {
    others.iter().any(|other| matters(absence, other, false, false))
}

/// `is_content` says that the value is about each of the spans that were found.
fn matters(absence: &Absence, selector: &Selector, grows_only: bool, is_content: bool) -> bool {
    let mut missing = MissingSpan { absence, is_asked_by_name: false, is_above: !grows_only };
    match absence.of {
        // Every system calls peers that send no spans, and two complete runs have shown that this one sends none.
        AffectedServices::AnyoneButIfNamed(_) => {
            missing = MissingSpan { is_asked_by_name: true, is_above: true, ..missing };
        }
        // Most systems call peers that send no spans, and most selectors name no service. A claim about each span
        // found, or about their number, is not taken to include the spans of such a peer; `none`, `any`, an
        // extreme or a sum is.
        AffectedServices::AnyoneBut(_) if is_content && !names_a_service(selector) => return false,
        AffectedServices::Refused if is_content => return false,
        AffectedServices::Anyone
        | AffectedServices::Refused
        | AffectedServices::Service(_)
        | AffectedServices::AnyoneBut(_)
        | AffectedServices::StillWorking(_) => {}
    }
    missing.changes(selector)
}

/// A span that is not here, and what is known of its place.
struct MissingSpan<'a> {
    absence: &'a Absence,
    /// Whether it counts only where a selector names its service.
    is_asked_by_name: bool,
    /// Whether it may be above spans that are here, or change their position: every step of a selector counts then.
    is_above: bool,
}

impl MissingSpan<'_> {
    /// Whether it could be selected, or change whether another span is.
    fn changes(&self, selector: &Selector) -> bool {
        if selector.chains.is_empty() {
            return !self.is_asked_by_name;
        }
        selector.chains.iter().any(|chain| self.can_be(last(chain)) || self.disturbs(chain))
    }

    /// Whether it could change whether a span that is here is selected.
    fn disturbs(&self, chain: &Chain) -> bool {
        let has = |wanted: Combinator| chain.rest.iter().any(|(combinator, _)| *combinator == wanted);
        // Any span may come between two neighbours.
        if has(Combinator::Next) && !self.is_asked_by_name {
            return true;
        }
        let every_step = self.is_above || has(Combinator::Sibling) || has(Combinator::Next);
        let end = last(chain);
        steps(chain).any(|step| {
            let is_earlier = !std::ptr::eq(step, end);
            let counts = (every_step && is_earlier) || step.has_position();
            (counts && self.can_be(step)) || step.pseudos.iter().any(|pseudo| self.decides(pseudo))
        })
    }

    /// Whether the pseudo-class could hold of a span that is here because of it, or because it is absent.
    fn decides(&self, pseudo: &Pseudo) -> bool {
        match pseudo {
            // Any span may come below a leaf.
            Pseudo::Leaf => !self.is_asked_by_name,
            Pseudo::Has { combinator, selector } => {
                (*combinator == Combinator::Next && !self.is_asked_by_name) || self.changes(selector)
            }
            // That the missing span itself is excluded changes nothing for the others.
            Pseudo::Not(selector) => selector.chains.iter().any(|chain| self.disturbs(chain)),
            Pseudo::First | Pseudo::Last | Pseudo::Nth(_) | Pseudo::Root => false,
        }
    }

    fn can_be(&self, step: &Step) -> bool {
        let is_asked = !self.is_asked_by_name || names_service(&step.condition);
        is_asked && possible(&step.condition, self.absence).can_hold
    }
}

fn steps(chain: &Chain) -> impl Iterator<Item = &Step> {
    std::iter::once(&chain.first).chain(chain.rest.iter().map(|(_, step)| step))
}

/// Returns the step whose spans are selected.
fn last(chain: &Chain) -> &Step {
    chain.rest.last().map_or(&chain.first, |(_, step)| step)
}

/// Whether a condition, also one inside a pseudo-class, names a service.
fn names_a_service(selector: &Selector) -> bool {
    selector.steps().any(|step| {
        let inside = |pseudo: &Pseudo| match pseudo {
            Pseudo::Has { selector, .. } | Pseudo::Not(selector) => names_a_service(selector),
            Pseudo::First | Pseudo::Last | Pseudo::Nth(_) | Pseudo::Root | Pseudo::Leaf => false,
        };
        names_service(&step.condition) || step.pseudos.iter().any(inside)
    })
}

/// Returns the services whose spans alone can change a selection; empty where the selector does not say.
pub(super) fn services(selector: &Selector) -> Vec<Arc<str>> {
    let named: Option<Vec<&str>> = selector.chains.iter().map(service_of_chain).collect();
    named.unwrap_or_default().into_iter().map(Arc::from).collect()
}

/// A span of another service can change it where pseudo-classes or neighbours are asked for.
fn service_of_chain(chain: &Chain) -> Option<&str> {
    let is_below = |combinator| matches!(combinator, Combinator::Descendant | Combinator::Child);
    let is_plain = |step: &Step| step.pseudos.is_empty();
    let is_placed = |pseudo: &Pseudo| matches!(pseudo, Pseudo::First | Pseudo::Last | Pseudo::Nth(_));
    let end = last(chain);
    let says = chain.rest.iter().all(|(combinator, _)| is_below(*combinator))
        && steps(chain).all(|step| std::ptr::eq(step, end) || is_plain(step))
        && end.pseudos.iter().all(is_placed);
    service_of(&end.condition).filter(|_| says)
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
    const NOTHING: Self = Self { can_hold: false, can_fail: false };

    fn or(self, other: Self) -> Self {
        Self { can_hold: self.can_hold || other.can_hold, can_fail: self.can_fail || other.can_fail }
    }

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
            AffectedServices::Anyone | AffectedServices::Refused => Possible::ANYTHING,
            AffectedServices::Service(service) => compare(clause, service),
            AffectedServices::StillWorking(services) if services.is_empty() => Possible::ANYTHING,
            AffectedServices::StillWorking(services) => {
                let each = services.iter().map(|service| compare(clause, service));
                each.fold(Possible::NOTHING, Possible::or)
            }
            AffectedServices::AnyoneBut(heard) | AffectedServices::AnyoneButIfNamed(heard) => {
                match &clause.test {
                    Test::Compare(Comparator::Equal, Literal::Text(name))
                        if heard.contains(&Arc::from(name.as_str())) =>
                    {
                        Possible::known(false)
                    }
                    _ => Possible::ANYTHING,
                }
            }
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
