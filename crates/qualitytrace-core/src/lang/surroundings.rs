//! Expressions on their own: what the API resolves, and what people try out.

use std::cell::RefCell;

use super::ast::{Claim, Expr};
use super::budget::Budget;
use super::eval::{Context, Memory, Subject, Trouble};
use super::field::Scene;
use super::functions::Generator;
use super::item::Item;
use super::parser::{parse_assertion, parse_expression};
use super::variables::Variables;
use crate::trace::Trace;

/// What an expression on its own can refer to.
#[derive(Debug, Clone)]
pub struct Surroundings<'a> {
    /// The trace; `None` where there are no spans at all.
    pub trace: Option<&'a Trace>,
    /// The span that `attr:` reads from; `None` where none is selected.
    pub span: Option<usize>,
    /// The selection that `count` counts.
    pub selection: Option<&'a [usize]>,
    /// What `var:` and `env:` read from.
    pub variables: &'a Variables,
    /// Makes up values.
    pub generator: Generator,
    /// Whether attributes are also found under the names of other conventions.
    pub aliases: bool,
    /// How much may be done: shared by all that belongs together.
    pub budget: &'a Budget,
}

impl Surroundings<'_> {
    pub(crate) fn enter<T>(&self, run: impl FnOnce(&Context<'_, '_>, Subject) -> T) -> T {
        let scene = self.trace.map(|trace| Scene::new(trace, self.budget));
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

/// The value of an expression.
pub fn evaluate(expr: &Expr, surroundings: &Surroundings<'_>) -> Result<Item, Trouble> {
    surroundings.enter(|context, subject| context.evaluate(expr, subject))
}

/// The text of an expression's value; for a comparison, both values with the comparator between them.
pub fn resolve(text: &str, surroundings: &Surroundings<'_>) -> Result<String, Trouble> {
    let assertion = parse_assertion(text);
    if assertion.is_valid()
        && let Claim::Compare { left, comparator, right } = &assertion.tree.claim
    {
        let (left, right) = (evaluate(left, surroundings)?, evaluate(right, surroundings)?);
        return Ok(format!("{} {} {}", left.text(), comparator.as_str(), right.text()));
    }
    let expression = parse_expression(text);
    // The message of the reading that came further says more.
    let error = expression.error().map(|expression| {
        assertion
            .error()
            .filter(|assertion| assertion.span.start > expression.span.start)
            .unwrap_or(expression)
    });
    match error {
        Some(error) => Err(Trouble::syntax(text, &error.message)),
        None => evaluate(&expression.tree, surroundings).map(|item| item.text().into_owned()),
    }
}
