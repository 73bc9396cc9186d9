//! Judges whether a test passed: its specs and outputs against a trace.
//!
//! A test is compiled once and may be judged many times while its trace grows. A failed assertion is data, never
//! an error; every spec and every output gets its own result, even if its text is invalid.

mod advice;
mod alias;
mod assertion;
mod compiled;
mod finality;
mod near;
mod outcome;
mod output;
mod possible;
mod sources;
mod unknown_service;

pub use alias::Alias;
pub use compiled::{Compiled, CompiledAssertion, CompiledOutput, CompiledSpec};
pub use near::{FailedCondition, NearMiss, nearest_misses};
pub use outcome::{
    AssertionResult, FailureReason, Outcome, OutputResult, Remedy, SpanResult, SpecResult, Verdict,
};
pub use unknown_service::UnknownService;

use std::cell::RefCell;
use std::sync::Arc;

use crate::budget::Budget;
use crate::lang::ast::Assertion;
use crate::lang::{Context, EvaluationScope, Generator, Memory, Parsed, TraceIndex, Variables};
use crate::trace::Trace;
use crate::wait::Absence;
use possible::Basis;

/// Options of the judge beside the test and the trace.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether attributes are also found under the names of other semantic conventions.
    pub aliases: bool,
    /// Why the trace may still grow; `None` when it is complete.
    pub incomplete: Option<String>,
    /// Spans that are neither here nor known to be absent: an assertion whose result could change with them is
    /// left open.
    pub absences: Vec<Absence>,
    /// Maximum number of near misses to look for when a selector matches nothing.
    pub near_misses: usize,
    /// The generator of random values that assertions use.
    pub generator: Generator,
    /// The step and memory budget of judging.
    pub budget: Budget,
}

impl Options {
    /// Options for a complete trace, with aliases.
    pub fn new(generator: Generator) -> Self {
        Self {
            aliases: true,
            incomplete: None,
            absences: Vec::new(),
            near_misses: 3,
            generator,
            budget: Budget::default(),
        }
    }
}

/// Evaluates one assertion on one span, or on none.
pub fn assert_once(assertion: &Parsed<Assertion>, surroundings: &EvaluationScope<'_>) -> SpanResult {
    surroundings.enter(|context, subject| assertion::once(assertion, context, subject))
}

/// The state of a test while spans still arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestStatus {
    /// The state of each assertion, in order.
    pub assertions: Vec<AssertionStatus>,
    /// Whether no later span can change an output.
    pub outputs_stand: bool,
}

/// The state of an assertion while spans still arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssertionStatus {
    /// The index of the spec.
    pub spec: usize,
    /// The index of the assertion in its spec.
    pub assertion: usize,
    /// Whether it would pass if no more spans arrived.
    pub passes: bool,
    /// Whether no later span can change that.
    pub is_final: bool,
    /// What could make it pass that fails now.
    pub remedy: Remedy,
}

impl Compiled {
    /// Judges the trace.
    pub fn judge(&self, trace: &Trace, variables: &Variables, options: &Options) -> Verdict {
        let budget = options.budget.clone();
        let scene = TraceIndex::new(trace, &budget);
        let mut fields = Vec::new();
        self.specs
            .iter()
            .for_each(|spec| spec.query(options.aliases).each_field(&mut |field| fields.push(field)));
        scene.ask_all(fields);
        let generator = RefCell::new(options.generator.clone());
        let (outputs, variables) = output::run(self, &scene, variables, &generator, options);
        let specs = self
            .specs
            .iter()
            .enumerate()
            .map(|(at, spec)| self.judge_spec(at, spec, &scene, (&variables, &outputs), &generator, options))
            .collect();
        Verdict::new(specs, outputs)
    }

    /// Returns the state of each assertion and of the outputs, to decide whether to wait for more spans.
    pub fn standing(&self, trace: &Trace, variables: &Variables, options: &Options) -> TestStatus {
        let options = Options { near_misses: 0, ..options.clone() };
        let verdict = self.judge(trace, variables, &options);
        let mut assertions = Vec::new();
        for (spec, result) in verdict.specs.iter().enumerate() {
            for (assertion, result) in result.assertions.iter().enumerate() {
                assertions.push(AssertionStatus {
                    spec,
                    assertion,
                    passes: result.passes_now,
                    is_final: result.is_final,
                    remedy: result.remedy,
                });
            }
        }
        TestStatus { assertions, outputs_stand: verdict.outputs.iter().all(|output| output.is_final) }
    }

    /// Returns the assertions whose result later spans can still change.
    pub fn undecided(&self, trace: &Trace, variables: &Variables, options: &Options) -> Vec<AssertionStatus> {
        let mut standings = self.standing(trace, variables, options).assertions;
        standings.retain(|standing| !standing.is_final);
        standings
    }

    /// Returns the services whose spans alone can change the result of a spec; empty where it does not say.
    pub fn services(&self, spec: &CompiledSpec) -> Vec<Arc<str>> {
        let looks_elsewhere =
            |it: &CompiledAssertion| !sources::of_assertion(self, &[], &it.parsed.tree).is_empty();
        if spec.assertions.iter().any(looks_elsewhere) {
            return Vec::new();
        }
        possible::services(&spec.selector.tree)
    }

    fn judge_spec(
        &self,
        at: usize,
        spec: &CompiledSpec,
        scene: &TraceIndex<'_>,
        (variables, outputs): (&Variables, &[OutputResult]),
        generator: &RefCell<Generator>,
        options: &Options,
    ) -> SpecResult {
        let duplicate_of =
            self.specs[..at].iter().position(|other| other.spec.selector == spec.spec.selector);
        let mut result = SpecResult {
            name: spec.spec.name.clone(),
            selector: spec.spec.selector.value.clone(),
            duplicate_of,
            selected: Vec::new(),
            assertions: Vec::new(),
            aliases: Vec::new(),
            near_misses: Vec::new(),
            unknown_service: None,
            diagnostics: spec.selector.diagnostics.clone(),
        };
        let exceeded = |text: String| {
            let failed = |assertion| AssertionResult::not_evaluated(assertion, &text);
            spec.assertions.iter().map(failed).collect()
        };
        if let Some(error) = spec.selector.error() {
            result.assertions = spec
                .assertions
                .iter()
                .map(|assertion| AssertionResult::invalid_selector(assertion, &error.message))
                .collect();
            return result;
        }
        let query = spec.query(options.aliases);
        let selection = match query.run(scene) {
            Ok(selection) => selection,
            Err(error) => {
                result.assertions = exceeded(error.to_string());
                return result;
            }
        };
        result.selected = selection.iter().map(|at| (*at, scene.trace.span(*at).id)).collect();
        if options.aliases && options.near_misses > 0 {
            result.aliases = alias::aliases_used(&spec.selector.tree, scene, &selection);
        }
        if selection.is_empty() {
            let read = spec.read_attributes(options.aliases);
            let (limit, aliases) = (options.near_misses, options.aliases);
            result.near_misses = near::near_misses(&spec.selector.tree, &read, scene, limit, aliases);
            if limit > 0 {
                result.unknown_service = UnknownService::of(&spec.selector.tree, scene.trace);
            }
        }
        for assertion in &spec.assertions {
            let context = Context {
                scene: Some(scene),
                selection: Some(&selection),
                variables,
                generator,
                aliases: options.aliases,
                budget: scene.budget,
                memory: Memory::default(),
            };
            let mut judged = assertion::judge(assertion, &context, &selection);
            let basis = Basis {
                selector: &spec.selector.tree,
                grows_only: query.grows_only(scene.trace),
                selected: selection.len(),
                is_about_each: assertion::is_about_each(&assertion.parsed.tree),
                finding: finality::finding(&judged, assertion, selection.len()),
                others: &sources::of_assertion(self, outputs, &assertion.parsed.tree),
            };
            let absent = possible::first(&options.absences, &basis);
            let open = options.incomplete.as_ref().or(absent.map(|absence| &absence.reason));
            finality::settle(&mut judged, assertion, &basis, open);
            if options.near_misses > 0 && result.assertions.len() < advice::MAX_ADVISED {
                judged.advice = advice::on_assertion(&assertion.parsed.tree, &judged, scene, options.aliases);
            }
            result.assertions.push(judged);
        }
        result
    }
}
