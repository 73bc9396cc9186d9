//! The recorder: a bounded intake for call sites, and one thread that encodes records and spools them.
//!
//! The emitting thread encodes its record and appends the bytes under a short lock; it frees what it allocated itself,
//! and wakes the recorder only when that is parked. The recorder thread takes everything at once, finishes each record
//! once per view, and writes to each sink's spool with one call.

use std::{
    mem,
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};

use crate::{
    config::{Recorder as Bounds, Role, Signal},
    context,
    encode::View,
    item::Item,
    ledger::Loss,
    record::{Head, Page, Record},
    sinks::{Current, Set, SinkDecision},
};

pub(crate) struct Intake {
    queue: Mutex<Page>,
    room: Condvar,
    bounds: Bounds,
    /// Whether the recorder is parked until it is woken.
    parked: AtomicBool,
    thread: OnceLock<Thread>,
    stop: AtomicBool,
    /// Whether the recorder has ended, so that new records are lost; set under the queue's lock.
    closed: AtomicBool,
    /// The records that are being encoded; the holder of the lock acts as the recorder.
    work: Mutex<Page>,
    /// When the first record in the queue was made.
    oldest: AtomicU64,
    /// Age of the oldest record, in nanoseconds, after which an emitting thread helps.
    late: u64,
    /// How often the recorder went through its loop.
    rounds: AtomicU64,
    /// Spans that no sink takes: they are counted, not queued.
    unsampled: AtomicU64,
    sinks: Arc<Current>,
    scope: Bytes,
}

/// Bytes that may wait to be encoded.
const MAX_BYTES: usize = 64 << 20;
/// Limit on records that an emitting thread encodes when the recorder is late.
const MAX_SHARE: usize = 256;
/// Rounds without work after which the recorder parks.
const IDLE_ROUNDS: u32 = 25;

impl Intake {
    pub(crate) fn new(bounds: Bounds, sinks: Arc<Current>, scope: Bytes) -> Self {
        Self {
            queue: Mutex::new(Page::new()),
            room: Condvar::new(),
            parked: AtomicBool::new(false),
            thread: OnceLock::new(),
            stop: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            work: Mutex::new(Page::new()),
            oldest: AtomicU64::new(u64::MAX),
            late: u64::try_from((bounds.linger * 3 / 2).as_nanos()).unwrap_or(u64::MAX),
            rounds: AtomicU64::new(0),
            unsampled: AtomicU64::new(0),
            sinks,
            scope,
            bounds,
        }
    }

    /// Queues a record. Waits only when the intake is full and a sink is lossless, and at most as long as the bounds
    /// say.
    pub(crate) fn push(&self, record: &Record) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if self.closed.load(Relaxed) {
            drop(queue);
            self.sinks.with(|set| set.lose(&record.head, Loss::Shutdown));
            return;
        }
        if self.is_full(&queue) {
            if self.sinks.with(Set::lossless) {
                self.wake();
                let full = |queue: &mut Page| self.is_full(queue);
                queue = self
                    .room
                    .wait_timeout_while(queue, self.bounds.block, full)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            if self.is_full(&queue) {
                drop(queue);
                self.sinks.with(|set| set.lose(&record.head, Loss::QueueFull));
                return;
            }
        }
        let time = record.head.time;
        queue.push(record);
        let len = queue.len();
        if len == 1 {
            self.oldest.store(time, Relaxed);
        }
        drop(queue);
        if len == self.bounds.items / 2 || self.parked.load(SeqCst) {
            self.wake();
        } else if time.saturating_sub(self.oldest.load(Relaxed)) > self.late {
            self.help();
        }
    }

    fn is_full(&self, queue: &Page) -> bool {
        queue.len() >= self.bounds.items || queue.size() >= MAX_BYTES
    }

    /// Encodes a share of the queue on the emitting thread when the recorder is late, most likely because it gets no
    /// processor time: queued records would not survive a `kill -9`.
    fn help(&self) {
        let Ok(mut work) = self.work.try_lock() else {
            return;
        };
        {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.give(MAX_SHARE, &mut work);
            if let Some(oldest) = queue.oldest() {
                self.oldest.store(oldest, Relaxed);
            }
        }
        context::without_telemetry(|| self.record(&mut work, 0));
    }

    /// Counts a span that no sink takes.
    pub(crate) fn unsampled(&self) {
        self.unsampled.fetch_add(1, Relaxed);
        if self.parked.load(Relaxed) {
            self.wake();
        }
    }

    fn wake(&self) {
        self.parked.store(false, SeqCst);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// The number of queued records.
    pub(crate) fn len(&self) -> usize {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nothing is queued and nothing is being encoded.
    pub(crate) fn is_idle(&self) -> bool {
        // In this order: what left the queue is held by the owner of the `work` lock.
        self.len() == 0 && self.unsampled.load(SeqCst) == 0 && self.work.try_lock().is_ok()
    }

    /// Waits until everything queued now has reached the current sinks, or until the timeout.
    pub(crate) fn settle(&self, timeout: Duration) {
        let end = Instant::now() + timeout;
        // The current round may have begun before the last push.
        let rounds = self.rounds.load(SeqCst) + 2;
        while self.rounds.load(SeqCst) < rounds && Instant::now() < end && !self.stop.load(SeqCst) {
            self.wake();
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Ends the recorder after it took what is queued.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake();
    }

    /// Encodes the records that came after the recorder ended, and closes the intake.
    pub(crate) fn close(&self) {
        let mut rest = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            self.closed.store(true, Relaxed);
            mem::take(&mut *queue)
        };
        self.record(&mut rest, self.unsampled.swap(0, Relaxed));
    }

    /// The loop of the recorder thread.
    pub(crate) fn run(&self) {
        context::suppress_thread();
        let _ = self.thread.set(thread::current());
        let mut idle = 0;
        loop {
            let stopping = self.stop.load(SeqCst);
            let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
            {
                let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
                mem::swap(&mut *queue, &mut *work);
            }
            self.room.notify_all();
            let unsampled = self.unsampled.swap(0, Relaxed);
            if work.is_empty() && unsampled == 0 {
                if stopping {
                    return;
                }
                idle += 1;
            } else {
                idle = 0;
                self.record(&mut work, unsampled);
            }
            drop(work);
            self.rounds.fetch_add(1, SeqCst);
            if stopping {
                continue;
            }
            if idle < IDLE_ROUNDS {
                thread::park_timeout(self.bounds.linger);
                continue;
            }
            self.parked.store(true, SeqCst);
            // A record may have been pushed before the flag was set.
            if self.len() == 0 && self.unsampled.load(SeqCst) == 0 && !self.stop.load(SeqCst) {
                thread::park();
            }
            self.parked.store(false, SeqCst);
        }
    }

    fn record(&self, records: &mut Page, unsampled: u64) {
        let set = self.sinks.get();
        for handle in set.sinks.iter().filter(|handle| unsampled > 0 && handle.sink.role == Role::Server) {
            if handle.carries(Signal::Traces) {
                let counters = handle.queue.ledger.of(Signal::Traces);
                counters.created(unsampled);
                counters.sampled_out(unsampled);
            }
        }
        let mut batches: Vec<Vec<Item>> = set.sinks.iter().map(|_| Vec::new()).collect();
        let mut room = BytesMut::with_capacity(records.size() + records.len() * 16);
        for (head, bytes) in records.records() {
            self.share(&set, head, bytes, &mut batches, &mut room);
        }
        records.clear();
        for (handle, batch) in set.sinks.iter().zip(batches).filter(|(_, batch)| !batch.is_empty()) {
            handle.offer(batch);
        }
    }

    /// Gives a record to every sink that takes it, encoded once for all sinks of the same view.
    fn share(&self, set: &Set, head: &Head, bytes: &[u8], batches: &mut [Vec<Item>], room: &mut BytesMut) {
        let mut known: Vec<(&View, Item)> = Vec::new();
        for (handle, batch) in set.sinks.iter().zip(batches) {
            match handle.verdict(head) {
                SinkDecision::Foreign => {}
                SinkDecision::SampledOut => {
                    let counters = handle.queue.ledger.of(head.signal());
                    counters.created(1);
                    counters.sampled_out(1);
                }
                SinkDecision::Take => {
                    let same = known.iter().find(|(view, _)| **view == handle.view);
                    let item = match same {
                        Some((_, item)) => item.clone(),
                        None => handle.view.item(head, bytes, &self.scope, room),
                    };
                    if set.sinks.len() > 1 && same.is_none() {
                        known.push((&handle.view, item.clone()));
                    }
                    batch.push(item);
                }
            }
        }
    }
}
