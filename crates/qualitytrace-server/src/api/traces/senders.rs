//! Who sends traces, when last, and how long after the fact.

use std::collections::{BTreeMap, HashSet};

use axum::Json;
use axum::extract::State;
use qualitytrace_core::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

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
pub(in crate::api) async fn services(State(app): State<App>) -> Result<Json<Services>, Problem> {
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
    let items = services.into_iter().map(|(name, service)| ServiceSummary::of(name, service)).collect();
    Ok(Json(Services { items }))
}

/// Who sends traces.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct Services {
    items: Vec<ServiceSummary>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ServiceSummary {
    name: String,
    /// How many it sent.
    spans: u64,
    last_seen: String,
    export_lag: ExportLag,
}

/// From the end of a span to its arrival.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExportLag {
    p50: Option<u64>,
    p99: Option<u64>,
    /// `ms`.
    unit: &'static str,
}

impl ServiceSummary {
    fn of(name: String, mut service: Service) -> Self {
        service.lags.sort_unstable();
        let last = service.lags.len().saturating_sub(1);
        let at = |share: usize| service.lags.get((service.lags.len() * share / 100).min(last)).copied();
        Self {
            name,
            spans: service.spans,
            last_seen: rfc3339(service.last_seen),
            export_lag: ExportLag { p50: at(50), p99: at(99), unit: "ms" },
        }
    }
}
