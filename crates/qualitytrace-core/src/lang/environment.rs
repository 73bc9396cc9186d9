//! Evaluation of single expressions, for the API and for trying them out.

use std::cell::RefCell;

use super::ast::{Claim, Expr};
use super::eval::{Context, EvalError, Memory, Subject};
use super::field::TraceIndex;
use super::functions::Generator;
use super::item::Item;
use super::parser::{parse_assertion, parse_expression};
use super::variables::Variables;
use crate::budget::Budget;
use crate::trace::Trace;

/// The context of a single expression.
#[derive(Debug, Clone)]
pub struct EvaluationScope<'a> {
    /// The trace; `None` where there is none.
    pub trace: Option<&'a Trace>,
    /// The span that `attr:` reads from; `None` where none is selected.
    pub span: Option<usize>,
    /// The selection that `count` counts.
    pub selection: Option<&'a [usize]>,
    /// The variables that `var:` and `env:` read.
    pub variables: &'a Variables,
    /// The generator of random values.
    pub generator: Generator,
    /// Whether attributes are also found under the names of other conventions.
    pub aliases: bool,
    /// The budget, shared by everything that belongs together.
    pub budget: &'a Budget,
}

impl EvaluationScope<'_> {
    pub(crate) fn enter<T>(&self, run: impl FnOnce(&Context<'_, '_>, Subject) -> T) -> T {
        let scene = self.trace.map(|trace| TraceIndex::new(trace, self.budget));
        let generator = RefCell::new(self.generator.clone());
        let subject = match (self.trace, self.span) {
            (None, _) => Subject::Nowhere,
            (Some(trace), Some(at)) if at < trace.spans().len() => Subject::Span(at),
            (Some(_), _) => Subject::NoSpan,
        };
        let context = Context {
            scene: scene.as_ref(),
            selection: self.selection,
            variables: self.variables,
            generator: &generator,
            aliases: self.aliases,
            budget: self.budget,
            memory: Memory::default(),
        };
        run(&context, subject)
    }
}

/// Evaluates an expression.
pub fn evaluate(expr: &Expr, surroundings: &EvaluationScope<'_>) -> Result<Item, EvalError> {
    surroundings.enter(|context, subject| context.evaluate(expr, subject))
}

/// Returns the text of an expression's value; for a comparison, both values with the comparator between them.
pub fn resolve(text: &str, surroundings: &EvaluationScope<'_>) -> Result<String, EvalError> {
    let assertion = parse_assertion(text);
    if assertion.is_valid()
        && let Claim::Compare { left, comparator, right } = &assertion.tree.claim
    {
        let (left, right) = (evaluate(left, surroundings)?, evaluate(right, surroundings)?);
        return Ok(format!("{} {} {}", left.text(), comparator.as_str(), right.text()));
    }
    let expression = parse_expression(text);
    // The error of the parser that came further is more useful.
    let error = expression.error().map(|expression| {
        assertion
            .error()
            .filter(|assertion| assertion.span.start > expression.span.start)
            .unwrap_or(expression)
    });
    match error {
        Some(error) => Err(EvalError::syntax(text, &error.message)),
        None => evaluate(&expression.tree, surroundings).map(|item| item.text().into_owned()),
    }
}
