//! Handlers that help while writing: completion, diagnostics, descriptions of spans, drafts of tests. They store
//! nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use qualitytrace_core::assist;
use qualitytrace_core::id::{ParseIdError, SpanId};
use qualitytrace_core::lang::limits::MAX_LANGUAGE_BYTES;
use qualitytrace_core::trace::Trace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::App;
use super::error::{ApiError, BAD_REQUEST, NOT_FOUND, UNPROCESSABLE};
use super::json_body::JsonBody;
use super::memory::Memory;
use super::path::Path;
use super::run_error::RunApiError;
use super::runs::{LoadedRun, no_run};
use super::tenant::Tenant;
use super::traces::{decoded, trace_id};
use crate::base::compute;
use crate::http::access::RequiredAccess::Look;
use crate::http::routes::Routes;
use crate::http::routes::operation::{Body, Content, of, operation};
use crate::wire::assist::{Checked, Completions, Form, SpanDescription};
use crate::wire::utf16::Utf16Offsets;

/// Bytes in memory per byte of a text: its tokens, as values and as JSON.
const TOKENS_FACTOR: u64 = 64;

/// Returns the routes.
pub(super) fn routes() -> Routes<App> {
    let json = Content::Json;
    let described = (200, json(of::<SpanDescription>));
    let describes = "A selector and assertions for a span";
    let in_trace = operation(describes, [described, BAD_REQUEST, NOT_FOUND]);
    let in_run = operation(describes, [described, BAD_REQUEST, NOT_FOUND, UNPROCESSABLE]);
    let span = Body::Json(of::<Describe>);
    Routes::new()
        .post(
            "/api/language/complete",
            Look,
            complete,
            operation(
                "What can stand at a place of a text",
                [(200, json(of::<Completions>)), BAD_REQUEST, NOT_FOUND],
            )
            .taking(Body::Json(of::<Complete>)),
        )
        .post(
            "/api/language/check",
            Look,
            check,
            operation("The tokens and diagnostics of a text", [(200, json(of::<Checked>)), BAD_REQUEST])
                .taking(Body::Json(of::<Check>))
                .for_all(),
        )
        .post("/api/traces/{id}/describe", Look, describe_in_trace, in_trace.taking(span).for_all())
        .post("/api/tests/{id}/run/{number}/describe", Look, describe_in_run, in_run.taking(span))
        .post(
            "/api/traces/{id}/test",
            Look,
            draft,
            operation(
                "The definition of a test that repeats a trace",
                [(200, json(of::<Draft>)), BAD_REQUEST, NOT_FOUND],
            )
            .taking(Body::Json(of::<Begin>))
            .for_all(),
        )
}

/// A place of a text, and what the text can refer to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Complete {
    text: String,
    /// The place, in UTF-16 code units.
    at: usize,
    #[serde(rename = "in")]
    form: Form,
    /// The trace whose attributes and values are offered.
    #[serde(default)]
    trace_id: Option<String>,
    /// Instead of a trace: the test of the run whose trace and variables are offered.
    #[serde(default)]
    test_id: Option<String>,
    /// The number of the run.
    #[serde(default)]
    run: Option<u64>,
}

/// Returns what can stand at a place of a text.
async fn complete(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    JsonBody(asked): JsonBody<Complete>,
) -> Result<Json<Completions>, ApiError> {
    let offsets = offsets(&asked.text)?;
    let at = offsets.to_byte(asked.at).ok_or_else(|| misplaced(asked.at, &asked.text, &offsets))?;
    let known = match (&asked.trace_id, &asked.test_id, asked.run) {
        (None, None, None) => LanguageScope::default(),
        (Some(trace), None, None) => {
            let loaded = decoded::of_trace(&app, &memory, trace_id(trace)?).await?;
            LanguageScope { trace: Some(loaded.trace), ..LanguageScope::default() }
        }
        (None, Some(test), Some(run)) => LanguageScope::of_run(&app, &memory, &tenant, test, run).await?,
        _ => return Err(ApiError::bad_request("name either `traceId`, or `testId` and `run`")),
    };
    compute::give_way().await;
    let completions = known.complete(&asked, at);
    compute::wait_if_stopped().await;
    Ok(Json(Completions::of(completions, &offsets)))
}

/// A text to check.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Check {
    text: String,
    #[serde(rename = "in")]
    form: Form,
}

/// Returns the tokens and the diagnostics of a text.
async fn check(memory: Memory, JsonBody(asked): JsonBody<Check>) -> Result<Json<Checked>, ApiError> {
    offsets(&asked.text)?;
    memory.hold(asked.text.len() as u64 * TOKENS_FACTOR).await?;
    compute::give_way().await;
    let checked = match asked.form.language() {
        Some(form) => assist::check(&asked.text, form),
        None => assist::Checked { tokens: Vec::new(), diagnostics: assist::definition::check(&asked.text) },
    };
    Ok(Json(Checked::of(&checked, &asked.text)))
}

/// A span to describe.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Describe {
    span_id: String,
    /// The attribute that the assertions are about.
    #[serde(default)]
    attribute: Option<String>,
}

/// Describes a span of a stored trace.
async fn describe_in_trace(
    State(app): State<App>,
    memory: Memory,
    Path(id): Path<String>,
    JsonBody(asked): JsonBody<Describe>,
) -> Result<Json<SpanDescription>, ApiError> {
    let loaded = decoded::of_trace(&app, &memory, trace_id(&id)?).await?;
    describe(&asked, &loaded.trace).await
}

/// Describes a span of the trace of a run, the trigger's span included.
async fn describe_in_run(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    JsonBody(asked): JsonBody<Describe>,
) -> Result<Json<SpanDescription>, ApiError> {
    let loaded = decoded::of_run(&app, &memory, &tenant, &test, &run).await?;
    describe(&asked, &loaded.trace).await
}

async fn describe(asked: &Describe, trace: &Trace) -> Result<Json<SpanDescription>, ApiError> {
    let at = position(trace, &asked.span_id)?;
    compute::give_way().await;
    match assist::describe(trace, at, asked.attribute.as_deref(), &compute::budget()) {
        Ok(description) => Ok(Json(description.into())),
        Err(exceeded) => Err(ApiError::bad_request(exceeded.to_string())),
    }
}

/// The span that a test begins with.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Begin {
    /// The first one that answers a request, if it is not given.
    #[serde(default)]
    span_id: Option<String>,
}

/// A test that is made from a trace.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Draft {
    /// The definition, in YAML.
    definition: String,
}

/// Returns a test that is made from a trace. It is not stored.
async fn draft(
    State(app): State<App>,
    memory: Memory,
    Path(id): Path<String>,
    JsonBody(asked): JsonBody<Begin>,
) -> Result<Json<Draft>, ApiError> {
    let trace = decoded::of_trace(&app, &memory, trace_id(&id)?).await?.trace;
    let at = asked.span_id.map(|id| position(&trace, &id)).transpose()?;
    compute::give_way().await;
    let missing = || ApiError::not_found(format!("no span of trace {id} is here"));
    match assist::draft(&trace, at, &compute::budget()) {
        Ok(definition) => Ok(Json(Draft { definition: definition.ok_or_else(missing)? })),
        Err(exceeded) => Err(ApiError::bad_request(exceeded.to_string())),
    }
}

/// What a text can refer to.
#[derive(Debug, Default)]
struct LanguageScope {
    /// With its secrets redacted.
    trace: Option<Arc<Trace>>,
    /// The names of the variables.
    variables: Vec<String>,
}

impl LanguageScope {
    /// What a run knows: its trace, if there is one, its variables and outputs.
    async fn of_run(
        app: &App,
        memory: &Memory,
        tenant: &Tenant,
        test: &str,
        number: u64,
    ) -> Result<Self, ApiError> {
        let missing = |error: RunApiError| {
            if error.is_missing() { no_run(test, number) } else { error.into() }
        };
        let run = LoadedRun::load_untraced(app, memory, tenant, test, number).await.map_err(missing)?;
        let variables = run.variables().iter().map(|(name, _)| name.clone()).collect();
        let trace = match decoded::of_run(app, memory, tenant, test, &number.to_string()).await {
            Ok(loaded) => Some(loaded.trace),
            // It has no trace yet.
            Err(error) if error.status == StatusCode::UNPROCESSABLE_ENTITY => None,
            Err(error) => return Err(error),
        };
        Ok(Self { trace, variables })
    }

    fn complete(&self, asked: &Complete, at: usize) -> Vec<assist::Completion> {
        let (trace, variables) = (self.trace.as_deref(), &self.variables);
        let context = assist::Context { trace, variables, budget: &compute::budget() };
        match asked.form.language() {
            Some(form) => assist::complete(&asked.text, at, form, &context),
            None => assist::definition::complete(&asked.text, at, &context),
        }
    }
}

/// Returns the position of a span in a trace.
fn position(trace: &Trace, id: &str) -> Result<usize, ApiError> {
    let wrong = |error: ParseIdError| ApiError::bad_request(format!("`spanId`: {error}"));
    let id: SpanId = id.parse().map_err(wrong)?;
    trace.position(id).ok_or_else(|| ApiError::not_found(format!("the trace has no span {id}")))
}

/// Returns the offsets of a text that is not too large.
fn offsets(text: &str) -> Result<Utf16Offsets<'_>, ApiError> {
    if text.len() > MAX_LANGUAGE_BYTES {
        let message = format!("the text has {} bytes; {MAX_LANGUAGE_BYTES} are read at most", text.len());
        return Err(ApiError { status: StatusCode::PAYLOAD_TOO_LARGE, message });
    }
    Ok(Utf16Offsets::of(text))
}

fn misplaced(at: usize, text: &str, offsets: &Utf16Offsets<'_>) -> ApiError {
    let end = offsets.from_byte(text.len());
    ApiError::bad_request(if at > end {
        format!("`at` is {at}, behind the end of the text at {end}; it counts UTF-16 code units")
    } else {
        format!("`at` is {at}, in the middle of a character; it counts UTF-16 code units")
    })
}
