//! Edits of the text of a test, as its user wrote it. Nothing is stored.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use qualitytrace_core::definition::{self, EditError, Kind, Output, Spec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::compute;
use crate::serve::api::App;
use crate::serve::api::error::ApiError;
use crate::serve::api::json_body::JsonBody;
use crate::serve::api::memory::Memory;
use crate::serve::api::path::Path;
use crate::serve::api::precondition::conflict;
use crate::serve::api::tenant::Tenant;
use crate::storage::store::Expected;

/// Memory per byte of a text that is edited: its tree and its meaning, before and after.
const TREE_FACTOR: u64 = 16;

/// Changes of the text of a test.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve::api) struct SourceEdit {
    /// The version of the test that the changes are about.
    version: u64,
    /// The changes, applied one after the other.
    #[schemars(length(max = 100))]
    changes: Vec<SourceChange>,
}

/// A change. Items are counted from 0; without `at`, an item is added at the end.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
enum SourceChange {
    /// Gives the test another name.
    Rename { name: String },
    /// Adds a spec, which gets the index `at`.
    AddSpec { at: Option<usize>, spec: NewSpec },
    /// Replaces a spec; parts that are the same stay as they are written, and so does its `within`.
    ChangeSpec { at: usize, spec: NewSpec },
    /// Removes a spec with the comments directly above it.
    RemoveSpec { at: usize },
    /// Moves a spec to the index `to`.
    MoveSpec { at: usize, to: usize },
    /// Adds an assertion to the spec with this index.
    AddAssertion { spec: usize, at: Option<usize>, assertion: String },
    /// Replaces an assertion.
    ChangeAssertion { spec: usize, at: usize, assertion: String },
    /// Removes an assertion.
    RemoveAssertion { spec: usize, at: usize },
    /// Adds an output, which gets the index `at`.
    AddOutput { at: Option<usize>, output: NewOutput },
    /// Replaces an output; parts that are the same stay as they are written.
    ChangeOutput { at: usize, output: NewOutput },
    /// Removes an output with the comments directly above it.
    RemoveOutput { at: usize },
    /// Moves an output to the index `to`.
    MoveOutput { at: usize, to: usize },
}

/// A spec of a test.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct NewSpec {
    name: Option<String>,
    selector: String,
    assertions: Vec<String>,
}

/// An output of a test.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewOutput {
    name: String,
    selector: String,
    value: String,
}

/// An edited text, which is not stored.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::serve::api) struct EditedSource {
    /// The version that was edited, for `If-Match`.
    version: u64,
    /// The new text.
    text: String,
    /// The unified diff from the old text to the new one; empty if they are the same.
    diff: String,
}

impl From<SourceChange> for definition::Change {
    fn from(change: SourceChange) -> Self {
        match change {
            SourceChange::Rename { name } => Self::Rename { name },
            SourceChange::AddSpec { at, spec } => Self::AddSpec { at, spec: spec.into() },
            SourceChange::ChangeSpec { at, spec } => Self::ChangeSpec { at, spec: spec.into() },
            SourceChange::RemoveSpec { at } => Self::RemoveSpec { at },
            SourceChange::MoveSpec { at, to } => Self::MoveSpec { at, to },
            SourceChange::AddAssertion { spec, at, assertion } => Self::AddAssertion { spec, at, assertion },
            SourceChange::ChangeAssertion { spec, at, assertion } => {
                Self::ChangeAssertion { spec, at, assertion }
            }
            SourceChange::RemoveAssertion { spec, at } => Self::RemoveAssertion { spec, at },
            SourceChange::AddOutput { at, output } => Self::AddOutput { at, output: output.into() },
            SourceChange::ChangeOutput { at, output } => Self::ChangeOutput { at, output: output.into() },
            SourceChange::RemoveOutput { at } => Self::RemoveOutput { at },
            SourceChange::MoveOutput { at, to } => Self::MoveOutput { at, to },
        }
    }
}

impl From<NewSpec> for Spec {
    fn from(spec: NewSpec) -> Self {
        Self {
            name: spec.name,
            selector: spec.selector.into(),
            within: None,
            assertions: spec.assertions.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<NewOutput> for Output {
    fn from(output: NewOutput) -> Self {
        Self { name: output.name.into(), selector: output.selector.into(), value: output.value.into() }
    }
}

/// Returns the text of a test after some changes, with comments and layout kept, and how it differs.
pub(in crate::serve::api) async fn edit(
    State(app): State<App>,
    memory: Memory,
    tenant: Tenant,
    Path(id): Path<String>,
    JsonBody(SourceEdit { version, changes }): JsonBody<SourceEdit>,
) -> Result<Json<EditedSource>, ApiError> {
    let stored = app.store.definition(Kind::Test, &tenant.scoped(&id), None).await?;
    let stored = stored.ok_or_else(|| ApiError::not_found(format!("there is no test `{id}`")))?;
    if stored.version != version {
        return Err(conflict(Kind::Test, &id, stored.version, &Expected::OneOf(vec![version])));
    }
    let format = stored.format();
    let shown = definition::secrets::masked_throughout(&stored.definition, format, Kind::Test);
    memory.hold(shown.len() as u64 * TREE_FACTOR).await?;
    let changes: Vec<definition::Change> = changes.into_iter().map(Into::into).collect();
    compute::give_way().await;
    let text = definition::edit(&shown, format, 0, &changes, &compute::budget());
    let text = text.map_err(|error| refused(&error))?;
    let diff = definition::unified_diff(&shown, &text);
    Ok(Json(EditedSource { version, text, diff }))
}

fn refused(error: &EditError) -> ApiError {
    let status = match error {
        EditError::NoItem { .. }
        | EditError::Invalid { .. }
        | EditError::TooMany { .. }
        | EditError::Exceeded(_) => StatusCode::BAD_REQUEST,
        EditError::Layout { .. } | EditError::Unreadable { .. } | EditError::NoTest { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
    };
    ApiError { status, message: error.to_string() }
}
