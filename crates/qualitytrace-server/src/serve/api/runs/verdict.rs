//! The verdict of a run as counts with the first failures, and page by page.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LoadedRun, no_run, run_number};
use crate::http::access::RequiredAccess::Look;
use crate::http::routes::Routes;
use crate::http::routes::operation::{Content, of, operation};
use crate::serve::api::App;
use crate::serve::api::error::{ApiError, BAD_REQUEST, NOT_FOUND};
use crate::serve::api::memory::Memory;
use crate::serve::api::path::Path;
use crate::serve::api::query::Query;
use crate::serve::api::run_error::RunApiError;
use crate::serve::api::tenant::Tenant;
use crate::wire::run::RulePage;
use crate::wire::summary::{AssertionPage, ShortAnalysis, ShortVerdict};

/// Results of a page, unless the client says otherwise.
const TAKE: usize = 100;
/// The largest page.
const MAX_TAKE: usize = 1_000;

/// Routes of verdicts and analyses.
pub(in crate::serve::api) fn routes() -> Routes<App> {
    let of_run = |rest: &str| format!("/api/tests/{{id}}/run/{{number}}/{rest}");
    Routes::new()
        .get(
            &of_run("verdict"),
            Look,
            verdict,
            operation(
                "The verdict of a run and its analysis: counts, and the first failures",
                [(200, Content::Json(of::<RunVerdict>)), BAD_REQUEST, NOT_FOUND],
            ),
        )
        .get(
            &of_run("verdict/{spec}/{assertion}"),
            Look,
            assertion,
            operation(
                "Results of one assertion, both counted from 0",
                [(200, Content::Json(of::<AssertionPage>)), BAD_REQUEST, NOT_FOUND],
            )
            .asking(PAGE),
        )
        .get(
            &of_run("analysis/{rule}"),
            Look,
            rule,
            operation(
                "Results of one rule of the analyzer",
                [(200, Content::Json(of::<RulePage>)), BAD_REQUEST, NOT_FOUND],
            )
            .asking(PAGE),
        )
}

const PAGE: &[&str] = &["take", "skip", "only"];

/// The verdict of a run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::serve::api) struct RunVerdict {
    /// The state of the run.
    state: String,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The verdict, once there is one.
    #[serde(flatten)]
    verdict: Option<ShortVerdict>,
    /// The report of the analyzer, if it is enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    analysis: Option<ShortAnalysis>,
}

/// A page of results, as requested.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::serve::api) struct Page {
    take: String,
    skip: String,
    only: String,
}

impl Page {
    fn read(&self) -> Result<(usize, usize, bool), ApiError> {
        let number = |name: &str, text: &str, default: usize| {
            if text.is_empty() {
                return Ok(default);
            }
            let wrong =
                |_| ApiError::bad_request(format!("`{text}` is no value of `{name}`; write a number"));
            text.parse().map_err(wrong)
        };
        let only_failed = match self.only.as_str() {
            "" => false,
            "failed" => true,
            other => {
                let message = format!("`{other}` is no value of `only`; write failed, or leave it out");
                return Err(ApiError::bad_request(message));
            }
        };
        Ok((number("take", &self.take, TAKE)?.min(MAX_TAKE), number("skip", &self.skip, 0)?, only_failed))
    }
}

async fn load(
    app: &App,
    memory: &Memory,
    tenant: &Tenant,
    test: &str,
    run: &str,
) -> Result<LoadedRun, ApiError> {
    let number = run_number(run)?;
    let missing = |error: RunApiError| {
        if error.is_missing() { no_run(test, number) } else { error.into() }
    };
    LoadedRun::load_untraced(app, memory, tenant, test, number).await.map_err(missing)
}

/// Returns the verdict of a run, with its analysis.
async fn verdict(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
) -> Result<Json<RunVerdict>, ApiError> {
    let found = load(&app, &memory, &tenant, &test, &run).await?;
    Ok(Json(RunVerdict {
        state: found.stored.state.clone(),
        error: found.facts.error.clone(),
        verdict: found.facts.verdict.as_ref().map(ShortVerdict::from),
        analysis: found.facts.analysis.as_ref().map(ShortAnalysis::from),
    }))
}

/// Returns results of one assertion.
async fn assertion(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run, spec, assertion)): Path<(String, String, String, String)>,
    Query(page): Query<Page>,
) -> Result<Json<AssertionPage>, ApiError> {
    let (take, skip, only_failed) = page.read()?;
    let found = load(&app, &memory, &tenant, &test, &run).await?;
    let at = |text: &str| text.parse::<usize>().ok();
    let specs = found.facts.verdict.as_ref().map(|verdict| &verdict.specs);
    let found = at(&spec).and_then(|at| specs?.get(at)).and_then(|spec| spec.assertions.get(at(&assertion)?));
    let missing = || {
        ApiError::not_found(format!("the verdict of run {run} has no assertion {assertion} of a spec {spec}"))
    };
    Ok(Json(AssertionPage::of(found.ok_or_else(missing)?, take, skip, only_failed)))
}

/// Returns results of one rule of the analyzer.
async fn rule(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run, rule)): Path<(String, String, String)>,
    Query(page): Query<Page>,
) -> Result<Json<RulePage>, ApiError> {
    let (take, skip, only_failed) = page.read()?;
    let found = load(&app, &memory, &tenant, &test, &run).await?;
    let analysis = found.facts.analysis.as_ref();
    let shown = analysis.and_then(|analysis| analysis.page(&rule, take, skip, only_failed));
    let missing = || ApiError::not_found(format!("the analysis of run {run} has no rule `{rule}`"));
    shown.map(Json).ok_or_else(missing)
}
