//! The audit log: every change by a client is recorded before the response is sent.

use axum::Json;
use axum::RequestExt as _;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::Method;
use qualitytrace_core::definition::Kind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::App;
use super::error::ApiError;
use super::middleware;
use super::query::Query;
use super::resources::collection;
use crate::base::clock;
use crate::base::request::REQUEST_ID;
use crate::http::client::Client;
use crate::storage::store::Change;
use crate::wire::time::rfc3339;

/// The default page size, and the largest.
const PAGE: u64 = 50;
const LARGEST_PAGE: u64 = 1_000;

/// Marks the response to a change that found everything as it was to become.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unchanged;

/// Middleware that runs a request in the name of its client and records what it changed.
pub(crate) async fn record(State(app): State<App>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let client = Client::of(&parts, &app.config.get().safety.access);
    let mut request = Request::from_parts(parts, body);
    if !middleware::is_change(&request) {
        return client.serve(next.run(request)).await;
    }
    let asked = AuditQuery::of(&mut request).await;
    let response = client.clone().serve(next.run(request)).await;
    if response.status().is_success() && response.extensions().get::<Unchanged>().is_none() {
        let change = asked.change(&client);
        tracing::info!(
            who = change.who,
            address = change.address,
            action = change.action,
            kind = change.kind,
            id = change.id,
            "changed"
        );
        if let Err(error) = app.store.audit(&change).await {
            // The change is done, and its client must know that; the log line above records it.
            tracing::error!(error = &error as &dyn std::error::Error, "failed to write a change down");
        }
    }
    response
}

/// What a request is about, as far as its route tells.
struct AuditQuery {
    method: Method,
    route: String,
    /// The id in the path, with the number of a run.
    id: Option<String>,
    request: String,
}

impl AuditQuery {
    async fn of(request: &mut Request) -> Self {
        let parameters = request.extract_parts::<RawPathParams>().await.ok();
        let of = |name: &str| {
            let found = parameters.iter().flatten().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.to_owned())
        };
        let id = of("id").map(|id| of("number").map_or(id.clone(), |number| format!("{id}/{number}")));
        let route = request.extensions().get::<MatchedPath>();
        let named = request.headers().get(&REQUEST_ID).and_then(|id| id.to_str().ok());
        Self {
            method: request.method().clone(),
            route: route.map(|route| route.as_str().to_owned()).unwrap_or_default(),
            id,
            request: named.unwrap_or_default().to_owned(),
        }
    }

    fn change(self, client: &Client) -> Change {
        let words: Vec<&str> = self.route.split('/').skip_while(|word| *word != "api").skip(1).collect();
        let collected = words.first().copied().unwrap_or_default();
        let kind = Kind::ALL.into_iter().find(|kind| collection(*kind) == collected);
        Change {
            at: clock::now(),
            who: client.token.clone(),
            address: client.address.map(|address| address.to_canonical().to_string()).unwrap_or_default(),
            action: action(&self.method, &words),
            kind: kind.map_or_else(|| collected.to_owned(), |kind| kind.as_str().to_owned()),
            id: client.changed().or(self.id).unwrap_or_default(),
            request: self.request,
        }
    }
}

/// The last word of the route if it is not a parameter, else the word for the method.
fn action(method: &Method, words: &[&str]) -> String {
    let is_word = |word: &&&str| !word.starts_with('{');
    if words.len() > 1
        && let Some(last) = words.last().filter(is_word)
    {
        return (*last).to_owned();
    }
    let what = if words.contains(&"run") { " run" } else { "" };
    let done = match *method {
        Method::POST => "create",
        Method::DELETE => "delete",
        _ => "store",
    };
    format!("{done}{what}")
}

#[derive(Debug, Deserialize)]
pub(super) struct Parameters {
    take: Option<String>,
    before: Option<String>,
}

/// A page of the audit log.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Changes {
    items: Vec<Entry>,
    /// The cursor of the next page, for `before`; null after the last one.
    next: Option<String>,
}

/// An entry of the audit log.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "AuditEntry")]
struct Entry {
    /// When it was made.
    at: String,
    /// The scope of the token and the beginning of its hash; empty without tokens.
    who: String,
    /// The address of the client.
    address: String,
    /// The action.
    action: String,
    /// The kind of what was changed.
    kind: String,
    /// The id of what was changed; for a run, the id of its test and its number.
    id: String,
    /// The id of the request.
    request_id: String,
}

/// Lists changes, newest first.
pub(super) async fn list(
    State(app): State<App>,
    Query(parameters): Query<Parameters>,
) -> Result<Json<Changes>, ApiError> {
    let take = match parameters.take.as_deref() {
        None | Some("") => PAGE,
        Some(text) => text
            .parse()
            .map_err(|_| ApiError::bad_request(format!("`{text}` is no value of `take`; write a number")))?,
    };
    let take = take.clamp(1, LARGEST_PAGE);
    let before = parameters.before.as_deref().map(|before| {
        let (at, entry) = before.split_once('-')?;
        Some((at.parse().ok()?, entry))
    });
    let before = match before {
        None => None,
        Some(Some(before)) => Some(before),
        Some(None) => return Err(ApiError::bad_request("`before` takes the `next` of an earlier page")),
    };
    let changes = app.store.changes(before, take).await?;
    let last = changes.last().filter(|_| changes.len() as u64 == take);
    let next = last.map(|((at, entry), _)| format!("{at}-{entry}"));
    let items = changes.into_iter().map(|(_, change)| Entry {
        at: rfc3339(change.at),
        who: change.who,
        address: change.address,
        action: change.action,
        kind: change.kind,
        id: change.id,
        request_id: change.request,
    });
    Ok(Json(Changes { items: items.collect(), next }))
}
