//! Work that a service goes on with after the span with which it begins: learned by kind of entry, over all traces.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::observation::Entry;
use crate::id::SpanId;
use crate::time::Timestamp;
use crate::trace::SpanKind;

/// Kinds of entries remembered of a service.
const MAX_ENTRIES: usize = 256;
/// Traces remembered of a kind of entry.
const MAX_TRACES: usize = 8;
/// A trace shows what comes after an entry when it is older than this, and than the latest known end with a margin.
const SHOWS_AFTER: Duration = Duration::from_secs(6);
const MARGIN: Duration = Duration::from_secs(1);
/// The work after an entry shorter than this is part of it.
const SHORTEST: Duration = Duration::from_millis(10);
/// Traces to be known before an entry counts as known.
const ENOUGH_TRACES: usize = 3;

/// The kinds of entries of a service.
#[derive(Debug, Clone, Default)]
pub(in crate::wait) struct Entries(HashMap<Arc<str>, Kind>);

/// What is known of one kind of entry.
#[derive(Debug, Clone, Default)]
struct Kind {
    traces: VecDeque<Trace>,
    /// The span that ended last.
    latest: Option<(SpanKind, Option<Arc<str>>)>,
}

/// Work that goes on after an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::wait) struct LaterWork {
    /// How long it takes at most.
    pub(in crate::wait) longest: Duration,
    /// Its last span, where that is known.
    pub(in crate::wait) latest: Option<(SpanKind, Option<Arc<str>>)>,
}

/// What one trace showed.
#[derive(Debug, Clone, Copy)]
struct Trace {
    span: Option<SpanId>,
    end: Timestamp,
    later: Duration,
}

impl Entries {
    /// Notes what a trace shows of an entry; a later look at the same trace replaces an earlier one.
    pub(super) fn note(&mut self, entry: &Entry) {
        if self.0.len() >= MAX_ENTRIES && !self.0.contains_key(&entry.name) {
            return;
        }
        let Kind { traces, latest } = self.0.entry(Arc::clone(&entry.name)).or_default();
        let later = if entry.later < SHORTEST { Duration::ZERO } else { entry.later };
        if !later.is_zero() {
            latest.clone_from(&entry.latest);
        }
        let is_same =
            |known: &&mut Trace| entry.span.is_some() && (known.span, known.end) == (entry.span, entry.end);
        if let Some(known) = traces.iter_mut().find(is_same) {
            known.later = known.later.max(later);
            return;
        }
        if traces.len() == MAX_TRACES {
            traces.pop_front();
        }
        traces.push_back(Trace { span: entry.span, end: entry.end, later });
    }

    /// Returns the work that goes on after such an entry, if a trace that begins now should show it: in a first run if any
    /// known trace did, else if the last two did that are old enough to show it.
    pub(in crate::wait) fn later_work(
        &self,
        name: &str,
        is_first: bool,
        now: Timestamp,
    ) -> Option<LaterWork> {
        let Kind { traces, latest } = self.0.get(name)?;
        let longest = longest(traces).filter(|longest| !longest.is_zero())?;
        let had = traces.iter().filter(|trace| is_old(trace, longest, now) || !trace.later.is_zero());
        let is_owed = is_first || had.rev().take(2).all(|trace| !trace.later.is_zero());
        is_owed.then(|| LaterWork { longest, latest: latest.clone() })
    }

    /// Whether enough traces of this age show what comes after such an entry.
    pub(in crate::wait) fn is_known(&self, name: &str, age: Duration, now: Timestamp) -> bool {
        self.0.get(name).is_some_and(|Kind { traces, .. }| {
            let longest = longest(traces).unwrap_or_default();
            let shows = |trace: &&Trace| is_old(trace, longest, now) && now.since(trace.end) > age;
            traces.iter().filter(shows).count() >= ENOUGH_TRACES
        })
    }

    /// Whether no kind of entry is followed by later work.
    pub(in crate::wait) fn is_quiet(&self) -> bool {
        self.0.values().all(|kind| longest(&kind.traces).unwrap_or_default().is_zero())
    }

    /// The longest known work after each kind of entry, for a file.
    pub(in crate::wait) fn remembered(&self) -> BTreeMap<&str, Duration> {
        let known = self.0.iter().filter_map(|(name, kind)| Some((&**name, longest(&kind.traces)?)));
        known.filter(|(_, later)| !later.is_zero()).collect()
    }

    /// Restores what a file keeps.
    pub(in crate::wait) fn restored(known: impl Iterator<Item = (String, Duration)>) -> Self {
        let kind = |later| Kind {
            traces: VecDeque::from([Trace { span: None, end: Timestamp::default(), later }]),
            latest: None,
        };
        Self(known.take(MAX_ENTRIES).map(|(name, later)| (name.into(), kind(later))).collect())
    }
}

fn longest(traces: &VecDeque<Trace>) -> Option<Duration> {
    traces.iter().map(|trace| trace.later).max()
}

fn is_old(trace: &Trace, longest: Duration, now: Timestamp) -> bool {
    now.since(trace.end) > SHOWS_AFTER.max(longest + longest / 4 + MARGIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_nanos(second * 1_000_000_000)
    }

    fn entries(later: &[u64]) -> Entries {
        let mut entries = Entries::default();
        for (number, later) in (1..).zip(later) {
            entries.note(&Entry {
                service: "worker".into(),
                name: "order".into(),
                span: SpanId::from_bytes([number; 8]),
                end: at(u64::from(number)),
                later: Duration::from_secs(*later),
                latest: None,
            });
        }
        entries
    }

    #[test]
    fn a_first_run_owes_what_any_trace_had_and_a_known_one_what_the_last_two_had() {
        for (later, first, known) in [
            (&[][..], None, None),
            (&[0, 0], None, None),
            (&[30, 0, 0], Some(30), None),
            (&[0, 30, 30], Some(30), Some(30)),
            (&[30, 0, 30], Some(30), None),
        ] {
            let entries = entries(later);
            let seconds = |work: Option<LaterWork>| work.map(|work| work.longest.as_secs());
            assert_eq!(seconds(entries.later_work("order", true, at(1_000))), first, "{later:?}");
            assert_eq!(seconds(entries.later_work("order", false, at(1_000))), known, "{later:?}");
        }
    }

    #[test]
    fn a_trace_that_is_too_young_to_show_later_work_is_no_trace_without_it() {
        let entries = entries(&[30, 30, 0]);
        assert!(entries.later_work("order", false, at(20)).is_some());
        assert!(entries.later_work("order", false, at(100)).is_none());
    }
}
