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
use crate::base::follow::Following;
use crate::runner::{RunId, SuiteRunId, SuiteState, Watching};
use crate::serve::api::App;
use crate::serve::api::memory::Memory;
use crate::serve::api::path::Path;
use crate::serve::api::query::Query;
use crate::serve::api::run_error::{RunApiError, number};
use crate::serve::api::tenant::Tenant;
use crate::storage::store::{self, StoredEvent, Unread};
use crate::wire::event::{Event, RunEventKind};
use crate::wire::summary;

/// The keep-alive interval of a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, Deserialize)]
pub(in crate::serve::api) struct StreamParameters {
    #[serde(default)]
    after: u64,
    /// Whether verdicts and analyses are sent as counts with the first failures.
    #[serde(default)]
    short: bool,
    /// Whether what the run owes is sent while it waits.
    #[serde(default)]
    owed: bool,
}

/// Streams the events of a run until it has ended. Resumes after `Last-Event-ID` or `?after=`.
pub(in crate::serve::api) async fn stream(
    State(app): State<App>,
    tenant: Tenant,
    Path((test, run)): Path<(String, String)>,
    Query(asked): Query<StreamParameters>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, RunApiError> {
    let run = RunId { test: tenant.scoped(&test), number: number(&run)? };
    follow(app, Followed::Run(run), last_seen(&headers).unwrap_or(asked.after), asked).await
}

/// Streams the events of a suite run.
pub(in crate::serve::api) async fn stream_of_suite(
    State(app): State<App>,
    tenant: Tenant,
    Path((suite, run)): Path<(String, String)>,
    Query(asked): Query<StreamParameters>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, RunApiError> {
    let run = SuiteRunId { suite: tenant.scoped(&suite), number: number(&run)? };
    follow(app, Followed::Suite(run), last_seen(&headers).unwrap_or(asked.after), asked).await
}

async fn follow(
    app: App,
    followed: Followed,
    seen: u64,
    asked: StreamParameters,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, RunApiError> {
    let created = followed.unread(&app, seen).await?.ok_or_else(RunApiError::missing)?.created;
    let mut changes = match &followed {
        Followed::Run(run) => app.runner.follow(run.clone()),
        Followed::Suite(run) => app.runner.follow_suite(run.clone()),
    };
    // Earlier events are new to this follower.
    changes.mark_changed();
    let owed = match &followed {
        Followed::Run(run) if asked.owed => Some(app.runner.watch(run.clone())),
        Followed::Run(_) | Followed::Suite(_) => None,
    };
    let is_short = asked.short && matches!(followed, Followed::Run(_));
    let memory = app.memory.begin();
    let cursor = Cursor { memory, app, followed, created, changes, owed, seen, is_short, is_over: false };
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
    owed: Option<Watching>,
    seen: u64,
    is_short: bool,
    is_over: bool,
}

impl Cursor {
    /// Returns the events since the last read; waits for some. `None` after the last event of a run that has ended.
    async fn next(mut self) -> Option<(Vec<Result<sse::Event, Infallible>>, Self)> {
        loop {
            if self.is_over {
                return None;
            }
            let owed = async {
                match &mut self.owed {
                    Some(watching) => watching.changed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = tokio::time::timeout(self.app.runner.safety_poll(), self.changes.changed()) => {}
                owed = owed => {
                    let data = serde_json::to_string(&*owed).unwrap_or_default();
                    return Some((vec![Ok(sse::Event::default().data(data))], self));
                }
            }
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
                let events = events.iter().map(|event| Ok(sse_event(event, self.is_short)));
                return Some((events.collect(), self));
            }
        }
    }
}

fn sse_event(event: &StoredEvent, is_short: bool) -> sse::Event {
    let mut shown = event_json(event);
    if is_short && let Some(event) = Event::<RunEventKind>::read(event) {
        summary::shorten(&event.what, &mut shown);
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
