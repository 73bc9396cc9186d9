//! Learning: how a run that ended changes the history of its test.

use std::collections::BTreeSet;

use super::history::{CLEAN_RUNS, ENOUGH_RUNS, Fact, History, KindCounts, MAX_KINDS};
use super::progress::Progress;
use super::shape::{Node, Shape};
use super::{Reason, WaitEnd};

impl History {
    /// Learns from a run that ended; returns whether anything was learned. Only complete runs that passed change
    /// what is expected.
    ///
    /// A kind of span that two runs in a row lacked is no longer expected; one that two runs in a row had is.
    /// Other runs only teach how late spans may be.
    pub fn learn(&mut self, run: &Progress, ended: &WaitEnd, passed: bool) -> bool {
        let complete = matches!(ended.reason, Reason::Complete | Reason::Settled);
        if ended.reason == Reason::Decided {
            self.last_decided = run.answered_at();
        }
        let is_news = complete && self.awaited_runs == 0;
        self.awaited_runs = self.awaited_runs.saturating_add(u32::from(complete));
        if !complete || !passed {
            return self.learn_lateness(run) || is_news;
        }
        self.caller_is_silent = run.silent_caller().is_some();
        if self.shape.has_older_calls {
            // The whole run that an older file has led to expect shows which calls of one name are two.
            (self.shape, self.facts) = (Shape::default(), Vec::new());
            self.learn_shape(&run.placed_anew(), &BTreeSet::new());
        } else if self.caller_is_silent {
            self.learn_shape(&run.with_caller_placed(), &ended.open_kinds);
        } else {
            self.learn_shape(run, &ended.open_kinds);
        }
        self.remember_duration(run);
        self.runs = self.runs.saturating_add(1);
        self.clean_runs = self.clean_runs.saturating_add(1);
        if self.clean_runs >= CLEAN_RUNS {
            self.doublings = 0;
        }
        true
    }

    /// Learns that spans came after the verdict: `run` has them now, and `passed` is its verdict with them. The
    /// quiet window doubles, once for each run, and the late spans are expected from now on if the run passes.
    pub fn late(&mut self, run: &Progress, passed: bool) {
        let was_cut_short = run.answered_at() == self.last_decided;
        if !was_cut_short {
            self.clean_runs = 0;
        }
        if !was_cut_short && run.answered_at() != self.last_late {
            self.last_late = run.answered_at();
            self.doublings = (self.doublings + 1).min(u32::BITS - 1);
        }
        self.longest = self.longest.max(run.duration());
        if self.runs == 0 || !passed {
            self.learn_lateness(run);
            return;
        }
        let counted = RunCounts::of(run, &BTreeSet::new(), &mut self.shape, &mut self.facts);
        for (fact, seen) in self.facts.iter_mut().zip(&counted.seen) {
            fact.expect(*seen);
        }
        self.list_kinds();
    }

    /// Learns how late spans of known kinds may end and arrive. Returns whether that was new.
    fn learn_lateness(&mut self, run: &Progress) -> bool {
        let mut learned = run.duration() > self.longest;
        self.longest = self.longest.max(run.duration());
        let late = run.lateness();
        for node in run.shape().nodes().filter(|node| run.count(*node) > 0) {
            // The run's shape started as a copy of this one: known kinds have the same index.
            if let Some(fact) = self.facts.get_mut(node.index()).filter(|fact| fact.late < late[node.index()])
            {
                fact.late = late[node.index()];
                learned = true;
            }
        }
        learned
    }

    fn learn_shape(&mut self, run: &Progress, open_kinds: &BTreeSet<Node>) {
        let known = self.shape.len();
        let counted = RunCounts::of(run, open_kinds, &mut self.shape, &mut self.facts);
        for ((node, fact), seen) in self.shape.nodes().zip(&mut self.facts).zip(&counted.seen) {
            // What stands below a new kind stood below every span of that kind.
            let is_below_new = self.shape.key(node).parent.is_some_and(|parent| parent.index() >= known);
            if self.runs == 0 || known == 0 || is_below_new {
                fact.expect(*seen);
            }
            fact.learn(*seen, open_kinds.contains(&node));
        }
        self.left_out = counted.left_out;
        self.forget_the_gone();
        self.list_kinds();
    }

    /// Lets durations decay: the longest shrinks by a twentieth with each run.
    fn remember_duration(&mut self, run: &Progress) {
        let faded = self.longest * (ENOUGH_RUNS - 1) / ENOUGH_RUNS;
        self.longest = run.duration().max(faded);
    }
}

/// The spans of a run, counted by the kinds of a history.
struct RunCounts {
    seen: Vec<KindCounts>,
    /// Kinds that exceeded the limit.
    left_out: usize,
}

impl RunCounts {
    /// Counts the spans of `run`, and adds new kinds to `shape` while there is room.
    fn of(run: &Progress, open: &BTreeSet<Node>, shape: &mut Shape, facts: &mut Vec<Fact>) -> Self {
        let (before_parent, calls, each, late) =
            (run.ended_before_parent(), run.calls(open), run.least_below(), run.lateness());
        let theirs = run.shape();
        let mut moved: Vec<Option<Node>> = vec![None; theirs.len()];
        let mut counted = vec![KindCounts::default(); shape.len()];
        let mut left_out = 0;
        for node in theirs.nodes() {
            let parent = theirs.key(node).parent;
            let here = parent.and_then(|parent| moved[parent.index()]);
            if run.count(node) == 0 {
                continue;
            }
            let lost = parent.is_some() && here.is_none();
            let adopted = (!lost).then(|| shape.adopt(theirs, node, here, MAX_KINDS)).flatten();
            let Some(ours) = adopted else {
                left_out += 1;
                continue;
            };
            moved[node.index()] = Some(ours);
            counted.resize(shape.len(), KindCounts::default());
            facts.resize(shape.len(), Fact::NEW);
            counted[ours.index()] = KindCounts {
                count: run.count(node),
                each: each[node.index()],
                parents: parent.map_or(1, |parent| run.count(parent)),
                ends_before_parent: before_parent[node.index()],
                call: calls[node.index()],
                late: late[node.index()],
            };
        }
        // A kind that the run lacks: its parents may be here nevertheless.
        for node in shape.nodes() {
            if counted[node.index()].count == 0 {
                let parent = shape.key(node).parent;
                counted[node.index()].parents = parent.map_or(1, |parent| counted[parent.index()].count);
            }
        }
        Self { seen: counted, left_out }
    }
}
