//! What waits of one signal. Each signal has a lane of its own, so that one whose receiver is down does not hold up the
//! others.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::Part;
use crate::{config::Limits, item::Item};

/// The conditions under which a batch closes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchConditions {
    pub(crate) items: usize,
    pub(crate) bytes: usize,
    pub(crate) throttle: Duration,
    /// Whether a batch closes without waiting to fill.
    pub(crate) flush: bool,
}

#[derive(Default)]
pub(super) struct Lane {
    pub(super) memory: VecDeque<Item>,
    pub(super) memory_bytes: usize,
    /// Parts that wait for a retry.
    pub(super) ready: VecDeque<Part>,
    /// Items and bytes that were offered and not taken.
    pub(super) waiting_items: u64,
    pub(super) waiting_bytes: u64,
    pub(super) oldest: Option<Instant>,
    /// How many waiting items wake the sleeping delivery.
    pub(super) threshold: u64,
}

impl Lane {
    /// Whether the memory has room for an item.
    pub(super) fn has_room(&self, item: &Item, limits: &Limits) -> bool {
        self.memory.len() < limits.queue_items && self.memory_bytes + item.size() <= limits.queue_bytes
    }

    pub(super) fn keep(&mut self, item: Item) {
        self.memory_bytes += item.size();
        self.memory.push_back(item);
    }

    /// Removes the first items from the memory.
    pub(super) fn forget(&mut self, count: usize) -> Vec<Item> {
        let items: Vec<Item> = self.memory.drain(..count).collect();
        self.memory_bytes -= items.iter().map(Item::size).sum::<usize>();
        items
    }

    /// Counts items that can be taken from now on.
    pub(super) fn wait(&mut self, items: u64, bytes: u64) {
        if items == 0 {
            return;
        }
        self.waiting_items += items;
        self.waiting_bytes += bytes;
        self.oldest.get_or_insert_with(Instant::now);
    }

    /// Counts items that were taken; none means that nothing waits, whatever the estimate said.
    pub(super) fn took(&mut self, items: &[Item], now: Instant) {
        let bytes: usize = items.iter().map(Item::size).sum();
        self.waiting_items = self.waiting_items.saturating_sub(items.len() as u64);
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes as u64);
        if items.is_empty() {
            self.waiting_items = 0;
            self.waiting_bytes = 0;
        }
        self.oldest = (self.waiting_items > 0).then_some(now);
    }

    /// The time at which the next batch of new items closes.
    pub(super) fn due_at(&self, due: BatchConditions) -> Option<Instant> {
        let oldest = self.oldest.filter(|_| self.waiting_items > 0)?;
        let full = self.waiting_items >= due.items as u64 || self.waiting_bytes >= due.bytes as u64;
        Some(if full || due.flush { oldest } else { oldest + due.throttle })
    }

    /// Takes a batch from the memory.
    pub(super) fn read_memory(&mut self, due: BatchConditions) -> Vec<Item> {
        let (mut count, mut bytes) = (0, 0);
        for item in &self.memory {
            bytes += item.size();
            if count >= due.items || (bytes > due.bytes && count > 0) {
                break;
            }
            count += 1;
        }
        self.forget(count)
    }
}
