//! Finality: which results can no longer change while spans still arrive.

use super::possible::{self, Basis};
use super::{AssertionResult, CompiledAssertion, FailureReason, Outcome, Remedy};
use crate::lang::ast::{AggregateInput, Claim, Comparator, Expr, ExprKind, Quantifier};
use crate::names;

/// Computes whether the result is final; leaves it open if it is not and the trace may still grow, for that
/// reason.
pub(super) fn settle(
    result: &mut AssertionResult,
    assertion: &CompiledAssertion,
    basis: &Basis<'_>,
    may_grow: Option<&String>,
) {
    if !result.is_final {
        let (is_final, wants_more) = outlook(result, assertion, basis);
        result.is_final = is_final;
        if wants_more && !result.passes_now && !is_final {
            let lacks_spans = basis.finding == possible::Finding::LacksSpans;
            result.remedy = if lacks_spans { Remedy::MoreSpans } else { Remedy::OtherSpans };
        }
    }
    if let Some(reason) = may_grow
        && !result.is_final
    {
        result.outcome = Outcome::Inconclusive { reason: reason.clone() };
    }
}

/// Whether the result is final, and whether more spans could make it pass.
fn outlook(result: &AssertionResult, assertion: &CompiledAssertion, basis: &Basis<'_>) -> (bool, bool) {
    let (selected, is_closed) = (basis.selected, basis.is_closed());
    let rests_elsewhere = !basis.others.is_empty() || looks_elsewhere(&assertion.parsed.tree.claim);
    if rests_elsewhere || (!basis.grows_only && !is_closed) {
        return (false, true);
    }
    if is_closed {
        return (true, false);
    }
    by_number(result, assertion, selected)
}

/// What the spans that were found say about the claim of an assertion.
pub(super) fn finding(
    result: &AssertionResult,
    assertion: &CompiledAssertion,
    selected: usize,
) -> possible::Finding {
    match by_number(result, assertion, selected) {
        _ if result.passes_now => possible::Finding::Holds,
        (false, true) => possible::Finding::LacksSpans,
        (true, _) | (_, false) => possible::Finding::Fails,
    }
}

/// The outlook as far as only the number of spans changes.
fn by_number(result: &AssertionResult, assertion: &CompiledAssertion, selected: usize) -> (bool, bool) {
    let tree = &assertion.parsed.tree;
    if let Some((comparator, bound)) = count_bound(&tree.claim) {
        let comparator = match tree.quantifier {
            Quantifier::All | Quantifier::Any => comparator,
            Quantifier::None => negated(comparator),
            // How many spans pass is their number, or 0.
            Quantifier::Exactly(_) | Quantifier::AtLeast(_) | Quantifier::AtMost(_) => return (false, true),
        };
        return count_outlook(comparator, i64::try_from(selected).unwrap_or(i64::MAX), bound);
    }
    let passed = result.results.iter().filter(|result| result.passed).count() as u64;
    let failed_span =
        result.results.iter().any(|result| !result.passed && result.failure != Some(FailureReason::NoSpan));
    match tree.quantifier {
        Quantifier::All => (failed_span && selected > 0, selected == 0),
        Quantifier::Any => (passed > 0, true),
        Quantifier::None => (passed > 0, selected == 0),
        Quantifier::Exactly(n) => (passed > n, passed < n),
        Quantifier::AtLeast(n) => (passed >= n, true),
        Quantifier::AtMost(n) => (passed > n, selected == 0),
    }
}

/// A count can only grow: returns whether the result is final, and whether more spans could make it pass.
fn count_outlook(comparator: Comparator, count: i64, bound: i64) -> (bool, bool) {
    match comparator {
        Comparator::Equal => (count > bound, count < bound),
        // It fails on this number alone; asking for another one asks for more only where there is none.
        Comparator::NotEqual => (count > bound, count == 0),
        Comparator::Less => (count >= bound, false),
        Comparator::LessOrEqual => (count > bound, false),
        Comparator::Greater => (count > bound, true),
        Comparator::GreaterOrEqual => (count >= bound, true),
        _ => (false, true),
    }
}

/// Returns the comparator that holds where this one does not, if it compares numbers.
fn negated(comparator: Comparator) -> Comparator {
    match comparator {
        Comparator::Equal => Comparator::NotEqual,
        Comparator::NotEqual => Comparator::Equal,
        Comparator::Less => Comparator::GreaterOrEqual,
        Comparator::LessOrEqual => Comparator::Greater,
        Comparator::Greater => Comparator::LessOrEqual,
        Comparator::GreaterOrEqual => Comparator::Less,
        other => other,
    }
}

/// Returns the comparator and the number, if the claim compares the size of the selection with a number.
fn count_bound(claim: &Claim) -> Option<(Comparator, i64)> {
    let Claim::Compare { left, comparator, right } = claim else {
        return None;
    };
    let number = |expr: &Expr| match &expr.kind {
        ExprKind::Number(text) => text.parse().ok(),
        _ => None,
    };
    if is_count(left) {
        return Some((*comparator, number(right)?));
    }
    if is_count(right) {
        let mirrored = match comparator {
            Comparator::Less => Comparator::Greater,
            Comparator::LessOrEqual => Comparator::GreaterOrEqual,
            Comparator::Greater => Comparator::Less,
            Comparator::GreaterOrEqual => Comparator::LessOrEqual,
            other => *other,
        };
        return Some((mirrored, number(left)?));
    }
    None
}

fn is_count(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Attribute(name) => names::attribute(name) == "tracetest.selected_spans.count",
        ExprKind::Aggregate {
            function: crate::lang::ast::Aggregate::Count,
            over: AggregateInput::Own(None),
        } => true,
        _ => false,
    }
}

/// Whether the claim depends on more than the span itself, so that a new span may change what holds for an old one.
fn looks_elsewhere(claim: &Claim) -> bool {
    match claim {
        Claim::Time { .. } => true,
        Claim::Compare { left, right, .. } | Claim::OneOf { left, right, .. } => {
            (depends_on_selection(left) || depends_on_selection(right)) && count_bound(claim).is_none()
        }
        Claim::Exists { left, .. } => depends_on_selection(left),
        Claim::Hole => false,
    }
}

fn depends_on_selection(expr: &Expr) -> bool {
    super::assertion::is_about_count(expr)
}
