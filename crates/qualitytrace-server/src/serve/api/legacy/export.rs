//! Export and import of runs, with their tests.

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use qualitytrace_core::definition::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::versions::TestVersion;
use crate::runner::RunId;
use crate::serve::api::App;
use crate::serve::api::answer::json as json_answer;
use crate::serve::api::memory::Memory;
use crate::serve::api::path::Path;
use crate::serve::api::resources::create_from_json;
use crate::serve::api::resources::stored_test;
use crate::serve::api::run_error::{RunApiError, body, number};
use crate::serve::api::runs::LoadedRun;
use crate::serve::api::tenant::Tenant;
use crate::wire::run::{Run, definition_trigger};

/// Exports a run with the version of its test that was run.
pub(in crate::serve::api) async fn export(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((test_id, run)): Path<(String, String)>,
) -> Result<Response, RunApiError> {
    let found = LoadedRun::load(&app, &memory, &tenant, &test_id, number(&run)?).await?;
    Ok(json_answer(&memory, StatusCode::OK, exported(&app, &found).await?))
}

async fn exported(app: &App, found: &LoadedRun) -> Result<Exported, RunApiError> {
    let stored = app.store.test(&found.stored.test, Some(found.stored.test_version)).await?;
    let stored = stored.ok_or_else(RunApiError::missing)?;
    let summaries = app.store.run_summaries(&[&found.stored.test]).await?;
    let test =
        TestVersion::of(&stored, &stored_test(&stored)?, summaries.first().copied().unwrap_or_default());
    Ok(Exported { test, run: found.shown() })
}

/// A run with its test.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve::api) struct Exported {
    test: TestVersion,
    run: Run,
}

/// The keys that an exported test may have.
const TEST_KEYS: [&str; 10] = [
    "id",
    "name",
    "description",
    "version",
    "createdAt",
    "trigger",
    "specs",
    "outputs",
    "summary",
    "skipTraceCollection",
];

/// An exported run with its test, to be imported.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Imported {
    #[serde(default)]
    test: Map<String, Value>,
    #[serde(default)]
    run: Map<String, Value>,
}

/// Imports a run with its test.
pub(in crate::serve::api) async fn import(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    sent: Bytes,
) -> Result<Response, RunApiError> {
    let Imported { test, run } = body(&sent)?;
    for (name, part) in [("test", &test), ("run", &run)] {
        if part.is_empty() {
            return Err(RunApiError::unprocessable(format!("required field '{name}' is zero value.")));
        }
    }
    if let Some(unknown) = test.keys().find(|key| !TEST_KEYS.contains(&key.as_str())) {
        return Err(RunApiError::unknown_field(unknown));
    }
    let run: Run = body(Value::Object(run).to_string().as_bytes())?;
    let text = definition(&Value::Object(test)).to_string();
    let stored = create_from_json(&app, &tenant, Kind::Test, &text).await;
    let stored = stored.map_err(|problem| RunApiError::unprocessable(problem.message))?;
    let id = stored["spec"]["id"].as_str().unwrap_or_default().to_owned();
    let latest = app.store.test(&tenant.scoped(&id), None).await?.ok_or_else(RunApiError::missing)?;
    let RunId { number, .. } = app.runner.import(&latest, run).await?;
    let found = LoadedRun::load(&app, &memory, &tenant, &id, number).await?;
    Ok(json_answer(&memory, StatusCode::OK, exported(&app, &found).await?))
}

/// Converts an exported test to a definition.
fn definition(test: &Value) -> Value {
    let pick = |item: &Value, keys: &[&str]| -> Value {
        keys.iter()
            .filter_map(|key| Some(((*key).to_owned(), item.get(key)?.clone())))
            .collect::<Map<_, _>>()
            .into()
    };
    let list = |key: &str, keys: &[&str]| -> Value {
        test[key].as_array().into_iter().flatten().map(|item| pick(item, keys)).collect()
    };
    let mut spec = pick(test, &["id", "name", "description", "skipTraceCollection"]);
    spec["trigger"] = definition_trigger(&test["trigger"]);
    spec["specs"] = list("specs", &["name", "selector", "assertions"]);
    spec["outputs"] = list("outputs", &["name", "selector", "value"]);
    json!({ "type": "Test", "spec": spec })
}
