//! Between the call sites and the sinks: a bounded intake and one thread that encodes and spools.
//!
//! The emitting thread pays for one push under a short lock. The recorder thread takes everything
//! at once, encodes each record once per view, and writes to each sink's spool with one call.

use std::{
    mem,
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{
    config::{Recorder as Bounds, Role, Signal},
    context,
    encode::{self, View},
    item::Item,
    ledger::Loss,
    sinks::{Current, Set, Verdict},
    span::Record,
};

pub(crate) struct Intake {
    queue: Mutex<Vec<Record>>,
    room: Condvar,
    bounds: Bounds,
    /// The recorder sleeps until somebody wakes it.
    parked: AtomicBool,
    thread: OnceLock<Thread>,
    stop: AtomicBool,
    /// Nobody will take what is pushed now; set under the queue's lock.
    closed: AtomicBool,
    /// What is being encoded; whoever holds it is the recorder.
    work: Mutex<Vec<Record>>,
    /// When the first record in the queue was made.
    oldest: AtomicU64,
    /// Nanoseconds after which an emitting thread helps.
    late: u64,
    /// How often the recorder went through its loop.
    rounds: AtomicU64,
    /// Spans that no sink takes: they are counted, not carried.
    unsampled: AtomicU64,
    sinks: Arc<Current>,
    scope: Bytes,
}

/// Records that an emitting thread encodes at most when the recorder is late.
const MAX_SHARE: usize = 256;
/// Rounds without work after which the recorder sleeps until it is woken.
const IDLE_ROUNDS: u32 = 25;

impl Intake {
    pub(crate) fn new(bounds: Bounds, sinks: Arc<Current>, scope: Bytes) -> Self {
        Self {
            queue: Mutex::new(Vec::with_capacity(bounds.items.min(1 << 16))),
            room: Condvar::new(),
            parked: AtomicBool::new(false),
            thread: OnceLock::new(),
            stop: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            work: Mutex::new(Vec::with_capacity(8_192)),
            oldest: AtomicU64::new(u64::MAX),
            late: u64::try_from(bounds.linger.as_nanos()).unwrap_or(u64::MAX).saturating_mul(2),
            rounds: AtomicU64::new(0),
            unsampled: AtomicU64::new(0),
            sinks,
            scope,
            bounds,
        }
    }

    /// Takes a record. Waits only when the intake is full and a sink must not lose anything, and
    /// then at most as long as the bounds say.
    pub(crate) fn push(&self, record: Record) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if self.closed.load(Relaxed) {
            drop(queue);
            self.sinks.with(|set| set.lose(&record, Loss::Shutdown));
            return;
        }
        if queue.len() >= self.bounds.items {
            if self.sinks.with(Set::lossless) {
                self.wake();
                let full = |queue: &mut Vec<Record>| queue.len() >= self.bounds.items;
                queue = self
                    .room
                    .wait_timeout_while(queue, self.bounds.block, full)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            if queue.len() >= self.bounds.items {
                drop(queue);
                self.sinks.with(|set| set.lose(&record, Loss::QueueFull));
                return;
            }
        }
        let time = record.time();
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

    /// The recorder is late, most likely because it gets no processor. Whoever emits has one, so it
    /// takes a share of the work: what waits here would not survive a `kill -9`.
    fn help(&self) {
        let Ok(mut work) = self.work.try_lock() else {
            return;
        };
        {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let share = queue.len().min(MAX_SHARE);
            work.extend(queue.drain(..share));
            if let Some(first) = queue.first() {
                self.oldest.store(first.time(), Relaxed);
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

    /// Records that wait here.
    pub(crate) fn len(&self) -> usize {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nothing waits here and nothing is being encoded.
    pub(crate) fn is_idle(&self) -> bool {
        // In this order: what left the queue is in the hands of whoever holds the work.
        self.len() == 0 && self.unsampled.load(SeqCst) == 0 && self.work.try_lock().is_ok()
    }

    /// Waits until everything that is here now has reached the sinks of now.
    pub(crate) fn settle(&self, patience: Duration) {
        let end = Instant::now() + patience;
        // The round that runs now may have begun before the last push.
        let rounds = self.rounds.load(SeqCst) + 2;
        while self.rounds.load(SeqCst) < rounds && Instant::now() < end && !self.stop.load(SeqCst) {
            self.wake();
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Ends the recorder after it took what is there.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake();
    }

    /// After the recorder ended: takes what came too late for it, and closes.
    pub(crate) fn close(&self) {
        let mut rest = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            self.closed.store(true, Relaxed);
            mem::take(&mut *queue)
        };
        self.record(&mut rest, self.unsampled.swap(0, Relaxed));
    }

    /// The recorder thread.
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
            // Somebody may have pushed before the flag was up.
            if self.len() == 0 && self.unsampled.load(SeqCst) == 0 && !self.stop.load(SeqCst) {
                thread::park();
            }
            self.parked.store(false, SeqCst);
        }
    }

    fn record(&self, records: &mut Vec<Record>, unsampled: u64) {
        let set = self.sinks.get();
        let mut batches: Vec<Vec<Item>> = set.sinks.iter().map(|_| Vec::new()).collect();
        for handle in set.sinks.iter().filter(|handle| unsampled > 0 && handle.sink.role == Role::Server) {
            if handle.carries(Signal::Traces) {
                let counters = handle.queue.ledger.of(Signal::Traces);
                counters.created(unsampled);
                counters.sampled_out(unsampled);
            }
        }
        for record in records.drain(..) {
            let mut encoded: Vec<(&View, Item)> = Vec::new();
            for (handle, batch) in set.sinks.iter().zip(&mut batches) {
                match handle.verdict(&record) {
                    Verdict::Foreign => {}
                    Verdict::SampledOut => {
                        let signal =
                            if matches!(record, Record::Span(_)) { Signal::Traces } else { Signal::Logs };
                        handle.queue.ledger.of(signal).created(1);
                        handle.queue.ledger.of(signal).sampled_out(1);
                    }
                    Verdict::Take => {
                        let known = encoded.iter().find(|(view, _)| **view == handle.view);
                        let item = if let Some((_, item)) = known {
                            item.clone()
                        } else {
                            let item = match &record {
                                Record::Span(span) => encode::span(span, &handle.view, &self.scope),
                                Record::Log(log) => encode::log(log, &handle.view, &self.scope),
                            };
                            encoded.push((&handle.view, item.clone()));
                            item
                        };
                        batch.push(item);
                    }
                }
            }
        }
        for (handle, batch) in set.sinks.iter().zip(batches).filter(|(_, batch)| !batch.is_empty()) {
            handle.offer(batch);
        }
    }
}
