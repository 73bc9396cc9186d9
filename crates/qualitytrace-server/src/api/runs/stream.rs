//! The events of a run as they happen.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::response::Sse;
use axum::response::sse::{self, KeepAlive};
use futures_util::Stream;
use http::HeaderMap;
use qualitytrace_core::run;
use serde::Deserialize;
use serde_json::Value;

use super::last_seen;
use crate::api::App;
use crate::api::refusal::{Refusal, number};
use crate::api::tenant::Tenant;
use crate::runner::RunId;
use crate::store::StoredEvent;

/// How often a silent stream says that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
pub(in crate::api) struct After {
    #[serde(default)]
    after: u64,
}

/// The events of a run until it is over. Resumes after `Last-Event-ID` or `?after=`.
pub(in crate::api) async fn stream(
    State(app): State<App>,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    Query(After { after }): Query<After>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Refusal> {
    let run = RunId { test: tenant.scoped(&test), number: number(&run)? };
    app.store.run(&run.test, run.number).await?.ok_or_else(Refusal::missing)?;
    let changes = app.runner.follow(run.clone());
    let cursor = Cursor { app, run, changes, seen: last_seen(&headers).unwrap_or(after), is_over: false };
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
