//! The set of open spans, for shutdown.

use std::{
    collections::HashSet,
    hash::{BuildHasherDefault, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

type Ids = HashSet<u64, BuildHasherDefault<Spread>>;

/// Ids of open spans, sharded so that threads rarely contend for a lock.
#[derive(Default)]
pub(crate) struct Open([Mutex<Ids>; 16]);

impl Open {
    fn part(&self, id: u64) -> MutexGuard<'_, Ids> {
        // Neighbouring ids differ in their low bits.
        let index = usize::try_from(id % 16).unwrap_or(0);
        self.0[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, id: u64) {
        self.part(id).insert(id);
    }

    pub(super) fn remove(&self, id: u64) {
        self.part(id).remove(&id);
    }

    /// Removes and returns all ids.
    pub(super) fn take(&self) -> Vec<u64> {
        let parts = self
            .0
            .iter()
            .map(|part| std::mem::take(&mut *part.lock().unwrap_or_else(PoisonError::into_inner)));
        let mut ids: Vec<u64> = parts.flatten().collect();
        ids.sort_unstable();
        ids
    }
}

/// A hasher for ids that no client chooses: one multiplication spreads them well enough.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        let product = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
