//! Traces from files.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest as _, Request, State};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::budget::MemoryBudgetError;
use crate::base::compute;
use crate::base::decode::Room as _;
use crate::http::access::RequiredAccess;
use crate::http::routes::Routes;
use crate::http::routes::operation::{Body, Content, of, operation};
use crate::receive::ingest::Accepted;
use crate::receive::otlp::{SpanFileError, store_file};
use crate::receive::trace_files::{self, Format, TraceFileError};
use crate::serve::api::App;
use crate::serve::api::error::{ApiError, BAD_REQUEST};
use crate::serve::api::memory::{Memory, refused};
use crate::serve::api::query::Query;

/// Traces that are named in a response.
const MAX_TRACES: usize = 1_000;

/// Returns the route.
pub(in crate::serve::api) fn routes() -> Routes<App> {
    let answers = [(200, Content::Json(of::<ReceivedFile>)), BAD_REQUEST];
    let described = operation("Store the traces of a file: OTLP, Jaeger or Zipkin JSON", answers);
    let described = described.taking(Body::TraceFile).asking(&["format"]).for_all();
    Routes::new().post("/api/traces", RequiredAccess::Change, receive, described)
}

/// The parameters of a file.
#[derive(Debug, Deserialize)]
struct Parameters {
    #[serde(default)]
    format: String,
}

/// What was stored of a file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReceivedFile {
    /// `otlp`, `jaeger` or `zipkin`.
    format: &'static str,
    /// The spans that were stored.
    spans: u64,
    /// The number of traces in the file.
    trace_count: usize,
    /// The first 1,000 traces, in the order of the file.
    traces: Vec<ReceivedTrace>,
    /// The number of spans, or of lines, that were not stored.
    refused: u64,
    /// The first 100 of them, and what the server's limits refused.
    problems: Vec<FileProblem>,
}

/// A trace of a file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReceivedTrace {
    trace_id: String,
    /// Its spans in the file.
    spans: u64,
}

/// Why something of a file was not stored.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileProblem {
    /// The path in the document, after the line if each line is a document; empty if it is about the file.
    location: String,
    /// One sentence.
    reason: String,
}

/// Stores the traces of a file like spans that arrive over OTLP.
async fn receive(
    State(app): State<App>,
    memory: Memory,
    Query(parameters): Query<Parameters>,
    request: Request,
) -> Result<Json<ReceivedFile>, ApiError> {
    let format = named(&parameters.format)?;
    let (parts, body) = request.into_parts();
    let sender = app.ingest.sender(&parts);
    let unread = |error| ApiError::bad_request(format!("the body cannot be received: {error}"));
    let body = Bytes::from_request(Request::from_parts(parts, body), &app).await.map_err(unread)?;
    compute::give_way().await;
    let mut room = memory.growing()?;
    let file = trace_files::read_within(&body, format, &mut room).map_err(|error| match error {
        TraceFileError::TooLarge { limit } => refused(MemoryBudgetError::Ever { limit }),
        TraceFileError::Busy => refused(MemoryBudgetError::Now),
        TraceFileError::Broken(_) | TraceFileError::Unknown | TraceFileError::Empty => {
            ApiError::bad_request(error.to_string())
        }
    })?;
    drop(body);
    room.take(file.encoded_len()).map_err(refused)?;
    let traces = file.traces();
    let spans: u64 = traces.iter().map(|(_, spans)| spans).sum();
    let (format, left_out) = (file.format.map_or("", Format::as_str), file.refused.clone());
    let accepted = match spans {
        0 => Accepted::default(),
        _ => store_file(&app.ingest, sender, file.into_message()).await?,
    };
    let about_limits =
        (accepted.rejected > 0).then_some(FileProblem { location: String::new(), reason: accepted.message });
    let problems = left_out
        .problems
        .into_iter()
        .map(|problem| FileProblem { location: problem.location, reason: problem.reason });
    Ok(Json(ReceivedFile {
        format,
        spans: spans - accepted.rejected.min(spans),
        trace_count: traces.len(),
        traces: traces
            .into_iter()
            .take(MAX_TRACES)
            .map(|(id, spans)| ReceivedTrace { trace_id: id.to_string(), spans })
            .collect(),
        refused: left_out.count + accepted.rejected,
        problems: problems.chain(about_limits).collect(),
    }))
}

/// Returns the format of this name; `None` if the layout of the file decides.
fn named(name: &str) -> Result<Option<Format>, ApiError> {
    if name.is_empty() {
        return Ok(None);
    }
    let known = Format::ALL.into_iter().find(|format| format.as_str() == name);
    let unknown = || {
        ApiError::bad_request(format!("`{name}` is no value of `format`; write `otlp`, `jaeger` or `zipkin`"))
    };
    known.map(Some).ok_or_else(unknown)
}

impl From<SpanFileError> for ApiError {
    fn from(error: SpanFileError) -> Self {
        let status = match &error {
            SpanFileError::Refused { is_too_large: true, .. } => StatusCode::PAYLOAD_TOO_LARGE,
            SpanFileError::Refused { is_too_large: false, .. } => StatusCode::BAD_REQUEST,
            SpanFileError::Later(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self { status, message: error.to_string() }
    }
}
