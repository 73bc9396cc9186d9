//! A cache whose entries take their memory from budgets. The least recently used entries make room for new ones, and
//! for whatever else needs the memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::budget::{Budget, Lease};

/// Values by key.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    entries: Mutex<Entries<K, V>>,
    /// The memory that the cache may take.
    own: Budget,
    /// The memory that it shares with others.
    shared: Budget,
}

#[derive(Debug)]
struct Entries<K, V> {
    known: HashMap<K, Entry<V>>,
    /// Counts the uses of all entries.
    uses: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: Arc<V>,
    last_use: u64,
    memory: Memory,
}

#[derive(Debug)]
struct Memory {
    own: Lease,
    shared: Lease,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// Creates a cache that takes all its memory from both budgets.
    pub(crate) fn new(own: Budget, shared: Budget) -> Self {
        Self { entries: Mutex::new(Entries { known: HashMap::new(), uses: 0 }), own, shared }
    }

    /// Returns the value of this key.
    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        let mut entries = self.lock();
        entries.uses += 1;
        let now = entries.uses;
        let entry = entries.known.get_mut(key)?;
        entry.last_use = now;
        Some(Arc::clone(&entry.value))
    }

    /// Keeps a value that takes this much memory, if there is room for it.
    pub(crate) fn keep(&self, key: K, value: Arc<V>, bytes: u64) {
        let mut entries = self.lock();
        entries.known.remove(&key);
        entries.uses += 1;
        let last_use = entries.uses;
        if bytes > self.own.size() {
            return;
        }
        loop {
            if let Some(memory) = self.lease(bytes) {
                entries.known.insert(key, Entry { value, last_use, memory });
                return;
            }
            if !entries.evict() {
                return;
            }
        }
    }

    /// Frees at least this much memory, if the cache has it.
    pub(crate) fn evict(&self, bytes: u64) {
        let mut entries = self.lock();
        let held =
            |entries: &Entries<K, V>| entries.known.values().map(|entry| entry.memory.shared.bytes()).sum();
        let before: u64 = held(&entries);
        while before - held(&entries) < bytes && entries.evict() {}
    }

    /// Sets the memory that the cache may take; what it holds beyond is freed.
    pub(crate) fn resize(&self, bytes: u64) {
        if self.own.size() == bytes {
            return;
        }
        self.own.resize(bytes);
        let mut entries = self.lock();
        let held = |entries: &Entries<K, V>| {
            entries.known.values().map(|entry| entry.memory.own.bytes()).sum::<u64>()
        };
        while held(&entries) > bytes && entries.evict() {}
    }

    fn lease(&self, bytes: u64) -> Option<Memory> {
        let (mut own, mut shared) = (self.own.lease().ok()?, self.shared.lease().ok()?);
        own.grow(bytes).ok()?;
        shared.grow(bytes).ok()?;
        Some(Memory { own, shared })
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq + Clone, V> Entries<K, V> {
    /// Drops the least recently used entry; `false` if there is none.
    fn evict(&mut self) -> bool {
        let oldest = self.known.iter().min_by_key(|(_, entry)| entry.last_use).map(|(key, _)| key.clone());
        oldest.is_some_and(|key| self.known.remove(&key).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn cache(own: u64, shared: u64) -> (Cache<u8, u8>, Budget) {
        let shared = Budget::new(shared * KIB);
        (Cache::new(Budget::new(own * KIB), shared.clone()), shared)
    }

    fn known(cache: &Cache<u8, u8>) -> Vec<u8> {
        let mut known: Vec<u8> = cache.lock().known.keys().copied().collect();
        known.sort_unstable();
        known
    }

    #[test]
    fn the_least_recently_used_entries_make_room() {
        let (cache, _) = cache(10, 100);
        for key in 1..=3 {
            cache.keep(key, Arc::new(key), 3 * KIB);
        }
        assert_eq!(cache.get(&1).as_deref(), Some(&1));
        cache.keep(4, Arc::new(4), 4 * KIB);
        assert_eq!(known(&cache), [1, 3, 4]);
        cache.keep(5, Arc::new(5), 11 * KIB);
        assert_eq!(known(&cache), [1, 3, 4], "what is larger than the cache removes nothing");
        cache.keep(3, Arc::new(9), KIB);
        assert_eq!(cache.get(&3).as_deref(), Some(&9));
    }

    #[test]
    fn others_get_their_memory_back() {
        let (cache, shared) = cache(10, 12);
        for key in 1..=3 {
            cache.keep(key, Arc::new(key), 3 * KIB);
        }
        let mut other = shared.lease().unwrap();
        assert!(other.grow(6 * KIB).is_err());
        cache.evict(3 * KIB);
        assert_eq!((known(&cache), other.grow(6 * KIB)), (vec![2, 3], Ok(())));
        cache.keep(4, Arc::new(4), 7 * KIB);
        assert!(known(&cache).is_empty(), "others hold what it would need");
        cache.resize(2 * KIB);
        cache.keep(5, Arc::new(5), 3 * KIB);
        assert!(known(&cache).is_empty());
    }
}
