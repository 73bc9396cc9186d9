//! Handlers of runs: list, show, stop, rerun, delete, events.

pub(super) mod all_runs;
pub(super) mod series;
mod start;
mod stream;
pub(super) mod verdict;

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use qualitytrace_core::definition::{Kind, Test};
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Trace;
use serde::Deserialize;
use serde_json::Value;

use super::App;
use super::answer::{Success, json, plain_json};
use super::audit::Unchanged;
use super::error::ApiError;
use super::memory::Memory;
use super::path::Path;
use super::query::Query;
use super::resources::stored_test;
use super::run_error::{RunApiError, body, count, number};
use super::tenant::Tenant;
use crate::base::clock;
use crate::base::compute;
use crate::runner::RunId;
use crate::storage::store::{StoredEvent, StoredRun};
use crate::storage::variables::{Variables, redactor_of_trace};
use crate::wire::event::Event;
use crate::wire::fold::{self, RunState};
use crate::wire::run::{self, Run, RunTrace};

pub(super) use start::{
    RunInformation, Variable, given_variables, lacked, missing_variables, start, variable_set,
};
pub(super) use stream::{stream, stream_of_suite};

/// The default page size.
const TAKE: u64 = 20;
/// The largest page size.
const MOST: u64 = 1_000;

/// Bytes of runs that are loaded together for a list.
const BATCH_BYTES: u64 = 4 << 20;

/// A page, as requested.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PageOf {
    take: String,
    skip: String,
}

impl PageOf {
    /// Returns the page size and the offset.
    pub(super) fn numbers(&self) -> Result<(u64, u64), RunApiError> {
        let take = count("take", &self.take)?;
        Ok((if take == 0 { TAKE } else { take.min(MOST) }, count("skip", &self.skip)?))
    }
}

/// Lists runs of a test, newest first, without their traces.
pub(super) async fn list(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path(id): Path<String>,
    Query(page): Query<PageOf>,
) -> Result<Response, RunApiError> {
    let (take, skip) = page.numbers()?;
    let id = tenant.scoped(&id);
    app.store.resource(Kind::Test, &id).await?.ok_or_else(RunApiError::missing)?;
    let (count, sizes) = app.store.run_sizes(&id, take, skip).await?;
    let (batches, now) = (batches(&sizes), clock::now());
    let mut response = if let [only] = batches[..] {
        memory.hold_texts(only.bytes).await?;
        plain_json(StatusCode::OK, &batch(&app, &id, only, now).await?)
    } else {
        let listed = StreamedList { app, memory, id, batches: batches.into(), now, is_first: true };
        // Layers around a body may poll once more after its end.
        let parts =
            futures_util::StreamExt::fuse(futures_util::stream::unfold(Some(listed), StreamedList::next));
        let headers = [(CONTENT_TYPE, "application/json; charset=UTF-8")];
        (StatusCode::OK, headers, Body::from_stream(parts)).into_response()
    };
    response.headers_mut().insert("x-total-count", HeaderValue::from(count));
    Ok(response)
}

/// Runs that are loaded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Batch {
    first: u64,
    last: u64,
    bytes: u64,
}

/// Groups runs, newest first, into batches of at most [`BATCH_BYTES`].
fn batches(sizes: &[(u64, u64)]) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for (number, bytes) in sizes {
        match batches.last_mut() {
            Some(batch) if batch.bytes + bytes <= BATCH_BYTES => {
                batch.first = *number;
                batch.bytes += bytes;
            }
            _ => batches.push(Batch { first: *number, last: *number, bytes: *bytes }),
        }
    }
    if batches.is_empty() {
        batches.push(Batch { first: 1, last: 0, bytes: 0 });
    }
    batches
}

async fn batch(app: &App, test: &str, batch: Batch, now: Timestamp) -> Result<Vec<Run>, RunApiError> {
    let runs = app.store.runs_between(test, batch.first, batch.last).await?;
    let mut events = app.store.events_between(test, batch.first, batch.last).await?;
    let shown = runs.iter().map(|stored| {
        let events = events.remove(&stored.number).unwrap_or_default();
        fold::listed(stored, &RunState::of(&read_events(&events)), now)
    });
    Ok(shown.collect())
}

/// A list that is loaded while it is sent, batch by batch.
struct StreamedList {
    app: App,
    memory: Memory,
    id: String,
    batches: VecDeque<Batch>,
    now: Timestamp,
    is_first: bool,
}

impl StreamedList {
    /// Returns the next part of the text. `None` after the last one or after a failure.
    async fn next(this: Option<Self>) -> Option<(Result<Bytes, std::io::Error>, Option<Self>)> {
        let mut this = this?;
        let Some(next) = this.batches.pop_front() else {
            return Some((Ok(Bytes::from_static(b"]\n")), None));
        };
        let part = compute::run(async move {
            let text = this.part(next).await;
            this.is_first = false;
            (text, this)
        });
        match part.await {
            Ok((Ok(text), this)) => Some((Ok(text), Some(this))),
            Ok((Err(refusal), _)) => Some((Err(std::io::Error::other(format!("{refusal:?}"))), None)),
            Err(broken_off) => Some((Err(std::io::Error::other(broken_off)), None)),
        }
    }

    async fn part(&self, next: Batch) -> Result<Bytes, RunApiError> {
        // The memory of the previous part is free once it is sent, which is when this one is requested.
        self.memory.release();
        self.memory.hold_texts(next.bytes).await?;
        let runs = batch(&self.app, &self.id, next, self.now).await?;
        let text = serde_json::to_string(&runs).unwrap_or_default();
        let inner = text.trim_start_matches('[').trim_end_matches(']');
        let open = match (self.is_first, inner.is_empty()) {
            (true, _) => "[",
            (false, true) => "",
            (false, false) => ",",
        };
        Ok(format!("{open}{inner}").into())
    }
}

/// The parts of a run that are left out, as sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OmittedParts {
    without: String,
}

impl OmittedParts {
    /// Whether a part is left out. Unknown names are refused.
    fn parts(&self) -> Result<[bool; 3], RunApiError> {
        const PARTS: [&str; 3] = ["trace", "results", "linter"];
        let named: Vec<&str> =
            self.without.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if let Some(unknown) = named.iter().find(|name| !PARTS.contains(name)) {
            let message = format!("`{unknown}` is no part of a run; `without` takes {}", PARTS.join(", "));
            return Err(RunApiError::bad_request(message));
        }
        Ok(PARTS.map(|part| named.contains(&part)))
    }
}

/// Returns a run, without the parts that the client leaves out.
pub(super) async fn get(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    Query(without): Query<OmittedParts>,
) -> Result<Response, RunApiError> {
    let [trace, results, linter] = without.parts()?;
    let mut found = LoadedRun::load_untraced(&app, &memory, &tenant, &test, number(&run)?).await?;
    if !trace {
        found.load_trace(&app, &memory).await?;
    }
    let mut shown = found.shown();
    if trace {
        shown.trace = RunTrace::default();
    }
    if results {
        shown.result.results.clear();
    }
    if linter {
        shown.linter.plugins = None;
    }
    Ok(json(&memory, StatusCode::OK, shown))
}

/// Deletes a run and everything that belongs to it.
pub(super) async fn delete(
    State(app): State<App>,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
) -> Result<Response, RunApiError> {
    let id = RunId { test: tenant.scoped(&test), number: number(&run)? };
    app.runner.stop_run(&id).await?;
    if !app.store.delete_run(&id.test, id.number).await? {
        return Err(RunApiError::missing());
    }
    app.runner.removed();
    Ok((StatusCode::NO_CONTENT, [(CONTENT_TYPE, "application/json; charset=UTF-8")]).into_response())
}

/// Accepts the report of an agent about a run. This server executes runs itself and ignores it, except a
/// cancellation.
pub(super) async fn patch(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    sent: Bytes,
) -> Result<Response, RunApiError> {
    let number = number(&run)?;
    body::<Run>(&sent)?;
    let sent: Value = body(&sent)?;
    let gates = &sent["requiredGatesResult"];
    for key in ["required", "failed"] {
        if gates[key].as_array().is_none() {
            return Err(RunApiError::unprocessable(format!("required field '{key}' is zero value.")));
        }
    }
    if gates["passed"] != true {
        return Err(RunApiError::unprocessable("required field 'passed' is zero value."));
    }
    let found = LoadedRun::load(&app, &memory, &tenant, &test, number).await?;
    if sent["lastErrorState"] == "cancelled by user" {
        app.runner.stop(&found.id()).await?;
    }
    Ok(json(&memory, StatusCode::OK, found.shown()))
}

/// Stops a run, and the series that it is part of. A run that has ended is no error, as long as the test exists.
pub(super) async fn stop(
    State(app): State<App>,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
) -> Result<Response, RunApiError> {
    let run = RunId { test: tenant.scoped(&test), number: number(&run)? };
    let is_ended = app.runner.stop(&run).await?;
    command_response(&app, &run, is_ended).await
}

/// The response to a command. It is a success even if the run has ended or never existed, as clients expect.
async fn command_response(app: &App, run: &RunId, is_accepted: bool) -> Result<Response, RunApiError> {
    let mut response = plain_json(StatusCode::OK, &Success::default());
    if !is_accepted {
        app.store.resource(Kind::Test, &run.test).await?.ok_or_else(RunApiError::missing)?;
        response.extensions_mut().insert(Unchanged);
    }
    Ok(response)
}

/// Judges a run with the spans that have arrived.
pub(super) async fn skip_polling(
    State(app): State<App>,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
) -> Result<Response, RunApiError> {
    let run = RunId { test: tenant.scoped(&test), number: number(&run)? };
    let is_accepted = app.runner.skip_waiting(&run).await?;
    command_response(&app, &run, is_accepted).await
}

/// Judges the trace of a run by the latest version of its test, as a new run.
pub(super) async fn rerun(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
) -> Result<Response, RunApiError> {
    let id = tenant.scoped(&test);
    let latest = app.store.test(&id, None).await?.ok_or_else(RunApiError::missing)?;
    let mut found = LoadedRun::load(&app, &memory, &tenant, &test, number(&run)?).await?;
    found.look_for_trace(&app, &memory).await?;
    let started = app.runner.rerun(&found.stored, &found.events, found.trace(), &latest).await?;
    let again = app.store.run(&started.test, started.number).await?.ok_or_else(RunApiError::missing)?;
    let as_created = StoredRun { state: "CREATED".to_owned(), ..again };
    let facts = &found.facts;
    let facts = RunState {
        verdict: None,
        completed: None,
        error: None,
        imported: None,
        earlier: facts.imported.clone().or(facts.earlier.clone()),
        ..facts.clone()
    };
    let shown = fold::run(&as_created, &facts, found.trace.as_ref(), clock::now());
    // It starts with the variables that the earlier run ended with.
    Ok(json(&memory, StatusCode::OK, Run { variable_set: found.shown().variable_set, ..shown }))
}

/// A loaded run with its events and its trace.
#[derive(Debug)]
pub(super) struct LoadedRun {
    pub(super) stored: StoredRun,
    pub(super) events: Vec<Event>,
    pub(super) facts: RunState,
    /// The trace, once obtained.
    pub(super) trace: Option<Arc<Trace>>,
}

impl LoadedRun {
    pub(super) async fn load(
        app: &App,
        memory: &Memory,
        tenant: &Tenant,
        test: &str,
        number: u64,
    ) -> Result<Self, RunApiError> {
        let mut found = Self::load_untraced(app, memory, tenant, test, number).await?;
        found.load_trace(app, memory).await?;
        Ok(found)
    }

    /// Loads a run without its trace.
    pub(super) async fn load_untraced(
        app: &App,
        memory: &Memory,
        tenant: &Tenant,
        test: &str,
        number: u64,
    ) -> Result<Self, RunApiError> {
        let id = tenant.scoped(test);
        memory.hold_texts(app.store.run_size(&id, number).await?).await?;
        let stored = app.store.run(&id, number).await?.ok_or_else(RunApiError::missing)?;
        let events = read_events(&app.store.events(&id, number, 0).await?);
        let facts = RunState::of(&events);
        Ok(Self { stored, events, facts, trace: None })
    }

    /// Builds it from a stored run and its events, for which memory is held, and loads its trace.
    pub(super) async fn of(
        app: &App,
        memory: &Memory,
        stored: StoredRun,
        events: &[StoredEvent],
    ) -> Result<Self, RunApiError> {
        let events = read_events(events);
        let facts = RunState::of(&events);
        let mut found = Self { stored, events, facts, trace: None };
        found.load_trace(app, memory).await?;
        Ok(found)
    }

    async fn load_trace(&mut self, app: &App, memory: &Memory) -> Result<(), RunApiError> {
        let Self { stored, facts, .. } = &*self;
        let found = if let Some(elsewhere) = facts.imported.as_ref().or(facts.earlier.as_ref()) {
            run::imported_trace(&elsewhere.trace)
        } else {
            match (facts.obtained, facts.root(stored.trace)) {
                // A test that skips trace collection was judged without the trace, whatever arrived.
                (Some(_), Some(root)) if !facts.waited => {
                    Some(Trace::assemble(stored.trace, []).with_trigger(root))
                }
                (Some(_), Some(root)) => Some(trace(app, memory, stored.trace).await?.with_trigger(root)),
                _ => None,
            }
        };
        self.trace = found.map(Arc::new);
        Ok(())
    }

    /// Loads what has arrived of the trace since the run ended without one.
    pub(super) async fn look_for_trace(&mut self, app: &App, memory: &Memory) -> Result<(), RunApiError> {
        if let (None, Some(root)) = (&self.trace, self.facts.root(self.stored.trace)) {
            let arrived = trace(app, memory, self.stored.trace).await?;
            self.trace = (!arrived.spans().is_empty()).then(|| Arc::new(arrived.with_trigger(root)));
        }
        Ok(())
    }

    fn id(&self) -> RunId {
        RunId { test: self.stored.test.clone(), number: self.stored.number }
    }

    pub(super) fn trace(&self) -> Option<&Trace> {
        self.trace.as_deref()
    }

    pub(super) fn shown(&self) -> Run {
        fold::run(&self.stored, &self.facts, self.trace.as_ref(), clock::now())
    }

    /// Loads the version of the test that was run.
    pub(super) async fn test(&self, app: &App) -> Result<Test, RunApiError> {
        let stored = app.store.test(&self.stored.test, Some(self.stored.test_version)).await?;
        let stored = stored.ok_or_else(RunApiError::missing)?;
        stored_test(&stored)
    }

    /// Its variables, without secrets: the given ones and its outputs.
    pub(super) fn variables(&self) -> Variables {
        let mut variables = Variables::shown(&self.stored.variables);
        let outputs = self.facts.verdict.iter().flat_map(|verdict| &verdict.outputs);
        for output in outputs.filter(|output| output.error.is_none()) {
            variables.set(&output.name, &output.value, false);
        }
        variables
    }
}

/// Reads the number of a run.
pub(super) fn run_number(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| ApiError::bad_request(format!("`{text}` is no number of a run")))
}

/// The error for a run that does not exist.
pub(super) fn no_run(test: &str, number: u64) -> ApiError {
    ApiError::not_found(format!("there is no run {number} of a test `{test}`"))
}

/// Loads a trace with its secrets redacted.
async fn trace(app: &App, memory: &Memory, id: TraceId) -> Result<Trace, RunApiError> {
    memory.hold_traces(app.source.size(&[id]).await?).await?;
    let redactor = redactor_of_trace(&app.store, id).await?;
    Ok(redactor.trace(app.source.load(id).await?))
}

/// Parses the stored events of a run.
pub(super) fn read_events(events: &[StoredEvent]) -> Vec<Event> {
    events.iter().filter_map(Event::read).collect()
}

/// The last event that a follower has seen.
pub(super) fn last_seen(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok())
}
