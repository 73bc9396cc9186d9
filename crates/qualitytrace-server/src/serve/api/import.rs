//! Definitions made of requests as other tools write them. Nothing is stored.

use axum::Json;
use qualitytrace_core::import::{self, Tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::App;
use super::error::{self, ApiError};
use super::json_body::JsonBody;
use super::memory::Memory;
use crate::base::compute;
use crate::http::access::RequiredAccess;
use crate::http::routes::Routes;
use crate::http::routes::operation::{Body, Content, of, operation};

/// Memory per byte of a text that is imported: its copies in the tree and in the definitions.
const TEXT_FACTOR: u64 = 3;
/// Memory per value in the tree of a text.
const VALUE_BYTES: u64 = 256;

pub(super) fn routes() -> Routes<App> {
    let answers = [(200, Content::Json(of::<ImportedDefinitions>)), error::BAD_REQUEST];
    let described = operation("Definitions made of the requests of another tool; nothing is stored", answers);
    Routes::new().post(
        "/api/import",
        RequiredAccess::Look,
        import,
        described.taking(Body::Json(of::<ImportedText>)).for_all(),
    )
}

/// Requests as another tool writes them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ImportedText {
    /// The tool; without it, the layout of the text decides.
    from: Option<ImportedTool>,
    /// The text: commands, or the content of a file.
    text: String,
}

/// A tool whose requests can be imported.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ImportedTool {
    Curl,
    Har,
    Postman,
    Openapi,
    Hurl,
}

impl From<ImportedTool> for Tool {
    fn from(tool: ImportedTool) -> Self {
        match tool {
            ImportedTool::Curl => Self::Curl,
            ImportedTool::Har => Self::Har,
            ImportedTool::Postman => Self::Postman,
            ImportedTool::Openapi => Self::Openapi,
            ImportedTool::Hurl => Self::Hurl,
        }
    }
}

/// Definitions that are not stored.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ImportedDefinitions {
    /// Tests in the order of the text; its variables are a variable set at the end.
    definitions: Vec<ImportedDefinition>,
    /// What could not be carried over.
    warnings: Vec<String>,
}

/// A definition that is not stored.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ImportedDefinition {
    name: String,
    /// The definition in YAML.
    text: String,
}

/// Makes definitions of a text.
async fn import(
    memory: Memory,
    JsonBody(ImportedText { from, text }): JsonBody<ImportedText>,
) -> Result<Json<ImportedDefinitions>, ApiError> {
    // There is at least one of these for every value. Archives are large, but have few values for their size.
    let values = text.bytes().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{' | b'\n')).count() as u64;
    memory.hold(text.len() as u64 * TEXT_FACTOR + values * VALUE_BYTES).await?;
    compute::give_way().await;
    let found = import::import(from.map(Into::into), &text, &compute::budget())
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let definitions = found.definitions.into_iter();
    let definitions = definitions.map(|found| ImportedDefinition { name: found.name, text: found.text });
    Ok(Json(ImportedDefinitions { definitions: definitions.collect(), warnings: found.warnings }))
}
