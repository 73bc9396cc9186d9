//! A compiled test: parsed once, judged many times.

use std::sync::OnceLock;

use crate::budget::Budget;
use crate::definition::{Output, Spec, Text};
use crate::lang::ast::{Assertion, Chain, Claim, Condition, Expr, ExprKind, Selector, Step};
use crate::lang::{
    Field, Generator, Parsed, Query, TraceIndex, Variables, fill_claim, fill_expression, fill_selector,
    parse_assertion, parse_expression, parse_selector,
};
use crate::trace::Trace;

/// The specs and outputs of a test, parsed.
#[derive(Debug)]
pub struct Compiled {
    /// The specs, in order.
    pub specs: Vec<CompiledSpec>,
    /// The outputs, in order.
    pub outputs: Vec<CompiledOutput>,
}

/// A spec, parsed.
#[derive(Debug)]
pub struct CompiledSpec {
    /// The spec as written.
    pub spec: Spec,
    /// Its selector.
    pub selector: Parsed<Selector>,
    /// Its assertions, in order.
    pub assertions: Vec<CompiledAssertion>,
    queries: Queries,
}

/// An assertion, parsed.
#[derive(Debug)]
pub struct CompiledAssertion {
    /// The assertion as written.
    pub text: Text,
    /// Its tree.
    pub parsed: Parsed<Assertion>,
}

/// An output, parsed.
#[derive(Debug)]
pub struct CompiledOutput {
    /// The output as written.
    pub output: Output,
    /// Its selector.
    pub selector: Parsed<Selector>,
    /// Its value.
    pub value: Parsed<Expr>,
    queries: Queries,
}

/// The selector compiled to queries, with and without aliases.
#[derive(Debug, Default)]
struct Queries([OnceLock<Query>; 2]);

impl Queries {
    fn get(&self, selector: &Selector, aliases: bool) -> &Query {
        self.0[usize::from(aliases)].get_or_init(|| Query::new(selector, aliases))
    }
}

impl Compiled {
    /// Parses everything; errors are in the diagnostics of each part.
    pub fn new(specs: &[Spec], outputs: &[Output]) -> Self {
        Self {
            specs: specs.iter().map(CompiledSpec::new).collect(),
            outputs: outputs.iter().map(CompiledOutput::new).collect(),
        }
    }

    /// Replaces `${var:NAME}` in the texts of its selectors.
    #[must_use]
    pub fn with_variables(mut self, variables: &Variables, generator: &Generator) -> Self {
        for spec in &mut self.specs {
            fill_selector(&mut spec.selector.tree, variables, generator);
            for assertion in &mut spec.assertions {
                fill_claim(&mut assertion.parsed.tree.claim, variables, generator);
            }
        }
        for output in &mut self.outputs {
            fill_selector(&mut output.selector.tree, variables, generator);
            fill_expression(&mut output.value.tree, variables, generator);
        }
        self
    }
}

impl CompiledSpec {
    fn new(spec: &Spec) -> Self {
        Self {
            spec: spec.clone(),
            selector: parse_selector(&spec.selector.value),
            assertions: spec
                .assertions
                .iter()
                .map(|text| CompiledAssertion { text: text.clone(), parsed: parse_assertion(&text.value) })
                .collect(),
            queries: Queries::default(),
        }
    }

    pub(crate) fn query(&self, aliases: bool) -> &Query {
        self.queries.get(&self.selector.tree, aliases)
    }

    /// Returns the first span of a trace that has what the last step of the selector asks for, wherever it stands; `None`
    /// if that step asks for nothing.
    pub fn selected_alone(&self, trace: &Trace, aliases: bool, budget: &Budget) -> Option<usize> {
        let last = |chain: &Chain| chain.rest.last().map_or(&chain.first, |(_, step)| step).condition.clone();
        let asks = |condition: &Condition| !matches!(condition, Condition::All(all) if all.is_empty());
        let conditions = self.selector.tree.chains.iter().map(last).filter(asks);
        let place = || self.selector.tree.place.clone();
        let alone = |condition| Step { condition, pseudos: Vec::new(), place: place() };
        let alone = conditions.map(|condition| Chain { first: alone(condition), rest: Vec::new() });
        let selector = Selector { chains: alone.collect(), place: place() };
        Query::new(&selector, aliases).run(&TraceIndex::new(trace, budget)).ok()?.into_iter().next()
    }

    /// Returns the attributes that its assertions read.
    pub(super) fn read_attributes(&self, aliases: bool) -> Vec<Field> {
        let claims = self.assertions.iter().map(|assertion| &assertion.parsed.tree.claim);
        let mut names = Vec::new();
        for claim in claims.filter(|claim| !matches!(claim, Claim::Exists { negated: true, .. })) {
            claim.expressions().for_each(|side| {
                side.visit(&mut |node| match &node.kind {
                    ExprKind::Attribute(name) if !names.contains(&name) => names.push(name),
                    _ => {}
                });
            });
        }
        names.into_iter().map(|name| Field::attribute(name, true, aliases)).collect()
    }
}

impl CompiledOutput {
    fn new(output: &Output) -> Self {
        Self {
            output: output.clone(),
            selector: parse_selector(&output.selector.value),
            value: parse_expression(&output.value.value),
            queries: Queries::default(),
        }
    }

    pub(crate) fn query(&self, aliases: bool) -> &Query {
        self.queries.get(&self.selector.tree, aliases)
    }
}
