//! Differences of the resources of services. They are told once for each service, not with each of its spans.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::attributes::{Difference, difference};
use crate::budget::{Budget, BudgetError};
use crate::trace::Trace;
use crate::value::Value;

/// An attribute with more distinct values within one trace is not compared: it belongs to an instance or a moment.
const MOST_VALUES: usize = 8;

/// What differs between the resources of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceDifferences<'t> {
    /// The service, which both traces have.
    pub service: &'t str,
    /// Its attributes that differ, by name. If instances have different values, a value is the list of them.
    pub differences: Vec<Difference<'t>>,
}

/// The values of each attribute, by service, distinct and in order of appearance.
type Values<'t> = BTreeMap<&'t str, BTreeMap<&'t str, Vec<&'t Value>>>;

/// Compares the resources of the services that both traces have.
pub fn services<'t>(
    a: &'t Trace,
    b: &'t Trace,
    budget: &Budget,
) -> Result<Vec<ServiceDifferences<'t>>, BudgetError> {
    let (before, after) = (values(a, budget)?, values(b, budget)?);
    let mut found = Vec::new();
    for (service, before) in &before {
        let Some(after) = after.get(service) else { continue };
        let names: BTreeSet<&'t str> = before.keys().chain(after.keys()).copied().collect();
        let differences: Vec<Difference<'t>> =
            names.into_iter().filter_map(|name| differs(name, of(before, name), of(after, name))).collect();
        if !differences.is_empty() {
            found.push(ServiceDifferences { service, differences });
        }
    }
    Ok(found)
}

fn of<'v, 't>(values: &'v BTreeMap<&'t str, Vec<&'t Value>>, name: &str) -> &'v [&'t Value] {
    values.get(name).map_or(&[], Vec::as_slice)
}

fn differs<'t>(name: &'t str, before: &[&Value], after: &[&Value]) -> Option<Difference<'t>> {
    let is_among = |values: &[&Value], all: &[&Value]| values.iter().all(|value| all.contains(value));
    let is_many = before.len().max(after.len()) > MOST_VALUES;
    if is_many || (is_among(before, after) && is_among(after, before)) {
        return None;
    }
    let shown = |values: &[&Value]| match values {
        [] => None,
        [one] => Some((*one).clone()),
        several => Some(Value::List(several.iter().map(|value| (*value).clone()).collect())),
    };
    difference(name, shown(before).as_ref(), shown(after).as_ref())
}

fn values<'t>(trace: &'t Trace, budget: &Budget) -> Result<Values<'t>, BudgetError> {
    let mut all = Values::new();
    // Spans of one request share their resource.
    let mut seen = HashSet::new();
    for span in trace.spans() {
        budget.work(1)?;
        if !seen.insert(Arc::as_ptr(&span.resource)) {
            continue;
        }
        budget.work(span.resource.attributes.len())?;
        let of_service = all.entry(span.service()).or_default();
        for (name, value) in span.resource.attributes.iter() {
            let known = of_service.entry(name).or_default();
            if known.len() <= MOST_VALUES && !known.contains(&value) {
                known.push(value);
            }
        }
    }
    Ok(all)
}
