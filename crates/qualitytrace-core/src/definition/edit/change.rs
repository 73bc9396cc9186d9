//! The changes of a test, and what each of them means.

use super::EditError;
use crate::definition::{Output, Spec, Test, Text};

/// A change of a test. Items are counted from 0, as they are when the change is applied; without `at`, an item is
/// added at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Gives the test another name.
    Rename {
        /// The new name.
        name: String,
    },
    /// Adds a spec.
    AddSpec {
        /// The index that it gets.
        at: Option<usize>,
        /// The new spec.
        spec: Spec,
    },
    /// Replaces a spec; parts that are the same stay as they are written. Without `within`, it keeps its own.
    ChangeSpec {
        /// Its index.
        at: usize,
        /// What it becomes.
        spec: Spec,
    },
    /// Removes a spec.
    RemoveSpec {
        /// Its index.
        at: usize,
    },
    /// Moves a spec.
    MoveSpec {
        /// Its index.
        at: usize,
        /// The index that it gets.
        to: usize,
    },
    /// Adds an assertion to a spec.
    AddAssertion {
        /// The index of the spec.
        spec: usize,
        /// The index that it gets.
        at: Option<usize>,
        /// The new assertion.
        assertion: String,
    },
    /// Replaces an assertion of a spec.
    ChangeAssertion {
        /// The index of the spec.
        spec: usize,
        /// Its index.
        at: usize,
        /// What it becomes.
        assertion: String,
    },
    /// Removes an assertion of a spec.
    RemoveAssertion {
        /// The index of the spec.
        spec: usize,
        /// Its index.
        at: usize,
    },
    /// Adds an output.
    AddOutput {
        /// The index that it gets.
        at: Option<usize>,
        /// The new output.
        output: Output,
    },
    /// Replaces an output; parts that are the same stay as they are written.
    ChangeOutput {
        /// Its index.
        at: usize,
        /// What it becomes.
        output: Output,
    },
    /// Removes an output.
    RemoveOutput {
        /// Its index.
        at: usize,
    },
    /// Moves an output.
    MoveOutput {
        /// Its index.
        at: usize,
        /// The index that it gets.
        to: usize,
    },
}

/// Why a change cannot be applied to a test.
pub(super) enum ChangeError {
    NoItem { what: &'static str, at: usize, count: usize },
    Invalid(&'static str),
}

impl ChangeError {
    /// Names the change.
    pub(super) fn of_change(self, change: usize) -> EditError {
        match self {
            Self::NoItem { what, at, count } => EditError::NoItem { change, what, at, count },
            Self::Invalid(why) => EditError::Invalid { change, why },
        }
    }
}

impl Change {
    /// Returns the test that the change makes of this one.
    pub(super) fn applied(&self, test: &Test) -> Result<Test, ChangeError> {
        let mut test = test.clone();
        match self {
            Self::Rename { name } if name.is_empty() => {
                return Err(ChangeError::Invalid("the new name is empty"));
            }
            Self::Rename { name } => test.name.clone_from(name),
            Self::AddSpec { at, spec } => insert("spec", &mut test.specs, *at, valid_spec(spec)?)?,
            Self::ChangeSpec { at, spec } => {
                let known = item("spec", &mut test.specs, *at)?;
                let new = valid_spec(spec)?;
                *known = Spec { within: new.within.or_else(|| known.within.take()), ..new };
            }
            Self::RemoveSpec { at } => drop(remove("spec", &mut test.specs, *at)?),
            Self::MoveSpec { at, to } => relocate("spec", &mut test.specs, *at, *to)?,
            Self::AddAssertion { spec, at, assertion } => {
                let assertions = &mut item("spec", &mut test.specs, *spec)?.assertions;
                insert("assertion", assertions, *at, valid_assertion(assertion)?)?;
            }
            Self::ChangeAssertion { spec, at, assertion } => {
                let assertions = &mut item("spec", &mut test.specs, *spec)?.assertions;
                *item("assertion", assertions, *at)? = valid_assertion(assertion)?;
            }
            Self::RemoveAssertion { spec, at } => {
                let spec = item("spec", &mut test.specs, *spec)?;
                remove("assertion", &mut spec.assertions, *at)?;
                valid_spec(spec)?;
            }
            Self::AddOutput { at, output } => {
                insert("output", &mut test.outputs, *at, valid_output(output)?)?;
            }
            Self::ChangeOutput { at, output } => {
                *item("output", &mut test.outputs, *at)? = valid_output(output)?;
            }
            Self::RemoveOutput { at } => drop(remove("output", &mut test.outputs, *at)?),
            Self::MoveOutput { at, to } => relocate("output", &mut test.outputs, *at, *to)?,
        }
        Ok(test)
    }
}

fn valid_spec(spec: &Spec) -> Result<Spec, ChangeError> {
    if spec.selector.is_empty() && spec.assertions.is_empty() {
        let why = "the spec has neither a `selector` nor `assertions`; give it one of them";
        return Err(ChangeError::Invalid(why));
    }
    let name = spec.name.clone().filter(|name| !name.is_empty());
    let assertions: Result<_, _> =
        spec.assertions.iter().map(|assertion| valid_assertion(&assertion.value)).collect();
    Ok(Spec { name, assertions: assertions?, ..spec.clone() })
}

fn valid_assertion(assertion: &str) -> Result<Text, ChangeError> {
    if assertion.is_empty() {
        return Err(ChangeError::Invalid("the assertion is empty; write what must hold, or remove it"));
    }
    Ok(assertion.into())
}

fn valid_output(output: &Output) -> Result<Output, ChangeError> {
    if output.name.is_empty() || output.selector.is_empty() || output.value.is_empty() {
        return Err(ChangeError::Invalid("an output needs a `name`, a `selector` and a `value`"));
    }
    Ok(output.clone())
}

fn item<'t, T>(what: &'static str, items: &'t mut [T], at: usize) -> Result<&'t mut T, ChangeError> {
    let count = items.len();
    items.get_mut(at).ok_or(ChangeError::NoItem { what, at, count })
}

fn insert<T>(what: &'static str, items: &mut Vec<T>, at: Option<usize>, new: T) -> Result<(), ChangeError> {
    let (at, count) = (at.unwrap_or(items.len()), items.len());
    if at > count {
        return Err(ChangeError::NoItem { what, at, count });
    }
    items.insert(at, new);
    Ok(())
}

fn remove<T>(what: &'static str, items: &mut Vec<T>, at: usize) -> Result<T, ChangeError> {
    item(what, items, at)?;
    Ok(items.remove(at))
}

fn relocate<T>(what: &'static str, items: &mut Vec<T>, at: usize, to: usize) -> Result<(), ChangeError> {
    item(what, items, to)?;
    let moved = remove(what, items, at)?;
    items.insert(to, moved);
    Ok(())
}
