//! Advice about an assertion that failed: what is there instead, and how it is written.

use std::collections::BTreeSet;

use super::unknown_service::listed;
use super::{Alias, AssertionResult, Outcome};
use crate::lang::ast::{Assertion, ExprKind};
use crate::lang::diagnostic::nearest;
use crate::lang::{Diagnostic, EvalErrorKind, Field, TraceIndex, modern_assertions, without_unit};
use crate::names;

/// How many assertions of a spec get advice.
pub(super) const MAX_ADVISED: usize = 50;
/// How many attributes of a span are compared with the one that is missing.
const MAX_COMPARED: usize = 500;

/// Returns what helps to correct a failed assertion; `None` where nothing is known.
pub(super) fn on_assertion(
    assertion: &Assertion,
    result: &AssertionResult,
    scene: &TraceIndex<'_>,
    aliases: bool,
) -> Option<String> {
    if !matches!(result.outcome, Outcome::Failed(_)) {
        return None;
    }
    if let Some(Diagnostic { message, help: Some(help), .. }) = without_unit(&assertion.claim) {
        return Some(format!("{message}; {help}"));
    }
    if let Some(line) = in_found_convention(result) {
        return Some(format!("the span follows newer conventions, in which this is `{line}`"));
    }
    let lacks = result.results.iter().find(|result| {
        result.breaks && result.trouble == Some(EvalErrorKind::Attribute) && result.position.is_some()
    });
    missing_attribute(assertion, lacks?.position?, scene, aliases)
}

/// Returns the assertion in the current conventions, if an attribute was found under its current name.
fn in_found_convention(result: &AssertionResult) -> Option<String> {
    let line = modern_assertions([result.assertion.as_str()]).pop()?;
    let is_found = |alias: &Alias| names::current(&alias.asked) == Some(&*alias.found);
    (line != result.assertion && result.aliases.iter().any(is_found)).then_some(line)
}

/// Names the attributes of a span that has not the one that the assertion reads.
fn missing_attribute(
    assertion: &Assertion,
    at: usize,
    scene: &TraceIndex<'_>,
    aliases: bool,
) -> Option<String> {
    let mut asked = None;
    assertion.claim.expressions().for_each(|side| {
        side.visit(&mut |node| match &node.kind {
            ExprKind::Attribute(name)
                if asked.is_none() && Field::attribute(name, true, aliases).look(scene, at).is_none() =>
            {
                asked = Some(name);
            }
            _ => {}
        });
    });
    let asked = asked?;
    let span = scene.trace.span(at);
    let own: BTreeSet<&str> = span.attributes.iter().map(|(name, _)| name).collect();
    let inherited = span.scope.attributes.iter().chain(span.resource.attributes.iter()).map(|(name, _)| name);
    let guess = nearest(asked, own.iter().copied().chain(inherited).take(MAX_COMPARED));
    let guess = guess.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
    let has = if own.is_empty() { "no attributes of its own".to_owned() } else { listed(own.into_iter()) };
    Some(format!("{guess}`{}` has {has}", span.name))
}
