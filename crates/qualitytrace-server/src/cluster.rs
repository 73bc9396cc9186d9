//! The servers that share one database: which of them are alive, and what they tell each other.
//!
//! A server shows that it is alive by its beat. Nobody compares clocks: whoever sees the same beat in [`MISSED`] looks
//! in a row gives its server up, with a compare-and-set statement that one of them wins. A server that was given up
//! without being dead, because it was frozen or cut off, finds that out with its next beat and begins anew under
//! another id; whatever it writes under the old one changes nothing.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use tokio::sync::Notify;

use crate::store::{Error, Listener, Notice, Peer, Store};

/// How often a server shows that it is alive.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// How often a server looks at the tables although nobody told it to.
pub(crate) const SAFETY_POLL: Duration = Duration::from_secs(5);
/// Looks at an unchanged beat after which its server is given up.
const MISSED: u32 = 5;
/// Notices that may wait to be told. They are hints; beyond this, some are lost and the tables say the same later.
const WAITING_NOTICES: usize = 10_000;

/// This server among those that share its database.
#[derive(Debug)]
pub(crate) struct Cluster {
    store: Store,
    /// Under which it speaks.
    name: String,
    /// Under which it has runs.
    id: Mutex<Arc<str>>,
    has_others: AtomicBool,
    /// Milliseconds by which the slowest ingest of another server is behind.
    behind: AtomicU64,
    /// What was seen of the others: the beat, and how often in a row.
    seen: Mutex<HashMap<String, (u64, u32)>>,
    outbox: Mutex<BTreeSet<Notice>>,
    filled: Notify,
}

/// What a beat brought to light.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Everybody is well.
    Well,
    /// Another server is gone.
    Lost,
    /// The others had given this server up: its runs are not its own any more.
    GivenUp,
}

impl Cluster {
    /// Joins the servers that share this database.
    pub(crate) async fn join(store: Store) -> Result<Self, Error> {
        let id = new_id();
        store.enter(&id).await?;
        let cluster = Self {
            name: id.clone(),
            id: Mutex::new(id.into()),
            has_others: AtomicBool::new(false),
            behind: AtomicU64::new(0),
            seen: Mutex::default(),
            outbox: Mutex::default(),
            filled: Notify::new(),
            store,
        };
        cluster.look(&cluster.id()).await?;
        // Whoever believed to be alone has to begin to talk.
        cluster.store.tell(&cluster.name, vec![Notice::Joined]).await?;
        Ok(cluster)
    }

    /// The id under which this server takes runs now.
    pub(crate) fn id(&self) -> Arc<str> {
        Arc::clone(&lock(&self.id))
    }

    /// Hears what the others tell; `None` where there can be none.
    pub(crate) async fn listen(&self) -> Result<Option<Listener>, Error> {
        self.store.listen(&self.name).await
    }

    /// Another server has joined.
    pub(crate) fn joined(&self) {
        self.has_others.store(true, Ordering::Relaxed);
    }

    /// Tells the others soon. Costs nothing where there are none.
    pub(crate) fn tell(&self, notice: impl FnOnce() -> Notice) {
        if !self.has_others.load(Ordering::Relaxed) {
            return;
        }
        let mut outbox = lock(&self.outbox);
        if outbox.len() < WAITING_NOTICES {
            outbox.insert(notice());
            self.filled.notify_one();
        }
    }

    /// Delivers what is to be told, as much at a time as has gathered. Never returns.
    pub(crate) async fn deliver(&self) {
        loop {
            self.filled.notified().await;
            self.deliver_now().await;
        }
    }

    /// Delivers what is to be told.
    pub(crate) async fn deliver_now(&self) {
        let notices: Vec<Notice> = std::mem::take(&mut *lock(&self.outbox)).into_iter().collect();
        if notices.is_empty() {
            return;
        }
        if let Err(error) = self.store.tell(&self.name, notices).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to tell other servers");
        }
    }

    /// Shows that this server is alive and looks after the others.
    pub(crate) async fn beat(&self, backlog: Duration) -> Result<Beat, Error> {
        let id = self.id();
        if !self.store.beat(&id, backlog).await? {
            let id = new_id();
            self.store.enter(&id).await?;
            *lock(&self.id) = id.into();
            return Ok(Beat::GivenUp);
        }
        let mut lost = false;
        for peer in self.look(&id).await? {
            if self.store.give_up(&peer).await? {
                tracing::warn!(server = peer.id, "another server shows no sign of life and is given up");
                lost = true;
            }
        }
        Ok(if lost { Beat::Lost } else { Beat::Well })
    }

    /// Up to when every server has stored what was handed over.
    pub(crate) fn horizon(&self, now: Timestamp) -> Timestamp {
        now - Duration::from_millis(self.behind.load(Ordering::Relaxed))
    }

    /// How long to rely on what the others tell before looking at the tables: for ever where there can be no others.
    pub(crate) fn safety_poll(&self) -> Duration {
        if self.store.is_shared() { SAFETY_POLL } else { Duration::MAX }
    }

    /// Signs off.
    pub(crate) async fn leave(&self) -> Result<(), Error> {
        self.store.leave(&self.id()).await
    }

    /// Looks at the others and answers with those that show no sign of life.
    async fn look(&self, id: &str) -> Result<Vec<Peer>, Error> {
        if !self.store.is_shared() {
            return Ok(Vec::new());
        }
        let peers = self.store.peers(id).await?;
        self.has_others.store(!peers.is_empty(), Ordering::Relaxed);
        let behind = peers.iter().map(|peer| peer.backlog).max().unwrap_or_default();
        self.behind.store(u64::try_from(behind.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let mut seen = lock(&self.seen);
        let before = std::mem::take(&mut *seen);
        let mut silent = Vec::new();
        for peer in peers {
            let times = match before.get(&peer.id) {
                Some((beat, times)) if *beat == peer.beat => times + 1,
                _ => 0,
            };
            seen.insert(peer.id.clone(), (peer.beat, times));
            if times >= MISSED {
                silent.push(peer);
            }
        }
        Ok(silent)
    }
}

fn new_id() -> String {
    format!("{:016x}", rand::random::<u64>())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
