//! The learned facts about one kind of span, and how a run updates them.

use std::time::Duration;

/// Runs after which a larger earlier number is forgotten.
const REMEMBERED_RUNS: u32 = 20;
/// Runs without the parent of a kind after which the kind is forgotten: such runs say nothing about it.
const REMEMBERED_IDLE_RUNS: u32 = 200;
/// Runs in a row that may have had more of a kind than arrived, which teach nothing about it.
const UNPROVEN_RUNS: u32 = 4;

/// The learned facts about one kind of span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::wait) struct Fact {
    /// How many of them every span of the parent's kind has.
    pub(in crate::wait) each: Steady,
    /// How many of them a run has.
    pub(in crate::wait) most: RecentMaximum,
    /// The number of further runs for which the kind counts as one whose number differs from parent to parent.
    pub(in crate::wait) varies: u32,
    pub(in crate::wait) ends_before_parent: bool,
    pub(in crate::wait) answer: Answer,
    /// How long after the answer to the trigger such a span ended at most.
    pub(in crate::wait) late: Duration,
    /// How many runs in a row may have had more of them than arrived.
    pub(in crate::wait) unproven: u32,
}

/// A number that changes only when two runs in a row differ from it, and then to what both allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::wait) struct Steady {
    pub(in crate::wait) value: u32,
    /// The number of the last run, when it differed.
    pub(in crate::wait) other: Option<u32>,
}

/// The largest number in the latest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::wait) struct RecentMaximum {
    pub(in crate::wait) value: u32,
    /// The largest number of the runs since the last one that had `value`.
    pub(in crate::wait) since: u32,
    /// How many runs that is.
    pub(in crate::wait) runs: u32,
    /// How many runs in a row had none.
    pub(in crate::wait) absent: u32,
    /// How many runs in a row had no span below which there could have been one.
    pub(in crate::wait) idle: u32,
}

/// Whether calls of a kind are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::wait) enum Answer {
    /// Never: the peer sends no spans.
    #[default]
    Never,
    /// Not known yet.
    New,
    /// The calls of the only run so far were not answered.
    Once,
    /// The calls are answered.
    Comes,
    /// The calls used to be answered, but were not in the last run.
    Missed,
}

/// The numbers of one kind in one run.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::wait) struct KindCounts {
    pub(in crate::wait) count: u32,
    pub(in crate::wait) each: u32,
    pub(in crate::wait) parents: u32,
    pub(in crate::wait) ends_before_parent: bool,
    pub(in crate::wait) call: Call,
    pub(in crate::wait) late: Duration,
}

/// The calls of one kind in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::wait) enum Call {
    /// It is no call.
    #[default]
    None,
    /// One was answered.
    Answered,
    /// None was answered.
    Unanswered,
    /// None was answered in time, but a known service may still do so.
    Unproven,
}

impl Fact {
    pub(in crate::wait) const NEW: Self = Self {
        each: Steady { value: 0, other: None },
        most: RecentMaximum { value: 0, since: 0, runs: 0, absent: 0, idle: 0 },
        varies: 0,
        ends_before_parent: true,
        answer: Answer::New,
        late: Duration::ZERO,
        unproven: 0,
    };

    /// Expects at least as much as was seen, without the confirmation of a second run.
    pub(in crate::wait) fn expect(&mut self, seen: KindCounts) {
        if seen.count == 0 {
            return;
        }
        let new = self.most.value == 0 && self.most.since == 0;
        if new {
            self.each.value = seen.each;
        }
        if seen.each >= self.each.value {
            self.each.other = None;
        }
        self.most.value = self.most.value.max(seen.count);
        self.most.absent = 0;
        self.ends_before_parent &= seen.ends_before_parent;
        self.late = self.late.max(seen.late);
        if seen.call == Call::Answered {
            self.answer = Answer::Comes;
        }
    }

    /// Learns from a run. Where `is_open`, the run may have had more of them: a few such runs teach nothing.
    pub(in crate::wait) fn learn(&mut self, seen: KindCounts, is_open: bool) {
        let is_unproven = is_open && seen.count < self.most.value && self.unproven < UNPROVEN_RUNS;
        if is_unproven {
            self.unproven += 1;
            return;
        }
        self.unproven = 0;
        if seen.parents > 0 {
            let steady = seen.each == self.each.value && seen.count == seen.each.saturating_mul(seen.parents);
            self.varies = if steady { self.varies.saturating_sub(1) } else { REMEMBERED_RUNS };
            self.each.learn(seen.each);
            self.most.learn(seen.count);
        } else {
            self.most.rest();
        }
        if seen.count == 0 {
            return;
        }
        self.ends_before_parent &= seen.ends_before_parent;
        // Decays slowly: by a twentieth with each run.
        self.late = seen.late.max(self.late * (REMEMBERED_RUNS - 1) / REMEMBERED_RUNS);
        self.answer = match (seen.call, self.answer) {
            (Call::Answered, _) => Answer::Comes,
            (Call::Unproven, answer) => answer,
            (Call::Unanswered, Answer::New) => Answer::Once,
            (Call::Unanswered, Answer::Comes) => Answer::Missed,
            (Call::None, _) | (Call::Unanswered, Answer::Once | Answer::Missed | Answer::Never) => {
                Answer::Never
            }
        };
    }
}

impl Steady {
    fn learn(&mut self, number: u32) {
        let other = self.other.take();
        let both_fewer = other.filter(|other| *other < self.value && number < self.value);
        let both_more = other.filter(|other| *other > self.value && number > self.value);
        if let Some(other) = both_fewer {
            self.value = other.max(number);
        } else if let Some(other) = both_more {
            self.value = other.min(number);
        } else if number != self.value {
            self.other = Some(number);
        }
    }
}

impl RecentMaximum {
    /// Records a run that had no parent for this kind.
    fn rest(&mut self) {
        self.idle = self.idle.saturating_add(1);
        if self.idle >= REMEMBERED_IDLE_RUNS {
            *self = Self::default();
        }
    }

    fn learn(&mut self, number: u32) {
        self.idle = 0;
        self.absent = if number == 0 { self.absent.saturating_add(1) } else { 0 };
        self.since = self.since.max(number);
        self.runs = self.runs.saturating_add(1);
        let known_and_more = self.value > 0 && number >= self.value;
        // A new kind is expected when two runs in a row had it.
        let confirmed = self.value == 0 && self.runs > 1 && number > 0;
        if known_and_more || confirmed || self.runs >= REMEMBERED_RUNS {
            (self.value, self.since, self.runs) = (self.since, 0, 0);
        }
        if self.absent >= 2 || (self.value == 0 && number == 0) {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_may_have_lost_a_span_do_not_unlearn_it_at_once() {
        let seen = KindCounts { count: 1, each: 1, parents: 1, ..KindCounts::default() };
        let lacking = KindCounts { count: 0, each: 0, ..seen };
        let mut fact = Fact::NEW;
        fact.expect(seen);
        fact.learn(seen, false);
        let known = fact;
        for _ in 0..UNPROVEN_RUNS {
            fact.learn(lacking, true);
        }
        assert_eq!(fact.most, known.most);
        fact.learn(lacking, true);
        fact.learn(lacking, false);
        assert_eq!(fact.most.value, 0, "two runs in a row have shown that it is gone");
    }
}
