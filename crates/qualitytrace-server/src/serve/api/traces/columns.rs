//! Traces and the traces of runs as columns.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use qualitytrace_core::names;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{SpanKind, StatusCode};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::trace_id;
use crate::receive::columns::{self, Columns};
use crate::receive::otlp::heads::Head;
use crate::serve::api::App;
use crate::serve::api::answer::{document, is_small};
use crate::serve::api::error::ApiError;
use crate::serve::api::memory::Memory;
use crate::serve::api::path::Path;
use crate::serve::api::query::Query;
use crate::serve::api::runs::{self, LoadedRun};
use crate::serve::api::tenant::Tenant;
use crate::serve::trace_cache::{Key, LiveColumns};
use crate::storage::store::StoredRun;
use crate::storage::variables::redactor_of_trace;
use crate::wire;
use crate::wire::columns::ColumnsQuery;
use crate::wire::fold::Milestones;

const JSON: &str = "application/json";
/// Bytes of a row in a response, and of its text.
const ROW_BYTES: u64 = 160;

/// The rows that are asked for, as sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::serve::api) struct Parameters {
    from: String,
    revision: String,
}

impl Parameters {
    fn read(&self, judged: Option<Timestamp>) -> Result<ColumnsQuery, ApiError> {
        let wrong = |name: &str, text: &str, what: &str| {
            ApiError::bad_request(format!("`{text}` is no value of `{name}`; write {what}"))
        };
        let from = match self.from.as_str() {
            "" => 0,
            text => text.parse().map_err(|_| wrong("from", text, "the number of rows that you have"))?,
        };
        let revision = match self.revision.as_str() {
            "" => None,
            text => {
                let nanos =
                    text.parse().map_err(|_| wrong("revision", text, "what the last response said"))?;
                Some(Timestamp::from_nanos(nanos))
            }
        };
        Ok(ColumnsQuery { from, revision, judged })
    }
}

/// Returns a trace as columns.
pub(in crate::serve::api) async fn of_trace(
    State(app): State<App>,
    memory: Memory,
    Path(id): Path<String>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    let id = trace_id(&id)?;
    let asked = parameters.read(None)?;
    read(&app, &memory, &ColumnSource { key: (id, None), trigger: None }, asked)
        .await?
        .ok_or_else(|| ApiError::not_found(format!("no span of trace {id} is here")))
}

/// Returns the trace of a run as columns: the trigger, and what has arrived so far.
pub(in crate::serve::api) async fn of_run(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    let run = RunTraceOf::load(&app, &tenant, &test, &run).await?;
    let asked = parameters.read(run.milestones.judged)?;
    let trace = run.stored.trace;
    let table = match run.of() {
        _ if run.milestones.contains_run => {
            let found = LoadedRun::load(&app, &memory, &tenant, &test, run.stored.number).await?;
            let spans = found.trace().map_or(&[][..], |trace| trace.spans());
            Columns::of(trace, spans)
        }
        Some(of) if run.is_judged_without_trace() => Columns::new(trace, of.trigger.as_ref()),
        Some(of) => match read(&app, &memory, &of, asked).await? {
            Some(response) => return Ok(response),
            None => Columns::new(trace, None),
        },
        None => Columns::new(trace, None),
    };
    let redactor = redactor_of_trace(&app.store, trace).await?;
    Ok(document(&memory, JSON, wire::columns::Columns::of(&table, asked, &redactor)))
}

/// A run, of which little is loaded: what is needed to find its trace.
#[derive(Debug)]
pub(super) struct RunTraceOf {
    pub(super) stored: StoredRun,
    pub(super) milestones: Milestones,
    /// The number of the event that has the response to the trigger, else of the last event.
    pub(super) answered_seq: u64,
}

impl RunTraceOf {
    pub(super) async fn load(app: &App, tenant: &Tenant, test: &str, run: &str) -> Result<Self, ApiError> {
        let (id, number) = (tenant.scoped(test), runs::run_number(run)?);
        let stored = app.store.run(&id, number).await?.ok_or_else(|| runs::no_run(test, number))?;
        let openings = app.store.event_openings(&id, number).await?;
        let milestones = Milestones::of(&openings);
        let answered = openings.iter().find(|opening| Some(opening.at) == milestones.answered);
        let answered_seq = answered.or(openings.last()).map_or(0, |opening| opening.seq);
        Ok(Self { stored, milestones, answered_seq })
    }

    /// Returns which columns show its trace; `None` if nothing was sent yet.
    pub(super) fn of(&self) -> Option<ColumnSource> {
        let trigger = trigger(&self.milestones)?;
        Some(ColumnSource { key: (self.stored.trace, trigger.id), trigger: Some(trigger) })
    }

    /// A test that skips trace collection was judged without the trace, whatever arrived.
    pub(super) fn is_judged_without_trace(&self) -> bool {
        self.milestones.obtained && !self.milestones.waited
    }
}

/// Which columns: of a trace, or of a run with its trigger.
#[derive(Debug)]
pub(super) struct ColumnSource {
    pub(super) key: Key,
    pub(super) trigger: Option<Head<'static>>,
}

impl ColumnSource {
    /// Returns the columns, with all that arrived before the call.
    pub(super) async fn columns(
        &self,
        app: &App,
        memory: &Memory,
    ) -> Result<Arc<Mutex<LiveColumns>>, ApiError> {
        let traces = app.memory.traces();
        if !traces.has_columns(&self.key) {
            let spans = app.store.span_count(self.key.0).await?;
            memory.hold(spans * columns::ROW_BYTES).await?;
        }
        Ok(traces.columns(&app.source, self.key, self.trigger.as_ref()).await?)
    }
}

/// The head of the trigger's span, once it was sent.
fn trigger(milestones: &Milestones) -> Option<Head<'static>> {
    Some(Head {
        id: Some(milestones.span?),
        parent: None,
        name: names::TRIGGER_SPAN,
        service: names::TRIGGER_SERVICE,
        kind: SpanKind::Unspecified,
        status: StatusCode::Unset,
        start: milestones.triggered?,
        end: milestones.answered,
        has_events: false,
        has_links: false,
    })
}

/// Returns the rows that are asked for; `None` if the trace has no span.
async fn read(
    app: &App,
    memory: &Memory,
    of: &ColumnSource,
    asked: ColumnsQuery,
) -> Result<Option<Response>, ApiError> {
    let live = of.columns(app, memory).await?;
    let (first, total) = {
        let live = live.lock().await;
        (asked.first_row(live.columns()), live.columns().rows().len())
    };
    if total == 0 {
        return Ok(None);
    }
    memory.hold((total - first) as u64 * ROW_BYTES).await?;
    let shown = |live: &LiveColumns| wire::columns::Columns::of(live.columns(), asked, live.redactor());
    Ok(Some(if is_small(memory) {
        let text = |live: &LiveColumns| serde_json::to_vec(&shown(live)).unwrap_or_default().into();
        let response = app.memory.traces().response(of.key, &live, asked, text).await;
        ([(CONTENT_TYPE, JSON)], response).into_response()
    } else {
        document(memory, JSON, shown(&*live.lock().await))
    }))
}
