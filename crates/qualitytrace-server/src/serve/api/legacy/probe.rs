//! Probes of a run's trace: selectors, specs and text search.

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use qualitytrace_core::definition::{Spec, Test};
use qualitytrace_core::lang::ast::Selector;
use qualitytrace_core::lang::{parse_selector, select};
use qualitytrace_core::trace::Trace;
use qualitytrace_core::trace::search::containing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::compute;
use crate::runner::Runner;
use crate::serve::api::App;
use crate::serve::api::answer::plain_json;
use crate::serve::api::memory::Memory;
use crate::serve::api::path::Path;
use crate::serve::api::query::Query;
use crate::serve::api::run_error::{RunApiError, body, number};
use crate::serve::api::runs::LoadedRun;
use crate::serve::api::tenant::Tenant;
use crate::serve::api::traces::dry_run::spec_of;
use crate::wire::fold;
use crate::wire::run;

#[derive(Debug, Deserialize, JsonSchema)]
pub(in crate::serve::api) struct Selection {
    #[serde(default)]
    query: String,
}

/// The spans that a selector matches.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::serve::api) struct Selected {
    selector: run::Selector,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    span_ids: Vec<String>,
}

/// The spans that contain a text, or that a selector matches.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::serve::api) struct FoundSpans {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    spans_ids: Vec<String>,
}

/// Returns the spans that a selector matches.
pub(in crate::serve::api) async fn select_spans(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    Query(Selection { query }): Query<Selection>,
) -> Result<Response, RunApiError> {
    let found = LoadedRun::load(&app, &memory, &tenant, &test, number(&run)?).await?;
    let trace = trace(&found)?;
    compute::give_way().await;
    let parsed = parse_selector(&query);
    if let Some(error) = parsed.error() {
        let message = format!("could not create selector from statement \"{query}\": {}", error.message);
        return Err(RunApiError::bad_request(message));
    }
    let span_ids = ids(trace, &selected(&parsed.tree, trace)?);
    Ok(plain_json(StatusCode::OK, &Selected { selector: run::selector(&query), span_ids }))
}

fn selected(selector: &Selector, trace: &Trace) -> Result<Vec<usize>, RunApiError> {
    select(selector, trace, &compute::budget())
        .map_err(|exceeded| RunApiError::bad_request(exceeded.to_string()))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve::api) struct Search {
    #[serde(default)]
    query: String,
}

/// Returns the spans that a selector matches or, if the query is no selector, that contain the text.
pub(in crate::serve::api) async fn search_spans(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    sent: Bytes,
) -> Result<Response, RunApiError> {
    let number = number(&run)?;
    let Search { query } = body(&sent)?;
    if query.is_empty() {
        return Err(RunApiError::bad_request("query is empty"));
    }
    let found = LoadedRun::load(&app, &memory, &tenant, &test, number).await?;
    let trace = trace(&found)?;
    compute::give_way().await;
    let parsed = parse_selector(&query);
    let positions =
        if parsed.is_valid() { selected(&parsed.tree, trace)? } else { containing(trace, &query) };
    Ok(plain_json(StatusCode::OK, &FoundSpans { spans_ids: ids(trace, &positions) }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve::api) struct DryRun {
    #[serde(default)]
    specs: Option<Vec<DrySpec>>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct DrySpec {
    name: String,
    #[schemars(with = "String")]
    selector: Value,
    selector_parsed: Option<ParsedSelector>,
    assertions: Vec<String>,
}

/// A selector with its structure, as clients that parsed it send it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ParsedSelector {
    query: String,
    /// Ignored; the query is parsed again.
    structure: Value,
}

/// Evaluates specs on the trace of a run, without storing the result.
pub(in crate::serve::api) async fn dry_run(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    sent: Bytes,
) -> Result<Response, RunApiError> {
    let number = number(&run)?;
    let dry: DryRun = body(&sent)?;
    let found = LoadedRun::load(&app, &memory, &tenant, &test, number).await?;
    let trace = trace(&found)?;
    compute::give_way().await;
    let specs = dry.specs.unwrap_or_default().into_iter().map(spec).collect();
    let test = Test { specs, ..Test::default() };
    let verdict = Runner::judge_once(&test, &found.variables(), trace);
    Ok(plain_json(StatusCode::OK, &fold::result(&verdict)))
}

fn spec(dry: DrySpec) -> Spec {
    let plain = match &dry.selector {
        Value::String(text) => text.clone(),
        other => other["query"].as_str().unwrap_or_default().to_owned(),
    };
    let selector =
        dry.selector_parsed.map(|parsed| parsed.query).filter(|query| !query.is_empty()).unwrap_or(plain);
    spec_of(&dry.name, &selector, &dry.assertions)
}

fn trace(found: &LoadedRun) -> Result<&Trace, RunApiError> {
    let missing =
        || RunApiError::unprocessable(format!("run \"{}\" has no trace associated", found.stored.number));
    found.trace().ok_or_else(missing)
}

fn ids(trace: &Trace, positions: &[usize]) -> Vec<String> {
    positions.iter().filter_map(|at| Some(trace.span(*at).id?.to_string())).collect()
}
