//! Near misses: the spans that a selector without matches was probably meant to match.
//!
//! Spans are ranked by how many conditions they satisfy, then by how near the others are and whether they have the
//! attributes that the assertions read. For each span the failing conditions are listed with what the span has
//! instead, and a selector is proposed that would have matched.

mod likeness;

use std::fmt::{self, Display, Formatter};
use std::ops::Range;

use likeness::{Likeness, ratio};

use crate::budget::Budget;
use crate::id::SpanId;
use crate::lang::ast::{
    Chain, Clause, Combinator, Comparator, Condition, Literal, Name, Pseudo, Selector, SourceRange, Step,
    Test,
};
use crate::lang::{Field, Filter, Query, TraceIndex, compile_condition};
use crate::trace::Trace;
use crate::value::Value;

/// A span that a selector nearly matches.
#[derive(Debug, Clone, PartialEq)]
pub struct NearMiss {
    /// The span's position in the trace.
    pub position: usize,
    /// The span's id.
    pub span: Option<SpanId>,
    /// The span's name.
    pub name: String,
    /// How many conditions it satisfies.
    pub satisfied: usize,
    /// How many conditions there are.
    pub conditions: usize,
    /// The conditions that it does not satisfy.
    pub failing: Vec<FailedCondition>,
    /// Whether it is so near that a typing error or two explain the rest, even where nothing is satisfied.
    pub is_close: bool,
    /// A selector that matches the span, as close to the written one as possible.
    pub suggestion: Option<String>,
}

/// A condition that a span does not satisfy.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedCondition {
    /// The condition.
    pub condition: String,
    /// Its byte range in the selector.
    pub place: Range<usize>,
    /// The value that the span has instead; `None` when it has no attribute of that name.
    pub actual: Option<String>,
    /// An attribute of the span that was probably meant.
    pub did_you_mean: Option<String>,
}

/// Steps charged for comparing two texts; most pairs are cached.
const COMPARISON: usize = 4;
/// Maximum number of steps to look for near misses of one selector.
const NEAR_STEPS: u64 = 20_000_000;
/// Number of spans, those that satisfy the most conditions, that are scored.
const LONG_LIST: usize = 4096;
/// Similarity from which two texts differ by a typing error or two.
const CLOSE: f64 = 0.6;
/// Number of spans kept after scoring.
const SHORT_LIST: usize = 64;
/// What a span gains that has every attribute that the assertions read: less than a satisfied condition or the right
/// word, more than what else tells the client of a call from its server.
const READABLE: f64 = 0.3;

/// Returns the spans that the selector nearly matches, nearest first; none when it matches something.
pub fn nearest_misses(
    selector: &Selector,
    trace: &Trace,
    limit: usize,
    aliases: bool,
    budget: &Budget,
) -> Vec<NearMiss> {
    let scene = TraceIndex::new(trace, budget);
    if Query::new(selector, aliases).run(&scene).is_ok_and(|found| found.is_empty()) {
        near_misses(selector, &[], &scene, limit, aliases)
    } else {
        Vec::new()
    }
}

/// Returns the spans that the selector nearly matches, nearest first. `read` are the attributes that the assertions on
/// it read.
pub(super) fn near_misses(
    selector: &Selector,
    read: &[Field],
    scene: &TraceIndex<'_>,
    limit: usize,
    aliases: bool,
) -> Vec<NearMiss> {
    if limit == 0 {
        return Vec::new();
    }
    // Near misses are advice: they have a budget of their own and take nothing from the verdict's.
    let budget = scene.budget.beside(NEAR_STEPS);
    let scene = &TraceIndex::new(scene.trace, &budget);
    let mut found: Vec<(f64, NearMiss)> = Vec::new();
    for (at, chain) in selector.chains.iter().enumerate() {
        if budget.check().is_err() {
            break;
        }
        let search = Search::new(chain, read, scene, aliases);
        for (score, position) in search.short_list().into_iter().take(limit) {
            let miss = search.explain(selector, at, position);
            let is_near = search.satisfied[position] > 0 || miss.is_close;
            // A result that was computed only in part is dropped.
            if budget.check().is_ok() && is_near {
                found.push((score, miss));
            }
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.position.cmp(&b.1.position)));
    // Equal spans have one explanation.
    found.dedup_by(|(_, next), (_, miss)| {
        (&next.name, &next.failing, &next.suggestion) == (&miss.name, &miss.failing, &miss.suggestion)
    });
    found.truncate(limit);
    found.into_iter().map(|(_, miss)| miss).collect()
}

/// A chain split into conditions.
struct Search<'s, 't> {
    scene: &'s TraceIndex<'t>,
    aliases: bool,
    read: &'s [Field],
    steps: Vec<(Combinator, Vec<Part<'s>>)>,
    /// How many conditions of the last step each span satisfies.
    satisfied: Vec<usize>,
}

/// One condition of one step.
struct Part<'s> {
    condition: &'s Condition,
    filter: Filter,
    /// How telling it is that a span satisfies it: the fewer do, the more.
    weight: f64,
}

impl<'s, 't> Search<'s, 't> {
    fn new(chain: &'s Chain, read: &'s [Field], scene: &'s TraceIndex<'t>, aliases: bool) -> Self {
        let first = std::iter::once((Combinator::Descendant, &chain.first));
        let rest = chain.rest.iter().map(|(combinator, step)| (*combinator, step));
        let mut satisfied = vec![0; scene.trace.spans().len()];
        let steps = first
            .chain(rest)
            .map(|(combinator, step)| (combinator, parts(step, scene, aliases, &mut satisfied)))
            .collect();
        Self { scene, aliases, read, steps, satisfied }
    }

    /// Returns the spans worth a closer look, nearest first, with their scores.
    fn short_list(&self) -> Vec<(f64, usize)> {
        let length = self.scene.trace.spans().len();
        let Some((_, target)) = self.steps.last() else {
            return Vec::new();
        };
        let mut likely: Vec<usize> = (0..length).collect();
        likely.sort_by_key(|at| std::cmp::Reverse(self.satisfied[*at]));
        likely.truncate(LONG_LIST);
        let mut likeness = Likeness::default();
        let mut ranked: Vec<(f64, usize)> = likely
            .into_iter()
            .map(|at| (self.own_score(target, at, &mut likeness) + READABLE * self.readable(at), at))
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        if self.steps.len() > 1 {
            for (score, at) in &mut ranked {
                *score += self.path_score(*at, &mut likeness);
            }
            ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        ranked.truncate(SHORT_LIST);
        ranked
    }

    /// Scores how near a span comes to the conditions of a step. Each satisfied one counts 1; the fraction only
    /// decides between spans that satisfy equally many.
    fn own_score(&self, parts: &[Part<'_>], at: usize, likeness: &mut Likeness) -> f64 {
        // What was found is dropped once the budget is used up.
        if self.scene.budget.check().is_err() {
            return 0.0;
        }
        let share = 0.9 * ratio(1, parts.len());
        parts
            .iter()
            .map(|part| {
                if part.filter.holds(self.scene, at) {
                    1.0 + part.weight * share * 0.3
                } else {
                    self.closeness(part.condition, at, likeness) * share
                }
            })
            .sum()
    }

    /// Returns the share of the attributes that the assertions read which the span has.
    fn readable(&self, at: usize) -> f64 {
        if self.scene.budget.work(self.read.len()).is_err() {
            return 0.0;
        }
        let had = self.read.iter().filter(|field| field.look(self.scene, at).is_some()).count();
        ratio(had, self.read.len())
    }

    /// Scores how near the spans above come to the steps before the last.
    fn path_score(&self, at: usize, likeness: &mut Likeness) -> f64 {
        let mut here = at;
        let mut score = 0.0;
        for index in (0..self.steps.len() - 1).rev() {
            let combinator = self.steps[index + 1].0;
            let parts = &self.steps[index].1;
            let best = self
                .before(combinator, here)
                .into_iter()
                .map(|other| (self.own_score(parts, other, likeness), other))
                .max_by(|a, b| a.0.total_cmp(&b.0));
            let Some((best, other)) = best else { break };
            score += best;
            here = other;
        }
        score
    }

    /// Returns the spans from which a step could lead to `at`.
    fn before(&self, combinator: Combinator, at: usize) -> Vec<usize> {
        let trace = self.scene.trace;
        match combinator {
            Combinator::Descendant => std::iter::successors(trace.parent(at), |parent| trace.parent(*parent))
                .take(SHORT_LIST)
                .collect(),
            Combinator::Child => trace.parent(at).into_iter().collect(),
            Combinator::Sibling | Combinator::Next => match trace.parent(at) {
                Some(parent) => trace.children(parent).take_while(|other| *other < at).collect(),
                None => trace.roots().take_while(|other| *other < at).collect(),
            },
        }
    }

    /// Returns how near a span comes to a condition that it does not satisfy: 0 for not at all, below 1 for
    /// nearly.
    fn closeness(&self, condition: &Condition, at: usize, likeness: &mut Likeness) -> f64 {
        match condition {
            Condition::Clause(clause) => self.clause_closeness(clause, at, likeness),
            Condition::All(inner) | Condition::Any(inner) => {
                inner.iter().map(|condition| self.closeness(condition, at, likeness)).fold(0.0, f64::max)
            }
            Condition::Not(_) => 0.0,
        }
    }

    fn clause_closeness(&self, clause: &Clause, at: usize, likeness: &mut Likeness) -> f64 {
        if self.scene.budget.work(COMPARISON).is_err() {
            return 0.0;
        }
        let expected = expected_text(&clause.test);
        match self.actual(&clause.name, at) {
            Some(actual) => match expected {
                // Having the attribute at all counts a little.
                Some(expected) => 0.1 + 0.9 * likeness.of(&expected, &actual.text()),
                None => 0.2,
            },
            None => match self.similar_name(&clause.name.text, at, likeness) {
                Some((other, near)) => {
                    let value = self.actual(&unquoted(&other), at);
                    let same = expected
                        .zip(value)
                        .map_or(0.0, |(expected, value)| likeness.of(&expected, &value.text()));
                    near * (0.3 + 0.6 * same)
                }
                None => 0.0,
            },
        }
    }

    fn actual(&self, name: &Name, at: usize) -> Option<Value> {
        let field = Field::in_selector(&name.text, name.quoted, self.aliases);
        field.look(self.scene, at).map(|(seen, _)| seen.into_value())
    }

    /// Returns the attribute of the span whose name is most similar to this one, and its similarity.
    fn similar_name(&self, name: &str, at: usize, likeness: &mut Likeness) -> Option<(String, f64)> {
        let span = self.scene.trace.span(at);
        let names = span.attributes.len() + span.resource.attributes.len() + span.scope.attributes.len();
        if self.scene.budget.work(names * COMPARISON).is_err() {
            return None;
        }
        let own = span.attributes.iter();
        let inherited = span.resource.attributes.iter().chain(span.scope.attributes.iter());
        let fields = ["name", "kind", "status", "tracetest.span.type", "tracetest.span.name"].into_iter();
        own.chain(inherited)
            .map(|(known, _)| known)
            .chain(fields)
            .map(|known| (known, likeness.of(name, known)))
            .filter(|(_, near)| *near >= 0.6)
            .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(a.0)))
            .map(|(known, near)| (known.to_owned(), near))
    }

    /// Whether every condition of the last step is satisfied, or nearly.
    fn is_close(&self, at: usize) -> bool {
        let mut likeness = Likeness::default();
        let Some((_, target)) = self.steps.last() else { return false };
        target.iter().all(|part| {
            part.filter.holds(self.scene, at) || self.closeness(part.condition, at, &mut likeness) >= CLOSE
        })
    }

    fn explain(&self, selector: &Selector, chain: usize, at: usize) -> NearMiss {
        let trace = self.scene.trace;
        let mut failing = Vec::new();
        let (mut satisfied, mut conditions) = (0, 0);
        let mut corrected = selector.chains[chain].clone();
        let mut here = Some(at);
        let mut likeness = Likeness::default();
        for index in (0..self.steps.len()).rev() {
            let parts = &self.steps[index].1;
            conditions += parts.len();
            let Some(position) = here else {
                failing.extend(parts.iter().map(|part| FailedCondition {
                    condition: part.condition.to_string(),
                    place: place_of(part.condition),
                    actual: None,
                    did_you_mean: None,
                }));
                // No span above could match this step.
                drop_first_step(&mut corrected);
                continue;
            };
            let mut kept = Vec::new();
            for part in parts {
                if part.filter.holds(self.scene, position) {
                    satisfied += 1;
                    kept.push(part.condition.clone());
                    continue;
                }
                let (failure, correction) = self.correct(part.condition, position);
                failing.push(failure);
                kept.extend(correction);
            }
            let offset = corrected.rest.len() + 1 - (self.steps.len() - index);
            let step = match offset {
                0 => &mut corrected.first,
                offset => &mut corrected.rest[offset - 1].1,
            };
            step.condition = match kept.len() {
                1 => kept.remove(0),
                _ => Condition::All(kept),
            };
            if index > 0 {
                here = self
                    .before(self.steps[index].0, position)
                    .into_iter()
                    .map(|other| (self.own_score(&self.steps[index - 1].1, other, &mut likeness), other))
                    .max_by(|a, b| a.0.total_cmp(&b.0))
                    .map(|(_, other)| other);
            }
        }
        self.positions(&mut corrected, &mut failing, &mut conditions, at);
        let works = self.selected(&corrected).contains(&at);
        self.narrow(&mut corrected, at);
        let suggestion = Selector { chains: vec![corrected], place: selector.place.clone() };
        NearMiss {
            position: at,
            span: trace.span(at).id,
            name: trace.span(at).name.to_string(),
            satisfied,
            conditions,
            is_close: self.is_close(at),
            failing,
            suggestion: works.then(|| suggestion.to_string()),
        }
    }

    /// Returns the spans that the chain selects.
    fn selected(&self, chain: &Chain) -> Vec<usize> {
        let selector = Selector { chains: vec![chain.clone()], place: SourceRange::default() };
        Query::new(&selector, self.aliases).run(self.scene).unwrap_or_default()
    }

    /// Adds the kind of the span to a corrected selector that would also select spans without the attributes that the
    /// assertions read.
    fn narrow(&self, chain: &mut Chain, at: usize) {
        let all_readable =
            |chain: &Chain| self.selected(chain).iter().all(|other| self.readable(*other) >= 1.0);
        if self.readable(at) < 1.0 || all_readable(chain) {
            return;
        }
        let kind = self.scene.trace.span(at).kind.as_str().to_owned();
        let clause = Condition::Clause(Clause {
            name: unquoted("kind"),
            test: Test::Compare(Comparator::Equal, Literal::Text(kind)),
            place: SourceRange::default(),
        });
        let mut narrow = chain.clone();
        let step = narrow.rest.last_mut().map_or(&mut narrow.first, |(_, step)| step);
        step.condition = match std::mem::replace(&mut step.condition, Condition::All(Vec::new())) {
            Condition::All(all) => Condition::All(all.into_iter().chain([clause]).collect()),
            other => Condition::All(vec![other, clause]),
        };
        if all_readable(&narrow) {
            *chain = narrow;
        }
    }

    /// Drops the conditions on the position where they keep the corrected selector from matching the span.
    fn positions(
        &self,
        chain: &mut Chain,
        failing: &mut Vec<FailedCondition>,
        conditions: &mut usize,
        at: usize,
    ) {
        if self.selected(chain).contains(&at) {
            return;
        }
        let mut free = chain.clone();
        let steps = std::iter::once(&mut free.first).chain(free.rest.iter_mut().map(|(_, step)| step));
        let mut dropped: Vec<(Pseudo, Range<usize>)> = Vec::new();
        for step in steps {
            let place = step.place.0.clone();
            dropped.extend(step.pseudos.drain(..).map(|pseudo| (pseudo, place.clone())));
        }
        if dropped.is_empty() {
            return;
        }
        let count = self.selected(&free).len();
        for (pseudo, place) in dropped {
            *conditions += 1;
            failing.push(FailedCondition {
                condition: pseudo.to_string(),
                place,
                actual: Some(format!("{count} spans without it")),
                did_you_mean: None,
            });
        }
        *chain = free;
    }

    /// Explains why a condition fails on this span, and returns the condition that would hold instead; `None` to
    /// leave it out.
    fn correct(&self, condition: &Condition, at: usize) -> (FailedCondition, Option<Condition>) {
        let mut failure = FailedCondition {
            condition: condition.to_string(),
            place: place_of(condition),
            actual: None,
            did_you_mean: None,
        };
        let Condition::Clause(clause) = condition else {
            return (failure, None);
        };
        let mut clause = clause.clone();
        let mut actual = self.actual(&clause.name, at);
        if actual.is_none()
            && let Some((other, _)) = self.similar_name(&clause.name.text, at, &mut Likeness::default())
        {
            clause.name = unquoted(&other);
            actual = self.actual(&clause.name, at);
            failure.did_you_mean = Some(other);
        } else {
            failure.actual = actual.as_ref().map(|value| value.text().into_owned());
        }
        let Some(actual) = actual else {
            return (failure, None);
        };
        let holds = |clause: &Clause| {
            compile_condition(&Condition::Clause(clause.clone()), self.aliases).holds(self.scene, at)
        };
        if holds(&clause) {
            return (failure, Some(Condition::Clause(clause)));
        }
        let text = actual.text().into_owned();
        clause.test = match &clause.test {
            Test::Compare(_, Literal::Number(_)) if text.parse::<i64>().is_ok() => {
                Test::Compare(Comparator::Equal, Literal::Number(text))
            }
            Test::Compare(..) | Test::OneOf { negated: false, .. } | Test::Matches { negated: false, .. } => {
                Test::Compare(Comparator::Equal, Literal::Text(text))
            }
            Test::OneOf { .. } | Test::Matches { .. } | Test::Exists { .. } => return (failure, None),
        };
        let corrected = holds(&clause).then_some(Condition::Clause(clause));
        (failure, corrected)
    }
}

fn drop_first_step(chain: &mut Chain) {
    if !chain.rest.is_empty() {
        chain.first = chain.rest.remove(0).1;
    }
}

/// Splits a step into its conditions, as far as the budget lasts, and counts how many of them each span satisfies.
fn parts<'s>(
    step: &'s Step,
    scene: &TraceIndex<'_>,
    aliases: bool,
    satisfied: &mut [usize],
) -> Vec<Part<'s>> {
    let conditions: Vec<&Condition> = match &step.condition {
        Condition::All(all) => all.iter().collect(),
        other => vec![other],
    };
    let length = scene.trace.spans().len();
    satisfied.fill(0);
    conditions
        .into_iter()
        .take_while(|_| scene.budget.check().is_ok())
        .map(|condition| {
            let filter = compile_condition(condition, aliases);
            let mut holding: Vec<usize> = (0..length).collect();
            filter.retain(scene, &mut holding);
            for at in &holding {
                satisfied[*at] += 1;
            }
            Part { condition, filter, weight: 1.0 - ratio(holding.len(), length) }
        })
        .collect()
}

fn place_of(condition: &Condition) -> Range<usize> {
    match condition {
        Condition::Clause(clause) => clause.place.0.clone(),
        Condition::Not(inner) => place_of(inner),
        Condition::All(inner) | Condition::Any(inner) => {
            let places = inner.iter().map(place_of);
            places.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or_default()
        }
    }
}

/// Returns a name as it is written in a selector: with quotes only where it needs them.
fn unquoted(name: &str) -> Name {
    let plain = |segment: &str| {
        segment.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && segment.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
    };
    Name { text: name.to_owned(), quoted: !name.split('.').all(plain), place: SourceRange::default() }
}

fn expected_text(test: &Test) -> Option<String> {
    let literal = match test {
        Test::Compare(_, literal) => literal,
        Test::OneOf { choices, .. } => choices.first()?,
        Test::Matches { .. } | Test::Exists { .. } => return None,
    };
    Some(match literal {
        Literal::Text(value) | Literal::Number(value) | Literal::Duration(value) | Literal::Word(value) => {
            value.clone()
        }
        Literal::Bool(truth) => truth.to_string(),
    })
}

impl Display for NearMiss {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "the nearest span is `{}`", self.name)?;
        if self.satisfied > 0 {
            write!(f, ", which satisfies {} of {} conditions", self.satisfied, self.conditions)?;
        }
        for (at, failed) in self.failing.iter().enumerate() {
            f.write_str(if at == 0 { ": " } else { "; " })?;
            failed.fmt(f)?;
        }
        match &self.suggestion {
            Some(suggestion) => write!(f, "; try `{suggestion}`"),
            None => Ok(()),
        }
    }
}

impl Display for FailedCondition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (&self.did_you_mean, &self.actual) {
            (Some(name), _) => write!(f, "for `{}` it has `{name}`", self.condition),
            (None, Some(actual)) => write!(f, "for `{}` it has `{actual}`", self.condition),
            (None, None) => write!(f, "it has nothing for `{}`", self.condition),
        }
    }
}
