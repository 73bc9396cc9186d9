//! The progress of a user in the set-up wizard.

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::serve::api::App;
use crate::serve::api::answer::plain_json;
use crate::serve::api::run_error::{RunApiError, body};
use crate::serve::api::tenant::Tenant;
use crate::wire::time::{NEVER, is_rfc3339};

/// The steps, in order.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve::api) struct Wizard {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    steps: Vec<Step>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WizardStep")]
struct Step {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    id: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    state: String,
    #[serde(default = "never")]
    completed_at: String,
}

fn never() -> String {
    NEVER.to_owned()
}

impl Default for Wizard {
    fn default() -> Self {
        let step = |id: &str| Step { id: id.to_owned(), state: "pending".to_owned(), completed_at: never() };
        Self { steps: ["agent", "tracing_backend", "create_test"].map(step).into() }
    }
}

pub(in crate::serve::api) async fn get(
    State(app): State<App>,
    tenant: Tenant,
) -> Result<Response, RunApiError> {
    let stored = app.store.document(&tenant.scoped("wizard")).await?;
    let wizard: Wizard = stored.and_then(|body| serde_json::from_str(&body).ok()).unwrap_or_default();
    Ok(answer(&wizard))
}

pub(in crate::serve::api) async fn put(
    State(app): State<App>,
    tenant: Tenant,
    sent: Bytes,
) -> Result<Response, RunApiError> {
    let wizard: Wizard = body(&sent)?;
    if let Some(step) = wizard.steps.iter().find(|step| !is_rfc3339(&step.completed_at)) {
        let message = format!("`{}` is no time; write completedAt like {NEVER}", step.completed_at);
        return Err(RunApiError::bad_request(message));
    }
    let text = serde_json::to_string(&wizard).unwrap_or_default();
    app.store.put_document(&tenant.scoped("wizard"), &text).await?;
    Ok(answer(&wizard))
}

fn answer(wizard: &Wizard) -> Response {
    plain_json(StatusCode::OK, wizard)
}
