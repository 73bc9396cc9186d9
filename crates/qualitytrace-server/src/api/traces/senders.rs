//! Who sends traces, when last, and how long after the fact.

use std::collections::{BTreeMap, HashSet};

use axum::Json;
use axum::extract::State;
use qualitytrace_core::time::Timestamp;
use serde_json::{Value, json};

use crate::api::App;
use crate::api::answer::Problem;
use crate::wire::time::rfc3339;

/// Requests that are looked at.
const LOOKED_AT: u64 = 500;

#[derive(Debug, Default)]
struct Service {
    spans: u64,
    last_seen: Timestamp,
    /// From the end of a span to its arrival, in milliseconds.
    lags: Vec<u64>,
}

/// The services of the latest requests.
pub(in crate::api) async fn services(State(app): State<App>) -> Result<Json<Value>, Problem> {
    let latest = Timestamp::from_nanos(u64::try_from(i64::MAX).unwrap_or(u64::MAX));
    let arrivals = app.store.arrivals_before(latest, LOOKED_AT).await?;
    let mut services: BTreeMap<String, Service> = BTreeMap::new();
    let mut seen = HashSet::new();
    for (trace, _) in arrivals {
        if !seen.insert(trace) {
            continue;
        }
        for arrival in app.source.arrivals(trace).await? {
            for span in arrival.spans {
                let service = services.entry(span.service().to_owned()).or_default();
                service.spans += 1;
                service.last_seen = service.last_seen.max(arrival.at);
                let end = span.end.unwrap_or(span.start);
                service.lags.push(u64::try_from(arrival.at.since(end).as_millis()).unwrap_or(u64::MAX));
            }
        }
    }
    let shown: Vec<Value> = services.into_iter().map(|(name, service)| shown(&name, service)).collect();
    Ok(Json(json!({ "items": shown })))
}

fn shown(name: &str, mut service: Service) -> Value {
    service.lags.sort_unstable();
    let at = |share: usize| service.lags.get((service.lags.len() * share / 100).min(service.lags.len() - 1));
    json!({
        "name": name,
        "spans": service.spans,
        "lastSeen": rfc3339(service.last_seen),
        "exportLag": { "p50": at(50), "p99": at(99), "unit": "ms" },
    })
}
