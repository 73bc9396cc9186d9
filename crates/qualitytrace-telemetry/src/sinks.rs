//! The current sinks, and which records each of them takes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use bytes::Bytes;
use opentelemetry::trace::TraceId;
use tokio::sync::watch;

use crate::{
    config::{Level, Role, Signal, Sink},
    delivery::{HealthCell, Mode},
    encode::View,
    filter,
    ledger::Loss,
    meter::{Metrics, delta::Deltas},
    propagation::Propagators,
    queue::Queue,
    record::{Head, Kind},
    sampling,
};

/// A running sink.
pub(crate) struct Handle {
    pub(crate) sink: Sink,
    pub(crate) view: View,
    pub(crate) queue: Arc<Queue>,
    pub(crate) resource: Bytes,
    pub(crate) health: Arc<HealthCell>,
    pub(crate) mode: watch::Sender<Mode>,
    /// The metric points that its receiver was sent last.
    pub(crate) deltas: Arc<Mutex<Deltas>>,
    /// How signals were sent that a reload switched off.
    pub(crate) former: BTreeMap<Signal, Sink>,
}

impl Handle {
    pub(crate) fn carries(&self, signal: Signal) -> bool {
        self.sink.endpoints.contains_key(&signal)
    }

    /// How each signal was sent that `next` no longer sends.
    pub(crate) fn former(&self, next: &Sink) -> BTreeMap<Signal, Sink> {
        let mut former = self.former.clone();
        former.extend(self.sink.endpoints.keys().map(|signal| (*signal, self.sink.clone())));
        former.retain(|signal, _| !next.endpoints.contains_key(signal));
        former
    }

    pub(crate) fn offer(&self, items: Vec<crate::item::Item>) {
        self.queue.offer(&self.resource, items, self.sink.delivery.batch_bytes);
    }

    /// Ends the use of its queue: items that fit on the disk stay there for the next process or sink, the rest is
    /// dropped.
    pub(crate) fn leave(&self) {
        self.queue.unload(&self.resource);
        self.queue.migrate(&self.resource, usize::MAX);
        self.queue.abandon();
        self.queue.release();
    }

    /// Offers the current state of all metrics.
    pub(crate) fn offer_metrics(&self, metrics: &Metrics) {
        self.offer(metrics.items(self.sink.temporality, &self.deltas));
    }
}

/// All sinks and the propagators; replaced as a whole.
#[derive(Default)]
pub(crate) struct Set {
    pub(crate) sinks: Vec<Arc<Handle>>,
    pub(crate) propagators: Propagators,
}

/// The number of levels of a span.
const LEVELS: usize = 5;

/// The decision of a sink about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SinkDecision {
    /// The record is not for this sink.
    Foreign,
    /// The sampler or the level declines it.
    SampledOut,
    /// The sink sends it.
    Take,
}

impl Set {
    /// Whether any sink of this role takes the spans of a trace.
    pub(crate) fn samples(&self, role: Role, trace: TraceId, remote: Option<bool>) -> bool {
        self.sinks.iter().any(|handle| {
            handle.sink.role == role
                && handle.carries(Signal::Traces)
                && sampling::takes(&handle.sink.sampler, trace, remote)
        })
    }

    /// The least severe level that any sink takes of a signal.
    pub(crate) fn level(&self, signal: Signal) -> Level {
        let of =
            self.sinks.iter().filter(|handle| handle.sink.role == Role::Server && handle.carries(signal));
        let least = |handle: &Arc<Handle>| {
            handle.sink.targets.iter().map(|target| target.level).chain([handle.sink.level]).min()
        };
        of.filter_map(least).min().unwrap_or(Level::Disable)
    }

    /// Whether any sink decides by targets.
    pub(crate) fn is_targeted(&self) -> bool {
        self.sinks.iter().any(|handle| !handle.sink.targets.is_empty())
    }

    /// Whether any sink of the server takes a span, or an event, of this target and level.
    pub(crate) fn wants(&self, is_span: bool, target: &str, level: Level) -> bool {
        self.sinks.iter().any(|handle| {
            handle.sink.role == Role::Server
                && (handle.carries(Signal::Traces) || !is_span && handle.carries(Signal::Logs))
                && handle.takes(target, level)
        })
    }

    /// How many levels of sinks take a span of this target and level, so that it can be the parent of others there; 0
    /// where sinks decide by its target and disagree.
    pub(crate) fn reach(&self, target: &str, level: Level) -> usize {
        let mut sinks = self
            .sinks
            .iter()
            .filter(|handle| handle.sink.role == Role::Server && handle.carries(Signal::Traces))
            .peekable();
        let named = |handle: &Arc<Handle>| {
            filter::is_transport(target) || filter::directive(&handle.sink.targets, target).is_some()
        };
        if !self.sinks.iter().any(named) {
            return level as usize + 1;
        }
        let all = sinks.peek().is_some() && sinks.all(|handle| handle.takes(target, level));
        if all { LEVELS } else { 0 }
    }

    pub(crate) fn lossless(&self) -> bool {
        self.sinks.iter().any(|handle| !handle.sink.lossy)
    }

    /// Counts a record that was lost before the recorder.
    pub(crate) fn lose(&self, record: &Head, loss: Loss) {
        for handle in &self.sinks {
            let counters = handle.queue.ledger.of(record.signal());
            match handle.verdict(record) {
                SinkDecision::Foreign => {}
                SinkDecision::SampledOut => {
                    counters.created(1);
                    counters.sampled_out(1);
                }
                SinkDecision::Take => {
                    counters.created(1);
                    counters.dropped(loss, 1);
                }
            }
        }
    }
}

impl Handle {
    /// Whether it takes spans and events of this target and level.
    fn takes(&self, target: &str, level: Level) -> bool {
        filter::takes(self.sink.level, &self.sink.targets, target, level)
    }

    pub(crate) fn verdict(&self, record: &Head) -> SinkDecision {
        let takes = match record.kind {
            Kind::Span { role, .. } if self.sink.role != role => return SinkDecision::Foreign,
            Kind::Log if self.sink.role != Role::Server => return SinkDecision::Foreign,
            Kind::Span { .. } | Kind::Log if !self.carries(record.signal()) => return SinkDecision::Foreign,
            Kind::Span { role, remote, .. } => {
                let level = role == Role::Application || self.takes(record.target, record.level);
                level && sampling::takes(&self.sink.sampler, record.trace_id, remote)
            }
            Kind::Log => self.takes(record.target, record.level),
        };
        if takes { SinkDecision::Take } else { SinkDecision::SampledOut }
    }
}

/// Holds the current set of sinks.
#[derive(Default)]
pub(crate) struct Current(RwLock<Arc<Set>>);

impl Current {
    pub(crate) fn get(&self) -> Arc<Set> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn with<T>(&self, read: impl FnOnce(&Set) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, set: Arc<Set>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = set;
    }
}
