//! Evaluation of one assertion on the spans of a selection.

use super::{Alias, AssertionResult, CompiledAssertion, FailureReason, Outcome, Remedy, SpanResult};
use crate::budget::BudgetError;
use crate::lang::ast::{Assertion, Claim, Comparator, Expr, ExprKind, Quantifier, Relation, Selector};
use crate::lang::{
    Comparison, Context, EvalError, EvalErrorKind, Item, Parsed, Query, Subject, compare, in_time, list,
    no_match_unless, one_of, one_of_these,
};
use crate::names;
use crate::time::{self, exact_duration};
use crate::trace::Span;

pub(super) fn judge(
    assertion: &CompiledAssertion,
    context: &Context<'_, '_>,
    selection: &[usize],
) -> AssertionResult {
    let text = &assertion.text;
    let tree = &assertion.parsed.tree;
    if let Some(error) = assertion.parsed.error() {
        let trouble = EvalError::syntax(&text.value, &error.message);
        let failed = SpanResult::failed(FailureReason::InvalidAssertion, trouble.text, Some(trouble.class));
        let results = if selection.is_empty() {
            vec![failed]
        } else {
            on_each(selection, context, |_| failed.clone()).0
        };
        return AssertionResult {
            diagnostics: assertion.parsed.diagnostics.clone(),
            ..AssertionResult::hopeless(text, FailureReason::InvalidAssertion, results)
        };
    }
    let once = is_one_value(&tree.claim);
    let others = Others::new(&tree.claim, context);
    let (mut results, complete) = if once || (selection.is_empty() && claim_is_about_count(&tree.claim)) {
        (vec![evaluate(&tree.claim, context, Subject::NoSpan, &others)], true)
    } else if selection.is_empty() {
        let text = nothing_selected(&tree.claim);
        (vec![SpanResult::failed(FailureReason::NoSpan, text, Some(EvalErrorKind::Resolution))], true)
    } else {
        on_each(selection, context, |at| evaluate(&tree.claim, context, Subject::Span(at), &others))
    };
    let quantifier = tree.quantifier;
    // An exact number is not known where some spans were not evaluated.
    let is_counted = complete || !matches!(quantifier, Quantifier::Exactly(_));
    let passes = is_counted && holds(quantifier, &results);
    for result in &mut results {
        result.breaks = false;
    }
    if !passes {
        blame(quantifier, &mut results);
    }
    let outcome = if passes {
        Outcome::Passed
    } else {
        let failure = results.iter().find_map(|result| result.failure);
        Outcome::Failed(failure.unwrap_or(FailureReason::NoMatch))
    };
    let aliases = context.memory.used_aliases.take();
    AssertionResult {
        assertion: text.value.clone(),
        outcome,
        passes_now: passes,
        is_final: false,
        remedy: Remedy::None,
        results,
        aliases: aliases.into_iter().map(|(asked, found)| Alias { asked, found: found.to_owned() }).collect(),
        advice: None,
        diagnostics: assertion.parsed.diagnostics.clone(),
    }
}

/// Evaluates the claim on this subject alone.
pub(super) fn once(assertion: &Parsed<Assertion>, context: &Context<'_, '_>, subject: Subject) -> SpanResult {
    if let Some(error) = assertion.error() {
        SpanResult::failed(
            FailureReason::InvalidAssertion,
            format!("invalid syntax: {}", error.message),
            Some(EvalErrorKind::Syntax),
        )
    } else {
        let claim = &assertion.tree.claim;
        evaluate(claim, context, subject, &Others::new(claim, context))
    }
}

/// Returns a result for each span, and whether the budget sufficed for all of them; if not, the last result says
/// so.
fn on_each(
    selection: &[usize],
    context: &Context<'_, '_>,
    judge: impl Fn(usize) -> SpanResult,
) -> (Vec<SpanResult>, bool) {
    let mut results = Vec::new();
    for at in selection {
        let room = context.budget.work(1).and_then(|()| context.budget.hold(size_of::<SpanResult>()));
        if let Err(exceeded) = room {
            let trouble = EvalError::from(exceeded);
            results.push(SpanResult::failed(FailureReason::NotEvaluated, trouble.text, Some(trouble.class)));
            return (results, false);
        }
        results.push(on_span(judge(*at), context, *at));
    }
    (results, true)
}

fn on_span(mut result: SpanResult, context: &Context<'_, '_>, at: usize) -> SpanResult {
    result.position = Some(at);
    result.span = context.scene.and_then(|scene| scene.trace.span(at).id);
    result
}

/// Whether the results satisfy the quantifier.
fn holds(quantifier: Quantifier, results: &[SpanResult]) -> bool {
    let passed = results.iter().filter(|result| result.passed).count() as u64;
    // An assertion never holds on no span at all.
    if results.iter().any(|result| result.failure == Some(FailureReason::NoSpan)) {
        return false;
    }
    match quantifier {
        Quantifier::All => results.iter().all(|result| result.passed),
        Quantifier::Any => passed > 0,
        // A claim that cannot be evaluated is not shown to be false.
        Quantifier::None => passed == 0 && !results.iter().any(is_broken),
        Quantifier::Exactly(n) => passed == n && !results.iter().any(is_broken),
        Quantifier::AtLeast(n) => passed >= n,
        Quantifier::AtMost(n) => passed <= n && !results.iter().any(is_broken),
    }
}

/// Marks the results that keep an assertion from holding.
fn blame(quantifier: Quantifier, results: &mut [SpanResult]) {
    let passed = results.iter().filter(|result| result.passed).count() as u64;
    let limit = match quantifier {
        Quantifier::All | Quantifier::Any | Quantifier::AtLeast(_) => None,
        Quantifier::None => Some(0),
        Quantifier::AtMost(n) => Some(n),
        Quantifier::Exactly(n) => Some(n).filter(|n| passed > *n),
    };
    for result in results {
        result.breaks = match limit {
            Some(n) if result.failure != Some(FailureReason::NoSpan) => {
                (passed > n && result.passed) || is_broken(result)
            }
            Some(_) | None => !result.passed,
        };
    }
}

/// Whether the claim could not be evaluated, for another reason than a missing attribute.
fn is_broken(result: &SpanResult) -> bool {
    result.failure == Some(FailureReason::NotEvaluated) && result.trouble != Some(EvalErrorKind::Attribute)
}

fn evaluate(claim: &Claim, context: &Context<'_, '_>, subject: Subject, others: &Others<'_>) -> SpanResult {
    // Intermediate values of the evaluation are released afterwards.
    let outcome = context.budget.meanwhile(|| match claim {
        Claim::Compare { left, comparator, right } => {
            sides(left, right, context, subject).and_then(|(mut left_item, mut right_item)| {
                if matches!(comparator, Comparator::Equal | Comparator::NotEqual) {
                    left_item = context.in_form_of(left, left_item, &right_item, subject)?;
                    right_item = context.in_form_of(right, right_item, &left_item, subject)?;
                }
                let (left, right) = (left_item, right_item);
                let comparison = compare(&left, *comparator, &right, context.budget);
                Ok((left, Some(right), comparison))
            })
        }
        Claim::OneOf { left, negated, right } => choose(left, right, context, subject)
            .map(|(left, right, is_one)| (left, Some(right), no_match_unless(is_one != *negated))),
        Claim::Exists { left, negated } => match context.evaluate(left, subject) {
            Ok(item) => {
                let exists = !item.is_nothing();
                Ok((item, None, no_match_unless(exists != *negated)))
            }
            Err(trouble) if matches!(trouble.class, EvalErrorKind::Resolution | EvalErrorKind::Attribute) => {
                Ok((Item::plain(""), None, no_match_unless(*negated)))
            }
            Err(trouble) => Err(trouble),
        },
        Claim::Time { relation, .. } => others.compare(relation, context, subject),
        Claim::Hole => Err(EvalError::evaluation("the assertion is not valid")),
    });
    // Both values are kept, with their texts.
    let outcome = outcome.and_then(|(left, right, comparison)| {
        let texts = left.size() + right.as_ref().map_or(0, Item::size);
        context.budget.keep(texts)?;
        Ok((left, right, comparison))
    });
    match outcome {
        Ok((left, right, comparison)) => compared(left, right, comparison),
        Err(trouble) => SpanResult::failed(FailureReason::NotEvaluated, trouble.text, Some(trouble.class)),
    }
}

fn sides(
    left: &Expr,
    right: &Expr,
    context: &Context<'_, '_>,
    subject: Subject,
) -> Result<(Item, Item), EvalError> {
    Ok((context.evaluate(left, subject)?, context.evaluate(right, subject)?))
}

/// Returns both values, and whether the first is an item of the second. The items of a list that is written in the
/// claim keep their quotes: digits in them are text.
fn choose(
    left: &Expr,
    right: &Expr,
    context: &Context<'_, '_>,
    subject: Subject,
) -> Result<(Item, Item, bool), EvalError> {
    let ExprKind::Array(items) = &right.kind else {
        let (left, right) = sides(left, right, context, subject)?;
        let is_one = one_of(&left, &right, context.budget)?;
        return Ok((left, right, is_one));
    };
    let left = context.evaluate(left, subject)?;
    let choices = context.items(items, subject)?;
    let is_one = one_of_these(&left, &choices, context.budget)?;
    Ok((left, list(&choices), is_one))
}

fn compared(left: Item, right: Option<Item>, comparison: Comparison) -> SpanResult {
    let durations = right.as_ref().and_then(|right| in_time(&left, right));
    let (observed_text, expected_text) = match durations {
        Some((left, right)) => (exact_duration(left), exact_duration(right)),
        None => (
            left.text().into_owned(),
            right.as_ref().map(|right| right.text().into_owned()).unwrap_or_default(),
        ),
    };
    let (passed, error, failure) = match comparison {
        Comparison::Match => (true, None, None),
        Comparison::NoMatch(text) => (false, Some(text), Some(FailureReason::NoMatch)),
        Comparison::Impossible(text) => (false, Some(text), Some(FailureReason::NotEvaluated)),
    };
    SpanResult {
        position: None,
        span: None,
        passed,
        breaks: !passed,
        observed: Some(left.value),
        observed_text,
        expected: right.map(|right| right.value),
        expected_text,
        error,
        failure,
        trouble: None,
    }
}

/// The spans that a claim about time refers to, selected once for all subjects.
struct Others<'c> {
    selector: Option<&'c Selector>,
    positions: Result<Vec<usize>, BudgetError>,
}

impl<'c> Others<'c> {
    fn new(claim: &'c Claim, context: &Context<'_, '_>) -> Self {
        match (claim, context.scene) {
            (Claim::Time { selector, .. }, Some(scene)) => {
                Self { selector: Some(selector), positions: Query::new(selector, context.aliases).run(scene) }
            }
            _ => Self { selector: None, positions: Ok(Vec::new()) },
        }
    }

    fn compare(
        &self,
        relation: &Relation,
        context: &Context<'_, '_>,
        subject: Subject,
    ) -> Result<(Item, Option<Item>, Comparison), EvalError> {
        let (Some(scene), Subject::Span(at), Some(selector)) = (context.scene, subject, self.selector) else {
            return Err(EvalError::evaluation("there is no span to compare in time"));
        };
        let positions = self.positions.as_ref().map_err(|exceeded| *exceeded)?;
        context.budget.work(positions.len())?;
        let spans: Vec<&Span> =
            positions.iter().filter(|other| **other != at).map(|other| scene.trace.span(*other)).collect();
        if spans.is_empty() {
            return Err(EvalError {
                class: EvalErrorKind::Resolution,
                text: format!("resolution error: no other span matches `{selector}`"),
            });
        }
        let own = scene.trace.span(at);
        let (start, end) = (own.start, own.end.unwrap_or(own.start));
        let begins = spans.iter().map(|span| span.start);
        let ends = spans.iter().map(|span| span.end.unwrap_or(span.start));
        let gap = |span: &Span| {
            let before = span.start.since(end);
            before.max(start.since(span.end.unwrap_or(span.start)))
        };
        let nanos = |duration: std::time::Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        let (observed, truth) = match relation {
            Relation::Before => {
                let first = begins.min().unwrap_or_default();
                let distance = nanos(first.since(end)) - nanos(end.since(first));
                (distance, end <= first)
            }
            Relation::After => {
                let last = ends.max().unwrap_or_default();
                let distance = nanos(start.since(last)) - nanos(last.since(start));
                (distance, start >= last)
            }
            Relation::Overlaps => {
                let nearest = spans.iter().map(|span| nanos(gap(span))).min().unwrap_or_default();
                let shares =
                    spans.iter().any(|span| span.start <= end && start <= span.end.unwrap_or(span.start));
                (nearest, shares)
            }
            Relation::Within(limit) => {
                let nearest = spans.iter().map(|span| nanos(gap(span))).min().unwrap_or_default();
                (nearest, time::parse_duration(limit).is_some_and(|limit| nearest <= limit))
            }
        };
        let observed = Item::plain(crate::value::Value::Duration(observed));
        let expected = match relation {
            Relation::Within(limit) => Some(Item::plain(limit.as_str())),
            Relation::Before | Relation::After | Relation::Overlaps => None,
        };
        Ok((observed, expected, no_match_unless(truth)))
    }
}

/// Returns the message for an assertion without spans; existing clients recognise the text.
fn nothing_selected(claim: &Claim) -> String {
    let asked = std::cell::RefCell::new(None);
    let is_attribute = |node: &Expr| {
        if let ExprKind::Attribute(name) = &node.kind {
            asked.replace(Some(name.clone()));
        }
        asked.borrow().is_some()
    };
    let _ = claim.expressions().any(|side| any_node(side, &is_attribute));
    match asked.into_inner() {
        Some(name) => format!(
            "resolution error: there are no matching spans to retrieve the attribute \"{name}\" from. To fix this \
             error, create a selector matching at least one span."
        ),
        None => {
            "resolution error: there are no matching spans. To fix this error, create a selector matching at \
                 least one span."
                .to_owned()
        }
    }
}

/// Whether the claim makes sense without a span because it is about the number of spans.
fn claim_is_about_count(claim: &Claim) -> bool {
    claim.expressions().any(is_about_count)
}

/// Whether it claims the same of each span, or their number, as every test of Tracetest's does.
pub(super) fn is_about_each(assertion: &Assertion) -> bool {
    let has_aggregate = |side| any_node(side, &|node| matches!(node.kind, ExprKind::Aggregate { .. }));
    assertion.quantifier == Quantifier::All && !assertion.claim.expressions().any(has_aggregate)
}

/// Whether the value depends on the number of spans.
pub(super) fn is_about_count(expr: &Expr) -> bool {
    any_node(expr, &|node| match &node.kind {
        ExprKind::Attribute(name) => names::attribute(name) == "tracetest.selected_spans.count",
        ExprKind::Aggregate { .. } => true,
        _ => false,
    })
}

/// Whether the claim is about the whole selection at once: it has aggregates, and nothing that differs from span
/// to span.
fn is_one_value(claim: &Claim) -> bool {
    let has_aggregate = claim
        .expressions()
        .any(|side| any_node(side, &|node| matches!(node.kind, ExprKind::Aggregate { .. })));
    let has_attribute = claim.expressions().any(|side| {
        any_node(side, &|node| match &node.kind {
            ExprKind::Attribute(name) => names::attribute(name) != "tracetest.selected_spans.count",
            _ => false,
        })
    });
    has_aggregate && !has_attribute
}

/// Whether some node satisfies the test; nodes inside an aggregate are not visited.
fn any_node(expr: &Expr, test: &impl Fn(&Expr) -> bool) -> bool {
    let is_aggregate = matches!(expr.kind, ExprKind::Aggregate { .. });
    test(expr) || (!is_aggregate && expr.children().into_iter().any(|child| any_node(child, test)))
}
