//! Augmented tests and suites: with creation time, version and a summary of their runs.

use std::collections::BTreeMap;

use http::HeaderMap;
use qualitytrace_core::definition::{self, Kind, LastRun, PastRun, Resource, Stored, Summary, TestSuite};
use serde_json::Value;

use super::{plain, stored_resource};
use crate::serve::api::App;
use crate::serve::api::error::ApiError;
use crate::serve::api::memory::Memory;
use crate::serve::api::tenant::without_nul;
use crate::storage::store::{self, Flakiness, RunSummary, StoredResource, beside, unscoped};
use crate::wire::time::{NEVER, rfc3339};

/// The number of tests in one statement: databases limit its parameters.
const LOADED_AT_ONCE: usize = 1_000;

const HEADERS: [&str; 2] = ["x-tracetest-augmented", "x-qualitytrace-augmented"];

/// Whether the client requests augmentation.
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    HEADERS.iter().any(|name| headers.get(*name).is_some_and(|value| value == "true"))
}

/// Resources as the API shows them.
pub(super) async fn shown(
    app: &App,
    memory: &Memory,
    kind: Kind,
    resources: Vec<StoredResource>,
    augmented: bool,
) -> Result<Vec<Value>, ApiError> {
    if !augmented || !matches!(kind, Kind::Test | Kind::TestSuite) {
        return resources.iter().map(|stored| plain(kind, stored)).collect();
    }
    let ids: Vec<&str> = resources.iter().map(|stored| stored.id.as_str()).collect();
    if kind == Kind::Test {
        let known = tests(app, &resources).await?;
        let shown = |(stored, known): (_, &Stored)| {
            Ok(definition::to_json_stored(&stored_resource(kind, stored)?, known))
        };
        return resources.iter().zip(&known).map(shown).collect();
    }
    let summaries = app.store.suite_summaries(&ids).await?;
    let mut suites = Vec::with_capacity(resources.len());
    for stored in &resources {
        let resource = stored_resource(kind, stored)?;
        let Resource::TestSuite(suite) = &resource else { continue };
        let steps = steps(&stored.id, suite);
        suites.push((resource, steps));
    }
    let full = FullSteps::load(app, memory, suites.iter().flat_map(|(_, steps)| steps)).await?;
    let shown = resources.iter().zip(suites).zip(summaries).map(|((stored, (resource, steps)), summary)| {
        let known = Stored {
            full_steps: Some(full.of(&steps)),
            summary: Some(self::summary(summary)),
            ..known(stored)
        };
        definition::to_json_stored(&resource, &known)
    });
    Ok(shown.collect())
}

/// The stored ids of a suite's tests, in the order of the definition.
pub(in crate::serve::api) fn steps(suite_id: &str, suite: &TestSuite) -> Vec<String> {
    suite.all_steps().map(|step| beside(suite_id, &without_nul(&step.test.value))).collect()
}

/// What the server knows about tests, in their order.
async fn tests(app: &App, tests: &[StoredResource]) -> Result<Vec<Stored>, ApiError> {
    let ids: Vec<&str> = tests.iter().map(|stored| stored.id.as_str()).collect();
    let (summaries, flakiness, past) = tokio::try_join!(
        app.store.run_summaries(&ids),
        app.store.flakiness(&ids),
        app.store.past_runs(&ids)
    )?;
    let summaries = summaries.into_iter().zip(flakiness).zip(past);
    let known = tests.iter().zip(summaries).map(|(stored, ((summary, flakiness), past))| {
        let history: Vec<PastRun> = past.into_iter().map(past_run).collect();
        let mut summary = Summary { flakiness: disagreement(flakiness), ..self::summary(summary) };
        summary.last_run.outcome = history.first().and_then(|last| last.outcome.clone());
        Stored { summary: Some(Summary { history, ..summary }), ..known(stored) }
    });
    Ok(known.collect())
}

fn past_run(run: store::PastRun) -> PastRun {
    PastRun {
        run: run.number,
        outcome: Some(run.outcome).filter(|outcome| !outcome.is_empty()),
        duration: run.duration.map(|nanos| nanos.to_string()),
    }
}

fn known(stored: &StoredResource) -> Stored {
    Stored {
        id: Some(unscoped(&stored.id).to_owned()),
        created_at: Some(rfc3339(stored.created)),
        version: u32::try_from(stored.version).ok(),
        full_steps: None,
        summary: None,
    }
}

/// The full tests of suites, by id.
pub(in crate::serve::api) struct FullSteps(BTreeMap<String, Value>);

impl FullSteps {
    /// Loads tests, each once however often it is named. The memory is for each time that it is named.
    pub(in crate::serve::api) async fn load(
        app: &App,
        memory: &Memory,
        ids: impl Iterator<Item = &String>,
    ) -> Result<Self, ApiError> {
        let mut named: BTreeMap<&str, u64> = BTreeMap::new();
        ids.for_each(|id| *named.entry(id).or_default() += 1);
        let ids: Vec<&str> = named.keys().copied().collect();
        let mut full = BTreeMap::new();
        for ids in ids.chunks(LOADED_AT_ONCE) {
            let sizes = app.store.definition_sizes(Kind::Test, ids).await?;
            let times = |id: &str| named.get(id).copied().unwrap_or_default();
            let bytes = sizes.iter().map(|(id, bytes)| bytes.saturating_mul(times(id)));
            memory.hold_texts(bytes.fold(0, u64::saturating_add)).await?;
            let found = app.store.resources(Kind::Test, ids).await?;
            let known = tests(app, &found).await?;
            for (stored, known) in found.iter().zip(&known) {
                let shown = definition::to_spec_json(&stored_resource(Kind::Test, stored)?, known);
                full.insert(stored.id.clone(), shown);
            }
        }
        Ok(Self(full))
    }

    /// Returns these tests, in this order; missing ones are left out.
    pub(in crate::serve::api) fn of(&self, ids: &[String]) -> Vec<Value> {
        ids.iter().filter_map(|id| self.0.get(id).cloned()).collect()
    }
}

/// The flake rate of a test; `None` without series.
fn disagreement(flakiness: Flakiness) -> Option<definition::Flakiness> {
    let Flakiness { series, flaky } = flakiness;
    #[expect(clippy::cast_precision_loss, reason = "both count some hundreds at most")]
    let rate = flaky as f64 / series as f64;
    (series > 0).then_some(definition::Flakiness { series, flaky, rate })
}

pub(in crate::serve::api) fn summary(summary: RunSummary) -> Summary {
    Summary {
        runs: summary.runs,
        last_run: LastRun {
            time: summary.last.map_or_else(|| NEVER.to_owned(), rfc3339),
            passes: summary.passed,
            fails: summary.failed,
            analyzer_score: 0,
            outcome: None,
        },
        flakiness: None,
        history: Vec::new(),
    }
}
