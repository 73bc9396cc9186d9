//! The spans of a run counted by kind, as history learns them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::super::call::CallOutcome;
use super::super::history::Call;
use super::super::shape::{Node, Shape};
use super::{Begin, Progress};
use crate::trace::SpanKind;

impl Progress {
    pub(in crate::wait) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(in crate::wait) fn count(&self, node: Node) -> u32 {
        self.counts[node.index()]
    }

    /// How long after the trigger's answer the last span arrived.
    pub(in crate::wait) fn duration(&self) -> Duration {
        match (self.last_arrival, self.answered_at) {
            (Some(last), Some(answered)) => last.since(answered),
            (None, _) | (_, None) => Duration::ZERO,
        }
    }

    /// For each kind: whether all its spans ended before their parent in the same process did.
    pub(in crate::wait) fn ended_before_parent(&self) -> Vec<bool> {
        let mut before = vec![true; self.shape.len()];
        for arrival in &self.arrivals {
            let parent = arrival.parent.and_then(|id| self.by_id.get(&id));
            let ended_before = parent.is_some_and(|at| {
                let parent = &self.arrivals[*at];
                let same_process = parent.service == arrival.service
                    && !matches!(arrival.kind, SpanKind::Server | SpanKind::Consumer);
                same_process && arrival.end.is_some() && arrival.end <= parent.end
            });
            if let Some(node) = arrival.node {
                before[node.index()] &= ended_before;
            }
        }
        before
    }

    /// For each kind: the least number of them that a span of its parent's kind has.
    pub(in crate::wait) fn least_below(&self) -> Vec<u32> {
        let mut below: BTreeMap<(Option<usize>, Node), u32> = BTreeMap::new();
        for arrival in &self.arrivals {
            let parent = arrival.parent.and_then(|id| self.by_id.get(&id)).copied();
            if let Some(node) = arrival.node {
                *below.entry((parent, node)).or_default() += 1;
            }
        }
        let mut least = vec![(u32::MAX, 0_u32); self.shape.len()];
        for ((_, node), count) in below {
            let (fewest, parents) = &mut least[node.index()];
            *fewest = (*fewest).min(count);
            *parents += 1;
        }
        let least = self.shape.nodes().zip(least).map(|(node, (fewest, parents))| {
            let above = self.shape.key(node).parent.map_or(1, |parent| self.count(parent));
            if parents == above { fewest } else { 0 }
        });
        least.collect()
    }

    /// For each kind: whether its spans are calls, and whether any of them was answered. Calls of `open` kinds may
    /// still be answered.
    pub(in crate::wait) fn calls(&self, open: &BTreeSet<Node>) -> Vec<Call> {
        let mut calls = vec![Call::None; self.shape.len()];
        for arrival in &self.arrivals {
            let (Some(node), Some(call)) = (arrival.node, &arrival.call) else { continue };
            let known = &mut calls[node.index()];
            let is_open = open.contains(&node) || call.outcome == CallOutcome::Refused;
            *known = match (call.answered, *known) {
                (true, _) | (_, Call::Answered) => Call::Answered,
                (false, _) if is_open => Call::Unproven,
                (false, _) => Call::Unanswered,
            };
        }
        calls
    }

    /// For each kind: how long after the answer to the trigger the last of its spans ended.
    pub(in crate::wait) fn lateness(&self) -> Vec<Duration> {
        let mut late = vec![Duration::ZERO; self.shape.len()];
        for (this, arrival) in self.arrivals.iter().enumerate() {
            if let (Some(node), Some(end), Some(answered)) =
                (arrival.node, self.ended_at(this), self.answered_at)
            {
                late[node.index()] = late[node.index()].max(end.since(answered));
            }
        }
        late
    }

    /// Returns a copy whose spans are placed without a history.
    pub(in crate::wait) fn placed_anew(&self) -> Self {
        let mut placed = self.clone();
        placed.history = Arc::default();
        placed.shape = self.shape.without_nodes();
        (placed.counts, placed.below, placed.short) = (Vec::new(), HashMap::new(), BTreeMap::new());
        (placed.fewer, placed.unplaced) = (BTreeSet::new(), HashMap::new());
        let mut roots = Vec::new();
        let caller = self.silent_caller();
        for (this, arrival) in placed.arrivals.iter_mut().enumerate() {
            arrival.node = None;
            let parent =
                arrival.parent.filter(|id| Begin::Triggered(*id) != self.begin && Some(*id) != caller);
            match parent {
                None => roots.push(this),
                Some(id) => {
                    if let Some(parent) = self.by_id.get(&id).filter(|parent| **parent != this) {
                        placed.unplaced.entry(*parent).or_default().push(this);
                    }
                }
            }
        }
        for root in roots {
            placed.place(root, None);
        }
        placed
    }

    /// Returns a copy in which the spans below a caller that sends no spans stand where those below the trigger
    /// do.
    pub(in crate::wait) fn with_caller_placed(&self) -> Self {
        let mut placed = self.clone();
        let children = self.silent_caller().and_then(|id| self.orphans.get(&id));
        for child in children.into_iter().flatten() {
            if placed.arrivals[*child].node.is_none() {
                placed.place(*child, None);
            }
        }
        placed
    }
}
