//! The servers that share one database: failure detection by heartbeats, and notifications between servers.
//!
//! A server increments its heartbeat regularly. Clocks are not compared: a server that sees the same heartbeat of
//! another one [`MISSED`] times in a row gives that one up, with a compare-and-set statement that only one server wins.
//! A server that was given up without being dead, because it was frozen or cut off, learns that with its next heartbeat
//! and continues under a new id; its writes under the old one have no effect.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use tokio::sync::Notify;

use crate::storage::store::{Error, Listener, Notification, Peer, Store};

/// The interval of heartbeats.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// The interval at which a server polls the tables even without a notification.
pub(crate) const SAFETY_POLL: Duration = Duration::from_secs(5);
/// The number of unchanged heartbeats after which a server is given up.
const MISSED: u32 = 5;
/// Capacity of the outbox. Notifications are hints: those beyond this are dropped, and the tables show the same later.
const OUTBOX_CAPACITY: usize = 10_000;

/// This server as a member of its cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    store: Store,
    /// The name under which it sends notifications.
    name: String,
    /// The id under which it owns runs.
    id: Mutex<Arc<str>>,
    has_others: AtomicBool,
    /// The largest ingest backlog of another server, in milliseconds.
    behind: AtomicU64,
    /// The last heartbeat of each other server, and how often in a row it was seen.
    seen: Mutex<HashMap<String, (u64, u32)>>,
    outbox: Mutex<BTreeSet<Notification>>,
    filled: Notify,
}

/// The result of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heartbeat {
    /// All servers are alive.
    Well,
    /// Another server was given up.
    Lost,
    /// The others had given up this server: it no longer owns its runs.
    GivenUp,
}

impl Cluster {
    /// Joins the cluster of this database.
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
        // A server that was alone so far must begin to send notifications.
        cluster.store.publish(&cluster.name, vec![Notification::Joined]).await?;
        Ok(cluster)
    }

    /// Returns the id under which this server takes runs now.
    pub(crate) fn id(&self) -> Arc<str> {
        Arc::clone(&lock(&self.id))
    }

    /// Subscribes to the notifications of other servers; `None` if the database cannot be shared.
    pub(crate) async fn listen(&self) -> Result<Option<Listener>, Error> {
        self.store.listen(&self.name).await
    }

    /// Records that another server has joined.
    pub(crate) fn joined(&self) {
        self.has_others.store(true, Ordering::Relaxed);
    }

    /// Queues a notification for the other servers. Costs nothing if there are none.
    pub(crate) fn publish(&self, notification: impl FnOnce() -> Notification) {
        if !self.has_others.load(Ordering::Relaxed) {
            return;
        }
        let mut outbox = lock(&self.outbox);
        if outbox.len() < OUTBOX_CAPACITY {
            outbox.insert(notification());
            self.filled.notify_one();
        }
    }

    /// Delivers queued notifications in batches. Never returns.
    pub(crate) async fn deliver(&self) {
        loop {
            self.filled.notified().await;
            self.deliver_now().await;
        }
    }

    /// Delivers the queued notifications.
    pub(crate) async fn deliver_now(&self) {
        let notifications: Vec<Notification> = std::mem::take(&mut *lock(&self.outbox)).into_iter().collect();
        if notifications.is_empty() {
            return;
        }
        if let Err(error) = self.store.publish(&self.name, notifications).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to notify other servers");
        }
    }

    /// Writes the heartbeat of this server and checks those of the others.
    pub(crate) async fn heartbeat(&self, backlog: Duration) -> Result<Heartbeat, Error> {
        let id = self.id();
        if !self.store.heartbeat(&id, backlog).await? {
            let id = new_id();
            self.store.enter(&id).await?;
            *lock(&self.id) = id.into();
            return Ok(Heartbeat::GivenUp);
        }
        let mut lost = false;
        for peer in self.look(&id).await? {
            if self.store.give_up(&peer).await? {
                tracing::warn!(server = peer.id, "another server shows no sign of life and is given up");
                lost = true;
            }
        }
        Ok(if lost { Heartbeat::Lost } else { Heartbeat::Well })
    }

    /// Returns the time up to which every server has stored what it received.
    pub(crate) fn horizon(&self, now: Timestamp) -> Timestamp {
        now - Duration::from_millis(self.behind.load(Ordering::Relaxed))
    }

    /// Returns how long to rely on notifications before polling the tables: forever if the database cannot be shared.
    pub(crate) fn safety_poll(&self) -> Duration {
        if self.store.is_shared() { SAFETY_POLL } else { Duration::MAX }
    }

    /// Leaves the cluster.
    pub(crate) async fn leave(&self) -> Result<(), Error> {
        self.store.leave(&self.id()).await
    }

    /// Reads the heartbeats of the other servers and returns those that have missed too many.
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
