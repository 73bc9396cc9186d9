//! Who sends traces, when last, and how long after the fact.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::App;
use crate::api::answer::Problem;
use crate::api::memory::Memory;
use crate::source::Arrival;
use crate::variables::Withheld;
use crate::wire::time::rfc3339;

/// Requests that are looked at.
const LOOKED_AT: u64 = 500;

#[derive(Debug, Default)]
struct Service {
    last_seen: Timestamp,
    /// From the end of a span to its arrival, in milliseconds.
    lags: Vec<u64>,
}

/// What one service sent in one request.
#[derive(Debug)]
pub(super) struct Sent {
    service: String,
    /// One for each span.
    lags: Vec<u64>,
}

impl Sent {
    /// What every service sent.
    pub(super) fn of(arrival: &Arrival) -> Vec<Self> {
        let mut services: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for span in &arrival.spans {
            let lag = arrival.at.since(span.end.unwrap_or(span.start)).as_millis();
            services.entry(span.service()).or_default().push(u64::try_from(lag).unwrap_or(u64::MAX));
        }
        services.into_iter().map(|(service, lags)| Self { service: service.to_owned(), lags }).collect()
    }
}

/// The services of the latest requests.
pub(in crate::api) async fn services(
    State(app): State<App>,
    memory: Memory,
) -> Result<Json<Services>, Problem> {
    let latest = Timestamp::from_nanos(u64::try_from(i64::MAX).unwrap_or(u64::MAX));
    let arrivals = app.store.arrivals_before(latest, LOOKED_AT).await?;
    let sent = app.digests.chunks(&app, &memory, &arrivals).await?;
    let traces: BTreeSet<TraceId> = arrivals.iter().map(|(trace, _)| *trace).collect();
    let withheld = Withheld::of(&app.store, &traces.into_iter().collect::<Vec<_>>()).await?;
    let mut services: BTreeMap<String, Service> = BTreeMap::new();
    for arrival @ (trace, at) in &arrivals {
        let mask = withheld.mask(*trace)?;
        for sent in sent.get(arrival).into_iter().flat_map(|sent| sent.iter()) {
            let service = services.entry(mask.text(&sent.service).into_owned()).or_default();
            service.last_seen = service.last_seen.max(*at);
            service.lags.extend(&sent.lags);
        }
    }
    let items = services.into_iter().map(|(name, service)| ServiceSummary::of(&name, service)).collect();
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
    /// How many it sent, among the latest 500 requests.
    spans: usize,
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
    fn of(name: &str, mut service: Service) -> Self {
        service.lags.sort_unstable();
        let last = service.lags.len().saturating_sub(1);
        let at = |share: usize| service.lags.get((service.lags.len() * share / 100).min(last)).copied();
        Self {
            name: name.to_owned(),
            spans: service.lags.len(),
            last_seen: rfc3339(service.last_seen),
            export_lag: ExportLag { p50: at(50), p99: at(99), unit: "ms" },
        }
    }
}
