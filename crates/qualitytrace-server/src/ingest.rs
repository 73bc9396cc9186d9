//! From what arrives to what is stored: admission, group commit, and the word that a trace has changed.
//!
//! Nothing here knows that runs exist. A request is answered only after its chunks are committed and, unless
//! `ingest.fsync` is off, synced to the disk, so what was acknowledged survives the death of the process and a power
//! cut. While one commit is under way, the next group gathers: they share one sync.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use http::request::Parts;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_telemetry::Suppressed;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

pub use crate::budget::{Budget, Lease, NoRoom};

use crate::client::Client;
use crate::clock::{self, Sequence};
use crate::config::Live;
use crate::follow::{Followers, Following};
use crate::limits::Limits;
use crate::otlp::sender::Sender;
use crate::otlp::wire::{Chunk, Split};
use crate::refusals::Refusals;
use crate::register::{self, SharedRegister};
use crate::store::{Durability, NewChunk, Packed, Signal, Store};

/// Requests that may wait for the writer; their bytes are bounded by the budget.
const WAITING_REQUESTS: usize = 1_024;
/// Bytes that one commit gathers at the most.
const COMMIT_BYTES: usize = 8 * 1024 * 1024;
/// How often old traces are looked for.
const EVICTION_INTERVAL: Duration = Duration::from_secs(30);
/// Traces of which is known that spans were refused; more are a matter for the counters.
const CROWDED_TRACES: usize = 10_000;
/// How long to wait before old traces are looked for because there is little room.
const EVICTION_PAUSE: Duration = Duration::from_millis(200);
/// Traces whose span count is remembered, so that most requests need not ask the store.
const COUNTED_TRACES: usize = 50_000;

/// Traces that are kept in mind for those who look at samples; further ones are left out.
const SAMPLED_TRACES: usize = 256;

/// Everything that was handed over is committed.
const NO_BACKLOG: u64 = u64::MAX;

/// Takes in what senders deliver.
#[derive(Debug)]
pub struct Ingest {
    config: Live,
    store: Store,
    budget: Budget,
    followers: Followers<TraceId>,
    /// Traces that are watched for other servers.
    relays: Followers<TraceId>,
    /// When the oldest request was handed over that is not committed yet.
    backlog_since: AtomicU64,
    writer: mpsc::Sender<Write>,
    retained: AtomicU64,
    /// Told when there is little room.
    crowded: Arc<Notify>,
    span_counts: Mutex<HashMap<TraceId, u64>>,
    /// Spans that were refused for good, of the traces that had no room for them.
    crowded_out: Mutex<HashMap<TraceId, u64>>,
    /// Who sends.
    register: SharedRegister,
    /// Deliveries of spans that were refused.
    refusals: Refusals,
    /// Traces that changed lately, each with the time since when it is here.
    sampled: Mutex<BTreeMap<TraceId, Timestamp>>,
    counters: Counters,
}

/// What became of everything that was ever delivered.
#[derive(Debug, Default)]
pub struct Counters {
    /// Spans that were stored.
    pub spans_stored: AtomicU64,
    /// Spans that no retry can help: without trace id, or beyond the limit of their trace.
    pub spans_rejected: AtomicU64,
    /// Log records that were stored.
    pub logs_stored: AtomicU64,
    /// Log records that name no trace: counted, not kept.
    pub logs_unbound: AtomicU64,
    /// Metric data points: counted, not kept.
    pub metric_points: AtomicU64,
    /// Requests refused because too much was under way.
    pub refused_busy: AtomicU64,
    /// Requests refused because the store holds all it may.
    pub refused_full: AtomicU64,
    /// Requests refused because the store failed.
    pub refused_failed: AtomicU64,
    /// Requests that were no OTLP, too large, or in an unknown encoding.
    pub refused_invalid: AtomicU64,
}

/// What was taken and what was not.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Items that were rejected for good.
    pub rejected: u64,
    /// Why; empty when nothing was rejected.
    pub message: String,
}

/// Why nothing of a request was taken; the sender may try again later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too much is under way.
    #[error("too many requests are waiting for the store; try again later")]
    Busy,
    /// The store holds all it may.
    #[error(
        "the store holds its limit of {limit} bytes (limits.retainedBytes); try again later or raise the limit"
    )]
    Full {
        /// The limit.
        limit: u64,
    },
    /// The store failed.
    #[error("the store cannot take data now: {reason}")]
    Failed {
        /// What the store says.
        reason: String,
    },
}

struct Write {
    /// Without their time of arrival.
    chunks: Vec<NewChunk>,
    /// Whose spans they are.
    senders: Vec<Sender>,
    queued: Timestamp,
    done: oneshot::Sender<Result<(), Refused>>,
}

/// The tasks behind an [`Ingest`]; they end when the ingest is dropped.
#[derive(Debug)]
pub struct Tasks {
    writer: JoinHandle<()>,
    evictor: JoinHandle<()>,
}

impl Tasks {
    /// Waits until everything that was handed over is stored.
    pub async fn finish(self) {
        self.evictor.abort();
        // The writer ends by itself when its last sender is gone; a panic in it was already reported.
        let _ = self.writer.await;
    }
}

impl Ingest {
    /// Starts taking in.
    pub async fn start(
        store: Store,
        config: impl Into<Live>,
    ) -> Result<(Arc<Self>, Tasks), crate::store::Error> {
        let config = config.into();
        let (writer, queue) = mpsc::channel(WAITING_REQUESTS);
        let ingest = Arc::new(Self {
            budget: Budget::new(config.get().limits.ingest_bytes),
            followers: Followers::default(),
            relays: Followers::default(),
            backlog_since: AtomicU64::new(NO_BACKLOG),
            retained: AtomicU64::new(store.retained_bytes().await?),
            crowded: Arc::default(),
            span_counts: Mutex::default(),
            crowded_out: Mutex::default(),
            register: SharedRegister::default(),
            refusals: Refusals::default(),
            sampled: Mutex::default(),
            counters: Counters::default(),
            writer,
            store,
            config,
        });
        let tasks = Tasks {
            writer: tokio::spawn(Suppressed::new(write_all(
                Arc::downgrade(&ingest),
                ingest.store.clone(),
                queue,
            ))),
            evictor: tokio::spawn(evict_old(Arc::downgrade(&ingest), Arc::clone(&ingest.crowded))),
        };
        Ok((ingest, tasks))
    }

    /// Room for request bodies: whoever reads one takes a lease for its bytes.
    pub fn budget(&self) -> &Budget {
        self.budget.resize(self.config.get().limits.ingest_bytes);
        &self.budget
    }

    /// By what the sender of a request is told apart from the others that share the budget.
    pub(crate) fn sender(&self, request: &Parts) -> String {
        Client::of(request, &self.config.get().safety.access).sender()
    }

    /// What became of everything so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes retained in total, as of the last commit.
    pub fn retained_bytes(&self) -> u64 {
        self.retained.load(Ordering::Relaxed)
    }

    /// What is known of everyone who sends.
    pub fn register(&self) -> &SharedRegister {
        &self.register
    }

    /// Deliveries of spans that were refused.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Up to so many of the traces that changed lately, and not since `before`.
    pub(crate) fn take_samples(&self, before: Timestamp, most: usize) -> Vec<TraceId> {
        let mut sampled = lock(&self.sampled);
        let settled = sampled.iter().filter(|(_, since)| **since < before).map(|(trace, _)| *trace);
        let taken: Vec<TraceId> = settled.take(most).collect();
        sampled.retain(|trace, _| !taken.contains(trace));
        taken
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.config.get().limits.clone()
    }

    /// Wakes whenever chunks of this trace were committed. The number only grows.
    pub fn follow(&self, trace: TraceId) -> Following {
        self.followers.follow(trace)
    }

    /// Wakes whenever chunks of this trace were committed by this server.
    pub(crate) fn relay(&self, trace: TraceId) -> Following {
        self.relays.follow(trace)
    }

    /// Another server committed chunks of this trace, or of any.
    pub(crate) fn changed_elsewhere(&self, trace: Option<TraceId>) {
        match trace {
            Some(trace) => self.followers.wake(std::iter::once(&trace)),
            None => self.followers.wake_all(),
        }
    }

    /// How many spans of this trace were refused for good, because it had no room for them.
    pub fn crowded_out(&self, trace: TraceId) -> u64 {
        lock(&self.crowded_out).get(&trace).copied().unwrap_or_default()
    }

    /// Up to when everything that was handed over is committed: `now`, unless there is a backlog.
    pub fn horizon(&self, now: Timestamp) -> Timestamp {
        now.min(Timestamp::from_nanos(self.backlog_since.load(Ordering::Acquire)))
    }

    /// Stores the spans of a request. `lease` is held until they are committed.
    pub async fn spans(&self, mut split: Split, lease: Lease) -> Result<Accepted, Refused> {
        let crowded = self.drop_crowded(&mut split).await?;
        let without_trace = split.without_trace;
        let stored = split.items();
        self.commit(split, Signal::Spans, lease).await?;
        count(&self.counters.spans_stored, stored);
        count(&self.counters.spans_rejected, crowded + without_trace);
        Ok(Accepted { rejected: crowded + without_trace, message: self.rejection(without_trace, crowded) })
    }

    /// Stores the log records of a request that name a trace and counts the others.
    pub async fn logs(&self, split: Split, lease: Lease) -> Result<Accepted, Refused> {
        let (stored, unbound) = (split.items(), split.without_trace);
        self.register.signalled(&split.senders, register::Signal::Logs, clock::now());
        self.commit(split, Signal::Logs, lease).await?;
        count(&self.counters.logs_stored, stored);
        count(&self.counters.logs_unbound, unbound);
        Ok(Accepted::default())
    }

    /// Counts metric data points, and takes note of whose they are.
    pub fn metrics(&self, points: u64, senders: &[Sender]) -> Accepted {
        self.register.signalled(senders, register::Signal::Metrics, clock::now());
        count(&self.counters.metric_points, points);
        Accepted::default()
    }

    fn rejection(&self, without_trace: u64, crowded: u64) -> String {
        let mut reasons = Vec::new();
        if without_trace > 0 {
            reasons.push(format!("{without_trace} spans have no valid trace id"));
        }
        if crowded > 0 {
            let limit = self.limits().spans_per_trace;
            reasons.push(format!(
                "{crowded} spans are beyond the limit of {limit} in one trace (limits.spansPerTrace)"
            ));
        }
        reasons.join("; ")
    }

    /// Takes out the chunks of traces that are full and counts their spans.
    ///
    /// The store is asked only when one request alone could fill half a trace, so after a restart the limit is kept
    /// within a factor of two.
    async fn drop_crowded(&self, split: &mut Split) -> Result<u64, Refused> {
        let limit = self.limits().spans_per_trace;
        let mut crowded = 0;
        let mut kept = Vec::with_capacity(split.chunks.len());
        for chunk in split.chunks.drain(..) {
            let items = u64::from(chunk.items);
            let known = lock(&self.span_counts).get(&chunk.trace).copied();
            let before = match known {
                Some(known) => known,
                None if items < limit / 2 => 0,
                None => self.store.span_count(chunk.trace).await.map_err(|error| failed(&error))?,
            };
            if before + items > limit {
                crowded += items;
                let mut crowded_out = lock(&self.crowded_out);
                if crowded_out.len() >= CROWDED_TRACES {
                    crowded_out.clear();
                }
                *crowded_out.entry(chunk.trace).or_default() += items;
            } else {
                kept.push(chunk);
            }
        }
        split.chunks = kept;
        Ok(crowded)
    }

    fn count_spans(&self, chunks: &[NewChunk]) {
        let mut counts = lock(&self.span_counts);
        if counts.len() > COUNTED_TRACES {
            counts.clear();
        }
        for chunk in chunks.iter().filter(|chunk| chunk.signal == Signal::Spans) {
            *counts.entry(chunk.trace).or_default() += u64::from(chunk.items);
        }
    }

    async fn commit(&self, split: Split, signal: Signal, mut lease: Lease) -> Result<(), Refused> {
        // Only spans say how late a service delivers.
        let senders = if signal == Signal::Spans { split.senders } else { Vec::new() };
        if split.chunks.is_empty() {
            self.register.delivered(&senders, clock::now());
            return Ok(());
        }
        let limit = self.limits().retained_bytes;
        if self.retained_bytes() >= limit {
            self.crowded.notify_one();
            return Err(Refused::Full { limit });
        }
        // Whoever sends many small requests has no more places before the writer than room.
        let place = self.budget().size() / WAITING_REQUESTS as u64;
        lease.grow(place.saturating_sub(lease.bytes())).map_err(|_| Refused::Busy)?;
        let (done, answer) = oneshot::channel();
        let chunks = split.chunks.into_iter().map(|chunk| packed(&chunk, signal)).collect();
        let write = Write { chunks, senders, queued: clock::now(), done };
        self.writer.try_send(write).map_err(|_| Refused::Busy)?;
        let outcome =
            answer.await.unwrap_or_else(|_| Err(Refused::Failed { reason: "the server is stopping".into() }));
        drop(lease);
        outcome
    }

    /// Keeps traces in mind, as many as there is room for.
    fn sample(&self, chunks: &[NewChunk]) {
        let mut sampled = lock(&self.sampled);
        for chunk in chunks.iter().filter(|chunk| chunk.signal == Signal::Spans) {
            if let Some(since) = sampled.get_mut(&chunk.trace) {
                *since = chunk.arrived;
            } else if sampled.len() < SAMPLED_TRACES {
                sampled.insert(chunk.trace, chunk.arrived);
            }
        }
    }

    /// Whether little room is left.
    fn is_crowded(&self) -> bool {
        self.retained_bytes() > self.limits().retained_bytes / 10 * 9
    }

    fn committed(&self, chunks: &[NewChunk], retained: u64) {
        self.retained.store(retained, Ordering::Relaxed);
        if self.is_crowded() {
            self.crowded.notify_one();
        }
        self.count_spans(chunks);
        self.sample(chunks);
        self.followers.wake(chunks.iter().map(|chunk| &chunk.trace));
        self.relays.wake(chunks.iter().map(|chunk| &chunk.trace));
    }
}

/// Commits what is handed over, as much at a time as has gathered.
///
/// Chunks get their time of arrival here, in the order in which they are committed: whoever has read up to one time
/// never finds an earlier one later.
async fn write_all(ingest: Weak<Ingest>, store: Store, mut queue: mpsc::Receiver<Write>) {
    let arrivals = Sequence::default();
    while let Some(first) = queue.recv().await {
        if let Some(ingest) = ingest.upgrade() {
            ingest.backlog_since.store(first.queued.as_nanos(), Ordering::Release);
        }
        let (mut chunks, mut waiting, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut delivered = Vec::new();
        let mut next = Some(first);
        while let Some(write) = next {
            bytes += write.chunks.iter().map(|chunk| chunk.data.size()).sum::<usize>();
            chunks
                .extend(write.chunks.into_iter().map(|chunk| NewChunk { arrived: arrivals.next(), ..chunk }));
            delivered.extend(chunks.last().map(|last: &NewChunk| (write.senders, last.arrived)));
            waiting.push(write.done);
            next = if bytes < COMMIT_BYTES { queue.try_recv().ok() } else { None };
        }
        let is_synced = ingest.upgrade().is_none_or(|ingest| ingest.config.get().limits.ingest_fsync);
        let durability = if is_synced { Durability::Synced } else { Durability::Buffered };
        let outcome = store.append_chunks_as(&mut chunks, durability).await;
        if let Some(ingest) = ingest.upgrade() {
            if let Ok(retained) = &outcome {
                // Before those who wait are woken: they ask who has delivered up to when.
                for (senders, arrived) in &delivered {
                    ingest.register.delivered(senders, *arrived);
                }
                ingest.committed(&chunks, *retained);
            }
            if queue.is_empty() {
                ingest.backlog_since.store(NO_BACKLOG, Ordering::Release);
            }
        }
        let outcome = outcome.map(drop).map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "failed to store what arrived");
            failed(&error)
        });
        for done in waiting {
            // A sender that hung up no longer wants to know.
            let _ = done.send(outcome.clone());
        }
    }
}

fn packed(chunk: &Chunk, signal: Signal) -> NewChunk {
    let Chunk { trace, items, data } = chunk;
    NewChunk { trace: *trace, signal, arrived: Timestamp::default(), items: *items, data: Packed::new(data) }
}

/// Removes what is older than the retention time, and as much more as makes room when the store is nearly full.
async fn evict_old(ingest: Weak<Ingest>, crowded: Arc<Notify>) {
    let mut ticks = tokio::time::interval(EVICTION_INTERVAL);
    let mut was_in_vain = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            // Where nothing may go yet, it does not help to look again at once.
            () = async { crowded.notified().await; tokio::time::sleep(EVICTION_PAUSE).await }, if !was_in_vain => {}
        }
        let Some(ingest) = ingest.upgrade() else { return };
        loop {
            let limits = ingest.limits();
            let tenth = limits.retained_bytes / 10;
            let (age, room) = if ingest.is_crowded() {
                let room = ingest.retained_bytes().saturating_sub(tenth * 8);
                (limits.evictable_after.min(limits.retention), room)
            } else {
                (limits.retention, u64::MAX)
            };
            match ingest.store.evict(clock::now() - age, room).await {
                Ok((retained, more)) => {
                    ingest.retained.store(retained, Ordering::Relaxed);
                    if !more {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "failed to remove old traces");
                    break;
                }
            }
        }
        was_in_vain = ingest.is_crowded();
    }
}

fn failed(error: &crate::store::Error) -> Refused {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Refused::Failed { reason: format!("{error}{cause}") }
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
