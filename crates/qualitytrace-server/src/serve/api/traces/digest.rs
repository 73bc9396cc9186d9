//! A cache of trace digests for lists.
//!
//! Ingest is time-critical, so nothing is summarized there. A trace is decoded when a list first needs it, and
//! again only after more of it has arrived, which the index of arrivals tells, or when its redaction has changed.
//! Digests are made of redacted spans, so that no filter finds a secret.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Span, StatusCode, Trace, special};

use super::senders::ServiceLags;
use super::summary::TraceSummary;
use crate::serve::api::App;
use crate::serve::api::error::ApiError;
use crate::serve::api::memory::Memory;
use crate::storage::variables::RunSecrets;

/// Bytes of traces that are loaded together.
const TOGETHER_BYTES: u64 = 8 << 20;
/// The capacity of each cache, in bytes.
const CACHE_BYTES: usize = 16 << 20;
/// Larger values are not cached.
const VALUE_BYTES: usize = 64 << 10;
/// What a value takes beside its texts, roughly.
const ENTRY_BYTES: usize = 512;
/// A trace with more distinct attributes has no attribute index.
const MOST_ATTRIBUTES: usize = 256;

/// What is known about a trace without its spans.
#[derive(Debug)]
pub(super) struct Digest {
    /// When spans of it last arrived.
    pub(super) last: Timestamp,
    /// The mark of the redaction that was applied.
    mark: u64,
    pub(super) summary: TraceSummary,
    pub(super) start: Timestamp,
    pub(super) duration: Duration,
    pub(super) status: StatusCode,
    /// Lower case, sorted, distinct.
    pub(super) services: Vec<String>,
    /// Lower case, sorted, distinct.
    pub(super) names: Vec<String>,
    /// Hashes of attribute names, and of name and value pairs; `None` when there are too many.
    attributes: Option<BTreeSet<u64>>,
}

impl Digest {
    fn of(trace: &Trace, last: Timestamp, mark: u64) -> Self {
        let start = trace.spans().iter().map(|span| span.start).min().unwrap_or_default();
        let end = trace.spans().iter().map(|span| span.end.unwrap_or(span.start)).max().unwrap_or_default();
        let (duration, status) = (end.since(start), status(trace));
        let once = |of: fn(&Span) -> String| {
            let mut texts: Vec<String> = trace.spans().iter().map(of).collect();
            texts.sort_unstable();
            texts.dedup();
            texts
        };
        Self {
            last,
            mark,
            summary: TraceSummary::of(trace, start, duration, status, last),
            start,
            duration,
            status,
            services: once(|span| span.service().to_lowercase()),
            names: once(|span| span.name.to_lowercase()),
            attributes: attributes(trace),
        }
    }

    /// Bytes in memory, roughly.
    fn bytes(&self) -> usize {
        let texts = self.services.iter().chain(&self.names).map(|text| text.len() + size_of::<String>());
        let attributes = self.attributes.as_ref().map_or(0, |hashes| hashes.len() * 2 * size_of::<u64>());
        // The summary has some of these texts again.
        ENTRY_BYTES + 2 * texts.sum::<usize>() + attributes
    }

    /// Whether a span may have this attribute, with this value if given. Only the spans can tell for sure.
    pub(super) fn may_have(&self, name: &str, value: Option<&str>) -> bool {
        self.attributes.as_ref().is_none_or(|known| known.contains(&hash(name, value)))
    }
}

fn attributes(trace: &Trace) -> Option<BTreeSet<u64>> {
    let mut hashes = BTreeSet::new();
    for (name, value) in trace.spans().iter().flat_map(special::texts) {
        hashes.extend([hash(&name, None), hash(&name, Some(&value))]);
        if hashes.len() > 2 * MOST_ATTRIBUTES {
            return None;
        }
    }
    Some(hashes)
}

fn hash(name: &str, value: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, value).hash(&mut hasher);
    hasher.finish()
}

/// Error if any span has an error, else the status of the root.
fn status(trace: &Trace) -> StatusCode {
    let of = |span: &Span| span.status.as_ref().map(|status| status.code).unwrap_or_default();
    if trace.spans().iter().any(|span| of(span) == StatusCode::Error) {
        return StatusCode::Error;
    }
    trace.roots().next().map(|root| of(trace.span(root))).unwrap_or_default()
}

/// The caches of digests.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    traces: Remembered<TraceId, Digest>,
    /// What each chunk held. A chunk never changes.
    chunks: Remembered<(TraceId, Timestamp), Vec<ServiceLags>>,
}

impl Digests {
    /// Returns the digests of these traces, in a fixed number of statements unless they are large. A trace with secrets
    /// that no key opens has none.
    pub(super) async fn traces(
        &self,
        app: &App,
        memory: &Memory,
        withheld: &RunSecrets<'_>,
        traces: &[TraceId],
    ) -> Result<HashMap<TraceId, Arc<Digest>>, ApiError> {
        let last = app.store.last_arrivals(traces).await?;
        let is_fresh = |trace: &TraceId, digest: &Digest| {
            last.get(trace) == Some(&digest.last) && withheld.mark(*trace) == digest.mark
        };
        let (mut found, unknown) = self.traces.find(traces, is_fresh);
        for portion in portions(app, &unknown).await? {
            let _held = memory.borrow_traces(app.source.size(portion).await?).await?;
            for trace in app.source.load_all(portion).await? {
                let last = last.get(&trace.id()).copied().unwrap_or_default();
                let Some(redactor) = withheld.redactor_in_list(trace.id()) else { continue };
                let trace = redactor.trace(trace);
                let digest = Arc::new(Digest::of(&trace, last, withheld.mark(trace.id())));
                self.traces.keep(trace.id(), &digest, digest.bytes());
                found.insert(trace.id(), digest);
            }
        }
        Ok(found)
    }

    /// Returns what these chunks held, in a fixed number of statements unless they are large.
    pub(super) async fn chunks(
        &self,
        app: &App,
        memory: &Memory,
        arrivals: &[(TraceId, Timestamp)],
    ) -> Result<HashMap<(TraceId, Timestamp), Arc<Vec<ServiceLags>>>, ApiError> {
        let (mut found, unknown) = self.chunks.find(arrivals, |_, _| true);
        let times: Vec<Timestamp> = unknown.iter().map(|(_, arrived)| *arrived).collect();
        let is_small = times.is_empty() || app.store.arrival_size(&times).await?.bytes <= TOGETHER_BYTES;
        for portion in times.chunks(if is_small { times.len().max(1) } else { 1 }) {
            let _held = memory.borrow_traces(app.source.arrival_size(portion).await?).await?;
            for (trace, arrival) in app.source.arrivals(portion, u64::MAX).await? {
                let sent = Arc::new(ServiceLags::of(&arrival));
                self.chunks.keep((trace, arrival.at), &sent, ServiceLags::bytes(&sent));
                found.insert((trace, arrival.at), sent);
            }
        }
        Ok(found)
    }
}

/// Splits traces for loading: all together, or one by one when they are large.
pub(super) async fn portions<'t>(app: &App, traces: &'t [TraceId]) -> Result<Vec<&'t [TraceId]>, ApiError> {
    let is_small = traces.is_empty() || app.store.trace_size(traces).await?.bytes <= TOGETHER_BYTES;
    Ok(traces.chunks(if is_small { traces.len().max(1) } else { 1 }).collect())
}

/// A bounded cache that is cleared as a whole when it is full.
#[derive(Debug)]
struct Remembered<K, V>(Mutex<Entries<K, V>>);

#[derive(Debug)]
struct Entries<K, V> {
    /// Each value with its bytes in memory.
    known: HashMap<K, (Arc<V>, usize)>,
    bytes: usize,
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Entries { known: HashMap::new(), bytes: 0 }))
    }
}

impl<K: Copy + Eq + Hash, V> Remembered<K, V> {
    /// Returns the cached values that are still valid, and the keys of the others.
    fn find(&self, keys: &[K], is_right: impl Fn(&K, &V) -> bool) -> (HashMap<K, Arc<V>>, Vec<K>) {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut found, mut unknown) = (HashMap::new(), Vec::new());
        for key in keys {
            match entries.known.get(key).filter(|(value, _)| is_right(key, value)) {
                Some((value, _)) => drop(found.insert(*key, Arc::clone(value))),
                None => unknown.push(*key),
            }
        }
        (found, unknown)
    }

    /// Keeps a value that takes this many bytes.
    fn keep(&self, key: K, value: &Arc<V>, bytes: usize) {
        if bytes > VALUE_BYTES {
            return;
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.bytes + bytes > CACHE_BYTES {
            (entries.known, entries.bytes) = (HashMap::new(), 0);
        }
        let before = entries.known.insert(key, (Arc::clone(value), bytes));
        entries.bytes = entries.bytes + bytes - before.map_or(0, |(_, bytes)| bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_bounded_in_bytes() {
        let cache = Remembered::default();
        let held = || cache.0.lock().unwrap().bytes;
        for key in 0..10_000 {
            cache.keep(key, &Arc::new(key), VALUE_BYTES);
            cache.keep(key, &Arc::new(key), VALUE_BYTES / 2);
            assert!(held() <= CACHE_BYTES, "{}", held());
        }
        let known: usize = cache.0.lock().unwrap().known.values().map(|(_, bytes)| bytes).sum();
        assert_eq!(known, held());
        cache.keep(10_000, &Arc::new(10_000), VALUE_BYTES + 1);
        assert_eq!(cache.find(&[9_999, 10_000], |_, _| true).1, [10_000]);
    }
}
