//! The search for a selector that selects one span only.
//!
//! Conditions on the span itself come first, then its place in the tree, then its position among equals, which always
//! suffices. The effort is bounded: so many conditions, so many spans above and below.

use std::ops::Range;

use super::{equals, one_step, step};
use crate::assist::complete::written_name;
use crate::assist::standing::{AttributeRank, is_random, standing};
use crate::definition::secrets::MASK;
use crate::lang::ast::{
    Chain, Clause, Combinator, Comparator, Condition, Literal, Pseudo, Selector, SourceRange, Test,
};
use crate::lang::{Filter, TraceIndex, compile_condition};
use crate::names;
use crate::trace::special;
use crate::value::Value;

/// Maximum number of attributes of a span that are looked at.
const MAX_ATTRIBUTES: usize = 64;
/// Maximum number of conditions that are tried on a span.
const MAX_CANDIDATES: usize = 16;
/// Maximum number of conditions in a selector.
const MAX_CONDITIONS: usize = 4;
/// Maximum number of spans above that are tried.
const MAX_ABOVE: usize = 8;
/// Maximum number of children that are tried.
const MAX_BELOW: usize = 8;
/// Where more spans than this are alike, only the target's own attributes are tried in full.
const MANY: usize = 4_000;
/// Longest name of a span in a selector, in bytes.
const MAX_NAME: usize = 200;
/// Whole numbers beyond this are sizes, ids or times.
const MAX_NUMBER: u64 = 100_000;

/// Returns the selector, as text.
pub(super) fn selector(scene: &TraceIndex<'_>, at: usize, avoided: Option<&str>) -> String {
    let search = Search { scene, avoided };
    search.selector(at).to_string()
}

struct Search<'s, 't> {
    scene: &'s TraceIndex<'t>,
    /// The attribute that no condition may be about.
    avoided: Option<&'s str>,
}

/// A condition that a span satisfies.
struct Candidate {
    standing: AttributeRank,
    clause: Clause,
    filter: Filter,
}

/// Conditions that a span satisfies, and all spans that do.
struct Own {
    clauses: Vec<Clause>,
    /// In order.
    spans: Vec<usize>,
}

impl Own {
    fn is_unique(&self) -> bool {
        self.spans.len() == 1
    }
}

impl Search<'_, '_> {
    fn selector(&self, at: usize) -> Selector {
        let own = self.own(at, true);
        if own.is_unique() {
            return one_step(own.clauses, Vec::new());
        }
        if let Some(pseudo) = self.end_of_tree(at, &own) {
            return one_step(own.clauses, vec![pseudo]);
        }
        let above = self.above(at);
        if let Some(selector) = self.below_of(at, &own, &above) {
            return selector;
        }
        if let Some(pseudo) = self.having(at, &own) {
            return one_step(own.clauses, vec![pseudo]);
        }
        self.at_position(at, own, above)
    }

    /// Finds conditions on the attributes of a span that together select as few spans as possible.
    fn own(&self, at: usize, in_full: bool) -> Own {
        let mut candidates = self.candidates(at).into_iter();
        let spans = self.scene.trace.spans().len();
        let Some(first) = candidates.next() else {
            return Own { clauses: Vec::new(), spans: (0..spans).collect() };
        };
        let mut found = first.filter.find(self.scene, 0..spans);
        let mut clauses = vec![first.clause];
        let mut others: Vec<Candidate> =
            if in_full || found.len() <= MANY { candidates.collect() } else { Vec::new() };
        while found.len() > 1 && clauses.len() < MAX_CONDITIONS && !others.is_empty() {
            let mut best: Option<(usize, Vec<usize>)> = None;
            let mut useless = Vec::new();
            for (index, other) in others.iter().enumerate() {
                let mut kept = found.clone();
                other.filter.retain(self.scene, &mut kept);
                if kept.len() == found.len() {
                    useless.push(index);
                }
                // The candidates are in the order of preference.
                if kept.len() < best.as_ref().map_or(found.len(), |(_, best)| best.len()) {
                    let is_unique = kept.len() == 1;
                    best = Some((index, kept));
                    if is_unique {
                        break;
                    }
                }
            }
            let Some((index, kept)) = best else { break };
            clauses.push(others[index].clause.clone());
            useless.push(index);
            let mut index = 0;
            others.retain(|_| {
                index += 1;
                !useless.contains(&(index - 1))
            });
            found = kept;
        }
        if found.len() == 1 {
            self.prune(&mut clauses);
        }
        Own { clauses, spans: found }
    }

    /// Leaves out conditions without which the selection stays the same single span, the least telling first.
    fn prune(&self, clauses: &mut Vec<Clause>) {
        let spans = self.scene.trace.spans().len();
        for index in (0..clauses.len()).rev() {
            if clauses.len() == 1 {
                return;
            }
            let mut rest = clauses.clone();
            rest.remove(index);
            let condition = Condition::All(rest.iter().cloned().map(Condition::Clause).collect());
            if compile_condition(&condition, true).find(self.scene, 0..spans).len() == 1 {
                *clauses = rest;
            }
        }
    }

    /// Returns conditions that the span satisfies, the best first.
    fn candidates(&self, at: usize) -> Vec<Candidate> {
        let span = self.scene.trace.span(at);
        let text = |name: &str, value: &str| equals(name, Literal::Text(value.to_owned()));
        let name_standing =
            if is_random(&span.name) { AttributeRank::Ordinary } else { AttributeRank::Identity };
        let mut clauses = Vec::new();
        if is_readable(&span.name) {
            clauses.push((name_standing, text("name", &span.name)));
        }
        if is_readable(span.service()) {
            clauses.push((AttributeRank::Identity, text("service.name", span.service())));
        }
        clauses.push((AttributeRank::Identity, text("kind", span.kind.as_str())));
        clauses.push((AttributeRank::Identity, text("tracetest.span.type", special::span_type(span))));
        for (name, value) in span.attributes.iter().take(MAX_ATTRIBUTES) {
            let standing = standing(name);
            let is_told = matches!(name, "service.name" | "tracetest.span.type");
            if standing <= AttributeRank::Ordinary
                && !is_told
                && is_readable(name)
                && let Some(literal) = literal(value)
            {
                let test = Test::Compare(Comparator::Equal, literal);
                let clause = Clause { name: written_name(name), test, place: SourceRange::default() };
                clauses.push((standing, clause));
            }
        }
        clauses.retain(|(_, clause)| !self.is_avoided(&clause.name.text));
        // A stable sort keeps name, service, kind and type in this order.
        clauses.sort_by_key(|(standing, _)| *standing);
        clauses.truncate(MAX_CANDIDATES);
        let compiled = clauses.into_iter().map(|(standing, clause)| {
            let filter = compile_condition(&Condition::Clause(clause.clone()), true);
            Candidate { standing, clause, filter }
        });
        // A name or value may mean something else once it is written.
        compiled.filter(|candidate| candidate.filter.holds(self.scene, at)).collect()
    }

    fn is_avoided(&self, name: &str) -> bool {
        self.avoided.is_some_and(|avoided| {
            let avoided = names::attribute(avoided);
            let same = match &*avoided {
                "tracetest.span.name" => "name",
                "tracetest.span.kind" => "kind",
                other => other,
            };
            name == same || names::conventions(&avoided).contains(&name)
        })
    }

    /// `:root` or `:leaf`, if the span is the only one of its equals.
    fn end_of_tree(&self, at: usize, own: &Own) -> Option<Pseudo> {
        let trace = self.scene.trace;
        let is_only = |holds: &dyn Fn(usize) -> bool| {
            holds(at) && own.spans.iter().filter(|other| holds(**other)).count() == 1
        };
        if is_only(&|at| trace.parent(at).is_none()) {
            Some(Pseudo::Root)
        } else if is_only(&|at| trace.descendants(at).is_empty()) {
            Some(Pseudo::Leaf)
        } else {
            None
        }
    }

    /// The spans above, the nearest first, with conditions on them.
    fn above(&self, at: usize) -> Vec<(usize, Own)> {
        let trace = self.scene.trace;
        std::iter::successors(trace.parent(at), |parent| trace.parent(*parent))
            .take(MAX_ABOVE)
            .map(|above| (above, self.own(above, false)))
            .collect()
    }

    /// Finds a span above below which the span is the only one of its equals.
    fn below_of(&self, at: usize, own: &Own, above: &[(usize, Own)]) -> Option<Selector> {
        let trace = self.scene.trace;
        for (index, (_, outer)) in above.iter().enumerate() {
            let combinators: &[Combinator] = match index {
                0 => &[Combinator::Descendant, Combinator::Child],
                _ => &[Combinator::Descendant],
            };
            let _ = self.scene.budget.work(outer.spans.len() + own.spans.len());
            let subtrees = self.subtrees(&outer.spans);
            for combinator in combinators {
                let is_below = |other: usize| match combinator {
                    Combinator::Child => {
                        trace.parent(other).is_some_and(|parent| outer.spans.binary_search(&parent).is_ok())
                    }
                    _ => {
                        let before = subtrees.partition_point(|subtree| subtree.start <= other);
                        before > 0 && subtrees[before - 1].contains(&other)
                    }
                };
                let mut below = own.spans.iter().filter(|other| is_below(**other));
                if below.next() == Some(&at) && below.next().is_none() {
                    return Some(chain(outer, *combinator, own, Vec::new()));
                }
            }
        }
        None
    }

    /// Returns what is below the spans `outer`, which are in order: ranges apart from each other, in order.
    fn subtrees(&self, outer: &[usize]) -> Vec<Range<usize>> {
        let mut subtrees: Vec<Range<usize>> = Vec::new();
        for at in outer {
            if !subtrees.last().is_some_and(|last| last.contains(at)) {
                subtrees.push(self.scene.trace.descendants(*at));
            }
        }
        subtrees
    }

    /// Finds a child that only this one of its equals has.
    fn having(&self, at: usize, own: &Own) -> Option<Pseudo> {
        let trace = self.scene.trace;
        let spans = trace.spans().len();
        let mut tried: Vec<Clause> = Vec::new();
        for child in trace.children(at).take(MAX_BELOW) {
            let Some(best) = self.candidates(child).into_iter().next() else { continue };
            if best.standing != AttributeRank::Identity || tried.contains(&best.clause) {
                continue;
            }
            let mut parents: Vec<usize> = best
                .filter
                .find(self.scene, 0..spans)
                .into_iter()
                .filter_map(|child| trace.parent(child))
                .collect();
            parents.sort_unstable();
            let mut having = own.spans.iter().filter(|other| parents.binary_search(other).is_ok());
            if having.next() == Some(&at) && having.next().is_none() {
                let selector = one_step(vec![best.clause], Vec::new());
                return Some(Pseudo::Has { combinator: Combinator::Child, selector });
            }
            tried.push(best.clause);
        }
        None
    }

    /// Takes the position of the span among its equals: below the nearest span above that is unique, or in the whole
    /// trace.
    fn at_position(&self, at: usize, own: Own, above: Vec<(usize, Own)>) -> Selector {
        let trace = self.scene.trace;
        let parent = trace.parent(at);
        for (outer, conditions) in above {
            if !conditions.is_unique() {
                continue;
            }
            let is_parent = parent == Some(outer);
            let near: Vec<usize> = own
                .spans
                .iter()
                .copied()
                .filter(|other| {
                    if is_parent {
                        trace.parent(*other) == parent
                    } else {
                        trace.descendants(outer).contains(other)
                    }
                })
                .collect();
            if near.len() < own.spans.len() {
                let combinator = if is_parent { Combinator::Child } else { Combinator::Descendant };
                return chain(&conditions, combinator, &own, vec![position(at, &near)]);
            }
        }
        let position = position(at, &own.spans);
        one_step(own.clauses, vec![position])
    }
}

fn chain(outer: &Own, combinator: Combinator, own: &Own, pseudos: Vec<Pseudo>) -> Selector {
    let chain = Chain {
        first: step(outer.clauses.clone(), Vec::new()),
        rest: vec![(combinator, step(own.clauses.clone(), pseudos))],
    };
    Selector { chains: vec![chain], place: SourceRange::default() }
}

/// The position of a span among others, which are in order.
fn position(at: usize, among: &[usize]) -> Pseudo {
    let before = among.partition_point(|other| *other < at);
    match before {
        0 => Pseudo::First,
        before if before + 1 == among.len() => Pseudo::Last,
        before => Pseudo::Nth(before as u64 + 1),
    }
}

/// Whether a selector can hold the text: it is short, and no secret was masked in it.
fn is_readable(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME && !text.contains(MASK)
}

/// Returns the value as a selector compares with it; `None` for one that may differ in the next run.
fn literal(value: &Value) -> Option<Literal> {
    match value {
        Value::String(text) if !is_random(text) => Some(Literal::Text(text.to_string())),
        Value::Int(number) if number.unsigned_abs() <= MAX_NUMBER => {
            Some(Literal::Number(number.to_string()))
        }
        Value::Bool(truth) => Some(Literal::Bool(*truth)),
        Value::Null
        | Value::String(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::List(_)
        | Value::Object(_) => None,
    }
}
