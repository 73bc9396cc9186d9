//! Arrivals of traces across servers: a server announces the traces that it follows, and every other one publishes
//! when spans of them arrive there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use qualitytrace_core::id::TraceId;
use tokio::task::AbortHandle;

use super::lock;
use crate::receive::source::Source;
use crate::storage::cluster::Cluster;
use crate::storage::store::{Notification, TraceHex};

/// Silence after which a trace is no longer watched for another server.
const RELAY_LIFETIME: Duration = Duration::from_mins(10);
/// The most traces that are watched for other servers.
const MAX_RELAYS: usize = 100_000;

/// Announces to the other servers that this one follows a trace, until dropped.
#[derive(Debug)]
pub(super) struct Announced {
    cluster: Arc<Cluster>,
    trace: TraceId,
}

impl Announced {
    pub(super) fn new(cluster: Arc<Cluster>, trace: TraceId) -> Self {
        cluster.publish(|| Notification::Follows(TraceHex(trace)));
        Self { cluster, trace }
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.cluster.publish(|| Notification::Unfollows(TraceHex(self.trace)));
    }
}

/// The traces that this server watches for others.
#[derive(Debug)]
pub(super) struct Relays {
    cluster: Arc<Cluster>,
    source: Source,
    /// The number of followers of each trace, and the task that watches it.
    watched: Mutex<HashMap<TraceId, (usize, AbortHandle)>>,
}

impl Relays {
    pub(super) fn new(cluster: Arc<Cluster>, source: Source) -> Self {
        Self { cluster, source, watched: Mutex::default() }
    }

    /// Whether this trace is watched.
    pub(super) fn has(&self, trace: TraceId) -> bool {
        lock(&self.watched).contains_key(&trace)
    }

    /// Notifies the other servers whenever spans of this trace arrive here.
    pub(super) fn begin(&self, trace: TraceId) {
        let mut watched = lock(&self.watched);
        if let Some((followers, task)) = watched.get_mut(&trace)
            && !task.is_finished()
        {
            *followers += 1;
            // Spans may have arrived before the other server subscribed.
            self.cluster.publish(|| Notification::Arrived(TraceHex(trace)));
            return;
        }
        if watched.len() >= MAX_RELAYS {
            watched.retain(|_, (_, task)| !task.is_finished());
            if watched.len() >= MAX_RELAYS {
                return;
            }
        }
        let (cluster, mut changes) = (Arc::clone(&self.cluster), self.source.ingest().relay(trace));
        let task = tokio::spawn(async move {
            loop {
                cluster.publish(|| Notification::Arrived(TraceHex(trace)));
                let changed = tokio::time::timeout(RELAY_LIFETIME, changes.changed()).await;
                if !changed.is_ok_and(|changed| changed.is_ok()) {
                    return;
                }
            }
        });
        watched.insert(trace, (1, task.abort_handle()));
    }

    /// Ends one subscription to a trace.
    pub(super) fn end(&self, trace: TraceId) {
        let mut watched = lock(&self.watched);
        let Some((followers, task)) = watched.get_mut(&trace) else { return };
        *followers -= 1;
        if *followers == 0 {
            task.abort();
            watched.remove(&trace);
        }
    }

    pub(super) fn end_all(&self) {
        let mut watched = lock(&self.watched);
        watched.values().for_each(|(_, task)| task.abort());
        watched.clear();
    }
}
