//! What the spans of this trace show about services, addresses and clocks, for the register.

use std::sync::Arc;
use std::time::Duration;

use super::super::call::CallOutcome;
use super::super::observation::{ClockPair, Edge, Observations, ObservedCall, TRIGGER};
use super::{Arrival, Begin, Progress};
use crate::time::Timestamp;
use crate::trace::SpanKind;

impl Progress {
    /// Takes what was observed since the last call, for the [register](super::super::Register).
    pub fn take_observations(&mut self) -> Observations {
        if let (Some(sent), Some(answered)) = (self.sent_at, self.answered_at) {
            self.observe_trigger(answered, None);
            for this in std::mem::take(&mut self.entries_of_trigger) {
                self.observe_answer_to_trigger(this, sent, answered);
            }
        }
        std::mem::take(&mut self.observations)
    }

    /// Notes a call, or the span that answers it.
    pub(super) fn observe_call(&mut self, this: usize, by: Option<usize>) {
        let from = &self.arrivals[this];
        let Some(call) = &from.call else { return };
        let answer = by.map(|by| &self.arrivals[by]).filter(|answer| answer.service != from.service);
        if by.is_some() && answer.is_none() {
            return;
        }
        // Whether a service worked for a call that failed is not known, unless its span is here.
        let counts = matches!(call.outcome, CallOutcome::Answered | CallOutcome::Message) || answer.is_some();
        if let (Some(address), true) = (&call.address, counts) {
            let observed = ObservedCall {
                address: Arc::clone(address),
                span: from.id,
                kind: call.kind,
                end: self.ended_at(this).unwrap_or_default(),
                answer: answer.map(|answer| (Arc::clone(self.shape.text(answer.service)), took(answer))),
            };
            self.observations.calls.push(observed);
        }
    }

    /// Notes that work in one process caused work in another.
    pub(super) fn observe_child(&mut self, parent: usize, child: usize) {
        let (from, to) = (&self.arrivals[parent], &self.arrivals[child]);
        if from.service == to.service {
            return;
        }
        let is_call = matches!(from.kind, SpanKind::Client | SpanKind::Producer);
        let is_entry = matches!(to.kind, SpanKind::Server | SpanKind::Consumer);
        let service = |arrival: &Arrival| Arc::clone(self.shape.text(arrival.service));
        self.observations.edges.push(Edge {
            from: service(from),
            to: service(to),
            is_bare: is_entry && !is_call,
        });
        let is_waited_for = from.call.as_ref().is_some_and(|call| call.outcome == CallOutcome::Answered);
        if let (true, SpanKind::Server, Some(call_end), Some(end)) =
            (is_waited_for, to.kind, from.end, to.end)
        {
            let process =
                |arrival: &Arrival| (service(arrival), self.processes[arrival.process].identity.clone());
            self.observations.pairs.push(ClockPair {
                caller: Some(process(from)),
                server: process(to),
                ahead: difference((from.start, call_end), (to.start, end)),
            });
        }
    }

    fn observe_answer_to_trigger(&mut self, this: usize, sent: Timestamp, answered: Timestamp) {
        let arrival = &self.arrivals[this];
        let service = Arc::clone(self.shape.text(arrival.service));
        let answer = (Arc::clone(&service), took(arrival));
        if let (SpanKind::Server, Some(end)) = (arrival.kind, arrival.end) {
            self.observations.pairs.push(ClockPair {
                caller: None,
                server: (service, self.processes[arrival.process].identity.clone()),
                ahead: difference((sent, answered), (arrival.start, end)),
            });
        }
        self.observe_trigger(answered, Some(answer));
    }

    /// Notes that the trigger was answered, or the span that shows by which service.
    fn observe_trigger(&mut self, answered: Timestamp, answer: Option<(Arc<str>, Duration)>) {
        if let (Some(address), Begin::Triggered(id)) = (&self.trigger_address, self.begin)
            && (answer.is_some() || !self.is_trigger_observed)
        {
            self.observations.calls.push(ObservedCall {
                address: Arc::clone(address),
                span: Some(id),
                kind: TRIGGER,
                end: answered,
                answer,
            });
            self.is_trigger_observed = true;
        }
    }
}

fn took(arrival: &Arrival) -> Duration {
    arrival.end.map(|end| end.since(arrival.start)).unwrap_or_default()
}

/// By how much the clock of a server is ahead of its caller's: nothing if the server's span fits into the call, else what
/// puts it into the middle.
fn difference((sent, answered): (Timestamp, Timestamp), (start, end): (Timestamp, Timestamp)) -> i64 {
    let (low, high) = (end.nanos_since(answered), start.nanos_since(sent));
    if low <= 0 && high >= 0 {
        return 0;
    }
    // A server that works on after its answer ends after the call did, by any clock.
    if low > high { high } else { low + (high - low) / 2 }
}
