//! Specs and outputs evaluated on traces that are here, without storing anything.

use axum::Json;
use axum::extract::State;
use qualitytrace_core::definition::{Output, Spec, Test, Text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decoded;
use super::trace_id;
use crate::base::compute;
use crate::runner::Runner;
use crate::serve::api::App;
use crate::serve::api::error::ApiError;
use crate::serve::api::json_body::JsonBody;
use crate::serve::api::memory::Memory;
use crate::serve::api::path::Path;
use crate::serve::api::query::Query;
use crate::serve::api::run_error::RunApiError;
use crate::serve::api::runs::{LoadedRun, run_number};
use crate::serve::api::tenant::Tenant;
use crate::storage::variables::Variables;
use crate::wire::summary::ShortVerdict;

/// Runs that a dry run looks at, unless the client says otherwise.
const RUNS: u64 = 10;
/// Runs that it looks at at most.
const MAX_RUNS: u64 = 50;

/// Specs and outputs to evaluate.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "TrialSpecs")]
pub(in crate::serve::api) struct DryRunRequest {
    specs: Vec<TrialSpec>,
    outputs: Vec<TrialOutput>,
}

/// A spec.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TrialSpec {
    name: String,
    selector: String,
    assertions: Vec<String>,
}

/// An output.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TrialOutput {
    name: String,
    selector: String,
    value: String,
}

/// The verdict of a dry run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::serve::api) struct DryRunResult {
    /// The revision of the columns of the trace.
    revision: String,
    #[serde(flatten)]
    verdict: ShortVerdict,
}

/// The verdicts of a dry run on several runs, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::serve::api) struct TriedRuns {
    runs: Vec<TriedRun>,
}

/// The verdict of a dry run on one run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TriedRun {
    /// The number of the run.
    run: u64,
    /// Its state.
    state: String,
    /// The verdict; null if it has no trace.
    verdict: Option<ShortVerdict>,
    /// Why there is no verdict.
    error: Option<String>,
}

/// How many runs, as sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::serve::api) struct Runs {
    runs: String,
}

impl DryRunRequest {
    fn into_test(self) -> Test {
        let text = |value: String| Text { value, ..Text::default() };
        let outputs = self.outputs.into_iter().map(|output| Output {
            name: text(output.name),
            selector: text(output.selector),
            value: text(output.value),
        });
        let specs = self.specs.iter().map(|spec| spec_of(&spec.name, &spec.selector, &spec.assertions));
        Test { specs: specs.collect(), outputs: outputs.collect(), ..Test::default() }
    }
}

/// Evaluates specs and outputs on a trace.
pub(in crate::serve::api) async fn of_trace(
    State(app): State<App>,
    memory: Memory,
    Path(id): Path<String>,
    JsonBody(trial): JsonBody<DryRunRequest>,
) -> Result<Json<DryRunResult>, ApiError> {
    let loaded = decoded::of_trace(&app, &memory, trace_id(&id)?).await?;
    tried(&trial.into_test(), &Variables::default(), &loaded).await
}

/// Evaluates specs and outputs on the trace of a run, with the variables of the run.
pub(in crate::serve::api) async fn of_run(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    JsonBody(trial): JsonBody<DryRunRequest>,
) -> Result<Json<DryRunResult>, ApiError> {
    let loaded = decoded::of_run(&app, &memory, &tenant, &test, &run).await?;
    let variables = variables(&app, &memory, &tenant, &test, run_number(&run)?).await?;
    tried(&trial.into_test(), &variables, &loaded).await
}

async fn tried(
    test: &Test,
    variables: &Variables,
    loaded: &decoded::Loaded,
) -> Result<Json<DryRunResult>, ApiError> {
    compute::give_way().await;
    let verdict = Runner::judge_once(test, variables, &loaded.trace);
    compute::wait_if_stopped().await;
    Ok(Json(DryRunResult {
        revision: loaded.revision.as_nanos().to_string(),
        verdict: ShortVerdict::from(&verdict),
    }))
}

/// Evaluates specs and outputs on the latest runs of a test.
pub(in crate::serve::api) async fn of_test(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path(id): Path<String>,
    Query(asked): Query<Runs>,
    JsonBody(trial): JsonBody<DryRunRequest>,
) -> Result<Json<TriedRuns>, ApiError> {
    let take = match asked.runs.as_str() {
        "" => RUNS,
        text => text.parse::<u64>().ok().filter(|runs| (1..=MAX_RUNS).contains(runs)).ok_or_else(|| {
            ApiError::bad_request(format!(
                "`{text}` is no value of `runs`; write a number from 1 to {MAX_RUNS}"
            ))
        })?,
    };
    let scoped = tenant.scoped(&id);
    let (_, sizes) = app.store.run_sizes(&scoped, take, 0).await?;
    let test = trial.into_test();
    let mut runs = Vec::new();
    for (number, _) in sizes {
        let memory = app.memory.begin();
        let Some(stored) = app.store.run(&scoped, number).await? else { continue };
        let tried = match decoded::of_run(&app, &memory, &tenant, &id, &number.to_string()).await {
            Ok(loaded) => {
                let variables = variables(&app, &memory, &tenant, &id, number).await?;
                tried(&test, &variables, &loaded).await.map(|Json(tried)| tried.verdict)
            }
            Err(error) => Err(error),
        };
        let (verdict, error) = match tried {
            Ok(verdict) => (Some(verdict), None),
            Err(error) if error.status.is_client_error() => (None, Some(error.message)),
            Err(error) => return Err(error),
        };
        runs.push(TriedRun { run: number, state: stored.state, verdict, error });
    }
    drop(memory);
    Ok(Json(TriedRuns { runs }))
}

/// Loads the variables of a run: the given ones and its outputs, without secrets.
async fn variables(
    app: &App,
    memory: &Memory,
    tenant: &Tenant,
    test: &str,
    number: u64,
) -> Result<Variables, RunApiError> {
    Ok(LoadedRun::load_untraced(app, memory, tenant, test, number).await?.variables())
}

/// Makes a spec of its texts.
pub(in crate::serve::api) fn spec_of(name: &str, selector: &str, assertions: &[String]) -> Spec {
    let text = |value: &str| Text { value: value.to_owned(), ..Text::default() };
    Spec {
        name: (!name.is_empty()).then(|| name.to_owned()),
        selector: text(selector),
        within: None,
        assertions: assertions.iter().map(|assertion| text(assertion)).collect(),
    }
}
