//! Fair shares of a budget: a sender that floods is refused before the others have no room left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a sender counts as active after its last request.
const ACTIVE: Duration = Duration::from_secs(10);
/// Senders that are tracked. Further ones share one entry.
const SENDERS: usize = 10_000;
/// The part of the budget that is reserved for senders below their share: an eighth while only one sender is active, a
/// quarter otherwise.
const RESERVE: (u64, u64) = (8, 4);

/// The bytes that each sender holds.
#[derive(Debug, Default)]
pub(super) struct Shares(Mutex<HashMap<String, SenderShare>>);

/// The bytes and leases of one sender.
#[derive(Debug)]
struct SenderShare {
    bytes: u64,
    leases: usize,
    last: Instant,
}

/// The part of one request in its sender's share.
#[derive(Debug)]
pub(super) struct Share {
    shares: Arc<Shares>,
    sender: String,
    bytes: u64,
}

/// The size of a budget, and what is free of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) size: u64,
    pub(super) free: u64,
}

impl Share {
    /// Registers a request of this sender.
    pub(super) fn of(shares: &Arc<Shares>, sender: String) -> Self {
        let now = Instant::now();
        let mut senders = shares.lock();
        let is_active = |held: &SenderShare| held.leases > 0 || now.duration_since(held.last) < ACTIVE;
        if !senders.contains_key(&sender) {
            senders.retain(|_, held| is_active(held));
        }
        let sender =
            if senders.len() < SENDERS || senders.contains_key(&sender) { sender } else { String::new() };
        let held = senders.entry(sender.clone()).or_insert(SenderShare { bytes: 0, leases: 0, last: now });
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

    /// Returns the most that one request may ever take.
    pub(super) fn most(room: Room) -> u64 {
        room.size - room.reserve(true)
    }

    /// Sets the bytes that this request holds.
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
    fn lock(&self) -> MutexGuard<'_, HashMap<String, SenderShare>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
