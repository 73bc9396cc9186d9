//! Event streams of runs (server-sent events).

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
use crate::api::legacy_error::{LegacyApiError, number};
use crate::api::memory::Memory;
use crate::api::path::Path;
use crate::api::query::Query;
use crate::api::tenant::Tenant;
use crate::follow::Following;
use crate::runner::{RunId, SuiteRunId, SuiteState};
use crate::store::{self, StoredEvent, Unread};
use crate::wire::event::{Event, RunEventKind};
use crate::wire::short;

/// The keep-alive interval of a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
pub(in crate::api) struct After {
    #[serde(default)]
    after: u64,
    /// Whether verdicts and analyses are sent as counts with the first failures.
    #[serde(default)]
    short: bool,
}

/// Streams the events of a run until it has ended. Resumes after `Last-Event-ID` or `?after=`.
pub(in crate::api) async fn stream(
    State(app): State<App>,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    Query(After { after, short }): Query<After>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, LegacyApiError> {
    let run = RunId { test: tenant.scoped(&test), number: number(&run)? };
    follow(app, Followed::Run(run), last_seen(&headers).unwrap_or(after), short).await
}

/// Streams the events of a suite run.
pub(in crate::api) async fn stream_of_suite(
    State(app): State<App>,
    tenant: Tenant,
    Path((suite, run)): Path<(String, String)>,
    Query(After { after, short }): Query<After>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, LegacyApiError> {
    let run = SuiteRunId { suite: tenant.scoped(&suite), number: number(&run)? };
    follow(app, Followed::Suite(run), last_seen(&headers).unwrap_or(after), short).await
}

async fn follow(
    app: App,
    followed: Followed,
    seen: u64,
    short: bool,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, LegacyApiError> {
    let created = followed.unread(&app, seen).await?.ok_or_else(LegacyApiError::missing)?.created;
    let mut changes = match &followed {
        Followed::Run(run) => app.runner.follow(run.clone()),
        Followed::Suite(run) => app.runner.follow_suite(run.clone()),
    };
    // Earlier events are new to this follower.
    changes.mark_changed();
    let cursor =
        Cursor { memory: app.memory.begin(), app, followed, created, changes, seen, short, is_over: false };
    let batches = futures_util::stream::unfold(cursor, Cursor::next);
    let events = futures_util::StreamExt::flat_map(batches, futures_util::stream::iter);
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// A run or a suite run.
enum Followed {
    Run(RunId),
    Suite(SuiteRunId),
}

impl Followed {
    /// Its state, and the size of its events after `after`; `None` when it does not exist.
    async fn unread(&self, app: &App, after: u64) -> Result<Option<Unread>, store::Error> {
        match self {
            Self::Run(run) => app.store.unread(&run.test, run.number, after).await,
            Self::Suite(run) => app.store.suite_unread(&run.suite, run.number, after).await,
        }
    }

    /// Whether this is a state in which it has ended.
    fn is_final(&self, state: &str) -> bool {
        match self {
            Self::Run(_) => run::State::named(state).is_none_or(run::State::is_final),
            Self::Suite(_) => SuiteState::is_final(state),
        }
    }

    async fn events(&self, app: &App, after: u64) -> Result<Vec<StoredEvent>, store::Error> {
        match self {
            Self::Run(run) => app.store.events(&run.test, run.number, after).await,
            Self::Suite(run) => app.store.suite_events(&run.suite, run.number, after).await,
        }
    }
}

/// The position of a follower in the events of a run.
struct Cursor {
    app: App,
    memory: Memory,
    followed: Followed,
    /// After a deletion, another run may get the same number.
    created: Timestamp,
    changes: Following,
    seen: u64,
    short: bool,
    is_over: bool,
}

impl Cursor {
    /// Returns the events since the last read; waits for some. `None` after the last event of a run that has ended.
    async fn next(mut self) -> Option<(Vec<Result<sse::Event, Infallible>>, Self)> {
        loop {
            if self.is_over {
                return None;
            }
            let _ = tokio::time::timeout(self.app.runner.safety_poll(), self.changes.changed()).await;
            // The state is read first: when it is final, the events read after it are complete.
            let unread = self.followed.unread(&self.app, self.seen).await.ok()??;
            if unread.created != self.created {
                return None;
            }
            self.is_over = self.followed.is_final(&unread.state);
            if unread.event_bytes == 0 {
                continue;
            }
            // What was read before is sent: the client polls for more.
            self.memory.release();
            self.memory.hold_texts(unread.event_bytes).await.ok()?;
            let events = self.followed.events(&self.app, self.seen).await.ok()?;
            if let Some(last) = events.last() {
                self.seen = last.seq;
                let is_short = self.short && matches!(self.followed, Followed::Run(_));
                return Some((events.iter().map(|event| Ok(sse_event(event, is_short))).collect(), self));
            }
        }
    }
}

fn sse_event(event: &StoredEvent, is_short: bool) -> sse::Event {
    let mut shown = event_json(event);
    if is_short && let Some(event) = Event::<RunEventKind>::read(event) {
        short::shorten(&event.what, &mut shown);
    }
    sse::Event::default().id(event.seq.to_string()).data(shown.to_string())
}

/// An event as it was stored, with its sequence number and its time.
fn event_json(event: &StoredEvent) -> Value {
    let mut body: Value = serde_json::from_str(&event.body).unwrap_or_default();
    body["seq"] = event.seq.into();
    body["at"] = event.at.as_nanos().into();
    body
}
