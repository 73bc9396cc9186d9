//! Parsing and validation of request bodies with resources.

use http::StatusCode;
use qualitytrace_config::Position;
use qualitytrace_core::definition::{self, Format, Kind, Resource, Test, TestSuite};
use qualitytrace_core::lang::Diagnostic;
use serde::Deserialize;
use serde_json::Value;

use crate::serve::api::error::ApiError;
use crate::serve::api::negotiation::{Form, Media};
use crate::serve::api::run_error::RunApiError;
use crate::storage::store::{StoredDefinition, StoredResource};

/// Diagnostics about syntax; all others are about content.
const SYNTAX: [&str; 9] = [
    "json-syntax",
    "yaml-syntax",
    "yaml-merge",
    "yaml-key",
    "yaml-alias",
    "wrong-type",
    "too-large",
    "too-deep",
    "no-spec",
];

/// Diagnostics whose text clients compare as a whole, so no position is added.
const KNOWN_TEXTS: [&str; 5] =
    ["unknown-source", "unknown-plugin", "unknown-rule", "wrong-rules", "wrong-duration"];

/// Whether warnings count as errors: `?strict=true`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct Strictness {
    #[serde(default)]
    strict: bool,
}

/// A parsed body.
#[derive(Debug)]
pub(super) struct Body<'a> {
    /// The text as the user wrote it.
    pub(super) text: &'a str,
    /// Its format.
    pub(super) format: Format,
    /// The parsed resource.
    pub(super) resource: Resource,
    /// The `spec` as it was sent, for suites and singletons only.
    pub(super) spec: Value,
    /// Its own id, the one in the path, or a generated one.
    pub(super) id: String,
    /// Whether the user named an id.
    pub(super) has_id: bool,
    /// Warnings with their positions.
    pub(super) warnings: Vec<String>,
}

impl<'a> Body<'a> {
    /// Parses and checks a body.
    pub(super) fn read(
        kind: Kind,
        media: Media,
        body: &'a [u8],
        in_path: Option<&str>,
        strictness: Strictness,
    ) -> Result<Self, ApiError> {
        let text = std::str::from_utf8(body)
            .map_err(|_| ApiError::bad_request("cannot parse body: it is not UTF-8 text"))?;
        if text.trim().is_empty() {
            return Err(ApiError::bad_request("cannot parse body: request body is empty"));
        }
        if media.form == Form::YamlStream {
            return Err(ApiError::bad_request(
                "cannot parse body: a stream cannot be sent; send one document as text/yaml",
            ));
        }
        let mut reading = definition::read_as(text, media.format(), kind);
        let document = reading.documents.pop();
        let spec = if kind.is_singleton() || kind == Kind::TestSuite {
            spec(text, media.format())
        } else {
            Value::Null
        };
        let own_id = document.as_ref().and_then(|document| own_id(&spec, &document.resource));
        if let (Some(own), Some(in_path)) = (&own_id, in_path)
            && own != in_path
        {
            let message =
                format!("ID '{own}' defined in resource spec does not match ID '{in_path}' from URL");
            return Err(ApiError::bad_request(message));
        }
        let has_id = own_id.is_some() || in_path.is_some();
        let id = own_id.or_else(|| in_path.map(ToOwned::to_owned)).unwrap_or_else(generated_id);
        let shown_id = if kind.is_singleton() { super::CURRENT } else { &id };
        let mut diagnostics = reading.diagnostics;
        if let Some(document) = &document {
            diagnostics.extend(definition::check(&document.resource));
        }
        let is_wrong = |found: &&Diagnostic| found.is_error() || strictness.strict;
        if let Some(wrong) = diagnostics.iter().find(is_wrong) {
            return Err(refusal(wrong, text, shown_id));
        }
        let document = document
            .filter(|_| reading.documents.is_empty())
            .ok_or_else(|| ApiError::bad_request("cannot parse body: it must hold exactly one definition"))?;
        Ok(Self {
            text,
            format: media.format(),
            resource: document.resource,
            spec,
            id,
            has_id,
            warnings: diagnostics.iter().map(|found| placed(found, text)).collect(),
        })
    }
}

/// The `spec` of a text; null when the text cannot be parsed.
fn spec(text: &str, format: Format) -> Value {
    let value: Option<Value> = match format {
        Format::Json => serde_json::from_str(text).ok(),
        Format::Yaml => serde_saphyr::from_str(text).ok(),
    };
    value.and_then(|mut value| Some(value.get_mut("spec")?.take())).unwrap_or_default()
}

/// The id in the text, even for singletons.
fn own_id(spec: &Value, resource: &Resource) -> Option<String> {
    let id = if resource.kind().is_singleton() { spec.get("id")?.as_str() } else { resource.id() };
    id.filter(|id| !id.is_empty()).map(ToOwned::to_owned)
}

fn refusal(wrong: &Diagnostic, text: &str, id: &str) -> ApiError {
    let message = if SYNTAX.contains(&wrong.code) {
        format!("cannot parse body: {}", placed(wrong, text))
    } else {
        // Clients expect these texts; the position follows in parentheses.
        let Position { line, column } = Position::of(text, wrong.span.start);
        let place =
            if wrong.span.is_empty() || wrong.code.starts_with("no-") || KNOWN_TEXTS.contains(&wrong.code) {
                String::new()
            } else {
                format!(" (line {line}, column {column})")
            };
        let help = wrong
            .help
            .as_ref()
            .filter(|_| !place.is_empty())
            .map(|help| format!("; {help}"))
            .unwrap_or_default();
        format!(
            "an error occurred while validating the resource: {id}. error: {}{place}{help}",
            wrong.message
        )
    };
    ApiError::bad_request(message)
}

/// A diagnostic in one line with its position.
pub(in crate::serve::api) fn placed(found: &Diagnostic, text: &str) -> String {
    let Position { line, column } = Position::of(text, found.span.start);
    let help = found.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    format!("line {line}, column {column}: {}{help}", found.message)
}

/// Parses a stored resource.
pub(in crate::serve::api) fn stored_resource(
    kind: Kind,
    stored: &StoredResource,
) -> Result<Resource, ApiError> {
    let text = format!("{{\"spec\":{}}}", stored.spec);
    definition::read_stored(&text, Format::Json, kind).ok_or_else(|| {
        tracing::error!(kind = kind.as_str(), id = stored.id, "a stored definition cannot be read");
        ApiError {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            message: format!("the stored {} cannot be read", kind.as_str()),
        }
    })
}

/// Nine characters that need no escaping, nor quotes in YAML: the first one is a letter.
fn generated_id() -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    let letter =
        |(at, byte): (usize, u8)| char::from(LETTERS[usize::from(byte) % if at == 0 { 52 } else { 64 }]);
    rand::random::<[u8; 9]>().into_iter().enumerate().map(letter).collect()
}

/// Parses the test in a stored definition.
pub(in crate::serve::api) fn stored_test(stored: &StoredDefinition) -> Result<Test, RunApiError> {
    stored_version(Kind::Test, stored)?.into_test().ok_or_else(RunApiError::missing)
}

/// Parses the suite in a stored definition.
pub(in crate::serve::api) fn stored_suite(stored: &StoredDefinition) -> Result<TestSuite, RunApiError> {
    match stored_version(Kind::TestSuite, stored)? {
        Resource::TestSuite(suite) => Ok(suite),
        _ => Err(RunApiError::missing()),
    }
}

fn stored_version(kind: Kind, stored: &StoredDefinition) -> Result<Resource, RunApiError> {
    definition::read_stored(&stored.definition, stored.format(), kind).ok_or_else(|| {
        tracing::error!(id = stored.id, "a stored definition cannot be read");
        RunApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the stored definition cannot be read")
    })
}
