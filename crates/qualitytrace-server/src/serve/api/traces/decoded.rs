//! Decoded traces for computations, from the cache if nothing of them has changed.

use std::sync::Arc;

use http::StatusCode;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Trace;

use super::columns::RunTraceOf;
use crate::serve::api::App;
use crate::serve::api::error::ApiError;
use crate::serve::api::memory::Memory;
use crate::serve::api::runs::LoadedRun;
use crate::serve::api::tenant::Tenant;
use crate::serve::trace_cache::{Key, Version};
use crate::storage::store::TraceSize;
use crate::storage::variables::RunSecrets;

/// A decoded trace with its secrets redacted.
#[derive(Debug)]
pub(in crate::serve::api) struct Loaded {
    pub(in crate::serve::api) trace: Arc<Trace>,
    /// The last arrival, as columns tell it.
    pub(in crate::serve::api) revision: Timestamp,
}

/// Loads a trace.
pub(in crate::serve::api) async fn of_trace(
    app: &App,
    memory: &Memory,
    id: TraceId,
) -> Result<Loaded, ApiError> {
    let missing = || ApiError::not_found(format!("no span of trace {id} is here"));
    let version = version(app, id).await?.ok_or_else(missing)?;
    let key = (id, None);
    if let Some(trace) = app.memory.traces().decoded(&key, version) {
        return Ok(Loaded { trace, revision: version.revision });
    }
    let size = app.source.size(&[id]).await?;
    memory.hold_traces(size).await?;
    let redactor = RunSecrets::of(&app.store, &[id]).await?.redactor(id)?;
    let trace = Arc::new(redactor.trace(app.source.load(id).await?));
    Ok(keep(app, key, version, trace, size))
}

/// Loads the trace of a run, with its trigger. While the run waits, that is what has arrived so far.
pub(in crate::serve::api) async fn of_run(
    app: &App,
    memory: &Memory,
    tenant: &Tenant,
    test: &str,
    run: &str,
) -> Result<Loaded, ApiError> {
    let found = RunTraceOf::load(app, tenant, test, run).await?;
    let id = found.stored.trace;
    let version = version(app, id).await?;
    let is_cached = !found.milestones.contains_run && !found.is_judged_without_trace();
    let key = (id, found.milestones.span);
    if let Some(version) = version.filter(|_| is_cached)
        && let Some(trace) = app.memory.traces().decoded(&key, version)
    {
        return Ok(Loaded { trace, revision: version.revision });
    }
    let mut loaded = LoadedRun::load(app, memory, tenant, test, found.stored.number).await?;
    loaded.look_for_trace(app, memory).await?;
    let trace = loaded.trace.ok_or_else(|| ApiError {
        status: StatusCode::UNPROCESSABLE_ENTITY,
        message: format!("run {run} of test `{test}` has no trace; it is {}", loaded.stored.state),
    })?;
    let Some(version) = version.filter(|_| is_cached) else {
        return Ok(Loaded { trace, revision: Timestamp::default() });
    };
    let size = app.source.size(&[id]).await?;
    Ok(keep(app, key, version, trace, size))
}

fn keep(app: &App, key: Key, version: Version, trace: Arc<Trace>, size: TraceSize) -> Loaded {
    app.memory.traces().keep_decoded(key, version, &trace, size.decoded());
    Loaded { trace, revision: version.revision }
}

/// Returns what the decoded trace would be made of now; `None` if no span is here.
async fn version(app: &App, id: TraceId) -> Result<Option<Version>, ApiError> {
    let Some((revision, deliveries)) = app.store.last_delivery(id).await? else { return Ok(None) };
    let mark = RunSecrets::of(&app.store, &[id]).await?.mark(id);
    Ok(Some(Version { revision, deliveries, mark }))
}
