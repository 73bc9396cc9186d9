//! The other selections that a value rests on: those that its expressions name, and those of outputs that it uses.

use super::{Compiled, CompiledOutput, OutputResult};
use crate::lang::ast::{AggregateInput, Assertion, Claim, Expr, ExprKind, Selector};

/// Returns the selections besides its own that an assertion rests on.
pub(super) fn of_assertion<'t>(
    test: &'t Compiled,
    results: &[OutputResult],
    assertion: &'t Assertion,
) -> Vec<&'t Selector> {
    let mut sources = Sources::of(&test.outputs, results);
    if let Claim::Time { selector, .. } = &assertion.claim {
        sources.selectors.push(selector);
    }
    assertion.claim.expressions().for_each(|side| sources.expression(side));
    sources.selectors
}

/// Returns the selections besides its own that an output rests on. It sees the outputs before it.
pub(super) fn of_output<'t>(
    earlier: &'t [CompiledOutput],
    results: &[OutputResult],
    output: &'t CompiledOutput,
) -> Vec<&'t Selector> {
    let mut sources = Sources::of(earlier, results);
    sources.expression(&output.value.tree);
    sources.selectors
}

struct Sources<'t, 'r> {
    results: &'r [OutputResult],
    /// Outputs that were not visited yet.
    outputs: Vec<Option<&'t CompiledOutput>>,
    selectors: Vec<&'t Selector>,
}

impl<'t, 'r> Sources<'t, 'r> {
    fn of(outputs: &'t [CompiledOutput], results: &'r [OutputResult]) -> Self {
        Self { results, outputs: outputs.iter().map(Some).collect(), selectors: Vec::new() }
    }

    fn expression(&mut self, expr: &'t Expr) {
        let mut names = Vec::new();
        expr.visit(&mut |node| match &node.kind {
            ExprKind::Aggregate { over: AggregateInput::Selection { selector, .. }, .. } => {
                self.selectors.push(selector);
            }
            ExprKind::Variable(name) => names.push(name.as_str()),
            _ => {}
        });
        for name in names {
            self.output(name);
        }
    }

    /// Visits every output of this name: the last one that has a value counts, and which one that is may change.
    fn output(&mut self, name: &str) {
        let named = |output: &&'t CompiledOutput| output.output.name.value == name;
        let found: Vec<_> = self.outputs.iter_mut().filter_map(|slot| slot.take_if(|it| named(it))).collect();
        let is_read = self.results.iter().any(|result| result.name == name && result.is_read);
        for output in found {
            if !is_read {
                self.selectors.push(&output.selector.tree);
            }
            self.expression(&output.value.tree);
        }
    }
}
