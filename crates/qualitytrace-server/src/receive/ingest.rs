//! The ingest: admission, group commit, and change notifications of traces.
//!
//! This module does not know that runs exist. A request is acknowledged only after its chunks are committed and, unless
//! `ingest.fsync` is off, synced to the disk, so acknowledged data survives a crash of the process and a power cut.
//! While one commit is under way, the next batch gathers: its requests share one sync.

mod split;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use http::request::Parts;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_telemetry::Suppressed;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use crate::base::budget::{Budget, Lease, MemoryBudgetError};
pub use split::{Chunk, Split};

use crate::base::clock::{self, Sequence};
use crate::base::follow::{Followers, Following};
use crate::base::limits::Limits;
use crate::config::Live;
use crate::http::client::Client;
use crate::receive::refusals::Refusals;
use crate::receive::register::{self, Sender, SharedRegister};
use crate::storage::store::{Durability, NewChunk, Packed, Signal, Store};

/// Capacity of the writer's queue in requests; their bytes are bounded by the budget.
const WAITING_REQUESTS: usize = 1_024;
/// The size from which a commit gathers no more requests, in bytes.
const COMMIT_BYTES: usize = 8 * 1024 * 1024;
/// How long the last writes may take when the server ends.
const LAST_WRITES: Duration = Duration::from_secs(5);
/// The interval between two evictions.
const EVICTION_INTERVAL: Duration = Duration::from_secs(30);
/// Traces whose refused spans are counted separately; beyond this the counts start over.
const CROWDED_TRACES: usize = 10_000;
/// The pause before an eviction that is requested because there is little room.
const EVICTION_PAUSE: Duration = Duration::from_millis(200);
/// Traces whose span count is cached, so that most requests need not query the store.
const COUNTED_TRACES: usize = 50_000;

/// Traces that are remembered as samples; further ones are ignored.
const SAMPLED_TRACES: usize = 256;

/// The value for no backlog: everything received is committed.
const NO_BACKLOG: u64 = u64::MAX;

/// Receives and stores what exporters deliver.
#[derive(Debug)]
pub struct Ingest {
    config: Live,
    store: Store,
    budget: Budget,
    followers: Followers<TraceId>,
    /// Subscriptions on behalf of other servers.
    relays: Followers<TraceId>,
    /// Changes with every commit.
    arrivals: watch::Sender<u64>,
    /// The time at which the oldest uncommitted request was queued.
    backlog_since: AtomicU64,
    writer: mpsc::Sender<Write>,
    retained: AtomicU64,
    /// Notified when there is little room.
    crowded: Arc<Notify>,
    span_counts: Mutex<HashMap<TraceId, u64>>,
    /// Spans that were refused for good because their trace is full, by trace.
    crowded_out: Mutex<HashMap<TraceId, u64>>,
    /// The services that send telemetry.
    register: SharedRegister,
    /// Deliveries of spans that were refused.
    refusals: Refusals,
    /// Recently changed traces, each with the arrival time of its last chunk.
    sampled: Mutex<BTreeMap<TraceId, Timestamp>>,
    counters: Counters,
}

/// Counters of everything that was delivered.
#[derive(Debug, Default)]
pub struct Counters {
    /// Spans that were stored.
    pub spans_stored: AtomicU64,
    /// Spans that were rejected for good: without trace id, or beyond the limit of their trace.
    pub spans_rejected: AtomicU64,
    /// Log records that were stored.
    pub logs_stored: AtomicU64,
    /// Log records without a trace: counted, not stored.
    pub logs_unbound: AtomicU64,
    /// Metric data points: counted, not stored.
    pub metric_points: AtomicU64,
    /// Requests refused because too many were under way.
    pub refused_busy: AtomicU64,
    /// Requests refused because the store has reached its limit.
    pub refused_full: AtomicU64,
    /// Requests refused because the store failed.
    pub refused_failed: AtomicU64,
    /// Requests that were not valid OTLP, too large, or in an unknown encoding.
    pub refused_invalid: AtomicU64,
}

/// The result of an accepted request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Items that were rejected for good.
    pub rejected: u64,
    /// Why; empty if nothing was rejected.
    pub message: String,
}

/// Why a request was refused as a whole; the sender may retry later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IngestError {
    /// Too many requests are under way.
    #[error("too many requests are waiting for the store; try again later")]
    Busy,
    /// The store has reached its limit.
    #[error(
        "the store holds its limit of {limit} bytes (limits.retainedBytes); try again later or raise the limit"
    )]
    Full {
        /// The limit in bytes.
        limit: u64,
    },
    /// The store failed.
    #[error("the store cannot take data now: {reason}")]
    Failed {
        /// The error of the store.
        reason: String,
    },
}

struct Write {
    /// The chunks, without their arrival time.
    chunks: Vec<NewChunk>,
    /// The senders of the spans.
    senders: Vec<Sender>,
    queued: Timestamp,
    /// Held until the chunks are committed, also when the client has disconnected by then.
    lease: Lease,
    done: oneshot::Sender<Result<(), IngestError>>,
}

/// The tasks behind an [`Ingest`]; they end when the ingest is dropped.
#[derive(Debug)]
pub struct Tasks {
    writer: JoinHandle<()>,
    evictor: JoinHandle<()>,
}

impl Tasks {
    /// Waits until everything that was queued is stored, but not for ever: what is still queued then was not
    /// acknowledged, and its sender sends it again.
    pub async fn finish(mut self) {
        self.evictor.abort();
        // The writer ends by itself when its last sender is dropped; a panic in it was already reported.
        if timeout(LAST_WRITES, &mut self.writer).await.is_err() {
            self.writer.abort();
            tracing::warn!("the database does not answer: spans that were not acknowledged are not stored");
        }
    }
}

impl Ingest {
    /// Starts the ingest and its tasks.
    pub async fn start(
        store: Store,
        config: impl Into<Live>,
    ) -> Result<(Arc<Self>, Tasks), crate::storage::store::Error> {
        let config = config.into();
        let (writer, queue) = mpsc::channel(WAITING_REQUESTS);
        let ingest = Arc::new(Self {
            budget: Budget::new(config.get().limits.ingest_bytes),
            followers: Followers::default(),
            relays: Followers::default(),
            arrivals: watch::channel(0).0,
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

    /// Returns the budget for request bodies: the reader of a body takes a lease for its bytes.
    pub fn budget(&self) -> &Budget {
        self.budget.resize(self.config.get().limits.ingest_bytes);
        &self.budget
    }

    /// Whether deliveries need a token.
    pub(crate) fn requires_token(&self) -> bool {
        self.config.get().safety.access.otlp
    }

    /// Returns the key that identifies the sender of a request in the budget.
    pub(crate) fn sender(&self, request: &Parts) -> String {
        Client::of(request, &self.config.get().safety.access).sender()
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the size of the stored traces and logs in bytes, as of the last commit.
    pub fn retained_bytes(&self) -> u64 {
        self.retained.load(Ordering::Relaxed)
    }

    /// Returns the register of services that send telemetry.
    pub fn register(&self) -> &SharedRegister {
        &self.register
    }

    /// Returns the refused deliveries of spans.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Takes up to `most` traces that changed recently, but not since `before`.
    pub(crate) fn take_samples(&self, before: Timestamp, most: usize) -> Vec<TraceId> {
        let mut sampled = lock(&self.sampled);
        let settled = sampled.iter().filter(|(_, since)| **since < before).map(|(trace, _)| *trace);
        let taken: Vec<TraceId> = settled.take(most).collect();
        sampled.retain(|trace, _| !taken.contains(trace));
        taken
    }

    /// Returns the current limits.
    pub fn limits(&self) -> Limits {
        self.config.get().limits.clone()
    }

    /// Subscribes to commits of chunks of this trace. The number only grows.
    pub fn follow(&self, trace: TraceId) -> Following {
        self.followers.follow(trace)
    }

    /// Subscribes to commits of chunks of this trace by this server.
    pub(crate) fn relay(&self, trace: TraceId) -> Following {
        self.relays.follow(trace)
    }

    /// Subscribes to commits of spans and log records of any trace.
    pub(crate) fn arrivals(&self) -> watch::Receiver<u64> {
        self.arrivals.subscribe()
    }

    /// Reports that another server committed chunks of this trace, or of any if `None`.
    pub(crate) fn changed_elsewhere(&self, trace: Option<TraceId>) {
        match trace {
            Some(trace) => self.followers.wake(std::iter::once(&trace)),
            None => self.followers.wake_all(),
        }
    }

    /// Returns how many spans of this trace were refused for good because it is full.
    pub fn crowded_out(&self, trace: TraceId) -> u64 {
        lock(&self.crowded_out).get(&trace).copied().unwrap_or_default()
    }

    /// Returns the time up to which everything received is committed: `now`, unless there is a backlog.
    pub fn horizon(&self, now: Timestamp) -> Timestamp {
        now.min(Timestamp::from_nanos(self.backlog_since.load(Ordering::Acquire)))
    }

    /// Stores the spans of a request. `lease` is held until they are committed.
    pub async fn spans(&self, mut split: Split, lease: Lease) -> Result<Accepted, IngestError> {
        let crowded = self.drop_crowded(&mut split).await?;
        let without_trace = split.without_trace;
        let stored = split.items();
        self.commit(split, Signal::Spans, lease).await?;
        count(&self.counters.spans_stored, stored);
        count(&self.counters.spans_rejected, crowded + without_trace);
        Ok(Accepted { rejected: crowded + without_trace, message: self.rejection(without_trace, crowded) })
    }

    /// Stores the log records of a request that have a trace and counts the others.
    pub async fn logs(&self, split: Split, lease: Lease) -> Result<Accepted, IngestError> {
        let (stored, unbound) = (split.items(), split.without_trace);
        self.register.signalled(&split.senders, register::Signal::Logs, clock::now());
        self.commit(split, Signal::Logs, lease).await?;
        count(&self.counters.logs_stored, stored);
        count(&self.counters.logs_unbound, unbound);
        Ok(Accepted::default())
    }

    /// Counts metric data points, and records their senders.
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

    /// Removes the chunks of full traces and counts their spans.
    ///
    /// The store is queried only when one request alone could fill half a trace, so after a restart the limit is
    /// enforced within a factor of two.
    async fn drop_crowded(&self, split: &mut Split) -> Result<u64, IngestError> {
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

    async fn commit(&self, split: Split, signal: Signal, mut lease: Lease) -> Result<(), IngestError> {
        // Only spans show how late a service delivers.
        let senders = if signal == Signal::Spans { split.senders } else { Vec::new() };
        if split.chunks.is_empty() {
            self.register.delivered(&senders, clock::now());
            return Ok(());
        }
        let limit = self.limits().retained_bytes;
        if self.retained_bytes() >= limit {
            self.crowded.notify_one();
            return Err(IngestError::Full { limit });
        }
        // A sender of many small requests must not take more of the queue than of the budget: each request leases at
        // least its part.
        let place = self.budget().size() / WAITING_REQUESTS as u64;
        lease.grow(place.saturating_sub(lease.bytes())).map_err(|_| IngestError::Busy)?;
        let (done, answer) = oneshot::channel();
        let chunks = split.chunks.into_iter().map(|chunk| packed(&chunk, signal)).collect();
        let write = Write { chunks, senders, queued: clock::now(), lease, done };
        self.writer.try_send(write).map_err(|_| IngestError::Busy)?;
        answer.await.unwrap_or_else(|_| Err(IngestError::Failed { reason: "the server is stopping".into() }))
    }

    /// Remembers traces as samples, up to the limit.
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

    /// Whether the store is nearly full.
    fn is_crowded(&self) -> bool {
        self.retained_bytes() > self.limits().retained_bytes / 10 * 9
    }

    /// Wakes those who follow a trace to which spans of another one link.
    fn linked(&self, senders: &[Sender]) {
        for Sender { service, links, .. } in senders {
            for linked in links.iter().filter(|linked| self.followers.has(&linked.trace)) {
                self.register.lock().linked(linked.id, service);
                self.followers.wake([linked.trace].iter());
            }
        }
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
        self.arrivals.send_modify(|commits| *commits += 1);
    }
}

/// Commits queued requests in batches.
///
/// Chunks get their arrival time here, in the order in which they are committed: a reader that has read up to one time
/// never finds an earlier chunk later.
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
            waiting.push((write.done, write.lease));
            next = if bytes < COMMIT_BYTES { queue.try_recv().ok() } else { None };
        }
        let is_synced = ingest.upgrade().is_none_or(|ingest| ingest.config.get().limits.ingest_fsync);
        let durability = if is_synced { Durability::Synced } else { Durability::Buffered };
        let outcome = store.append_chunks_as(&mut chunks, durability).await;
        if let Some(ingest) = ingest.upgrade() {
            if let Ok(retained) = &outcome {
                // Before the followers are woken: they read the register.
                for (senders, arrived) in &delivered {
                    ingest.register.delivered(senders, *arrived);
                    ingest.linked(senders);
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
        for (done, lease) in waiting {
            drop(lease);
            // Fails when the client has disconnected.
            let _ = done.send(outcome.clone());
        }
    }
}

fn packed(chunk: &Chunk, signal: Signal) -> NewChunk {
    let Chunk { trace, items, data } = chunk;
    NewChunk { trace: *trace, signal, arrived: Timestamp::default(), items: *items, data: Packed::new(data) }
}

/// Evicts traces older than the retention time, and more of them when the store is nearly full.
async fn evict_old(ingest: Weak<Ingest>, crowded: Arc<Notify>) {
    let mut ticks = tokio::time::interval(EVICTION_INTERVAL);
    let mut was_in_vain = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            // If nothing may be evicted yet, it does not help to try again at once.
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
            match ingest.store.evict(clock::trusted() - age, room).await {
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

fn failed(error: &crate::storage::store::Error) -> IngestError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    IngestError::Failed { reason: format!("{error}{cause}") }
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
