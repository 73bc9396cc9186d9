//! Definitions in versions: as clients of the older half of the API read them, and as users wrote them.

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use qualitytrace_core::definition::{self, Format, Kind, Resource, Spec, Stored, Test, TestSuite};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::App;
use super::answer::plain_json;
use super::negotiation::Media;
use super::refusal::{Refusal, number};
use super::resources::{FullSteps, augmented_steps, summary_json};
use super::tenant::{Tenant, unscoped};
use crate::store::{RunSummary, StoredDefinition};
use crate::wire::run;
use crate::wire::time::{NEVER, rfc3339};

/// The specs of the latest version of a test.
pub(super) async fn specs(
    State(app): State<App>,
    tenant: Tenant,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let stored = app.store.test(&tenant.scoped(&id), None).await?.ok_or_else(Refusal::missing)?;
    let specs: Vec<Value> = test(&stored)?.specs.iter().map(spec_json).collect();
    Ok(plain_json(StatusCode::OK, &specs.into()))
}

/// A version of a test.
pub(super) async fn version(
    State(app): State<App>,
    tenant: Tenant,
    Path((id, version)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let version = number(&version)?;
    let id = tenant.scoped(&id);
    // Version 0 would mean the latest.
    let stored = if version == 0 { None } else { app.store.test(&id, Some(version)).await? };
    let stored = stored.ok_or_else(Refusal::missing)?;
    let summaries = app.store.run_summaries(&[&id]).await?;
    let shown = test_json(&stored, &test(&stored)?, summaries.first().copied().unwrap_or_default());
    Ok(plain_json(StatusCode::OK, &shown))
}

/// A version of a suite, in the form that the client asks for.
pub(super) async fn suite_version(
    State(app): State<App>,
    tenant: Tenant,
    Path((id, version)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let version = number(&version)?;
    let id = tenant.scoped(&id);
    let stored =
        if version == 0 { None } else { app.store.definition(Kind::TestSuite, &id, Some(version)).await? };
    let stored = stored.ok_or_else(Refusal::missing)?;
    let suite = suite(&stored)?;
    let steps = augmented_steps(&stored.id, &suite);
    let full = FullSteps::load(&app, steps.iter()).await?;
    let summaries = app.store.suite_summaries(&[&stored.id]).await?;
    let known = Stored {
        id: Some(unscoped(&stored.id).to_owned()),
        created_at: Some(rfc3339(stored.created)),
        version: u32::try_from(stored.version).ok(),
        full_steps: Some(full.of(&steps)),
        summary: summaries.first().copied().map(summary_json),
    };
    let resource = Resource::TestSuite(suite);
    Ok(Media::of_answer(&headers).answer(StatusCode::OK, &definition::to_spec_json(&resource, &known)))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Version {
    version: String,
}

/// A definition as its user wrote it, comments included; the latest version unless another is named.
pub(super) async fn source(
    kind: Kind,
    State(app): State<App>,
    tenant: Tenant,
    Path(id): Path<String>,
    Query(asked): Query<Version>,
) -> Result<Response, Refusal> {
    let version = number(&asked.version)?;
    let id = if kind.is_singleton() { "current" } else { &id };
    let stored = app.store.definition(kind, &tenant.scoped(id), (version > 0).then_some(version)).await?;
    let stored = stored.ok_or_else(Refusal::missing)?;
    let (format, content_type) = match stored.format.as_str() {
        "json" => (Format::Json, "application/json"),
        _ => (Format::Yaml, "text/yaml"),
    };
    let shown = definition::secrets::masked_throughout(&stored.definition, format, kind).into_owned();
    Ok(([(CONTENT_TYPE, content_type)], shown).into_response())
}

/// The test in a stored definition.
pub(super) fn test(stored: &StoredDefinition) -> Result<Test, Refusal> {
    read(Kind::Test, stored)?.into_test().ok_or_else(Refusal::missing)
}

/// The suite in a stored definition.
pub(super) fn suite(stored: &StoredDefinition) -> Result<TestSuite, Refusal> {
    match read(Kind::TestSuite, stored)? {
        Resource::TestSuite(suite) => Ok(suite),
        _ => Err(Refusal::missing()),
    }
}

fn read(kind: Kind, stored: &StoredDefinition) -> Result<Resource, Refusal> {
    let format = if stored.format == "json" { Format::Json } else { Format::Yaml };
    let reading = definition::read_as(&stored.definition, format, kind);
    reading.documents.into_iter().next().map(|document| document.resource).ok_or_else(|| {
        tracing::error!(id = stored.id, "a stored definition cannot be read");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the stored definition cannot be read")
    })
}

/// A test without an envelope.
pub(super) fn test_json(stored: &StoredDefinition, test: &Test, summary: RunSummary) -> Value {
    let spec = definition::to_spec_json(&Resource::Test(test.clone()), &Stored::default());
    let mut out = Map::new();
    out.insert("id".to_owned(), unscoped(&stored.id).into());
    for key in ["name", "description"] {
        if let Some(text) = spec.get(key) {
            out.insert(key.to_owned(), text.clone());
        }
    }
    out.insert("version".to_owned(), stored.version.into());
    out.insert("createdAt".to_owned(), rfc3339(stored.created).into());
    out.insert("trigger".to_owned(), run::trigger(spec.get("trigger")));
    let specs: Vec<Value> = test.specs.iter().map(spec_json).collect();
    if !specs.is_empty() {
        out.insert("specs".to_owned(), specs.into());
    }
    let outputs: Vec<Value> = test
        .outputs
        .iter()
        .map(|output| {
            json!({
                "name": output.name.value,
                "selector": output.selector.value,
                "selectorParsed": run::selector(&output.selector.value),
                "value": output.value.value,
            })
        })
        .collect();
    if !outputs.is_empty() {
        out.insert("outputs".to_owned(), outputs.into());
    }
    let mut shown = summary_json(summary);
    drop_zeros(&mut shown);
    out.insert("summary".to_owned(), shown);
    if test.skip_trace_collection {
        out.insert("skipTraceCollection".to_owned(), true.into());
    }
    out.into()
}

fn spec_json(spec: &Spec) -> Value {
    let mut out = Map::new();
    if let Some(name) = &spec.name {
        out.insert("name".to_owned(), name.clone().into());
    }
    if !spec.selector.value.is_empty() {
        out.insert("selector".to_owned(), spec.selector.value.clone().into());
    }
    out.insert("selectorParsed".to_owned(), run::selector(&spec.selector.value));
    let assertions: Vec<&str> = spec.assertions.iter().map(|assertion| assertion.value.as_str()).collect();
    if !assertions.is_empty() {
        out.insert("assertions".to_owned(), assertions.into());
    }
    out.into()
}

/// Leaves out numbers that are zero and times that have not come.
fn drop_zeros(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| *value != 0 && *value != NEVER);
        map.values_mut().for_each(drop_zeros);
    }
}
