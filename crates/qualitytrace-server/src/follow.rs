//! Who wants to know when something changes: a trace, a run.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// Things that somebody follows. What nobody follows costs nothing.
#[derive(Debug)]
pub(crate) struct Followers<K>(Mutex<Followed<K>>);

#[derive(Debug)]
struct Followed<K> {
    things: HashMap<K, watch::Sender<u64>>,
    /// How many things there may be before those that nobody follows any more are looked for.
    limit: usize,
}

/// The first limit.
const FEW: usize = 64;

impl<K> Default for Followers<K> {
    fn default() -> Self {
        Self(Mutex::new(Followed { things: HashMap::new(), limit: FEW }))
    }
}

impl<K: Hash + Eq> Followers<K> {
    /// Wakes whenever `thing` has changed. The number only grows.
    pub(crate) fn follow(&self, thing: K) -> watch::Receiver<u64> {
        let mut followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.things.len() >= followed.limit {
            followed.things.retain(|_, sender| sender.receiver_count() > 0);
            followed.limit = (followed.things.len() * 2).max(FEW);
        }
        followed.things.entry(thing).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    /// Wakes whoever follows anything.
    pub(crate) fn wake_all(&self) {
        let followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        followed.things.values().for_each(|sender| sender.send_modify(|changes| *changes += 1));
    }

    /// Wakes whoever follows one of these.
    pub(crate) fn wake<'a>(&self, things: impl Iterator<Item = &'a K>)
    where
        K: 'a,
    {
        let followed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.things.is_empty() {
            return;
        }
        for sender in things.filter_map(|thing| followed.things.get(thing)) {
            sender.send_modify(|changes| *changes += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_followers_of_the_thing_are_woken() {
        let followers = Followers::default();
        let (first, second) = (followers.follow(1), followers.follow(2));
        followers.wake([1].iter());
        assert!(first.has_changed().unwrap());
        assert!(!second.has_changed().unwrap());
    }
}
