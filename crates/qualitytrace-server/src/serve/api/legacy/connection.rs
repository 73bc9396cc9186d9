//! The connection test of trace data stores, and OTLP arrivals.

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use qualitytrace_core::definition::secrets::{Destination, StoredSecrets, secrets, unmasked};
use qualitytrace_core::definition::source::Source;
use qualitytrace_core::definition::{self, Format, Kind, Resource, Stored};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::base::redact::Redactor;
use crate::outbound::data_store::{Checked, ConnectionProgress};
use crate::serve::api::App;
use crate::serve::api::answer::plain_json;
use crate::serve::api::run_error::{RunApiError, body};
use crate::serve::api::tenant::Tenant;
use crate::wire::legacy::connection::{Connection, Step};
use crate::wire::time::{NEVER, rfc3339};

/// Tests the connection to a data store. Redaction masks in it stand for the secrets of the stored one.
pub(in crate::serve::api) async fn test(
    State(app): State<App>,
    tenant: Tenant,
    sent: Bytes,
) -> Result<Response, RunApiError> {
    let spec: Value = body(&sent)?;
    for key in ["name", "type"] {
        if spec[key].as_str().is_none_or(str::is_empty) {
            return Err(RunApiError::unprocessable(format!("required field '{key}' is zero value.")));
        }
    }
    let store = read(&json!({ "spec": spec }).to_string())?;
    let stored = app.store.resource(Kind::DataStore, &tenant.scoped("current")).await?;
    let stored = stored.map(|stored| StoredSecrets::of(&stored.spec, Kind::DataStore)).unwrap_or_default();
    let spec = definition::to_spec_json(&store, &Stored::default());
    let destination = Destination::of(&spec.to_string(), Kind::DataStore);
    let text = json!({ "spec": spec }).to_string();
    let text = unmasked(&text, Format::Json, Kind::DataStore, &stored, &destination)
        .map_err(|unknown| RunApiError::bad_request(unknown.to_string()))?;
    let secrets = secrets(&text, Format::Json, Kind::DataStore);
    let redactor = Redactor::of(secrets.iter().map(|secret| secret.value.as_str()));
    let source = source(read(&text)?)?;
    let progress = app.runner.data_stores().check(&source).await;
    Ok(plain_json(StatusCode::OK, &shown(progress, &redactor)))
}

/// Reads a data store in which no error and no unknown field is.
fn read(text: &str) -> Result<Resource, RunApiError> {
    let reading = definition::read_as(text, Format::Json, Kind::DataStore);
    if let Some(error) = reading.diagnostics.iter().find(|found| found.is_error()) {
        return Err(RunApiError::bad_request(error.message.clone()));
    }
    if let Some(unknown) = reading.diagnostics.iter().find(|found| found.code == "unknown-key") {
        let key = text.get(unknown.span.clone()).unwrap_or_default().trim_matches('"');
        return Err(RunApiError::unknown_field(key));
    }
    let first = reading.documents.into_iter().next();
    first.map(|document| document.resource).ok_or_else(not_a_store)
}

fn source(resource: Resource) -> Result<Source, RunApiError> {
    match resource {
        Resource::DataStore(store) => Ok(store.source),
        _ => Err(not_a_store()),
    }
}

fn not_a_store() -> RunApiError {
    RunApiError::bad_request("the body is not a data store")
}

/// Shows the result of a connection test in Tracetest's shape. A store may repeat the credentials that it refuses.
fn shown(progress: ConnectionProgress, redactor: &Redactor) -> Connection {
    let step = |checked| {
        let step = step(checked);
        let [message, error] = [&step.message, &step.error].map(|text| redactor.text(text).into_owned());
        Step { message, error, ..step }
    };
    Connection {
        port_check: step(progress.port),
        connectivity: step(progress.connectivity),
        authentication: step(progress.authentication),
        fetch_traces: step(progress.fetch),
    }
}

fn step(checked: Checked) -> Step {
    match checked {
        Checked::Skipped => Step::default(),
        Checked::Passed(message) => Step { passed: true, status: "passed", message, ..Step::default() },
        Checked::Warned(message) => Step { passed: true, status: "warning", message, ..Step::default() },
        Checked::Failed { message, error } => Step { passed: false, status: "failed", message, error },
    }
}

/// What has arrived over OTLP.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::serve::api) struct Arrivals {
    #[serde(skip_serializing_if = "Option::is_none")]
    span_count: Option<u64>,
    last_span_timestamp: String,
}

/// Returns what has arrived over OTLP since the last reset.
pub(in crate::serve::api) async fn otlp(State(app): State<App>) -> Result<Response, RunApiError> {
    let total = app.ingest.counters().spans_stored.load(std::sync::atomic::Ordering::Relaxed);
    let count = total.saturating_sub(app.otlp_mark.load(std::sync::atomic::Ordering::Relaxed));
    let last = if count > 0 { app.store.last_arrival().await? } else { None };
    let arrivals = Arrivals {
        span_count: (count > 0).then_some(count),
        last_span_timestamp: last.map_or_else(|| NEVER.to_owned(), rfc3339),
    };
    Ok(plain_json(StatusCode::OK, &arrivals))
}

/// Resets the counter.
pub(in crate::serve::api) async fn reset(State(app): State<App>) -> Response {
    let total = app.ingest.counters().spans_stored.load(std::sync::atomic::Ordering::Relaxed);
    app.otlp_mark.store(total, std::sync::atomic::Ordering::Relaxed);
    plain_json(StatusCode::OK, &())
}
