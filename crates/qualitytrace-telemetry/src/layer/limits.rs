//! Record limits in atomics, so that call sites read them without a lock.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::config::{AttributeLimits, RecordLimits};

pub(crate) struct LimitCell([AtomicU32; 7]);

impl Default for LimitCell {
    fn default() -> Self {
        let cell = Self(Default::default());
        cell.set(RecordLimits::default());
        cell
    }
}

impl LimitCell {
    pub(crate) fn set(&self, limits: RecordLimits) {
        let RecordLimits { span_attributes, events, links, event_attributes, log_attributes } = limits;
        let numbers = [
            span_attributes.count,
            span_attributes.length,
            events,
            links,
            event_attributes,
            log_attributes.count,
            log_attributes.length,
        ];
        for (cell, number) in self.0.iter().zip(numbers) {
            cell.store(number, Relaxed);
        }
    }

    /// A reader may see some limits from before a reload and some from after it, which does no harm.
    pub(crate) fn get(&self) -> RecordLimits {
        let [span_count, span_length, events, links, event_attributes, count, length] =
            self.0.each_ref().map(|cell| cell.load(Relaxed));
        RecordLimits {
            span_attributes: AttributeLimits { count: span_count, length: span_length },
            events,
            links,
            event_attributes,
            log_attributes: AttributeLimits { count, length },
        }
    }
}

impl RecordLimits {
    /// Limits of event attributes; their texts have the length limit of spans.
    pub(crate) fn of_events(self) -> AttributeLimits {
        AttributeLimits { count: self.event_attributes, length: self.span_attributes.length }
    }
}
