//! Tests.

use axum::Json;
use axum::extract::State;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use qualitytrace_core::definition::{self, Format, Kind, Resource};
use qualitytrace_core::lang::Severity;
use serde_json::{Value, json};

use super::App;
use super::answer::Problem;
use crate::clock;
use crate::store::NewTest;

/// Stores a test, as a new one or as a new version.
pub(super) async fn put(
    State(app): State<App>,
    headers: HeaderMap,
    body: String,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let (format, word) = format(&headers);
    let reading = definition::read_as(&body, format, Kind::Test);
    if let Some(wrong) = reading
        .diagnostics
        .iter()
        .find(|found| found.severity == Severity::Error)
    {
        return Err(Problem::bad_request(format!(
            "cannot parse body: {}",
            wrong.message
        )));
    }
    let Some(document) = reading.documents.into_iter().next() else {
        return Err(Problem::bad_request("cannot parse body: request body is empty"));
    };
    let Resource::Test(test) = document.resource else {
        return Err(Problem::bad_request("cannot parse body: it is not a test"));
    };
    let id = test.id.unwrap_or_else(generated_id);
    let new = NewTest {
        id: &id,
        name: &test.name,
        format: word,
        definition: &body,
    };
    let (stored, created) = app.store.put_test(new, clock::now()).await?;
    let status = if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((
        status,
        Json(
            json!({ "type": "Test", "spec": { "id": stored.id, "name": stored.name, "version": stored.version } }),
        ),
    ))
}

fn format(headers: &HeaderMap) -> (Format, &'static str) {
    let sent = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if sent.contains("yaml") {
        (Format::Yaml, "yaml")
    } else {
        (Format::Json, "json")
    }
}

/// Nine characters that need no escaping anywhere.
fn generated_id() -> String {
    const LETTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-";
    rand::random::<[u8; 9]>()
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 64)]))
        .collect()
}
