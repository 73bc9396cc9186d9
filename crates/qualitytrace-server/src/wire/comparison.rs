//! The comparison of two traces, with its rows built while they are serialized.

use std::collections::BTreeMap;
use std::sync::Arc;

use qualitytrace_core::compare::{self, Change, Row, Sides, Thresholds, differences};
use qualitytrace_core::trace;
use schemars::JsonSchema;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::lazy::Lazy;
use super::series::Outcome as RunOutcome;
use super::trace::json;
use super::verdict::{Outcome, Verdict};

/// The comparison of two traces: rows in the order of the second one's tree, with removed spans where they stood.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Comparison {
    /// The first trace.
    a: Compared,
    /// The second trace.
    b: Compared,
    thresholds: ShownThresholds,
    summary: ComparisonSummary,
    /// Null unless both are runs.
    verdicts: Option<Verdicts>,
    /// Services whose resources differ.
    services: Vec<ServiceChange>,
    /// The number of rows on all pages.
    total: usize,
    rows: Vec<ComparisonRow>,
    /// `skip` of the next page; null after the last one.
    next: Option<usize>,
}

/// One side of a comparison.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compared {
    /// The trace.
    pub trace_id: String,
    /// The test, if it is a run.
    pub test: Option<String>,
    /// The number of the run, if it is one.
    pub run: Option<u64>,
    /// The number of its spans.
    pub spans: usize,
}

/// How much an own time must change to be named.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ComparisonThresholds")]
struct ShownThresholds {
    /// More than this many percent.
    percent: u32,
    /// And more than this many nanoseconds.
    least: String,
}

/// How many rows have which change. A row may have several.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ComparisonSummary {
    added: usize,
    removed: usize,
    moved: usize,
    slower: usize,
    faster: usize,
    changed: usize,
    same: usize,
    /// Rows with attributes that differ from call to call by their nature.
    volatile: usize,
}

/// Nanoseconds of each side; null where the side has none.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ComparisonTimes")]
struct Times {
    a: Option<String>,
    b: Option<String>,
}

/// Two spans that correspond, or one without a counterpart.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ComparisonRow {
    /// The span of the first trace; null if it has none, empty if it was sent without an id.
    a: Option<String>,
    /// The span of the second trace, likewise.
    b: Option<String>,
    name: String,
    service: String,
    /// Its kind, for example `server`.
    kind: String,
    /// The number of its ancestors among all rows.
    depth: usize,
    /// The first that applies: `added`, `removed`, `moved`, `slower`, `faster`, `changed`, `same`.
    change: String,
    /// Nanoseconds from start to end; null where the span did not end.
    duration: Times,
    /// Nanoseconds in which no child ran; null where the span did not end.
    own_time: Times,
    /// What differs, the volatile included.
    attributes: Vec<AttributeChange>,
}

/// An attribute that differs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AttributeChange {
    name: String,
    /// Its value in the first trace; null where it has none.
    before: serde_json::Value,
    /// Its value in the second trace; null where it has none.
    after: serde_json::Value,
    /// Whether it differs from call to call by its nature.
    volatile: bool,
}

/// A service whose resource differs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ServiceChange {
    service: String,
    attributes: Vec<AttributeChange>,
}

/// The outcomes of two runs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdicts {
    outcome: OutcomeChange,
    /// The specs that either run has, those of the second first.
    specs: Vec<SpecChange>,
}

/// The outcome of each run; null where it has none.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutcomeChange {
    /// Of the first run.
    pub a: Option<RunOutcome>,
    /// Of the second run.
    pub b: Option<RunOutcome>,
}

/// The outcome of a spec in each run; null where the run does not have it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SpecChange {
    name: String,
    selector: String,
    a: Option<RunOutcome>,
    b: Option<RunOutcome>,
}

impl Verdicts {
    /// Compares the outcomes of two runs and of their specs, which correspond by name and selector.
    pub fn of(outcome: OutcomeChange, a: Option<&Verdict>, b: Option<&Verdict>) -> Self {
        let specs = |verdict: Option<&Verdict>| {
            let specs = verdict.into_iter().flat_map(|verdict| &verdict.specs);
            specs
                .map(|spec| (spec.name.clone(), spec.selector.clone(), of_spec(spec.outcome)))
                .collect::<Vec<_>>()
        };
        // Of several specs with the same name and selector, the first of both correspond.
        let mut before: BTreeMap<(String, String), Vec<RunOutcome>> = BTreeMap::new();
        let in_a = specs(a);
        for (name, selector, outcome) in in_a.iter().rev() {
            before.entry((name.clone(), selector.clone())).or_default().push(*outcome);
        }
        let mut all: Vec<SpecChange> = specs(b)
            .into_iter()
            .map(|(name, selector, after)| {
                let before = before.get_mut(&(name.clone(), selector.clone())).and_then(Vec::pop);
                SpecChange { name, selector, a: before, b: Some(after) }
            })
            .collect();
        for (name, selector, _) in in_a {
            let left = before.get_mut(&(name.clone(), selector.clone())).and_then(Vec::pop);
            all.extend(left.map(|outcome| SpecChange { name, selector, a: Some(outcome), b: None }));
        }
        Self { outcome, specs: all }
    }
}

const fn of_spec(outcome: Outcome) -> RunOutcome {
    match outcome {
        Outcome::Passed => RunOutcome::Passed,
        Outcome::Failed => RunOutcome::Failed,
        Outcome::Inconclusive => RunOutcome::Inconclusive,
    }
}

/// Which rows are shown.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Whether rows with nothing to name are left out.
    pub only_differences: bool,
    /// The rows that are skipped.
    pub skip: usize,
    /// The most rows.
    pub take: usize,
}

/// A [`Comparison`] that is built while it is serialized.
#[derive(Debug)]
pub struct Document {
    /// The two traces.
    pub traces: Sides<Arc<trace::Trace>>,
    /// What they are.
    pub sides: Sides<Compared>,
    /// What was found.
    pub found: compare::Comparison,
    /// How it was found.
    pub thresholds: Thresholds,
    /// The outcomes, if both are runs.
    pub verdicts: Option<Verdicts>,
    /// Which rows are shown.
    pub page: Page,
    /// The resources that differ.
    services: Vec<ServiceChange>,
}

impl Document {
    /// A comparison of two traces.
    pub fn new(
        traces: Sides<Arc<trace::Trace>>,
        sides: Sides<Compared>,
        found: compare::Comparison,
        thresholds: Thresholds,
        page: Page,
    ) -> Self {
        Self { traces, sides, found, thresholds, verdicts: None, page, services: Vec::new() }
    }

    /// Adds the services whose resources differ.
    #[must_use]
    pub fn with_services(self, found: &[compare::ServiceDifferences<'_>]) -> Self {
        let services = found.iter().map(|found| ServiceChange {
            service: found.service.to_owned(),
            attributes: found.differences.iter().map(attribute).collect(),
        });
        Self { services: services.collect(), ..self }
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        let only_differences = self.page.only_differences;
        self.found.rows.iter().filter(move |row| !only_differences || row.change() != Change::Same)
    }
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Page { skip, take, .. } = self.page;
        let total = self.rows().count();
        let rows =
            Lazy(|| self.rows().skip(skip).take(take).map(|row| shown(&self.traces.a, &self.traces.b, row)));
        let found = &self.found.summary;
        let summary = ComparisonSummary {
            added: found.added,
            removed: found.removed,
            moved: found.moved,
            slower: found.slower,
            faster: found.faster,
            changed: found.changed,
            same: found.same,
            volatile: found.volatile,
        };
        let thresholds = ShownThresholds {
            percent: self.thresholds.percent,
            least: self.thresholds.least.as_nanos().to_string(),
        };
        let next = skip.saturating_add(take);
        let mut document = serializer.serialize_struct("Comparison", 9)?;
        document.serialize_field("a", &self.sides.a)?;
        document.serialize_field("b", &self.sides.b)?;
        document.serialize_field("thresholds", &thresholds)?;
        document.serialize_field("summary", &summary)?;
        document.serialize_field("verdicts", &self.verdicts)?;
        document.serialize_field("services", &self.services)?;
        document.serialize_field("total", &total)?;
        document.serialize_field("rows", &rows)?;
        document.serialize_field("next", &(next < total).then_some(next))?;
        document.end()
    }
}

fn shown(a: &trace::Trace, b: &trace::Trace, row: &Row) -> ComparisonRow {
    let (before, after) = (row.spans.a.map(|at| a.span(at)), row.spans.b.map(|at| b.span(at)));
    let id =
        |span: Option<&trace::Span>| span.map(|span| span.id.map(|id| id.to_string()).unwrap_or_default());
    let times = |times: Sides<Option<u64>>| Times {
        a: times.a.map(|nanos| nanos.to_string()),
        b: times.b.map(|nanos| nanos.to_string()),
    };
    let named = after.or(before);
    let attributes = match (before, after) {
        (Some(before), Some(after)) if row.is_changed || row.is_volatile => {
            differences(before, after).iter().map(attribute).collect()
        }
        _ => Vec::new(),
    };
    ComparisonRow {
        a: id(before),
        b: id(after),
        name: named.map(|span| span.name.to_string()).unwrap_or_default(),
        service: named.map(|span| span.service().to_owned()).unwrap_or_default(),
        kind: named.map(|span| span.kind.as_str().to_owned()).unwrap_or_default(),
        depth: row.depth,
        change: row.change().as_str().to_owned(),
        duration: times(row.durations),
        own_time: times(row.own_times),
        attributes,
    }
}

fn attribute(found: &compare::Difference<'_>) -> AttributeChange {
    let shown = |value: &Option<_>| value.as_ref().map_or(serde_json::Value::Null, json);
    AttributeChange {
        name: found.name.to_owned(),
        before: shown(&found.before),
        after: shown(&found.after),
        volatile: found.is_volatile,
    }
}
