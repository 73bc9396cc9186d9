//! Change notifications: tasks subscribe to a trace or a run and are woken when it changes.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The subscriptions to things. A change of a thing without subscribers costs nothing.
#[derive(Debug)]
pub(crate) struct Followers<K: Hash + Eq>(Arc<Things<K>>);

/// Each thing with its number of subscribers.
type Things<K> = Mutex<HashMap<K, (watch::Sender<u64>, usize)>>;

/// A subscription to one thing, woken at each change. The number only grows. The thing is removed with its last
/// subscription.
#[derive(Debug)]
pub struct Following {
    changes: watch::Receiver<u64>,
    _entry: Box<dyn Registered>,
}

/// The registration of one subscriber; removed when dropped.
#[derive(Debug)]
struct Entry<K: Hash + Eq> {
    thing: K,
    things: Arc<Things<K>>,
}

trait Registered: Debug + Send + Sync {}

impl<K: Hash + Eq + Debug + Send + Sync> Registered for Entry<K> {}

impl<K: Hash + Eq> Default for Followers<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Hash + Eq + Clone + Debug + Send + Sync + 'static> Followers<K> {
    /// Subscribes to `thing`.
    pub(crate) fn follow(&self, thing: K) -> Following {
        let mut things = lock(&self.0);
        let (sender, followers) = things.entry(thing.clone()).or_insert_with(|| (watch::channel(0).0, 0));
        *followers += 1;
        let entry = Entry { thing, things: Arc::clone(&self.0) };
        Following { changes: sender.subscribe(), _entry: Box::new(entry) }
    }

    /// Wakes all subscribers.
    pub(crate) fn wake_all(&self) {
        lock(&self.0).values().for_each(|(sender, _)| sender.send_modify(|changes| *changes += 1));
    }

    /// Whether anyone has subscribed to `thing`.
    pub(crate) fn has(&self, thing: &K) -> bool {
        lock(&self.0).contains_key(thing)
    }

    /// Wakes the subscribers of these things.
    pub(crate) fn wake<'a>(&self, wanted: impl Iterator<Item = &'a K>)
    where
        K: 'a,
    {
        let things = lock(&self.0);
        if things.is_empty() {
            return;
        }
        for (sender, _) in wanted.filter_map(|thing| things.get(thing)) {
            sender.send_modify(|changes| *changes += 1);
        }
    }
}

impl Deref for Following {
    type Target = watch::Receiver<u64>;

    fn deref(&self) -> &Self::Target {
        &self.changes
    }
}

impl DerefMut for Following {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.changes
    }
}

impl<K: Hash + Eq> Drop for Entry<K> {
    fn drop(&mut self) {
        let mut things = lock(&self.things);
        let Some((_, followers)) = things.get_mut(&self.thing) else { return };
        *followers -= 1;
        if *followers > 0 {
            return;
        }
        things.remove(&self.thing);
        // Memory that many subscribers took is released after they have left.
        if things.capacity() > FEW.max(things.len() * 4) {
            let room = things.len() * 2;
            things.shrink_to(room);
        }
    }
}

/// The map is not shrunk below this capacity.
const FEW: usize = 1024;

fn lock<K: Hash + Eq>(things: &Things<K>) -> MutexGuard<'_, HashMap<K, (watch::Sender<u64>, usize)>> {
    things.lock().unwrap_or_else(PoisonError::into_inner)
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
    #[test]
    fn a_thing_is_forgotten_with_its_last_follower() {
        let followers = Followers::default();
        let crowd: Vec<_> = (0..2 * FEW).chain(0..FEW).map(|thing| followers.follow(thing)).collect();
        assert_eq!(lock(&followers.0).len(), 2 * FEW);
        let mut kept = followers.follow(7);
        drop(crowd);
        assert_eq!(lock(&followers.0).len(), 1);
        assert!(lock(&followers.0).capacity() <= FEW);
        followers.wake([7].iter());
        assert!(kept.has_changed().unwrap());
        kept.mark_unchanged();
        drop(kept);
        assert!(lock(&followers.0).is_empty());
    }
}
