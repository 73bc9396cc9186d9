//! Triggers outside of tests: sent once without a run, and what their servers offer. Nothing is stored.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::StatusCode;
use qualitytrace_core::definition::trigger::{Graphql, Grpc};
use qualitytrace_core::definition::{self, Format, Test, Text, Trigger};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::App;
use super::audit::Unchanged;
use super::error::{ApiError, BAD_REQUEST, NOT_FOUND};
use super::json_body::JsonBody;
use super::memory::Memory;
use super::resources::placed;
use super::run_error::{self, MissingVariable, MissingVariables, RunApiError};
use super::runs::{Variable, given_variables, missing_variables};
use super::tenant::Tenant;
use crate::http::access::RequiredAccess::Change;
use crate::http::routes::Routes;
use crate::http::routes::operation::{Body, Content, of, operation};
use crate::runner::SendError;
use crate::storage::variables::Variables;
use crate::wire::methods::TriggerMethods;
use crate::wire::sent::SentTrigger;

/// Memory per byte of a trigger: its tree and its meaning, before and after its expressions are resolved.
const TREE_FACTOR: u64 = 16;

/// Returns the routes. They connect to addresses that the client names, so they need the scope that runs need.
pub(super) fn routes() -> Routes<App> {
    let sent = (200, Content::Json(of::<SentTrigger>));
    let answers = [sent, BAD_REQUEST, NOT_FOUND, run_error::UNPROCESSABLE];
    let listed = (200, Content::Json(of::<TriggerMethods>));
    let lists = [listed, BAD_REQUEST, NOT_FOUND, run_error::UNPROCESSABLE];
    let given = Body::Json(of::<GivenTrigger>);
    Routes::new()
        .post(
            "/api/trigger/try",
            Change,
            send_once,
            operation("Send a trigger once, without a run; nothing is stored", answers).taking(given),
        )
        .post(
            "/api/trigger/methods",
            Change,
            methods,
            operation("The gRPC methods or GraphQL operations of a trigger's server", lists).taking(given),
        )
}

/// A trigger, and the values of its variables.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GivenTrigger {
    /// The trigger as it stands in a test: an object, or its text in YAML or JSON.
    trigger: Written,
    /// The variable set whose values it takes.
    #[serde(default)]
    variable_set_id: Option<String>,
    /// Values that take precedence over those of the variable set.
    #[serde(default)]
    variables: Option<Vec<Variable>>,
}

/// How a trigger is written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "`trigger` must be an object or a text")]
enum Written {
    Object(Map<String, Value>),
    Text(String),
}

impl GivenTrigger {
    /// Reads the trigger and its variables. `Err` has the response if a variable is missing. `only` removes what the
    /// request does not need.
    async fn read(
        self,
        app: &App,
        memory: &Memory,
        tenant: &Tenant,
        only: impl FnOnce(Trigger) -> Trigger,
    ) -> Result<Result<(Trigger, Variables), Response>, ApiError> {
        let trigger = only(self.trigger.read(memory).await?);
        let (set, given) = (self.variable_set_id.unwrap_or_default(), self.variables.unwrap_or_default());
        let (_, variables) = given_variables(app, tenant, &set, given).await?;
        let test = Test { trigger: Some(trigger), ..Test::default() };
        let missing = missing_variables(&test, &variables);
        if let (Some(trigger), []) = (test.trigger, &missing[..]) {
            return Ok(Ok((trigger, variables)));
        }
        let variables =
            missing.into_iter().map(|key| MissingVariable { key, default_value: None, kind: None });
        let missing = MissingVariables { test_id: String::new(), variables: variables.collect() };
        Ok(Err(RunApiError::lacking(vec![missing]).into_response()))
    }
}

impl Written {
    async fn read(self, memory: &Memory) -> Result<Trigger, ApiError> {
        let (text, format, has_location) = match self {
            Self::Object(object) => (Value::Object(object).to_string(), Format::Json, false),
            Self::Text(text) => (text, Format::Yaml, true),
        };
        memory.hold(text.len() as u64 * TREE_FACTOR).await?;
        let (trigger, found) = definition::read_trigger(&text, format);
        match (trigger, found.iter().find(|found| found.is_error())) {
            (Some(trigger), None) => Ok(trigger),
            (_, wrong) => {
                let why = wrong.or(found.first()).map(|found| match &found.help {
                    _ if has_location => placed(found, &text),
                    Some(help) => format!("{}; {help}", found.message),
                    None => found.message.clone(),
                });
                let message = format!("the trigger cannot be used: {}", why.unwrap_or_default());
                Err(ApiError::bad_request(message))
            }
        }
    }
}

/// Sends a trigger once and returns its result.
async fn send_once(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    JsonBody(given): JsonBody<GivenTrigger>,
) -> Result<Response, ApiError> {
    let (trigger, variables) = match given.read(&app, &memory, &tenant, |trigger| trigger).await? {
        Ok(given) => given,
        Err(lacking) => return Ok(lacking),
    };
    // Before it is sent: the result of a trigger that was sent must not be refused.
    memory.hold_texts(app.config.get().limits.reply_bytes).await?;
    let sent = app.runner.send_once(trigger, &variables).await?;
    let (trace, span) = (sent.trace.to_string(), sent.span.to_string());
    Ok(Json(SentTrigger::of(trace, span, sent.start, sent.end, &sent.events)).into_response())
}

/// Lists what the server of a trigger offers. Nothing is changed, here or there.
async fn methods(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    JsonBody(given): JsonBody<GivenTrigger>,
) -> Result<Response, ApiError> {
    let (trigger, variables) = match given.read(&app, &memory, &tenant, without_request).await? {
        Ok(given) => given,
        Err(lacking) => return Ok(lacking),
    };
    memory.hold_texts(app.config.get().limits.reply_bytes).await?;
    let (found, redactor) = app.runner.methods(trigger, &variables).await?;
    let mut shown = serde_json::to_value(TriggerMethods::from(found)).unwrap_or_default();
    redactor.json(&mut shown);
    Ok((Extension(Unchanged), Json(shown)).into_response())
}

/// Returns what a trigger says about its server: the variables of a request are not needed to describe it.
fn without_request(trigger: Trigger) -> Trigger {
    match trigger {
        Trigger::Grpc(call) => Trigger::Grpc(Grpc {
            request: Text::default(),
            method: Text::default(),
            service: Text::default(),
            ..call
        }),
        Trigger::Graphql(query) => Trigger::Graphql(Graphql {
            query: Text::default(),
            variables: Vec::new(),
            operation_name: Text::default(),
            ..query
        }),
        other => other,
    }
}

impl From<SendError> for ApiError {
    fn from(error: SendError) -> Self {
        let status = match error {
            SendError::Busy => StatusCode::SERVICE_UNAVAILABLE,
            SendError::NotResolved(_) | SendError::NotListed(_) => StatusCode::UNPROCESSABLE_ENTITY,
            SendError::SecretsTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        };
        Self { status, message: error.to_string() }
    }
}
