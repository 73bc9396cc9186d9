//! Judged runs that are watched for late spans without their state in memory.
//!
//! A judged run takes about 20 KB: its compiled specs, its analysis, its redactor. Most late spans arrive within moments;
//! after them the run is parked: only its id stays, and the rest is loaded from the store when spans arrive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use tokio::time::Instant;

use super::Execution;
use super::judged::{Confirmation, JudgedRun, WaitExtent};
use super::late_spans::CONFIRM_INTERVAL;
use super::log::Log;
use crate::base::follow::Following;
use crate::runner::relays::Announced;
use crate::runner::{Error, RunId};

/// The most runs that stay in memory longer, because their verdict is not settled.
pub(super) const MAX_UNSETTLED: usize = 1_000;

/// The number of runs that are watched for late spans.
#[derive(Debug, Default)]
pub(super) struct WatchedRuns {
    loaded: Arc<AtomicUsize>,
    parked: Arc<AtomicUsize>,
}

/// Counts one run until it is dropped.
#[derive(Debug)]
pub(super) struct ParkedRun(Arc<AtomicUsize>);

impl WatchedRuns {
    pub(super) fn loaded(&self) -> ParkedRun {
        ParkedRun::new(&self.loaded)
    }

    fn parked(&self) -> ParkedRun {
        ParkedRun::new(&self.parked)
    }

    /// The number of runs in memory, and of parked ones.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.loaded.load(Ordering::Relaxed), self.parked.load(Ordering::Relaxed))
    }
}

impl ParkedRun {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for ParkedRun {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What stays in memory of a run.
#[derive(Debug)]
struct Parked {
    run: RunId,
    owner: Arc<str>,
    /// Its last event.
    seq: u64,
    trace: TraceId,
    changes: Following,
    _announced: Announced,
    /// The spans that were read, and the arrival of the last one.
    spans: usize,
    last_arrival: Timestamp,
    awaited: WaitExtent,
    confirmation: Confirmation,
    deadline: Instant,
    _counted: ParkedRun,
}

impl Parked {
    /// When the run is looked at, even if nothing arrives.
    fn wake_at(&self) -> Instant {
        match self.awaited {
            WaitExtent::NotYet { until } => until.max(Instant::now() + CONFIRM_INTERVAL).min(self.deadline),
            WaitExtent::ToTheEnd | WaitExtent::CutShort => self.deadline,
        }
    }

    fn is_settled(&self) -> bool {
        self.confirmation == Confirmation::Settled && !matches!(self.awaited, WaitExtent::NotYet { .. })
    }
}

impl Execution {
    /// Releases the state of a judged run, and watches for late spans in a task of its own.
    pub(super) fn park(self: &Arc<Self>, log: &Log, judged: JudgedRun, deadline: Instant) {
        let (spans, last_arrival) = (judged.arrivals.progress.spans(), judged.arrivals.last_read());
        let (awaited, confirmation) = (judged.awaited, judged.confirmation);
        let (trace, changes, announced) = judged.arrivals.into_subscription();
        let mut parked = Parked {
            run: log.run().clone(),
            owner: log.owner(),
            seq: log.seq(),
            trace,
            changes,
            _announced: announced,
            spans,
            last_arrival,
            awaited,
            confirmation,
            deadline,
            _counted: self.watched.parked(),
        };
        let execution = Arc::clone(self);
        self.tasks.spawn(async move {
            if let Err(error) = execution.watch_parked(&mut parked).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "failed to judge late spans");
            }
        });
    }

    /// Watches for late spans until the deadline.
    async fn watch_parked(&self, parked: &mut Parked) -> Result<(), Error> {
        loop {
            let wake_at = parked.wake_at();
            let changed = tokio::time::timeout_at(wake_at, parked.changes.changed()).await;
            let is_over = Instant::now() >= parked.deadline;
            let has_ended = matches!(changed, Ok(Err(_)));
            if has_ended || (is_over && changed.is_err() && parked.is_settled()) {
                return Ok(());
            }
            // In a box, so that this future stays small.
            if !Box::pin(self.judge_parked(parked)).await? || is_over {
                return Ok(());
            }
        }
    }

    /// Loads a run and judges it again. `false` if it is no longer there.
    async fn judge_parked(&self, parked: &mut Parked) -> Result<bool, Error> {
        let _counted = self.watched.loaded();
        let Some(stored) = self.store.run(&parked.run.test, parked.run.number).await? else {
            return Ok(false);
        };
        let Some(mut judged) = self.judged(&stored).await? else { return Ok(false) };
        judged.already_counted = parked.spans;
        judged.arrivals.learn_after(parked.last_arrival);
        (judged.awaited, judged.confirmation) = (parked.awaited, parked.confirmation);
        let mut log = self.log(&parked.run, Arc::clone(&parked.owner), parked.seq).with_trace(parked.trace);
        log.set_redactor(judged.redactor.clone());
        log.set_standing(judged.standing(&stored));
        self.judge_again(&mut log, &mut judged).await?;
        self.note_if_proven(&mut log, &mut judged);
        log.flush().await?;
        parked.seq = log.seq();
        (parked.spans, parked.last_arrival) = (judged.arrivals.progress.spans(), judged.arrivals.last_read());
        (parked.awaited, parked.confirmation) = (judged.awaited, judged.confirmation);
        Ok(true)
    }
}
