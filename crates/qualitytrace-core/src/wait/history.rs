//! History: what earlier complete runs of a test say about the next one.
//!
//! History only says what to wait for. It never turns a failure into a pass: runs that failed, or that ended
//! before their trace was complete, add nothing to the shape, because an error's short cut must not become
//! expected.

mod document;
mod fact;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub use document::{Learned, ReadError};

use self::fact::Answer;
pub(super) use self::fact::{Call, Fact, KindCounts};
use super::Policy;
use super::register::Register;
use super::shape::{Node, Shape};
use crate::time::Timestamp;

/// Maximum number of kinds of spans remembered for a test; further ones are not expected of later runs.
pub const MAX_KINDS: usize = 5_000;
/// Runs in a row without a late span after which a widened quiet window is forgotten.
pub const CLEAN_RUNS: u32 = 20;
/// Complete runs after which the time that they took to arrive bounds the next one.
pub const ENOUGH_RUNS: u32 = 20;
/// Added to what was measured when a settle window is derived from it.
const SETTLE_MARGIN: Duration = Duration::from_millis(100);
/// Added to the allowed lateness of work after the answer while few runs are known.
const FEW_RUNS_MARGIN: Duration = Duration::from_secs(2);
/// Work that ends this late after the answer is planned, and does not take twice as long at times.
const LONG_WORK: Duration = Duration::from_secs(10);
/// Lower bound of a derived settle window: a busy machine may delay any service for a moment.
const SHORTEST_SETTLE: Duration = Duration::from_secs(1);

/// What is known of a test from its earlier runs.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub(super) shape: Shape,
    pub(super) facts: Vec<Fact>,
    /// For each kind, and for the trigger at the end: what each of its spans has below it.
    pub(super) required: Vec<Vec<(Node, u32)>>,
    /// The kinds whose number differs from parent to parent.
    pub(super) occasional: Vec<Node>,
    /// The services that send them.
    pub(super) services: BTreeSet<Arc<str>>,
    pub(super) runs: u32,
    /// Runs whose wait ended as complete or settled, whatever their verdict.
    pub(super) awaited_runs: u32,
    pub(super) doublings: u32,
    pub(super) clean_runs: u32,
    /// How long after the answer the last span of a run arrived.
    pub(super) longest: Duration,
    pub(super) caller_is_silent: bool,
    pub(super) last_late: Option<Timestamp>,
    /// When the last run was answered whose verdict did not wait for everything: its late spans are expected.
    pub(super) last_decided: Option<Timestamp>,
    pub(super) left_out: usize,
}

impl History {
    /// Returns the number of complete runs that it rests on.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// Returns the number of runs whose wait ended as complete or settled, whatever their verdict.
    pub(super) fn awaited_runs(&self) -> u32 {
        self.awaited_runs
    }

    /// Counts the kinds of spans that the next run is expected to have.
    pub fn kinds(&self) -> usize {
        self.shape.nodes().filter(|node| self.is_known(*node)).count()
    }

    /// Returns how many kinds of spans of the last run exceeded [`MAX_KINDS`] and are not expected of the next.
    pub fn kinds_left_out(&self) -> usize {
        self.left_out
    }

    /// The quiet window: the policy's, doubled for each run that had late spans, up to the settle window.
    pub fn quiet(&self, policy: &Policy) -> Duration {
        let factor = 1_u32.checked_shl(self.doublings).unwrap_or(u32::MAX);
        policy.quiet.saturating_mul(factor).min(policy.settle.max(policy.quiet))
    }

    /// The settle window: the policy's, unless it is known how late the services of this test deliver.
    ///
    /// It is shorter when all of them deliver soon. How late spans are delivered does not bound how long work goes
    /// on after the answer, so the time that earlier complete runs took to arrive counts as well. It is longer
    /// when one of them is known to deliver later than the policy allows for, or when spans came after a verdict;
    /// at most twice as long while it rests on few deliveries.
    pub fn settle(&self, policy: &Policy, register: &Register) -> Duration {
        let known = || self.services.iter().filter_map(|service| register.largest(service));
        let latest = known().max().unwrap_or_default();
        let all_known = self.runs >= ENOUGH_RUNS && known().count() == self.services.len();
        let enough = latest.max(self.longest).saturating_mul(2).saturating_add(SETTLE_MARGIN);
        let shortened = if all_known { enough.max(SHORTEST_SETTLE) } else { policy.settle };
        let twice = policy.settle.saturating_mul(2);
        let expected = self.services.iter().filter_map(|service| {
            let within = register.delivers_within(service)?;
            Some(if register.largest(service).is_some() { within } else { within.min(twice) })
        });
        // Where spans came after the verdict, they may come as late again, and a quarter later.
        let as_late = if self.doublings > 0 { self.longest + self.longest / 4 } else { Duration::ZERO };
        let as_late = as_late.saturating_add(SETTLE_MARGIN).min(twice);
        shortened.min(policy.settle).max(expected.max().unwrap_or_default()).max(as_late)
    }

    /// Lists the kinds anew that are expected, occasional, and sent by which service.
    pub(super) fn list_kinds(&mut self) {
        self.required = vec![Vec::new(); self.shape.len() + 1];
        for (node, fact) in self.shape.nodes().zip(&self.facts) {
            if fact.each.value > 0 {
                let above = self.shape.key(node).parent.map_or(self.shape.len(), Node::index);
                self.required[above].push((node, fact.each.value));
            }
        }
        let occasional = self.shape.nodes().filter(|node| self.varies(*node) && self.most(*node) > 0);
        self.occasional = occasional.collect();
        let known = self.shape.nodes().filter(|node| self.is_known(*node));
        let service = |node| Arc::clone(self.shape.text(self.shape.key(node).service));
        self.services = known.map(service).collect();
    }

    /// Keeps the kinds that still occur, and their ancestors.
    pub(super) fn forget_the_gone(&mut self) {
        let mut keep: Vec<bool> =
            self.facts.iter().map(|fact| fact.most.value > 0 || fact.most.since > 0).collect();
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

/// Queries of the wait.
impl History {
    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the kinds that each span of this kind, or the trigger (`None`), had below it in earlier runs, and
    /// how many.
    pub(super) fn required_below(&self, node: Option<Node>) -> &[(Node, u32)] {
        let at = node.map_or(self.shape.len(), Node::index);
        // A kind that is new to a run may have the index that stands for the trigger here.
        let known = node.is_none() || at < self.shape.len();
        self.required.get(at).filter(|_| known).map_or(&[], Vec::as_slice)
    }

    /// The kinds whose number differs from parent to parent.
    pub(super) fn occasional(&self) -> &[Node] {
        &self.occasional
    }

    /// Whether the number of spans of this kind differs from parent to parent.
    pub(super) fn varies(&self, node: Node) -> bool {
        self.facts.get(node.index()).is_some_and(|fact| fact.each.value == 0 || fact.varies > 0)
    }

    /// Returns the largest number of spans of this kind in a run.
    pub(super) fn most(&self, node: Node) -> u32 {
        self.facts.get(node.index()).map_or(0, |fact| fact.most.value)
    }

    /// Whether spans of this kind are expected.
    pub(super) fn is_known(&self, node: Node) -> bool {
        self.facts.get(node.index()).is_some_and(|fact| fact.each.value > 0 || fact.most.value > 0)
    }

    pub(super) fn is_leaf(&self, node: Node) -> bool {
        self.facts.get(node.index()).is_some_and(|fact| fact.answer == Answer::Never)
    }

    pub(super) fn ends_before_parent(&self, node: Node) -> bool {
        self.facts.get(node.index()).is_some_and(|fact| fact.ends_before_parent)
    }

    /// Returns the time by which a span of this kind should have ended in a run whose other spans ended by `base`.
    ///
    /// Work after the answer may take twice as long as it ever did, or half as long again where it takes long, and longer
    /// while few runs are known.
    pub(super) fn due(&self, node: Node, base: Timestamp) -> Timestamp {
        let late = self.facts.get(node.index()).map_or(Duration::ZERO, |fact| fact.late);
        if late.is_zero() {
            return base;
        }
        let unsure = if self.runs < ENOUGH_RUNS { FEW_RUNS_MARGIN } else { Duration::ZERO };
        let longer = if late > LONG_WORK { late / 2 } else { late };
        base + late.saturating_add(longer).saturating_add(unsure)
    }

    pub(super) fn caller_is_silent(&self) -> bool {
        self.caller_is_silent
    }
}
