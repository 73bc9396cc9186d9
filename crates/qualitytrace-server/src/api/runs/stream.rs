//! The events of a run as they happen.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{self, KeepAlive};
use futures_util::Stream;
use http::HeaderMap;
use qualitytrace_core::run;
use qualitytrace_core::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::last_seen;
use crate::api::App;
use crate::api::memory::Memory;
use crate::api::path::Path;
use crate::api::query::Query;
use crate::api::refusal::{Refusal, number};
use crate::api::tenant::Tenant;
use crate::follow::Following;
use crate::runner::{RunId, SuiteRunId, SuiteState};
use crate::store::{self, StoredEvent};

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
    follow(app, Followed::Run(run), last_seen(&headers).unwrap_or(after)).await
}

/// The same for a run of a suite.
pub(in crate::api) async fn stream_of_suite(
    State(app): State<App>,
    tenant: Tenant,
    Path((suite, run)): Path<(String, String)>,
    Query(After { after }): Query<After>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Refusal> {
    let run = SuiteRunId { suite: tenant.scoped(&suite), number: number(&run)? };
    follow(app, Followed::Suite(run), last_seen(&headers).unwrap_or(after)).await
}

async fn follow(
    app: App,
    followed: Followed,
    seen: u64,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Refusal> {
    let (_, created) = followed.standing(&app).await?.ok_or_else(Refusal::missing)?;
    let mut changes = match &followed {
        Followed::Run(run) => app.runner.follow(run.clone()),
        Followed::Suite(run) => app.runner.follow_suite(run.clone()),
    };
    // What happened before is news to this follower.
    changes.mark_changed();
    let cursor = Cursor { memory: app.memory.begin(), app, followed, created, changes, seen, is_over: false };
    let batches = futures_util::stream::unfold(cursor, Cursor::next);
    let events = futures_util::StreamExt::flat_map(batches, futures_util::stream::iter);
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// What has events.
enum Followed {
    Run(RunId),
    Suite(SuiteRunId),
}

impl Followed {
    /// Whether nothing happens any more, and when it was created; `None` when it is not there.
    async fn standing(&self, app: &App) -> Result<Option<(bool, Timestamp)>, store::Error> {
        Ok(match self {
            Self::Run(run) => {
                let stored = app.store.run(&run.test, run.number).await?;
                let is_over = |state: &str| run::State::named(state).is_none_or(run::State::is_final);
                stored.map(|run| (is_over(&run.state), run.created))
            }
            Self::Suite(run) => {
                let stored = app.store.suite_run(&run.suite, run.number).await?;
                stored.map(|run| (SuiteState::is_final(&run.state), run.created))
            }
        })
    }

    async fn size(&self, app: &App, after: u64) -> Result<u64, store::Error> {
        match self {
            Self::Run(run) => app.store.run_size(&run.test, run.number, after).await,
            Self::Suite(run) => app.store.suite_run_size(&run.suite, run.number, after).await,
        }
    }

    async fn events(&self, app: &App, after: u64) -> Result<Vec<StoredEvent>, store::Error> {
        match self {
            Self::Run(run) => app.store.events(&run.test, run.number, after).await,
            Self::Suite(run) => app.store.suite_events(&run.suite, run.number, after).await,
        }
    }
}

/// Where a follower of a run stands.
struct Cursor {
    app: App,
    memory: Memory,
    followed: Followed,
    /// Another run may have its number once it is gone.
    created: Timestamp,
    changes: Following,
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
            let _ = tokio::time::timeout(self.app.runner.safety_poll(), self.changes.changed()).await;
            // The state is read first: when it is final, the events read after it are all there are.
            let (is_over, created) = self.followed.standing(&self.app).await.ok()??;
            if created != self.created {
                return None;
            }
            self.is_over = is_over;
            // What was read before is sent: the client asks for more.
            self.memory.release();
            let bytes = self.followed.size(&self.app, self.seen).await.ok()?;
            self.memory.hold_texts(bytes).await.ok()?;
            let events = self.followed.events(&self.app, self.seen).await.ok()?;
            if let Some(last) = events.last() {
                self.seen = last.seq;
                return Some((events.iter().map(|event| Ok(sse_event(event))).collect(), self));
            }
        }
    }
}

fn sse_event(event: &StoredEvent) -> sse::Event {
    sse::Event::default().id(event.seq.to_string()).data(event_json(event).to_string())
}

/// An event as it was stored, with its number and its time.
fn event_json(event: &StoredEvent) -> Value {
    let mut body: Value = serde_json::from_str(&event.body).unwrap_or_default();
    body["seq"] = event.seq.into();
    body["at"] = event.at.as_nanos().into();
    body
}
