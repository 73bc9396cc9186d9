//! The ledger: counters of every item, per sink and signal.
//!
//! The invariant, which holds whenever no item is being moved:
//! `created + recovered = sampled_out + exported + rejected + dropped + queued + in_flight`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use crate::config::Signal;

/// Why an item was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The memory queue had no room.
    QueueFull,
    /// Neither the spool nor the memory had room.
    SpoolFull,
    /// It was older than the retention of the sink.
    Expired,
    /// The receiver refused it for good.
    NonRetryable,
    /// It is larger than a request may be.
    TooLarge,
    /// It could not be encoded.
    Encode,
    /// The process ended before it was delivered, and there was no spool for it.
    Shutdown,
    /// Its bytes in the spool were destroyed after they were written.
    Damaged,
}

impl Loss {
    /// All reasons, in the order of [`Dropped`].
    pub const ALL: [Self; 8] = [
        Self::QueueFull,
        Self::SpoolFull,
        Self::Expired,
        Self::NonRetryable,
        Self::TooLarge,
        Self::Encode,
        Self::Shutdown,
        Self::Damaged,
    ];

    /// The name in metrics and in the status.
    pub fn name(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::SpoolFull => "spool_full",
            Self::Expired => "expired",
            Self::NonRetryable => "non_retryable",
            Self::TooLarge => "too_large",
            Self::Encode => "encode",
            Self::Shutdown => "shutdown",
            Self::Damaged => "damaged",
        }
    }
}

/// The counters of one sink.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    signals: [Counters; 3],
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    created: AtomicU64,
    recovered: AtomicU64,
    sampled_out: AtomicU64,
    exported: AtomicU64,
    rejected: AtomicU64,
    dropped: [AtomicU64; 8],
    queued: AtomicU64,
    in_flight: AtomicU64,
    retried: AtomicU64,
}

impl Ledger {
    pub(crate) fn of(&self, signal: Signal) -> &Counters {
        &self.signals[signal as usize]
    }

    pub(crate) fn balance(&self, signal: Signal) -> Balance {
        self.of(signal).balance()
    }
}

impl Counters {
    pub(crate) fn created(&self, n: u64) {
        self.created.fetch_add(n, Relaxed);
    }

    pub(crate) fn sampled_out(&self, n: u64) {
        self.sampled_out.fetch_add(n, Relaxed);
    }

    /// Counts items found in the spool of an earlier process.
    pub(crate) fn recovered(&self, n: u64) {
        self.recovered.fetch_add(n, Relaxed);
        self.queued.fetch_add(n, Relaxed);
    }

    pub(crate) fn queued(&self, n: u64) {
        self.queued.fetch_add(n, Relaxed);
    }

    /// Counts items that never got into the queue.
    pub(crate) fn dropped(&self, loss: Loss, n: u64) {
        self.dropped[loss as usize].fetch_add(n, Relaxed);
    }

    /// Counts items that are dropped from the queue.
    pub(crate) fn dropped_from_queue(&self, loss: Loss, n: u64) {
        self.dropped(loss, n);
        self.queued.fetch_sub(n, Relaxed);
    }

    pub(crate) fn sent(&self, n: u64) {
        self.in_flight.fetch_add(n, Relaxed);
        self.queued.fetch_sub(n, Relaxed);
    }

    pub(crate) fn accepted(&self, n: u64, rejected: u64) {
        let rejected = rejected.min(n);
        self.exported.fetch_add(n - rejected, Relaxed);
        self.rejected.fetch_add(rejected, Relaxed);
        self.in_flight.fetch_sub(n, Relaxed);
    }

    /// Counts items of a request that are dropped because of its response.
    pub(crate) fn given_up(&self, loss: Loss, n: u64) {
        self.dropped(loss, n);
        self.in_flight.fetch_sub(n, Relaxed);
    }

    /// Counts items that go back to the queue after a failed request.
    pub(crate) fn returned(&self, n: u64) {
        self.retried.fetch_add(n, Relaxed);
        self.queued.fetch_add(n, Relaxed);
        self.in_flight.fetch_sub(n, Relaxed);
    }

    fn balance(&self) -> Balance {
        let dropped = |loss: Loss| self.dropped[loss as usize].load(Relaxed);
        Balance {
            created: self.created.load(Relaxed),
            recovered: self.recovered.load(Relaxed),
            sampled_out: self.sampled_out.load(Relaxed),
            exported: self.exported.load(Relaxed),
            rejected: self.rejected.load(Relaxed),
            dropped: Dropped {
                queue_full: dropped(Loss::QueueFull),
                spool_full: dropped(Loss::SpoolFull),
                expired: dropped(Loss::Expired),
                non_retryable: dropped(Loss::NonRetryable),
                too_large: dropped(Loss::TooLarge),
                encode: dropped(Loss::Encode),
                shutdown: dropped(Loss::Shutdown),
                damaged: dropped(Loss::Damaged),
            },
            queued: self.queued.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
            retried: self.retried.load(Relaxed),
        }
    }
}

/// The counters of one sink and signal at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Balance {
    /// Items that this process offered to the sink.
    pub created: u64,
    /// Items that an earlier process left in the spool: the opening balance.
    pub recovered: u64,
    /// Items that the sink's sampler or level declined.
    pub sampled_out: u64,
    /// Items that the receiver acknowledged.
    pub exported: u64,
    /// Items that the receiver refused in a partial success.
    pub rejected: u64,
    /// Items that were dropped.
    pub dropped: Dropped,
    /// Items that wait, in memory or on disk.
    pub queued: u64,
    /// Items in requests that have no answer yet.
    pub in_flight: u64,
    /// How often items went back to the queue; not part of the invariant.
    pub retried: u64,
}

/// Dropped items, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Dropped {
    /// See [`Loss::QueueFull`].
    pub queue_full: u64,
    /// See [`Loss::SpoolFull`].
    pub spool_full: u64,
    /// See [`Loss::Expired`].
    pub expired: u64,
    /// See [`Loss::NonRetryable`].
    pub non_retryable: u64,
    /// See [`Loss::TooLarge`].
    pub too_large: u64,
    /// See [`Loss::Encode`].
    pub encode: u64,
    /// See [`Loss::Shutdown`].
    pub shutdown: u64,
    /// See [`Loss::Damaged`].
    pub damaged: u64,
}

impl Dropped {
    /// The count of each reason.
    pub fn by_reason(&self) -> [(Loss, u64); 8] {
        [
            (Loss::QueueFull, self.queue_full),
            (Loss::SpoolFull, self.spool_full),
            (Loss::Expired, self.expired),
            (Loss::NonRetryable, self.non_retryable),
            (Loss::TooLarge, self.too_large),
            (Loss::Encode, self.encode),
            (Loss::Shutdown, self.shutdown),
            (Loss::Damaged, self.damaged),
        ]
    }

    /// The sum of all reasons.
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, n)| n).sum()
    }
}

impl Balance {
    /// Whether the invariant holds; it does whenever no item is being moved.
    pub fn holds(&self) -> bool {
        let out = self.sampled_out + self.exported + self.rejected + self.dropped.total();
        self.created + self.recovered == out + self.queued + self.in_flight
    }
}
