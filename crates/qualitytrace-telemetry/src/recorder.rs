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
};

use bytes::Bytes;

use crate::{
    config::{Recorder as Bounds, Role, Signal},
    context,
    encode::{self, View},
    item::Item,
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
    /// Something was taken out and is not in the queues yet.
    busy: AtomicBool,
    /// Spans that no sink takes: they are counted, not carried.
    unsampled: AtomicU64,
    sinks: Arc<Current>,
    scope: Bytes,
}

/// Rounds without work after which the recorder sleeps until it is woken.
const IDLE_ROUNDS: u32 = 25;

impl Intake {
    pub(crate) fn new(bounds: Bounds, sinks: Arc<Current>, scope: Bytes) -> Self {
        Self {
            queue: Mutex::new(Vec::with_capacity(bounds.items.min(1 << 16))),
            room: Condvar::new(),
            bounds,
            parked: AtomicBool::new(false),
            thread: OnceLock::new(),
            stop: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            unsampled: AtomicU64::new(0),
            sinks,
            scope,
        }
    }

    /// Takes a record. Waits only when the intake is full and a sink must not lose anything, and
    /// then at most as long as the bounds say.
    pub(crate) fn push(&self, record: Record) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
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
                self.sinks.with(|set| set.lose(&record));
                return;
            }
        }
        queue.push(record);
        let half = queue.len() == self.bounds.items / 2;
        drop(queue);
        if half || self.parked.load(SeqCst) {
            self.wake();
        }
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
        self.len() == 0 && self.unsampled.load(SeqCst) == 0 && !self.busy.load(SeqCst)
    }

    /// Ends the recorder after it took what is there.
    pub(crate) fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.wake();
    }

    /// The recorder thread.
    pub(crate) fn run(&self) {
        context::suppress_thread();
        let _ = self.thread.set(thread::current());
        let mut spare: Vec<Record> = Vec::with_capacity(1_024);
        let mut idle = 0;
        loop {
            let stopping = self.stop.load(SeqCst);
            {
                let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
                self.busy.store(true, SeqCst);
                mem::swap(&mut *queue, &mut spare);
            }
            self.room.notify_all();
            let unsampled = self.unsampled.swap(0, Relaxed);
            if spare.is_empty() && unsampled == 0 {
                if stopping {
                    self.busy.store(false, SeqCst);
                    return;
                }
                idle += 1;
            } else {
                idle = 0;
                self.record(&mut spare, unsampled);
            }
            self.busy.store(false, SeqCst);
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
        for handle in set
            .sinks
            .iter()
            .filter(|handle| unsampled > 0 && handle.sink.role == Role::Server)
        {
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
                        let signal = if matches!(record, Record::Span(_)) {
                            Signal::Traces
                        } else {
                            Signal::Logs
                        };
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
        for (handle, batch) in set
            .sinks
            .iter()
            .zip(batches)
            .filter(|(_, batch)| !batch.is_empty())
        {
            handle.offer(batch);
        }
    }
}
