//! Arrivals of all traces, as a stream of server-sent events.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::Stream;
use http::HeaderMap;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use super::summary::TraceSummary;
use crate::base::clock;
use crate::serve::api::App;
use crate::serve::api::error::ApiError;
use crate::serve::api::query::Query;
use crate::serve::api::runs::last_seen;
use crate::storage::variables::RunSecrets;

/// The shortest time between two messages.
const INTERVAL: Duration = Duration::from_millis(100);
/// A trace has settled when nothing of it arrived for so long.
const SETTLED: Duration = Duration::from_secs(1);
/// Arrivals that are read at once.
const TOGETHER: u64 = 1_000;
/// By how much an arrival at another server may become visible after a later one: the difference of their clocks, and
/// the time of a commit.
const OVERLAP: Duration = Duration::from_secs(5);
/// Arrivals that are remembered; where more arrive, the overlap is shorter.
const MAX_KNOWN: usize = 1_000;
/// Traces that a message names.
const MAX_NAMED: usize = 100;
/// Traces that are watched until they settle; further ones are only counted.
const MAX_WATCHED: usize = 10_000;
/// Summaries in one message.
const MAX_SUMMARIES: usize = 20;
/// The keep-alive interval of a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Where the stream begins, as sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::serve::api) struct Beginning {
    after: String,
}

/// Spans that arrived, or traces that settled.
#[derive(Debug, Serialize)]
#[serde(tag = "what", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Message {
    /// Spans arrived.
    Arrived {
        /// The number of spans.
        spans: u64,
        /// Their traces, at most 100.
        traces: Vec<TraceArrival>,
        /// How many more traces there are.
        unnamed_traces: usize,
    },
    /// Nothing more of these traces arrived for a second.
    Settled {
        /// Their summaries, as in the list of traces.
        traces: Vec<TraceSummary>,
    },
}

/// Spans of one trace that arrived.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TraceArrival {
    trace_id: String,
    /// The number of spans that arrived now.
    spans: u64,
}

/// Streams arrivals of all traces. Resumes after `Last-Event-ID` or `?after=`, both in nanoseconds since the epoch.
pub(in crate::serve::api) async fn stream(
    State(app): State<App>,
    Query(Beginning { after }): Query<Beginning>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let after = match after.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| {
            ApiError::bad_request(format!(
                "`{text}` is no value of `after`; write nanoseconds since the epoch"
            ))
        })?),
    };
    let after = last_seen(&headers).or(after).map_or_else(clock::now, Timestamp::from_nanos);
    let mut changes = app.ingest.arrivals();
    // What arrived between `after` and now is new to this client.
    changes.mark_changed();
    let overlap = if app.store.is_shared() { OVERLAP } else { Duration::ZERO };
    let position = Position::new(after, overlap);
    let follower = Follower { app, changes, position, sent: None, unsettled: BTreeMap::new() };
    let mut stopped = follower.app.stopped.clone();
    let batches = futures_util::stream::unfold(follower, Follower::next);
    let events = futures_util::StreamExt::flat_map(batches, futures_util::stream::iter);
    // Otherwise the server would wait for its clients to go.
    let events = futures_util::StreamExt::take_until(events, async move {
        let _ = stopped.wait_for(|stopped| *stopped).await;
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// A client's position in the arrivals. Those of another server may become visible after later ones, so the latest are
/// read again, and the known ones are dropped.
#[derive(Debug)]
struct Position {
    /// The latest arrival.
    after: Timestamp,
    /// The arrival behind which all are read.
    floor: Timestamp,
    /// The known arrivals behind it.
    known: BTreeSet<(Timestamp, TraceId)>,
    overlap: Duration,
}

impl Position {
    fn new(after: Timestamp, overlap: Duration) -> Self {
        Self { after, floor: after, known: BTreeSet::new(), overlap }
    }

    /// How many arrivals to read: the known ones, and new ones.
    fn limit(&self) -> u64 {
        TOGETHER + self.known.len() as u64
    }

    /// Returns the new ones of the arrivals that were read, and moves on.
    fn advance(&mut self, mut arrivals: Vec<(TraceId, Timestamp, u64)>) -> Vec<(TraceId, Timestamp, u64)> {
        arrivals.retain(|(trace, at, _)| self.known.insert((*at, *trace)));
        self.after = arrivals.iter().map(|(_, at, _)| *at).fold(self.after, Timestamp::max);
        let settled = self.after - self.overlap;
        while let Some((at, _)) = self.known.first().copied()
            && (at <= settled || self.known.len() > MAX_KNOWN)
        {
            self.known.pop_first();
            self.floor = at;
        }
        arrivals
    }
}

/// A client that follows the arrivals.
struct Follower {
    app: App,
    changes: watch::Receiver<u64>,
    position: Position,
    sent: Option<Instant>,
    /// Traces that have not settled, with the time when something of them was last seen.
    unsettled: BTreeMap<TraceId, Instant>,
}

impl Follower {
    /// Waits for arrivals, or for traces to settle. Ends when the store fails: the client resumes.
    async fn next(mut self) -> Option<(Vec<Result<Event, Infallible>>, Self)> {
        loop {
            let settles = self.unsettled.values().min().map(|seen| SETTLED.saturating_sub(seen.elapsed()));
            let poll = self.app.runner.safety_poll();
            let longest = settles.map_or(poll, |settles| settles.min(poll));
            let _ = tokio::time::timeout(longest, self.changes.changed()).await;
            if let Some(sent) = self.sent {
                tokio::time::sleep_until(sent + INTERVAL).await;
            }
            let mut messages = Vec::new();
            messages.extend(self.arrived().await?);
            messages.extend(self.settled().await?);
            if !messages.is_empty() {
                self.sent = Some(Instant::now());
                let id = self.position.after.as_nanos().to_string();
                let event = |message: &Message| {
                    let data = serde_json::to_string(message).unwrap_or_default();
                    Ok(Event::default().id(id.clone()).data(data))
                };
                return Some((messages.iter().map(event).collect(), self));
            }
        }
    }

    async fn arrived(&mut self) -> Option<Option<Message>> {
        let limit = self.position.limit();
        let arrivals = self.app.store.arrivals_after(self.position.floor, limit).await.ok()?;
        if arrivals.len() as u64 == limit {
            self.changes.mark_changed();
        }
        let arrivals = self.position.advance(arrivals);
        if arrivals.is_empty() {
            return Some(None);
        }
        let now = Instant::now();
        let mut traces: BTreeMap<TraceId, u64> = BTreeMap::new();
        for (trace, _, spans) in arrivals {
            *traces.entry(trace).or_default() += spans;
            if self.unsettled.len() < MAX_WATCHED || self.unsettled.contains_key(&trace) {
                self.unsettled.insert(trace, now);
            }
        }
        let named = traces.iter().take(MAX_NAMED);
        Some(Some(Message::Arrived {
            spans: traces.values().sum(),
            unnamed_traces: traces.len().saturating_sub(MAX_NAMED),
            traces: named
                .map(|(id, spans)| TraceArrival { trace_id: id.to_string(), spans: *spans })
                .collect(),
        }))
    }

    async fn settled(&mut self) -> Option<Option<Message>> {
        let now = Instant::now();
        let quiet = self.unsettled.iter().filter(|(_, seen)| now.duration_since(**seen) >= SETTLED);
        let ids: Vec<TraceId> = quiet.map(|(id, _)| *id).take(MAX_SUMMARIES).collect();
        if ids.is_empty() {
            return Some(None);
        }
        for id in &ids {
            self.unsettled.remove(id);
        }
        let memory = self.app.memory.begin();
        let withheld = RunSecrets::of(&self.app.store, &ids).await.ok()?;
        let digests = self.app.digests.traces(&self.app, &memory, &withheld, &ids).await.ok()?;
        let summaries = ids.iter().filter_map(|id| digests.get(id));
        Some(Some(Message::Settled { traces: summaries.map(|digest| digest.summary.clone()).collect() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn arrival(trace: u64, at: u64) -> (TraceId, Timestamp, u64) {
        (format!("{:032x}", trace + 1).parse().unwrap(), Timestamp::from_nanos(at), 1)
    }

    /// Reads what is stored, and returns the traces that are new.
    fn read(position: &mut Position, stored: &[(u64, u64)]) -> Vec<u64> {
        let mut stored = stored.to_vec();
        stored.sort_by_key(|(_, at)| *at);
        let (floor, limit) = (position.floor.as_nanos(), position.limit());
        let behind = stored.iter().filter(|(_, at)| *at > floor).take(usize::try_from(limit).unwrap());
        let found = position.advance(behind.map(|(trace, at)| arrival(*trace, *at)).collect());
        let number = |id: TraceId| u64::from_str_radix(&id.to_string(), 16).unwrap() - 1;
        found.into_iter().map(|(trace, _, _)| number(trace)).collect()
    }

    #[test]
    fn an_arrival_that_becomes_visible_late_is_told_once() {
        let mut position = Position::new(Timestamp::from_nanos(10 * SECOND), OVERLAP);
        assert_eq!(read(&mut position, &[(1, 20 * SECOND)]), [1]);
        let late = [(1, 20 * SECOND), (2, 16 * SECOND)];
        assert_eq!(read(&mut position, &late), [2]);
        assert_eq!(
            position.after,
            Timestamp::from_nanos(20 * SECOND),
            "a client that resumes misses nothing later"
        );
        assert!(read(&mut position, &late).is_empty());
        assert_eq!(read(&mut position, &[&late[..], &[(3, 30 * SECOND)]].concat()), [3]);
        assert!(position.known.len() == 1 && position.floor == Timestamp::from_nanos(20 * SECOND));
    }

    #[test]
    fn all_arrivals_of_a_moment_are_told_once_and_a_bounded_number_is_remembered() {
        for overlap in [Duration::ZERO, OVERLAP] {
            let stored: Vec<(u64, u64)> = (0..10_000).map(|trace| (trace, SECOND + trace)).collect();
            let mut position = Position::new(Timestamp::default(), overlap);
            let mut told = Vec::new();
            for _ in 0..20 {
                told.extend(read(&mut position, &stored));
                assert!(position.known.len() <= MAX_KNOWN);
            }
            assert_eq!(told, (0..10_000).collect::<Vec<u64>>());
        }
    }
}
