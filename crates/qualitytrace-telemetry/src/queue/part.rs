//! A batch, and the range of the spool that it came from.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use bytes::Bytes;

use crate::{
    config::Signal,
    item::Item,
    spool::{Position, Spool},
};

/// A batch: items of one signal for one request.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) signal: Signal,
    pub(crate) items: Vec<Item>,
    /// The resource that they were recorded under; `None` is that of the sink.
    pub(crate) resource: Option<Bytes>,
    pub(super) ticket: Option<Arc<Ticket>>,
}

/// A range of the spool that is acknowledged when all its parts are settled.
pub(super) struct Ticket {
    spool: Arc<Spool>,
    start: Position,
    open: AtomicUsize,
}

impl Ticket {
    pub(super) fn new(spool: Arc<Spool>, start: Position) -> Self {
        Self { spool, start, open: AtomicUsize::new(1) }
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Ticket").field(&self.start).finish()
    }
}

impl Part {
    /// How many items it counts as in the ledger.
    pub(crate) fn count(&self) -> u64 {
        self.items.iter().map(|item| u64::from(item.count)).sum()
    }

    /// Whether its items are also in this spool.
    pub(super) fn is_in(&self, spool: &Arc<Spool>) -> bool {
        self.ticket.as_ref().is_some_and(|ticket| Arc::ptr_eq(&ticket.spool, spool))
    }

    /// Marks the part as done; the last part of a ticket acknowledges it in the spool.
    pub(crate) fn settle(self) {
        if let Some(ticket) = &self.ticket
            && ticket.open.fetch_sub(1, Relaxed) == 1
        {
            ticket.spool.acknowledge(self.signal, ticket.start);
        }
    }

    /// Splits the part into two halves.
    pub(crate) fn split(mut self) -> (Self, Self) {
        if let Some(ticket) = &self.ticket {
            ticket.open.fetch_add(1, Relaxed);
        }
        let items = self.items.split_off(self.items.len() / 2);
        let other =
            Self { signal: self.signal, items, resource: self.resource.clone(), ticket: self.ticket.clone() };
        (self, other)
    }
}
