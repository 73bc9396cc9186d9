//! The outputs of a test: values that it reads from its trace.

use std::cell::RefCell;

use super::claim::is_about_count;
use super::{Compiled, CompiledOutput, OutputResult};
use crate::lang::{Context, Generator, Memory, Scene, Subject, Variables};

/// Reads the outputs in order; each sees those before it. Gives also the variables that the specs see.
pub(super) fn run(
    test: &Compiled,
    scene: &Scene<'_>,
    variables: &Variables,
    generator: &RefCell<Generator>,
    aliases: bool,
) -> (Vec<OutputResult>, Variables) {
    let mut variables = variables.clone();
    let mut results: Vec<OutputResult> = Vec::new();
    for output in &test.outputs {
        let mut result = read(output, scene, &variables, generator, aliases);
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

fn read(
    output: &CompiledOutput,
    scene: &Scene<'_>,
    variables: &Variables,
    generator: &RefCell<Generator>,
    aliases: bool,
) -> OutputResult {
    let name = output.output.name.value.clone();
    let mut result = OutputResult {
        name: name.clone(),
        value: String::new(),
        span: None,
        resolved: false,
        error: None,
        replaces: None,
    };
    if let Some(error) = output.selector.error().or(output.value.error()) {
        result.error = Some(format!("output \"{name}\" is invalid: {}", error.message));
        return result;
    }
    let selection = match output.query(aliases).run(scene) {
        Ok(selection) => selection,
        Err(exceeded) => {
            result.error = Some(exceeded.to_string());
            return result;
        }
    };
    let first = selection.first().copied();
    if first.is_none() && !is_about_count(&output.value.tree) {
        result.error = Some(format!("cannot find matching spans for output \"{name}\""));
        return result;
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
        // It is kept twice: as a result, and as a variable.
        Ok(item) => match scene.budget.hold(2 * item.size()) {
            Ok(()) => {
                result.value = item.text().into_owned();
                result.resolved = true;
            }
            Err(exceeded) => result.error = Some(exceeded.to_string()),
        },
        Err(trouble) => result.error = Some(trouble.text),
    }
    result
}
