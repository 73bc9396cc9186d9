//! Handlers of stored traces: one trace, a filtered list, and services.

pub(super) mod columns;
pub(super) mod decoded;
mod digest;
pub(super) mod dry_run;
pub(super) mod files;
mod filter;
pub(super) mod live;
pub(super) mod select;
mod senders;
pub(super) mod span;
mod summary;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::HeaderMap;
use http::header::ACCEPT;
use qualitytrace_core::id::{ParseIdError, TraceId};
use qualitytrace_core::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::App;
use super::answer::document;
use super::error::ApiError;
use super::memory::Memory;
use super::path::Path;
use super::query::Query;
use crate::storage::variables::{RunSecrets, redactor_of_trace};
use crate::wire;
use digest::{Digest, portions};
use filter::Filter;
use summary::TraceSummary;

pub(crate) use digest::Digests;
pub(super) use senders::{Services, services};

/// Arrivals that are examined for one page at most.
const LOOKED_AT: u64 = 5_000;

/// Returns a trace: as a list of spans in tree order, as OTLP JSON, or as Jaeger JSON.
pub(super) async fn get(
    State(app): State<App>,
    memory: Memory,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let id = trace_id(&id)?;
    let size = app.source.size(&[id]).await?;
    let missing = || ApiError::not_found(format!("no span of trace {id} is here"));
    let redactor = redactor_of_trace(&app.store, id).await?;
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains("otlp") {
        memory.hold(size.as_requests()).await?;
        let shown = wire::otlp::Document::load(&app.source, id, redactor).await?;
        return if shown.is_empty() {
            Err(missing())
        } else {
            Ok(document(&memory, "application/vnd.otlp+json", shown))
        };
    }
    memory.hold_traces(size).await?;
    let trace = redactor.trace(app.source.load(id).await?);
    if trace.spans().is_empty() {
        return Err(missing());
    }
    Ok(if accept.contains("jaeger") {
        document(&memory, "application/vnd.jaeger+json", wire::jaeger::Document(trace))
    } else {
        document(&memory, "application/json", wire::trace::Document(trace))
    })
}

/// Reads the id of a trace.
pub(super) fn trace_id(text: &str) -> Result<TraceId, ApiError> {
    text.parse().map_err(|error: ParseIdError| ApiError::bad_request(error.to_string()))
}

/// A page of traces.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Traces {
    items: Vec<TraceSummary>,
    /// The cursor of the next page; null after the last one.
    next: Option<String>,
}

/// Lists traces that pass the filters, newest first. `next` is the cursor of the following page.
pub(super) async fn list(
    State(app): State<App>,
    memory: Memory,
    Query(parameters): Query<filter::Parameters>,
    RawQuery(query): RawQuery,
) -> Result<Json<Traces>, ApiError> {
    let pairs = url::form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes());
    let filter = Filter::read(&parameters, &pairs.into_owned().collect::<Vec<_>>())?;
    let mut before = filter.before;
    let mut seen = HashSet::new();
    let mut items = Vec::new();
    let mut looked_at = 0;
    while items.len() < filter.take && looked_at < LOOKED_AT {
        let arrivals = app.store.arrivals_before(before, filter.step()).await?;
        if arrivals.is_empty() {
            before = Timestamp::default();
            break;
        }
        let mut passing = passing(&app, &memory, &filter, &arrivals).await?;
        for (id, arrived) in arrivals {
            looked_at += 1;
            before = arrived;
            if seen.insert(id) {
                items.extend(passing.remove(&id).map(|digest| digest.summary.clone()));
            }
            if items.len() == filter.take {
                break;
            }
        }
    }
    let next = (before > Timestamp::default()).then(|| before.as_nanos().to_string());
    Ok(Json(Traces { items, next }))
}

/// The traces of these arrivals that pass the filters.
async fn passing(
    app: &App,
    memory: &Memory,
    filter: &Filter,
    arrivals: &[(TraceId, Timestamp)],
) -> Result<HashMap<TraceId, Arc<Digest>>, ApiError> {
    let ids: BTreeSet<TraceId> = arrivals.iter().map(|(id, _)| *id).collect();
    let ids: Vec<TraceId> = ids.into_iter().collect();
    let withheld = RunSecrets::of(&app.store, &ids).await?;
    let mut passing = app.digests.traces(app, memory, &withheld, &ids).await?;
    passing.retain(|_, digest| filter.passes(digest));
    if filter.asks_for_attributes() {
        let ids: Vec<TraceId> = ids.into_iter().filter(|id| passing.contains_key(id)).collect();
        for portion in portions(app, &ids).await? {
            let _held = memory.borrow_traces(app.source.size(portion).await?).await?;
            for trace in app.source.load_all(portion).await? {
                let trace = withheld.redactor(trace.id())?.trace(trace);
                if !filter.has_attributes(&trace) {
                    passing.remove(&trace.id());
                }
            }
        }
    }
    Ok(passing)
}
