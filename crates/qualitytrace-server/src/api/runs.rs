//! Runs: starting them, looking at them, following them.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::Sse;
use axum::response::sse::{self, KeepAlive};
use futures_util::Stream;
use http::HeaderMap;
use qualitytrace_core::run;
use serde::Deserialize;
use serde_json::{Value, json};

use super::App;
use super::answer::Problem;
use crate::runner::RunId;
use crate::store::{StoredEvent, StoredRun};

/// How often a silent stream says that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What a client may say about a run.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RunInformation {
    #[serde(default)]
    variables: Vec<Variable>,
}

#[derive(Debug, Deserialize)]
struct Variable {
    key: String,
    #[serde(default)]
    value: String,
}

/// Starts a run of the latest version of a test.
pub(super) async fn start(
    State(app): State<App>,
    Path(id): Path<String>,
    body: String,
) -> Result<Json<Value>, Problem> {
    let information: RunInformation =
        serde_json::from_str(&body).map_err(|error| Problem::bad_request(error.to_string()))?;
    let test = app
        .store
        .test(&id, None)
        .await?
        .ok_or_else(|| Problem::not_found(format!("there is no test `{id}`")))?;
    let variables =
        information.variables.into_iter().map(|variable| (variable.key, variable.value)).collect();
    let run = app.runner.start(&test, variables).await?;
    let stored = find(&app, &run).await?;
    Ok(Json(shown(&stored)))
}

/// A run as it stands.
pub(super) async fn get(
    State(app): State<App>,
    Path((test, number)): Path<(String, u64)>,
) -> Result<Json<Value>, Problem> {
    let stored = find(&app, &RunId { test, number }).await?;
    Ok(Json(shown(&stored)))
}

#[derive(Debug, Deserialize)]
pub(super) struct After {
    #[serde(default)]
    after: u64,
}

/// The events of a run as they happen, until it is over. Resumes after `Last-Event-ID` or `?after=`.
pub(super) async fn stream(
    State(app): State<App>,
    Path((test, number)): Path<(String, u64)>,
    Query(After { after }): Query<After>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Problem> {
    let run = RunId { test, number };
    find(&app, &run).await?;
    let last_seen = headers.get("last-event-id").and_then(|value| value.to_str().ok()?.parse().ok());
    let changes = app.runner.follow(run.clone());
    let cursor = Cursor { app, run, changes, seen: last_seen.unwrap_or(after), is_over: false };
    let batches = futures_util::stream::unfold(cursor, Cursor::next);
    let events = futures_util::StreamExt::flat_map(batches, futures_util::stream::iter);
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// Where a follower of a run stands.
struct Cursor {
    app: App,
    run: RunId,
    changes: tokio::sync::watch::Receiver<u64>,
    seen: u64,
    is_over: bool,
}

impl Cursor {
    /// The events since the last look; waits for some. `None` after the last event of a run that is over.
    async fn next(mut self) -> Option<(Vec<Result<sse::Event, Infallible>>, Self)> {
        loop {
            if self.is_over {
                return None;
            }
            self.changes.mark_unchanged();
            // The state is read first: when it is final, the events read after it are all there are.
            let stored = self.app.store.run(&self.run.test, self.run.number).await.ok()??;
            let events = self.app.store.events(&self.run.test, self.run.number, self.seen).await.ok()?;
            self.is_over = run::State::named(&stored.state).is_none_or(run::State::is_final);
            if let Some(last) = events.last() {
                self.seen = last.seq;
                return Some((events.iter().map(|event| Ok(sse_event(event))).collect(), self));
            }
            if !self.is_over {
                // The runner outlives every request.
                let _ = self.changes.changed().await;
            }
        }
    }
}

fn sse_event(event: &StoredEvent) -> sse::Event {
    let mut body: Value = serde_json::from_str(&event.body).unwrap_or_default();
    body["seq"] = event.seq.into();
    body["at"] = event.at.as_nanos().into();
    sse::Event::default().id(event.seq.to_string()).data(body.to_string())
}

async fn find(app: &App, run: &RunId) -> Result<StoredRun, Problem> {
    app.store
        .run(&run.test, run.number)
        .await?
        .ok_or_else(|| Problem::not_found(format!("test `{}` has no run {}", run.test, run.number)))
}

fn shown(run: &StoredRun) -> Value {
    json!({
        "id": run.number,
        "testId": run.test,
        "traceId": run.trace.to_string(),
        "testVersion": run.test_version,
        "state": run.state,
    })
}
