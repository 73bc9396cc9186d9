//! One span in full, read from the delivery that brought it.

use axum::Json;
use axum::extract::State;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use qualitytrace_core::id::{ParseIdError, SpanId, TraceId};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Span;

use super::columns::{ColumnSource, RunTraceOf};
use super::trace_id;
use crate::base::redact::Redactor;
use crate::receive::columns::Row;
use crate::receive::otlp::heads::{Head, excerpt};
use crate::receive::otlp::{convert, weight};
use crate::serve::api::App;
use crate::serve::api::error::ApiError;
use crate::serve::api::memory::Memory;
use crate::serve::api::path::Path;
use crate::serve::api::runs::read_events;
use crate::serve::api::tenant::Tenant;
use crate::storage::store::{Signal, TraceSize};
use crate::storage::variables::redactor_of_trace;
use crate::wire::fold::RunState;
use crate::wire::span::{LogDetail, SpanDetail};

/// Log records that are shown of a span.
const MAX_LOGS: usize = 1_000;

/// Returns a span of a trace.
pub(in crate::serve::api) async fn of_trace(
    State(app): State<App>,
    memory: Memory,
    Path((id, span)): Path<(String, String)>,
) -> Result<Json<SpanDetail>, ApiError> {
    let (trace, span) = (trace_id(&id)?, span_id(&span)?);
    find(&app, &memory, &ColumnSource { key: (trace, None), trigger: None }, span)
        .await?
        .ok_or_else(|| missing(trace, span))
}

/// Returns a span of the trace of a run; the trigger is one of them.
pub(in crate::serve::api) async fn of_run(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run, span)): Path<(String, String, String)>,
) -> Result<Json<SpanDetail>, ApiError> {
    let span = span_id(&span)?;
    let run = RunTraceOf::load(&app, &tenant, &test, &run).await?;
    let trace = run.stored.trace;
    if run.milestones.span == Some(span) {
        let events = app.store.events_until(&run.stored.test, run.stored.number, run.answered_seq).await?;
        let root = RunState::of(&read_events(&events)).root(trace);
        let root = root.ok_or_else(|| ApiError::not_found("the trigger has no response yet".to_owned()))?;
        let redactor = redactor_of_trace(&app.store, trace).await?;
        return Ok(Json(SpanDetail::of(trace, 0, &redactor.one_span(&root), Vec::new(), 0)));
    }
    let of = run.of().ok_or_else(|| missing(trace, span))?;
    find(&app, &memory, &of, span).await?.ok_or_else(|| missing(trace, span))
}

fn span_id(text: &str) -> Result<SpanId, ApiError> {
    text.parse().map_err(|error: ParseIdError| ApiError::bad_request(error.to_string()))
}

fn missing(trace: TraceId, span: SpanId) -> ApiError {
    ApiError::not_found(format!("no span {span} of trace {trace} is here"))
}

async fn find(
    app: &App,
    memory: &Memory,
    of: &ColumnSource,
    id: SpanId,
) -> Result<Option<Json<SpanDetail>>, ApiError> {
    let trace = of.key.0;
    let live = of.columns(app, memory).await?;
    let found = {
        let live = live.lock().await;
        let table = live.columns();
        table.find(id).and_then(|row| Some((row, table.rows()[row], table.delivery(row)?)))
    };
    let Some((row, linked, (arrived, sent))) = found else { return Ok(None) };
    let Some(span) = load(app, memory, trace, arrived, &sent).await? else { return Ok(None) };
    let redactor = redactor_of_trace(&app.store, trace).await?;
    let span = redactor.one_span(&Span { id: linked.id, parent: linked.parent, ..span });
    let (logs, count) = logs(app, trace, sent.id, &redactor).await?;
    Ok(Some(Json(SpanDetail::of(trace, row, &span, logs, count))))
}

/// Decodes one span of a delivery; the others, which may be thousands, are only walked over.
async fn load(
    app: &App,
    memory: &Memory,
    trace: TraceId,
    arrived: Timestamp,
    sent: &Row,
) -> Result<Option<Span>, ApiError> {
    memory.hold(app.store.arrival_size(&[arrived]).await?.bytes).await?;
    let chunks = app.store.chunks_of(&[arrived]).await?;
    let own = chunks.iter().filter(|(of, _)| *of == trace).map(|(_, chunk)| chunk);
    let is_sent = |head: &Head<'_>| head.id == sent.id && head.kind == sent.kind;
    let Some(one) = own.filter_map(|chunk| excerpt(&chunk.data, trace, is_sent).ok().flatten()).last() else {
        return Ok(None);
    };
    memory.hold_traces(TraceSize::of_request(1, one.len() as u64, weight::values(&one))).await?;
    let request = ExportTraceServiceRequest::decode(one).unwrap_or_default();
    Ok(convert::spans(request).into_iter().map(|(_, span)| span).next())
}

/// Returns the first log records that name a span, and the number of all.
async fn logs(
    app: &App,
    trace: TraceId,
    span: Option<SpanId>,
    redactor: &Redactor,
) -> Result<(Vec<LogDetail>, usize), ApiError> {
    let (mut logs, mut count) = (Vec::new(), 0);
    let add = |chunk: crate::storage::store::StoredChunk| {
        let request = ExportLogsServiceRequest::decode(chunk.data).unwrap_or_default();
        let scopes = request.resource_logs.into_iter().flat_map(|of_resource| of_resource.scope_logs);
        for mut record in scopes.flat_map(|of_scope| of_scope.log_records) {
            let is_own = TraceId::from_slice(&record.trace_id) == Some(trace);
            if !is_own || SpanId::from_slice(&record.span_id) != span {
                continue;
            }
            count += 1;
            if logs.len() < MAX_LOGS {
                let body = redactor.value(&convert::value(record.body.take()));
                let attributes = convert::log_attributes(std::mem::take(&mut record.attributes));
                for text in [&mut record.severity_text, &mut record.event_name] {
                    *text = redactor.text(text).into_owned();
                }
                logs.push(LogDetail::of(&record, &body, &redactor.attributes(&attributes)));
            }
        }
    };
    app.store.each_chunk(trace, Signal::Logs, Timestamp::default(), add).await?;
    Ok((logs, count))
}
