//! How senders share a budget: one that floods is refused before there is no room left for the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a sender counts as one that wants something, after it had or wanted something.
const ACTIVE: Duration = Duration::from_secs(10);
/// Senders that are told apart. Further ones share what one of them has.
const SENDERS: usize = 10_000;
/// So much of the budget stays free for those who have less than their share: an eighth as long as nobody else wants
/// anything, a quarter from then on.
const RESERVE: (u64, u64) = (8, 4);

/// What each sender has of a budget.
#[derive(Debug, Default)]
pub(super) struct Shares(Mutex<HashMap<String, Held>>);

/// What one sender has.
#[derive(Debug)]
struct Held {
    bytes: u64,
    leases: usize,
    last: Instant,
}

/// The share of one sender, as one of its requests knows it.
#[derive(Debug)]
pub(super) struct Share {
    shares: Arc<Shares>,
    sender: String,
    bytes: u64,
}

/// What is left of a budget.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) size: u64,
    pub(super) free: u64,
}

impl Share {
    /// A request of this sender begins.
    pub(super) fn of(shares: &Arc<Shares>, sender: String) -> Self {
        let now = Instant::now();
        let mut senders = shares.lock();
        let is_active = |held: &Held| held.leases > 0 || now.duration_since(held.last) < ACTIVE;
        if !senders.contains_key(&sender) {
            senders.retain(|_, held| is_active(held));
        }
        let sender =
            if senders.len() < SENDERS || senders.contains_key(&sender) { sender } else { String::new() };
        let held = senders.entry(sender.clone()).or_insert(Held { bytes: 0, leases: 0, last: now });
        held.leases += 1;
        held.last = now;
        drop(senders);
        Self { shares: Arc::clone(shares), sender, bytes: 0 }
    }

    /// Whether the sender may take so many bytes more.
    pub(super) fn admits(&self, bytes: u64, room: Room) -> bool {
        let senders = self.shares.lock();
        let held = senders.get(&self.sender).map_or(0, |held| held.bytes);
        let is_alone = senders.len() < 2;
        let is_within_share = held + bytes <= room.size / (senders.len() as u64 + 1);
        is_within_share || room.free >= bytes + room.reserve(is_alone)
    }

    /// The most that one request may ever take.
    pub(super) fn most(room: Room) -> u64 {
        room.size - room.reserve(true)
    }

    /// The sender has taken so many bytes in all for this request.
    pub(super) fn set(&mut self, bytes: u64) {
        let mut senders = self.shares.lock();
        if let Some(held) = senders.get_mut(&self.sender) {
            held.bytes = held.bytes - self.bytes + bytes;
            held.last = Instant::now();
        }
        drop(senders);
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
        if let Some(held) = self.shares.lock().get_mut(&self.sender) {
            held.leases -= 1;
        }
    }
}

impl Room {
    fn reserve(self, is_alone: bool) -> u64 {
        self.size / if is_alone { RESERVE.0 } else { RESERVE.1 }
    }
}

impl Shares {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
