//! The spans with which services begin to work for this trace, and how long each goes on after its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::observation::{Entry, Observations};
use super::Progress;
use crate::trace::SpanKind;

/// The latest span of a process below the span with which the process began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tail {
    /// How long after the entry it ended.
    pub(super) later: Duration,
    /// The span.
    pub(super) span: usize,
}

/// The entry above a span, while entries are searched.
#[derive(Debug, Clone, Copy)]
enum EntryOf {
    Unknown,
    /// `None` for a span without one.
    Known(Option<usize>),
}

impl Progress {
    /// Returns how long each service worked on after the span with which it began, for the
    /// [register](super::super::Register).
    pub fn entries(&self) -> Observations {
        if self.answered_at.is_none() || !self.orphans.is_empty() {
            return Observations::default();
        }
        let entries = self.tails().into_iter().filter_map(|(this, tail)| {
            let arrival = &self.arrivals[this];
            let latest = tail.map(|tail| &self.arrivals[tail.span]).map(|latest| {
                let name = self.shape.text(latest.folded);
                (latest.kind, (!name.contains('#')).then(|| Arc::clone(name)))
            });
            Some(Entry {
                service: Arc::clone(self.shape.text(arrival.service)),
                name: Arc::clone(self.shape.text(arrival.folded)),
                span: arrival.id,
                end: self.ended_at(this)?,
                later: tail.map(|tail| tail.later).unwrap_or_default(),
                latest,
            })
        });
        Observations { entries: entries.collect(), ..Observations::default() }
    }

    /// Finds the entries of processes, each with the latest span of the same process below it that ended later.
    pub(super) fn tails(&self) -> HashMap<usize, Option<Tail>> {
        let mut entry_of = vec![EntryOf::Unknown; self.arrivals.len()];
        let mut tails: HashMap<usize, Option<Tail>> = HashMap::new();
        for this in 0..self.arrivals.len() {
            let Some(entry) = self.entry_of(this, &mut entry_of) else { continue };
            let tail = tails.entry(entry).or_default();
            let later = match (self.arrivals[this].end, self.arrivals[entry].end) {
                (Some(end), Some(entry)) => end.since(entry),
                (None, _) | (_, None) => continue,
            };
            if !later.is_zero() && tail.is_none_or(|known| known.later < later) {
                *tail = Some(Tail { later, span: this });
            }
        }
        tails
    }

    /// Returns the entry of the process that sent a span: the nearest span above it, or itself, that another process caused.
    fn entry_of(&self, this: usize, known: &mut [EntryOf]) -> Option<usize> {
        let mut way = Vec::new();
        let mut at = this;
        let entry = loop {
            if let EntryOf::Known(entry) = known[at] {
                break entry;
            }
            way.push(at);
            // A circle of parents has no entry.
            known[at] = EntryOf::Known(None);
            let arrival = &self.arrivals[at];
            if matches!(arrival.kind, SpanKind::Server | SpanKind::Consumer) {
                break Some(at);
            }
            let parent = arrival.parent.and_then(|id| self.by_id.get(&id)).copied();
            match parent.filter(|parent| self.arrivals[*parent].process == arrival.process) {
                Some(parent) => at = parent,
                None => break None,
            }
        };
        for at in way {
            known[at] = EntryOf::Known(entry);
        }
        entry
    }
}
