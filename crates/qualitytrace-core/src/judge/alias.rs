//! Attributes that spans have under the name of another semantic convention.

use crate::lang::ast::{Condition, Name, Selector};
use crate::lang::{Field, TraceIndex};

/// An attribute that was found under another name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The name in the selector or assertion.
    pub asked: String,
    /// The name under which it was found.
    pub found: String,
}

/// Returns the attributes of the selector that the selected spans have under the name of another convention.
pub(super) fn aliases_used(selector: &Selector, scene: &TraceIndex<'_>, selection: &[usize]) -> Vec<Alias> {
    let mut used: Vec<Alias> = Vec::new();
    let mut names = Vec::new();
    for chain in &selector.chains {
        let target = chain.rest.last().map_or(&chain.first, |(_, step)| step);
        names_in(&target.condition, &mut names);
    }
    for name in names {
        let field = Field::in_selector(&name.text, name.quoted, true);
        let found = selection.iter().find_map(|at| field.look(scene, *at)?.1);
        if let Some(found) = found {
            let alias = Alias { asked: name.text.clone(), found: found.to_owned() };
            if !used.contains(&alias) {
                used.push(alias);
            }
        }
    }
    used
}

fn names_in<'c>(condition: &'c Condition, names: &mut Vec<&'c Name>) {
    match condition {
        Condition::Clause(clause) => names.push(&clause.name),
        Condition::Not(inner) => names_in(inner, names),
        Condition::All(inner) | Condition::Any(inner) => {
            for condition in inner {
                names_in(condition, names);
            }
        }
    }
}
