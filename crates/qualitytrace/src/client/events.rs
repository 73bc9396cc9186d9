//! The event stream of a run, which reconnects and resumes where it broke off.

use std::io;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, TryStreamExt};
use qualitytrace_server::wire;
use reqwest::header::HeaderName;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};
use tokio_util::io::StreamReader;

use super::answer::{self, AnswerError, EVENT, MESSAGE};
use super::contact::Pauses;
use super::{Client, escaped, shown};

/// The header with the last event that was received.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Idle timeout of a stream: a server sends a heartbeat every ten seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum length of an event: a server bounds what a verdict keeps at a fraction of it.
const MAX_LINE: usize = 64 << 20;
/// Maximum length of all events of a run together: they are kept until it ends.
const MAX_EVENTS: usize = 256 << 20;
/// What a small event takes in memory.
const EVENT_OVERHEAD: usize = 2 << 10;
/// How a message about what is owed begins. Such a message is no event: it has no number, and is not stored.
const OWED: &str = r#"{"what":"owed""#;
/// How often a stream may end without a new event before it counts as over.
const MOST_EMPTY: u32 = 3;

impl Client {
    /// The events of a run of a suite, from first to last, as they happen.
    pub(crate) fn suite_events(
        &self,
        suite: &str,
        run: u64,
    ) -> impl Stream<Item = anyhow::Result<wire::suite::Event>> + use<> {
        let ends = |event: &wire::suite::Event| {
            wire::suite::SuiteProgress::of(std::slice::from_ref(event)).completed.is_some()
        };
        let all = self.follow(format!("/api/testsuites/{}/run/{run}/events/stream", escaped(suite)), ends);
        all.try_filter_map(|seen| std::future::ready(Ok(seen.event())))
    }

    /// The events of a run, from first to last, as they happen.
    pub(crate) fn events(
        &self,
        test: &str,
        run: u64,
    ) -> impl Stream<Item = anyhow::Result<wire::Event>> + use<> {
        self.watch(test, run, false).try_filter_map(|seen| std::future::ready(Ok(seen.event())))
    }

    /// The events of a run and, where they are wanted, what it owes while it waits.
    pub(crate) fn watch(
        &self,
        test: &str,
        run: u64,
        with_owed: bool,
    ) -> impl Stream<Item = anyhow::Result<StreamItem>> + use<> {
        let ends =
            |event: &wire::Event| wire::fold::RunState::of(std::slice::from_ref(event)).completed.is_some();
        let owed = if with_owed { "?owed=true" } else { "" };
        self.follow(format!("/api/tests/{}/run/{run}/events/stream{owed}", escaped(test)), ends)
    }

    /// What arrives at the server, as it tells it: messages about spans and about traces that have settled.
    pub(crate) fn arrivals(&self) -> impl Stream<Item = anyhow::Result<serde_json::Value>> + use<> {
        let start = (self.clone(), None);
        futures_util::stream::try_unfold(start, |(client, lines): (Self, Option<Lines>)| async move {
            let mut lines = match lines {
                Some(lines) => lines,
                None => Lines::open(&client, "/api/traces/stream", 0).await?,
            };
            let Some(data) = lines.next_data().await? else { return Ok(None) };
            let message = answer::decoded(data.as_bytes(), MESSAGE, "about arrivals")?;
            Ok(Some((message, (client, Some(lines)))))
        })
    }

    fn follow<W: DeserializeOwned>(
        &self,
        path: String,
        ends: fn(&wire::Event<W>) -> bool,
    ) -> impl Stream<Item = anyhow::Result<StreamItem<W>>> + use<W> {
        let follower = Follower {
            client: self.clone(),
            path,
            ends,
            lines: None,
            seen: 0,
            length: 0,
            has_ended: false,
            empty: 0,
            pauses: Pauses::default(),
        };
        futures_util::stream::try_unfold(follower, |mut follower| async move {
            Ok(follower.next().await?.map(|seen| (seen, follower)))
        })
    }
}

impl Client {
    fn too_many(&self, what: &'static str, bytes: usize) -> anyhow::Error {
        AnswerError::OversizedEvents { what, server: shown(&self.base), bytes }.into()
    }
}

/// What an event stream brings.
#[derive(Debug)]
pub(crate) enum StreamItem<W = wire::RunEventKind> {
    Event(wire::Event<W>),
    Owed(WaitStatus),
}

impl<W> StreamItem<W> {
    /// The event, if it is one.
    pub(crate) fn event(self) -> Option<wire::Event<W>> {
        match self {
            Self::Event(event) => Some(event),
            Self::Owed(_) => None,
        }
    }
}

/// What a run that waits still owes. Times are nanoseconds since the epoch, as texts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WaitStatus {
    at: String,
    pub(crate) spans: usize,
    pub(crate) debts: Vec<PendingItem>,
    pub(crate) unnamed_debts: usize,
    quiet_until: String,
}

/// Something that is still to come.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PendingItem {
    pub(crate) text: String,
    until: String,
}

impl WaitStatus {
    /// How long the wait for the first debt takes at most if nothing more arrives; without debts, how long the rest of
    /// the wait takes.
    pub(crate) fn left(&self) -> Duration {
        let nanos = |text: &str| text.parse::<u64>().unwrap_or(0);
        let until = self.debts.first().map_or(&self.quiet_until, |debt| &debt.until);
        Duration::from_nanos(nanos(until).saturating_sub(nanos(&self.at)))
    }
}

/// The state of an event stream.
struct Follower<W> {
    client: Client,
    path: String,
    /// Whether an event is the last one of a run.
    ends: fn(&wire::Event<W>) -> bool,
    lines: Option<Lines>,
    /// The number of the last event.
    seen: u64,
    /// The length of all events.
    length: usize,
    has_ended: bool,
    /// How often in a row the stream ended without an event.
    empty: u32,
    pauses: Pauses,
}

impl<W: DeserializeOwned> Follower<W> {
    /// The next event; `None` at the end.
    async fn next(&mut self) -> anyhow::Result<Option<StreamItem<W>>> {
        loop {
            let lines = match &mut self.lines {
                Some(lines) => lines,
                None => self.lines.insert(Lines::open(&self.client, &self.path, self.seen).await?),
            };
            match lines.next_data().await {
                Ok(Some(data)) if data.starts_with(OWED) => {
                    let owed = answer::decoded(data.as_bytes(), MESSAGE, "an event")?;
                    return Ok(Some(StreamItem::Owed(owed)));
                }
                Ok(Some(data)) => {
                    self.length += data.len() + EVENT_OVERHEAD;
                    if self.length > MAX_EVENTS {
                        return Err(self.client.too_many("what is told about a run", MAX_EVENTS));
                    }
                    let event: wire::Event<W> = answer::decoded(data.as_bytes(), EVENT, "an event")?;
                    (self.seen, self.empty, self.pauses) = (event.seq, 0, Pauses::default());
                    self.has_ended |= (self.ends)(&event);
                    return Ok(Some(StreamItem::Event(event)));
                }
                _ if self.has_ended => return Ok(None),
                // A server that shuts down ends its streams, too.
                Ok(None) => {
                    self.empty += 1;
                    if self.empty >= MOST_EMPTY {
                        return Ok(None);
                    }
                }
                // It would be as large again.
                Err(error) if error.is::<AnswerError>() => return Err(error),
                Err(error) => {
                    if !self.client.contact.lost(&mut self.pauses).await {
                        return Err(error);
                    }
                }
            }
            self.lines = None;
        }
    }
}

/// The `data:` lines of a server-sent event stream.
struct Lines {
    lines: BoxStream<'static, Result<String, LinesCodecError>>,
    client: Client,
}

impl Lines {
    /// Opens the stream after the last event that was received.
    async fn open(client: &Client, path: &str, seen: u64) -> anyhow::Result<Self> {
        let request = client.http.get(client.url(path));
        let request = if seen == 0 { request } else { request.header(LAST_EVENT_ID, seen) };
        let bytes = client.ask(request).await?.bytes_stream().map_err(io::Error::other);
        let codec = LinesCodec::new_with_max_length(MAX_LINE);
        let lines = FramedRead::new(StreamReader::new(bytes), codec).boxed();
        Ok(Self { lines, client: client.clone() })
    }

    /// The next data line; `None` at the end.
    async fn next_data(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            match tokio::time::timeout(IDLE_TIMEOUT, self.lines.next()).await {
                Ok(Some(Err(LinesCodecError::MaxLineLengthExceeded))) => {
                    return Err(self.client.too_many("an event", MAX_LINE));
                }
                Ok(Some(line)) => {
                    let line = line.context("the connection broke during the event stream of the server")?;
                    if let Some(data) = line.strip_prefix("data:") {
                        return Ok(Some(data.trim().to_owned()));
                    }
                }
                Ok(None) => return Ok(None),
                Err(_) => bail!("the server sends no more data in its event stream"),
            }
        }
    }
}
