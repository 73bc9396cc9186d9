//! The outputs of a test: values that it reads from its trace.

use std::cell::RefCell;

use super::assertion::is_about_count;
use super::possible::{self, Basis, Finding};
use super::{Compiled, CompiledOutput, Options, OutputResult, sources};
use crate::lang::{Context, Generator, Memory, Subject, TraceIndex, Variables};
use crate::wait::Absence;

/// Reads the outputs in order; each sees those before it. Also returns the variables that the specs see.
pub(super) fn run(
    test: &Compiled,
    scene: &TraceIndex<'_>,
    variables: &Variables,
    generator: &RefCell<Generator>,
    options: &Options,
) -> (Vec<OutputResult>, Variables) {
    let mut variables = variables.clone();
    let mut results: Vec<OutputResult> = Vec::new();
    for (at, output) in test.outputs.iter().enumerate() {
        let (mut result, selected) = read(output, scene, &variables, generator, options.aliases);
        let others = sources::of_output(&test.outputs[..at], &results, output);
        let stands = output.query(options.aliases).keeps_first(scene.trace);
        result.is_read = result.resolved && selected > 0 && stands && !is_about_count(&output.value.tree);
        let is_own_final = result.is_read || possible::is_closed(&output.selector.tree);
        result.is_final |= is_own_final && others.iter().all(|other| possible::is_closed(other));
        let grows_only = output.query(options.aliases).grows_only(scene.trace);
        let basis = Basis {
            selector: &output.selector.tree,
            grows_only,
            selected,
            is_about_each: false,
            finding: if result.is_read { Finding::Holds } else { Finding::LacksSpans },
            others: &others,
        };
        if let Some(absence) = missing(&basis, result.is_read, &options.absences) {
            result.leave_open(&absence.reason);
        }
        if result.resolved {
            variables.set(result.name.clone(), result.value.clone());
        }
        match results.iter_mut().find(|other| other.name == result.name) {
            Some(earlier) => {
                result.replaces = Some(std::mem::take(&mut earlier.value));
                *earlier = result;
            }
            None => results.push(result),
        }
    }
    (results, variables)
}

/// Returns the absence that would change the output.
///
/// A value that was read from a span stands: spans that are missing come after it.
fn missing<'a>(basis: &Basis<'_>, is_read: bool, absences: &'a [Absence]) -> Option<&'a Absence> {
    if is_read {
        return possible::first_elsewhere(absences, basis.others);
    }
    possible::first(absences, basis)
}

/// Evaluates an output on the spans that are here; also returns how many its selector matches.
fn read(
    output: &CompiledOutput,
    scene: &TraceIndex<'_>,
    variables: &Variables,
    generator: &RefCell<Generator>,
    aliases: bool,
) -> (OutputResult, usize) {
    let name = output.output.name.value.clone();
    let mut result = OutputResult {
        name: name.clone(),
        value: String::new(),
        span: None,
        resolved: false,
        error: None,
        is_read: false,
        is_final: false,
        open: None,
        replaces: None,
    };
    if let Some(error) = output.selector.error().or(output.value.error()) {
        result.error = Some(format!("output \"{name}\" is invalid: {}", error.message));
        result.is_final = true;
        return (result, 0);
    }
    let selection = match output.query(aliases).run(scene) {
        Ok(selection) => selection,
        Err(exceeded) => {
            result.error = Some(exceeded.to_string());
            return (result, 0);
        }
    };
    let first = selection.first().copied();
    if first.is_none() && !is_about_count(&output.value.tree) {
        result.error = Some(format!("cannot find matching spans for output \"{name}\""));
        return (result, 0);
    }
    let context = Context {
        scene: Some(scene),
        selection: Some(&selection),
        variables,
        generator,
        aliases,
        budget: scene.budget,
        memory: Memory::default(),
    };
    result.span = first.and_then(|at| scene.trace.span(at).id);
    let subject = first.map_or(Subject::NoSpan, Subject::Span);
    match scene.budget.meanwhile(|| context.evaluate(&output.value.tree, subject)) {
        // The text is held twice: as a result, and as a variable.
        Ok(item) => match scene.budget.keep(item.size()) {
            Ok(()) => {
                result.value = item.text().into_owned();
                result.resolved = true;
            }
            Err(exceeded) => result.error = Some(exceeded.to_string()),
        },
        Err(trouble) => result.error = Some(trouble.text),
    }
    (result, selection.len())
}
