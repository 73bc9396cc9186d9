//! What earlier complete runs of a test say about the next one.
//!
//! History only says what to wait for. It never turns a failure into a pass: runs that failed, or that ended before
//! their trace was complete, teach nothing, because an error's short cut must not become what is expected.

mod document;

use std::time::Duration;

pub use document::{ReadError, from_json, to_json};

use super::lags::Lags;
use super::progress::Progress;
use super::shape::{Node, Shape};
use super::{Ended, Policy, Reason};
use crate::time::Timestamp;

/// Kinds of spans that are remembered for a test; further ones are not expected of later runs.
pub const MAX_KINDS: usize = 5_000;
/// Runs in a row without a late span after which a widened quiet window is forgotten.
pub const CLEAN_RUNS: u32 = 20;
/// Complete runs before the silences seen in them say how long a silence may be.
pub const ENOUGH_RUNS: u32 = 20;
/// Added to what was measured when a settle window is derived from it.
const SETTLE_MARGIN: Duration = Duration::from_millis(100);

/// What is known of a test.
#[derive(Debug, Clone, Default)]
pub struct History {
    shape: Shape,
    facts: Vec<Fact>,
    runs: u32,
    doublings: u32,
    clean_runs: u32,
    longest_silence: Duration,
    caller_is_silent: bool,
    last_late: Option<Timestamp>,
}

/// What is known of one kind of span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Fact {
    /// How many of them a run has.
    usual: u32,
    /// The last run had only that many.
    fewer: Option<u32>,
    /// Seen in one run only, and not in the first: not expected yet.
    new: bool,
    ends_before_parent: bool,
    answer: Answer,
}

/// Whether calls of a kind are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Answer {
    /// Never: the peer sends no spans.
    #[default]
    Never,
    /// They are.
    Comes,
    /// They were, but not in the last run.
    Missed,
}

impl History {
    /// How many complete runs it rests on.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// The kinds of spans that the next run is expected to have.
    pub fn kinds(&self) -> usize {
        self.facts
            .iter()
            .filter(|fact| !fact.new && fact.usual > 0)
            .count()
    }

    /// The quiet window: the policy's, doubled for each run that had late spans, up to the settle window.
    pub fn quiet(&self, policy: &Policy) -> Duration {
        let factor = 1_u32.checked_shl(self.doublings).unwrap_or(u32::MAX);
        policy
            .quiet
            .saturating_mul(factor)
            .min(policy.settle.max(policy.quiet))
    }

    /// The settle window: shorter than the policy's when every service is known to deliver sooner.
    ///
    /// How late spans are delivered does not bound how long work goes on after the answer, so the silences of earlier
    /// complete runs count as well.
    pub fn settle(&self, policy: &Policy, lags: &Lags) -> Duration {
        if self.runs < ENOUGH_RUNS {
            return policy.settle;
        }
        let largest = self
            .shape
            .nodes()
            .filter(|node| self.usual(*node) > 0)
            .map(|node| lags.largest(self.shape.text(self.shape.key(node).service)))
            .try_fold(self.longest_silence, |largest, lag| {
                lag.map(|lag| lag.max(largest))
            });
        match largest {
            Some(largest) => (largest.saturating_mul(2) + SETTLE_MARGIN).min(policy.settle),
            None => policy.settle,
        }
    }

    /// Learns from a run that ended. Says whether it did: only complete runs that passed teach anything.
    ///
    /// A kind of span that two runs in a row lacked is no longer expected; one that two runs in a row had is.
    pub fn learn(&mut self, run: &Progress, ended: &Ended, passed: bool) -> bool {
        let complete = matches!(ended.reason, Reason::Complete | Reason::Settled);
        if !complete || !passed {
            return false;
        }
        if run.silent_caller().is_some() {
            self.learn_shape(&run.with_caller_placed());
            self.caller_is_silent = true;
        } else {
            self.learn_shape(run);
            self.caller_is_silent = false;
        }
        self.remember_silence(run);
        self.runs = self.runs.saturating_add(1);
        self.clean_runs = self.clean_runs.saturating_add(1);
        if self.clean_runs >= CLEAN_RUNS {
            self.doublings = 0;
        }
        true
    }

    /// Learns that spans came after the verdict: `run` has them now. The quiet window doubles, once for each run, and
    /// what came late is expected from now on.
    pub fn late(&mut self, run: &Progress) {
        self.clean_runs = 0;
        if run.answered_at() != self.last_late {
            self.last_late = run.answered_at();
            self.doublings = (self.doublings + 1).min(u32::BITS - 1);
        }
        if self.runs == 0 {
            return;
        }
        self.longest_silence = self.longest_silence.max(run.longest_silence());
        let counted = Counted::of(run, &mut self.shape, &mut self.facts);
        for (fact, seen) in self.facts.iter_mut().zip(&counted.0) {
            if seen.count > 0 {
                fact.usual = fact.usual.max(seen.count);
                fact.new = false;
                fact.ends_before_parent &= seen.ends_before_parent;
            }
            if seen.answered {
                fact.answer = Answer::Comes;
            }
        }
    }

    fn learn_shape(&mut self, run: &Progress) {
        let counted = Counted::of(run, &mut self.shape, &mut self.facts);
        let first = self.runs == 0;
        for (fact, seen) in self.facts.iter_mut().zip(&counted.0) {
            if first {
                fact.new = false;
            }
            fact.learn(*seen);
        }
        self.forget_the_gone();
    }

    /// Silences are forgotten slowly: a twentieth of the longest a run.
    fn remember_silence(&mut self, run: &Progress) {
        let faded = self.longest_silence * (ENOUGH_RUNS - 1) / ENOUGH_RUNS;
        self.longest_silence = run.longest_silence().max(faded);
    }

    /// Keeps the kinds that still occur, and those above them.
    fn forget_the_gone(&mut self) {
        let mut keep: Vec<bool> = self.facts.iter().map(|fact| fact.usual > 0).collect();
        let nodes: Vec<Node> = self.shape.nodes().collect();
        for node in nodes.iter().rev() {
            if let Some(parent) = self.shape.key(*node).parent.filter(|_| keep[node.index()]) {
                keep[parent.index()] = true;
            }
        }
        if keep.iter().all(|keep| *keep) {
            return;
        }
        let old = std::mem::take(&mut self.shape);
        let facts = std::mem::take(&mut self.facts);
        let mut moved: Vec<Option<Node>> = vec![None; old.len()];
        for node in nodes.into_iter().filter(|node| keep[node.index()]) {
            let parent = old.key(node).parent.and_then(|parent| moved[parent.index()]);
            moved[node.index()] = self.shape.adopt(&old, node, parent, MAX_KINDS);
            self.facts.push(facts[node.index()]);
        }
    }
}

/// What a wait asks.
impl History {
    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(super) fn usual(&self, node: Node) -> u32 {
        self.facts
            .get(node.index())
            .filter(|fact| !fact.new)
            .map_or(0, |fact| fact.usual)
    }

    pub(super) fn is_leaf(&self, node: Node) -> bool {
        self.facts
            .get(node.index())
            .is_some_and(|fact| fact.usual > 0 && fact.answer == Answer::Never)
    }

    pub(super) fn ends_before_parent(&self, node: Node) -> bool {
        self.facts
            .get(node.index())
            .is_some_and(|fact| fact.ends_before_parent)
    }

    pub(super) fn caller_is_silent(&self) -> bool {
        self.caller_is_silent
    }
}

/// The spans of a run, counted by the kinds of a history.
struct Counted(Vec<Seen>);

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    count: u32,
    ends_before_parent: bool,
    answered: bool,
}

impl Counted {
    /// Counts, and adds the kinds that are new to `shape` while there is room.
    fn of(run: &Progress, shape: &mut Shape, facts: &mut Vec<Fact>) -> Self {
        let (before_parent, answered) = (run.ended_before_parent(), run.was_answered());
        let theirs = run.shape();
        let mut moved: Vec<Option<Node>> = vec![None; theirs.len()];
        let mut counted = vec![Seen::default(); shape.len()];
        for node in theirs.nodes() {
            let parent = theirs.key(node).parent;
            let here = parent.and_then(|parent| moved[parent.index()]);
            let lost = parent.is_some() && here.is_none();
            if lost || run.count(node) == 0 {
                continue;
            }
            let Some(ours) = shape.adopt(theirs, node, here, MAX_KINDS) else {
                continue;
            };
            moved[node.index()] = Some(ours);
            counted.resize(shape.len(), Seen::default());
            facts.resize_with(shape.len(), || Fact {
                new: true,
                ends_before_parent: true,
                ..Fact::default()
            });
            counted[ours.index()] = Seen {
                count: run.count(node),
                ends_before_parent: before_parent[node.index()],
                answered: answered[node.index()],
            };
        }
        Self(counted)
    }
}

impl Fact {
    fn learn(&mut self, seen: Seen) {
        if self.new || seen.count >= self.usual {
            self.new &= self.usual == 0;
            self.usual = seen.count;
            self.fewer = None;
        } else if let Some(before) = self.fewer.take() {
            self.usual = before.max(seen.count);
        } else {
            self.fewer = Some(seen.count);
        }
        if seen.count == 0 {
            return;
        }
        self.ends_before_parent &= seen.ends_before_parent;
        self.answer = match (seen.answered, self.answer) {
            (true, _) => Answer::Comes,
            (false, Answer::Comes) => Answer::Missed,
            (false, Answer::Missed | Answer::Never) => Answer::Never,
        };
    }
}
