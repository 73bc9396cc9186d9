//! What is known of an address, RPC service or destination that is called: who answers there, and how many of its
//! answers came without a span.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::Largest;
use crate::id::SpanId;
use crate::time::Timestamp;

/// Calls that are remembered of an address.
const MAX_CALLS: usize = 32;
/// Services remembered for one address.
const MAX_ANSWERING: usize = 16;
/// Calls in a row without a span that are an outage, not one process of several. A second outage is no accident.
const OUTAGE: u32 = 4;
/// A call that has no span after this time has none, whatever the processes behind its address have delivered.
const MISSED_AFTER: Duration = Duration::from_secs(30);
/// Runs in which no call to an address was answered by a span, after which the peer is taken to send none.
const MUTE_RUNS: u32 = 2;
/// The same, where a service that has the name of the host is heard: one of its processes may have taken all the calls.
const MUTE_NAMESAKE_RUNS: u32 = 16;

/// An address that is called.
#[derive(Debug, Clone, Default)]
pub(in crate::wait) struct Address {
    /// The services that answered there.
    pub(in crate::wait) services: BTreeSet<Arc<str>>,
    /// The last calls that were answered, and messages that were sent.
    calls: VecDeque<RecentCall>,
    /// How long the spans that answer there take at most.
    pub(in crate::wait) longest: Largest,
    /// Whole runs with a call that no span answered, until the first one that a span did.
    mute_runs: u32,
}

/// A call to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RecentCall {
    /// The span of the call; `None` for one that a file remembers.
    span: Option<SpanId>,
    /// Tells the kinds of calls at one address apart.
    kind: u64,
    /// When it ended, by this server's clock.
    end: Timestamp,
    has_span: bool,
}

/// How many of the last calls to an address were answered with a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::wait) struct Share {
    /// The calls that count.
    pub(in crate::wait) of: u32,
    /// Those with a span.
    pub(in crate::wait) with: u32,
    /// Calls without one that stand alone between those with one, as those of one process of several do.
    pub(in crate::wait) single: u32,
}

impl Share {
    /// Calls that were answered without a span.
    pub(in crate::wait) fn without(self) -> u32 {
        self.of - self.with
    }
}

impl Address {
    /// Notes a call that was answered, or a message that was sent.
    pub(super) fn called(&mut self, span: Option<SpanId>, kind: u64, end: Timestamp) {
        if span.is_some() && self.calls.iter().any(|call| call.span == span) {
            return;
        }
        if self.calls.len() == MAX_CALLS {
            self.calls.pop_front();
        }
        self.calls.push_back(RecentCall { span, kind, end, has_span: false });
    }

    /// Notes that a span of this service answered a call.
    pub(super) fn answered(&mut self, span: Option<SpanId>, service: &str, took: Duration) {
        if let Some(call) = self.calls.iter_mut().rev().find(|call| span.is_some() && call.span == span) {
            call.has_span = true;
        }
        if self.services.len() < MAX_ANSWERING && !self.services.contains(service) {
            self.services.insert(service.into());
        }
        self.longest.saw(took);
        self.mute_runs = 0;
    }

    /// Notes a whole run in which no span answered the calls to this address.
    pub(super) fn stayed_mute(&mut self) {
        self.mute_runs = self.mute_runs.saturating_add(u32::from(self.services.is_empty()));
    }

    /// Whether the peer is taken to send no spans: no call was ever answered with one.
    pub(super) fn is_mute(&self, has_namesake: bool) -> bool {
        let enough = if has_namesake { MUTE_NAMESAKE_RUNS } else { MUTE_RUNS };
        self.services.is_empty() && self.mute_runs >= enough
    }

    /// Whether this call is one of the last that were sent there.
    pub(super) fn knows_call(&self, span: SpanId) -> bool {
        self.calls.iter().any(|call| call.span == Some(span))
    }

    /// Whether such a call was sent there.
    pub(super) fn knows_kind(&self, kind: u64) -> bool {
        self.calls.iter().any(|call| call.kind == kind || call.span.is_none())
    }

    /// Counts the last calls with and without a span. A call counts as one without only when `is_past` says that
    /// every process that could have answered it has delivered what it had then, or after a while.
    pub(in crate::wait) fn share(
        &self,
        counts: impl Fn(u64) -> bool,
        now: Timestamp,
        is_past: impl Fn(Timestamp) -> bool,
    ) -> Share {
        let mut share = Share::default();
        let (mut missed, mut outages) = (0, 0);
        for call in self.calls.iter().filter(|call| counts(call.kind)) {
            if call.has_span {
                outages += u32::from(missed >= OUTAGE);
                share.single += u32::from(missed > 0 && (missed < OUTAGE || outages > 1));
                share.with += 1;
                missed = 0;
            } else if now.since(call.end) > MISSED_AFTER || is_past(call.end) {
                missed += 1;
            } else {
                continue;
            }
            share.of += 1;
        }
        share
    }

    /// The last calls as a file keeps them: `+` for one with a span, `-` for one without. The latest ones without may still
    /// get their span, and are left out, unless `is_past` says that all who could have answered have delivered what they
    /// had.
    pub(in crate::wait) fn remembered_calls(&self, is_past: impl Fn(Timestamp) -> bool) -> String {
        let latest = self.calls.iter().map(|call| call.end).max().unwrap_or_default();
        let is_due = |call: &&RecentCall| {
            call.has_span || call.span.is_none() || latest.since(call.end) > MISSED_AFTER || is_past(call.end)
        };
        self.calls.iter().filter(is_due).map(|call| if call.has_span { '+' } else { '-' }).collect()
    }

    /// Restores what a file keeps. Calls of a file are old enough to count.
    pub(in crate::wait) fn remembered(services: Vec<String>, calls: &str, mute_runs: u32) -> Self {
        let calls = calls.chars().rev().take(MAX_CALLS).map(|call| RecentCall {
            span: None,
            kind: 0,
            end: Timestamp::default(),
            has_span: call == '+',
        });
        let mut calls: VecDeque<RecentCall> = calls.collect();
        calls.make_contiguous().reverse();
        Self {
            services: services.into_iter().take(MAX_ANSWERING).map(Arc::from).collect(),
            calls,
            longest: Largest::default(),
            mute_runs,
        }
    }

    /// Runs without an answer, as a file keeps them.
    pub(in crate::wait) fn mute_runs(&self) -> u32 {
        self.mute_runs.min(MUTE_NAMESAKE_RUNS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_nanos(second * 1_000_000_000)
    }

    fn calls(text: &str) -> Share {
        let address = Address::remembered(vec!["stock".to_owned()], text, 0);
        assert_eq!(address.remembered_calls(|_| false), text);
        address.share(|_| true, at(100), |_| false)
    }

    #[test]
    fn single_misses_tell_a_mute_process_and_many_in_a_row_an_outage() {
        assert_eq!(calls("++-+-++"), Share { of: 7, with: 5, single: 2 });
        assert_eq!(calls("++-----++"), Share { of: 9, with: 4, single: 0 });
        assert_eq!(calls("+++--"), Share { of: 5, with: 3, single: 0 });
        assert_eq!(calls("+----+-----+----"), Share { of: 16, with: 3, single: 1 });
    }

    #[test]
    fn a_call_is_missed_only_when_its_span_is_due() {
        let id = SpanId::from_bytes([1; 8]);
        let mut address = Address::default();
        address.called(id, 1, at(10));
        let share = |address: &Address, now, past: bool| address.share(|_| true, at(now), |_| past);
        assert_eq!(share(&address, 20, false), Share::default());
        assert_eq!(share(&address, 20, true).without(), 1);
        assert_eq!(share(&address, 41, false).without(), 1);
        address.answered(id, "stock", Duration::ZERO);
        assert_eq!(share(&address, 20, false), Share { of: 1, with: 1, single: 0 });
    }

    #[test]
    fn a_peer_that_never_answered_is_mute_after_two_runs() {
        let mut address = Address::default();
        address.stayed_mute();
        assert!(!address.is_mute(false));
        address.stayed_mute();
        assert!(address.is_mute(false));
        assert!(!address.is_mute(true), "a service of that name is heard");
        (2..MUTE_NAMESAKE_RUNS).for_each(|_| address.stayed_mute());
        assert!(address.is_mute(true));
        address.answered(None, "stock", Duration::ZERO);
        assert!(!address.is_mute(false));
    }
}
