//! Versions of definitions, in the shape of Tracetest's API.

use std::ops::Not;

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use qualitytrace_core::definition::{self, Kind, Output, Resource, Spec, Stored, Test};
use schemars::JsonSchema;
use serde::Serialize;

use crate::serve::api::App;
use crate::serve::api::answer::plain_json;
use crate::serve::api::memory::Memory;
use crate::serve::api::negotiation::Media;
use crate::serve::api::path::Path;
use crate::serve::api::resources::{FullSteps, augmented_steps, stored_suite, stored_test, summary};
use crate::serve::api::run_error::{RunApiError, number};
use crate::serve::api::tenant::Tenant;
use crate::storage::store::{RunSummary, StoredDefinition, unscoped};
use crate::wire::run;
use crate::wire::time::rfc3339;

/// Returns the specs of the latest version of a test.
pub(in crate::serve::api) async fn specs(
    State(app): State<App>,
    tenant: Tenant,
    Path(id): Path<String>,
) -> Result<Response, RunApiError> {
    let stored = app.store.test(&tenant.scoped(&id), None).await?.ok_or_else(RunApiError::missing)?;
    let specs: Vec<VersionSpec> = stored_test(&stored)?.specs.iter().map(VersionSpec::of).collect();
    Ok(plain_json(StatusCode::OK, &specs))
}

/// Returns a version of a test.
pub(in crate::serve::api) async fn version(
    State(app): State<App>,
    tenant: Tenant,
    Path((id, version)): Path<(String, String)>,
) -> Result<Response, RunApiError> {
    let version = number(&version)?;
    let id = tenant.scoped(&id);
    // Version 0 would mean the latest.
    let stored = if version == 0 { None } else { app.store.test(&id, Some(version)).await? };
    let stored = stored.ok_or_else(RunApiError::missing)?;
    let summaries = app.store.run_summaries(&[&id]).await?;
    let shown =
        TestVersion::of(&stored, &stored_test(&stored)?, summaries.first().copied().unwrap_or_default());
    Ok(plain_json(StatusCode::OK, &shown))
}

/// Returns a version of a suite, by content negotiation.
pub(in crate::serve::api) async fn suite_version(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path((id, version)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, RunApiError> {
    let version = number(&version)?;
    let id = tenant.scoped(&id);
    let stored =
        if version == 0 { None } else { app.store.definition(Kind::TestSuite, &id, Some(version)).await? };
    let stored = stored.ok_or_else(RunApiError::missing)?;
    let suite = stored_suite(&stored)?;
    let steps = augmented_steps(&stored.id, &suite);
    let full = FullSteps::load(&app, &memory, steps.iter()).await?;
    let summaries = app.store.suite_summaries(&[&stored.id]).await?;
    let known = Stored {
        id: Some(unscoped(&stored.id).to_owned()),
        created_at: Some(rfc3339(stored.created)),
        version: u32::try_from(stored.version).ok(),
        full_steps: Some(full.of(&steps)),
        summary: summaries.first().copied().map(summary),
    };
    let resource = Resource::TestSuite(suite);
    Ok(Media::of_answer(&headers).answer(StatusCode::OK, &definition::to_spec_json(&resource, &known)))
}

/// A test without an envelope.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::serve::api) struct TestVersion {
    id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    version: u64,
    created_at: String,
    trigger: run::Trigger,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    specs: Vec<VersionSpec>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<VersionOutput>,
    summary: VersionSummary,
    #[serde(skip_serializing_if = "Not::not")]
    skip_trace_collection: bool,
}

/// A spec with its parsed selector.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::serve::api) struct VersionSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    selector: String,
    selector_parsed: run::Selector,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assertions: Vec<String>,
}

/// An output with its parsed selector.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VersionOutput {
    name: String,
    selector: String,
    selector_parsed: run::Selector,
    value: String,
}

/// A summary of the runs of a test; zeros are left out.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VersionSummary {
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<u64>,
    last_run: VersionLastRun,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VersionLastRun {
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    passes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fails: Option<u64>,
}

impl TestVersion {
    pub(in crate::serve::api) fn of(stored: &StoredDefinition, test: &Test, summary: RunSummary) -> Self {
        let spec = definition::to_spec_json(&Resource::Test(test.clone()), &Stored::default());
        let filled = |number: u64| (number > 0).then_some(number);
        Self {
            id: unscoped(&stored.id).to_owned(),
            name: test.name.clone(),
            description: test.description.clone(),
            version: stored.version,
            created_at: rfc3339(stored.created),
            trigger: run::trigger(spec.get("trigger")),
            specs: test.specs.iter().map(VersionSpec::of).collect(),
            outputs: test.outputs.iter().map(VersionOutput::of).collect(),
            summary: VersionSummary {
                runs: filled(summary.runs),
                last_run: VersionLastRun {
                    time: summary.last.map(rfc3339),
                    passes: filled(summary.passed),
                    fails: filled(summary.failed),
                },
            },
            skip_trace_collection: test.skip_trace_collection,
        }
    }
}

impl VersionSpec {
    fn of(spec: &Spec) -> Self {
        Self {
            name: spec.name.clone(),
            selector: spec.selector.value.clone(),
            selector_parsed: run::selector(&spec.selector.value),
            assertions: spec.assertions.iter().map(|assertion| assertion.value.clone()).collect(),
        }
    }
}

impl VersionOutput {
    fn of(output: &Output) -> Self {
        Self {
            name: output.name.value.clone(),
            selector: output.selector.value.clone(),
            selector_parsed: run::selector(&output.selector.value),
            value: output.value.value.clone(),
        }
    }
}
