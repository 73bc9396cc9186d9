//! The latest traces of the configured server, for what is offered and shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use qualitytrace_core::id::TraceId;
use qualitytrace_core::trace::{Span, Trace, special};
use tokio::sync::Mutex;

use super::super::subject;
use crate::client::Client;

/// How many traces are looked at.
const TRACES: usize = 5;
/// How long they are kept: typing asks often.
const KEPT: Duration = Duration::from_secs(10);
/// How long the server may take before an answer goes without traces.
const PATIENCE: Duration = Duration::from_secs(2);
/// Values of an attribute that are shown.
const MAX_VALUES: usize = 5;
/// The longest value that is shown, in characters.
const LONGEST_VALUE: usize = 80;

/// The latest traces as one, kept for a while.
#[derive(Debug)]
pub(super) struct Recent {
    client: Option<Client>,
    kept: Mutex<Option<(Instant, Option<Arc<Trace>>)>>,
}

impl Recent {
    pub(super) fn of(client: Option<Client>) -> Self {
        let client = client.map(|client| client.with_reconnect_timeout(Duration::ZERO));
        Self { client, kept: Mutex::new(None) }
    }

    /// The spans of the latest traces; `None` without a server, or when it does not answer.
    pub(super) async fn trace(&self) -> Option<Arc<Trace>> {
        let client = self.client.as_ref()?;
        let mut kept = self.kept.lock().await;
        if let Some((at, trace)) = &*kept
            && at.elapsed() < KEPT
        {
            return trace.clone();
        }
        let trace = tokio::time::timeout(PATIENCE, load(client)).await.ok().flatten().map(Arc::new);
        *kept = Some((Instant::now(), trace.clone()));
        trace
    }
}

async fn load(client: &Client) -> Option<Trace> {
    let items = client.traces(&[("take", TRACES.to_string())]).await.ok()?;
    let mut spans: Vec<Span> = Vec::new();
    let mut latest: Option<TraceId> = None;
    for item in items {
        let Some(id) = item["traceId"].as_str() else { continue };
        let Ok(trace) = subject::of_server(client, id).await else { continue };
        latest = latest.or(Some(trace.id()));
        spans.extend(trace.spans().iter().cloned());
    }
    Some(Trace::assemble(latest?, spans))
}

/// The most frequent values of an attribute, each with the number of its spans.
pub(super) fn values(trace: &Trace, attribute: &str) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for span in trace.spans() {
        for (name, value) in special::texts(span) {
            if name == attribute {
                let shown: String = value.chars().take(LONGEST_VALUE).collect();
                *counts.entry(shown).or_default() += 1;
            }
        }
    }
    let mut values: Vec<(String, usize)> = counts.into_iter().collect();
    values.sort_by_key(|(_, spans)| std::cmp::Reverse(*spans));
    values.truncate(MAX_VALUES);
    values
}
