//! The description of a span: a selector that selects exactly this span, wider ones, and assertions that hold for it.

mod proposals;
mod unique;

pub use proposals::{Proposal, ValueType};

use super::complete::written_name;
use crate::budget::{Budget, BudgetError};
use crate::definition::secrets::MASK;
use crate::lang::ast::{
    Chain, Clause, Comparator, Condition, Literal, Pseudo, Selector, SourceRange, Step, Test,
};
use crate::lang::{Query, TraceIndex, parse_selector};
use crate::trace::{Trace, special};

/// Longest title of a wider selector, in bytes.
const MAX_TITLE: usize = 200;

/// A description of one span of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// A selector that selects exactly this span in its trace, with as few conditions as possible.
    pub selector: String,
    /// Selectors that select more spans, this one among them; the narrowest first.
    pub wider: Vec<Wider>,
    /// Assertions that hold for the span.
    pub assertions: Vec<Proposal>,
}

/// A selector that selects more than one span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wider {
    /// What it selects, in words.
    pub title: String,
    /// The selector.
    pub selector: String,
    /// How many spans it selects.
    pub count: usize,
}

/// Describes the span at this position. With an attribute, the assertions are about it, and no condition of the
/// selector is.
///
/// Conditions use what stays the same from run to run: names, services, types and attributes of the conventions, never
/// ids, times or the outcome of the operation. Where these do not suffice, the place in the tree does: a span above or
/// below, and at last the position among equals.
pub fn describe(
    trace: &Trace,
    at: usize,
    attribute: Option<&str>,
    budget: &Budget,
) -> Result<Description, BudgetError> {
    let scene = TraceIndex::new(trace, budget);
    let selector = unique::selector(&scene, at, attribute);
    budget.check()?;
    let selector = if is_exact(&selector, &scene, at)? {
        selector
    } else {
        // Every span has its position among all.
        format!("span[]:nth_child({})", at + 1)
    };
    let wider = wider(&scene, at, attribute, &selector);
    budget.check()?;
    let assertions = match attribute {
        Some(name) => proposals::about(&scene, at, name),
        None => proposals::best(&scene, at),
    };
    budget.check()?;
    Ok(Description { selector, wider, assertions })
}

fn is_exact(selector: &str, scene: &TraceIndex<'_>, at: usize) -> Result<bool, BudgetError> {
    let parsed = parse_selector(selector);
    Ok(parsed.is_valid() && Query::new(&parsed.tree, true).run(scene)? == [at])
}

fn wider(scene: &TraceIndex<'_>, at: usize, attribute: Option<&str>, exact: &str) -> Vec<Wider> {
    let span = scene.trace.span(at);
    let family = special::span_type(span);
    let name = equals("name", Literal::Text(span.name.to_string()));
    let service = equals("service.name", Literal::Text(span.service().to_owned()));
    let of_type = equals("tracetest.span.type", Literal::Text(family.to_owned()));
    let of_kind = equals("kind", Literal::Text(span.kind.as_str().to_owned()));
    let has_service = !span.service().is_empty();
    let mut ways = vec![
        (format!("spans named `{}`", span.name), vec![name.clone()]),
        (format!("{} spans", span.kind.as_str()), vec![of_kind.clone()]),
        (format!("{family} spans"), vec![of_type.clone()]),
        ("all spans".to_owned(), vec![]),
    ];
    if has_service {
        let of = span.service();
        ways.push((format!("spans named `{}` of {of}", span.name), vec![service.clone(), name]));
        ways.push((format!("{} spans of {of}", span.kind.as_str()), vec![service.clone(), of_kind]));
        ways.push((format!("{family} spans of {of}"), vec![service.clone(), of_type]));
        ways.push((format!("spans of {of}"), vec![service]));
    }
    if let Some(attribute) = attribute {
        let exists = Clause {
            name: written_name(attribute),
            test: Test::Exists { negated: false },
            place: SourceRange::default(),
        };
        ways.push((format!("spans with `{attribute}`"), vec![exists]));
    }
    let mut wider: Vec<Wider> = Vec::new();
    for (title, clauses) in ways {
        let selector = one_step(clauses, Vec::new());
        let Ok(found) = Query::new(&selector, true).run(scene) else { break };
        let text = selector.to_string();
        // A long name has no place in a selector that is meant to be read, nor has a title.
        let fits = title.len() <= MAX_TITLE && !text.contains(MASK) && parse_selector(&text).is_valid();
        if found.len() > 1 && found.binary_search(&at).is_ok() && text != exact && fits {
            wider.push(Wider { title, selector: text, count: found.len() });
        }
    }
    wider.sort_by(|a, b| a.count.cmp(&b.count).then_with(|| a.selector.len().cmp(&b.selector.len())));
    wider
}

/// A condition that an attribute has this value.
fn equals(name: &str, value: Literal) -> Clause {
    Clause {
        name: written_name(name),
        test: Test::Compare(Comparator::Equal, value),
        place: SourceRange::default(),
    }
}

/// A step with these conditions.
fn step(clauses: impl IntoIterator<Item = Clause>, pseudos: Vec<Pseudo>) -> Step {
    let mut conditions: Vec<Condition> = clauses.into_iter().map(Condition::Clause).collect();
    let condition = if conditions.len() == 1 { conditions.remove(0) } else { Condition::All(conditions) };
    Step { condition, pseudos, place: SourceRange::default() }
}

/// A selector of one step.
fn one_step(clauses: Vec<Clause>, pseudos: Vec<Pseudo>) -> Selector {
    let first = step(clauses, pseudos);
    Selector { chains: vec![Chain { first, rest: Vec::new() }], place: SourceRange::default() }
}
