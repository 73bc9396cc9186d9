//! Selection of spans by a selector or a text, with what was nearly selected.

use std::ops::Range;

use axum::Json;
use axum::extract::State;
use qualitytrace_core::judge::nearest_misses;
use qualitytrace_core::lang::{diagnose_selector, parse_selector, select};
use qualitytrace_core::trace::Trace;
use qualitytrace_core::trace::search::containing;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decoded::{self, Loaded};
use super::trace_id;
use crate::base::compute;
use crate::serve::api::App;
use crate::serve::api::error::ApiError;
use crate::serve::api::json_body::JsonBody;
use crate::serve::api::memory::Memory;
use crate::serve::api::path::Path;
use crate::serve::api::tenant::Tenant;
use crate::wire::diagnostic::Diagnostic;
use crate::wire::utf16::Utf16Offsets;

/// Diagnostics that are returned.
const MAX_DIAGNOSTICS: usize = 100;
/// Near misses that are returned.
const MAX_NEAREST: usize = 3;

/// What to look for: a selector, or a text that a span contains.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve::api) struct Selection {
    /// A selector.
    #[serde(default)]
    query: Option<String>,
    /// A text in the id, the kind, the name or an attribute of a span, in any case of letters.
    #[serde(default)]
    text: Option<String>,
}

/// The selected spans.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::serve::api) struct Selected {
    /// The number of selected spans.
    count: usize,
    /// The number of spans.
    total: usize,
    /// Their rows in the columns of the trace, in the order of the tree.
    rows: Vec<usize>,
    /// The revision of the columns that the rows belong to.
    revision: String,
    /// What is wrong with the selector, or may be.
    diagnostics: Vec<Diagnostic>,
    /// If nothing is selected: the spans that come nearest.
    nearest: Vec<Nearest>,
}

/// A span that a selector nearly selects.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Nearest {
    /// Its row in the columns of the trace.
    row: usize,
    /// Its id; empty if it was sent without one.
    span_id: String,
    /// Its name.
    name: String,
    /// The number of conditions that it satisfies.
    satisfied: usize,
    /// The number of conditions.
    conditions: usize,
    /// The conditions that it does not satisfy.
    failing: Vec<Failing>,
    /// A selector that selects it.
    suggestion: Option<String>,
}

/// A condition that a span does not satisfy. Offsets are counted in UTF-16 code units.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Failing {
    /// Where it begins in the selector.
    from: usize,
    /// Where it ends.
    to: usize,
    /// The condition.
    condition: String,
    /// The value that the span has instead; null if it has no such attribute.
    actual: Option<String>,
    /// An attribute of the span that was probably meant.
    did_you_mean: Option<String>,
}

/// Selects spans of a trace.
pub(in crate::serve::api) async fn of_trace(
    State(app): State<App>,
    memory: Memory,
    Path(id): Path<String>,
    JsonBody(asked): JsonBody<Selection>,
) -> Result<Json<Selected>, ApiError> {
    let loaded = decoded::of_trace(&app, &memory, trace_id(&id)?).await?;
    selected(&asked, &loaded).await
}

/// Selects spans of the trace of a run.
pub(in crate::serve::api) async fn of_run(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    JsonBody(asked): JsonBody<Selection>,
) -> Result<Json<Selected>, ApiError> {
    let loaded = decoded::of_run(&app, &memory, &tenant, &test, &run).await?;
    selected(&asked, &loaded).await
}

async fn selected(
    asked: &Selection,
    Loaded { trace, revision }: &Loaded,
) -> Result<Json<Selected>, ApiError> {
    compute::give_way().await;
    let (positions, diagnostics, nearest) = match (&asked.query, &asked.text) {
        (Some(query), None) => by_selector(query, trace)?,
        (None, Some(text)) => (containing(trace, text), Vec::new(), Vec::new()),
        (Some(_), Some(_)) | (None, None) => {
            let message = "send either `query`, a selector, or `text`".to_owned();
            return Err(ApiError::bad_request(message));
        }
    };
    compute::wait_if_stopped().await;
    Ok(Json(Selected {
        count: positions.len(),
        total: trace.spans().len(),
        rows: positions.iter().map(|at| trace.row(*at)).collect(),
        revision: revision.as_nanos().to_string(),
        diagnostics,
        nearest,
    }))
}

type Found = (Vec<usize>, Vec<Diagnostic>, Vec<Nearest>);

fn by_selector(query: &str, trace: &Trace) -> Result<Found, ApiError> {
    let parsed = parse_selector(query);
    let diagnostics = diagnose_selector(query);
    let offsets = Utf16Offsets::of(query);
    let diagnostics =
        diagnostics.iter().take(MAX_DIAGNOSTICS).map(|found| Diagnostic::of(found, &offsets)).collect();
    if !parsed.is_valid() {
        return Ok((Vec::new(), diagnostics, Vec::new()));
    }
    let budget = compute::budget();
    let positions = select(&parsed.tree, trace, &budget)
        .map_err(|exceeded| ApiError::bad_request(exceeded.to_string()))?;
    if !positions.is_empty() {
        return Ok((positions, diagnostics, Vec::new()));
    }
    let misses = nearest_misses(&parsed.tree, trace, MAX_NEAREST, true, &budget);
    let nearest = misses.into_iter().map(|miss| Nearest {
        row: trace.row(miss.position),
        span_id: miss.span.map(|id| id.to_string()).unwrap_or_default(),
        name: miss.name,
        satisfied: miss.satisfied,
        conditions: miss.conditions,
        failing: miss
            .failing
            .into_iter()
            .map(|failed| Failing {
                from: offsets.from_byte(failed.place.start),
                to: offsets.from_byte(end_of(query, &failed.place)),
                condition: failed.condition,
                actual: failed.actual,
                did_you_mean: failed.did_you_mean,
            })
            .collect(),
        suggestion: miss.suggestion,
    });
    Ok((positions, diagnostics, nearest.collect()))
}

/// Returns where a part of a text ends, without the white space after it.
fn end_of(text: &str, place: &Range<usize>) -> usize {
    text.get(place.clone()).map_or(place.end, |part| place.start + part.trim_end().len())
}
