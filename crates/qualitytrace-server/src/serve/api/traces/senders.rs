//! Services that send telemetry: when last, and with which export lag.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::register::{InstanceView, ServiceView};
use schemars::JsonSchema;
use serde::Serialize;

use crate::base::redact::Redactor;
use crate::receive::source::Arrival;
use crate::serve::api::App;
use crate::serve::api::error::ApiError;
use crate::serve::api::memory::Memory;
use crate::storage::variables::RunSecrets;
use crate::wire::time::{NEVER, rfc3339};

/// Arrivals that are examined.
const LOOKED_AT: u64 = 500;

#[derive(Debug, Default)]
struct Service {
    last_seen: Timestamp,
    /// From the end of a span to its arrival, in milliseconds.
    lags: Vec<u64>,
    /// Its entry in the register.
    known: Option<ServiceView>,
}

/// What one service sent in one request.
#[derive(Debug)]
pub(super) struct ServiceLags {
    service: String,
    /// One lag for each span.
    lags: Vec<u64>,
}

impl ServiceLags {
    /// Bytes in memory, roughly.
    pub(super) fn bytes(all: &[Self]) -> usize {
        size_of::<Self>()
            + all
                .iter()
                .map(|sent| size_of::<Self>() + sent.service.len() + sent.lags.len() * size_of::<u64>())
                .sum::<usize>()
    }

    /// Groups the spans of an arrival by service.
    pub(super) fn of(arrival: &Arrival) -> Vec<Self> {
        let mut services: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for span in arrival.spans.iter().flatten() {
            let lag = arrival.at.since(span.end.unwrap_or(span.start)).as_millis();
            services.entry(span.service()).or_default().push(u64::try_from(lag).unwrap_or(u64::MAX));
        }
        services.into_iter().map(|(service, lags)| Self { service: service.to_owned(), lags }).collect()
    }
}

/// Returns the services of the latest requests, and what the register knows of all.
pub(in crate::serve::api) async fn services(
    State(app): State<App>,
    memory: Memory,
) -> Result<Json<Services>, ApiError> {
    let latest = Timestamp::from_nanos(u64::try_from(i64::MAX).unwrap_or(u64::MAX));
    let arrivals = app.store.arrivals_before(latest, LOOKED_AT).await?;
    let sent = app.digests.chunks(&app, &memory, &arrivals).await?;
    let traces: BTreeSet<TraceId> = arrivals.iter().map(|(trace, _)| *trace).collect();
    let withheld = RunSecrets::of(&app.store, &traces.into_iter().collect::<Vec<_>>()).await?;
    let mut services: BTreeMap<String, Service> = BTreeMap::new();
    for arrival @ (trace, at) in &arrivals {
        let Some(redactor) = withheld.redactor_in_list(*trace) else { continue };
        for sent in sent.get(arrival).into_iter().flat_map(|sent| sent.iter()) {
            let service = services.entry(redactor.text(&sent.service).into_owned()).or_default();
            service.last_seen = service.last_seen.max(*at);
            service.lags.extend(&sent.lags);
        }
    }
    let (listening_since, mut views) = {
        let register = app.ingest.register().lock();
        (register.listening_since(), register.views())
    };
    let redactor = withheld.redactor_of_all().unwrap_or_else(|_| {
        // The register does not know from which trace it has a name: what no key opens could be in any of them.
        views.clear();
        Redactor::default()
    });
    for view in views {
        let service = services.entry(redactor.text(&view.name).into_owned()).or_default();
        service.last_seen = service.last_seen.max(view.last_heard.unwrap_or_default());
        service.known = Some(view);
    }
    let services = services.into_iter();
    let items = services.map(|(name, service)| ServiceSummary::of(name, service, &redactor)).collect();
    Ok(Json(Services { items, listening_since: listening_since.map(rfc3339) }))
}

/// The services that send traces, metrics and logs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::serve::api) struct Services {
    items: Vec<ServiceSummary>,
    /// When this server began to listen; `heard` counts from then.
    #[serde(skip_serializing_if = "Option::is_none")]
    listening_since: Option<String>,
}

/// What is known of one service. Durations are in milliseconds.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ServiceSummary {
    name: String,
    /// The number of its spans in the latest 500 requests.
    spans: usize,
    /// When its telemetry last arrived; the year 1 if none has since this server listens.
    last_seen: String,
    export_lag: ExportLag,
    /// Whether its spans have arrived since this server listens.
    heard: bool,
    /// The number of its known deliveries, including those before this server listened.
    deliveries: u32,
    /// The largest lag of its spans.
    largest_lag: u64,
    /// By how much its spans arrive out of order.
    overtaking: u64,
    /// How far its clock is ahead.
    clock_ahead: u64,
    /// The earliest of the watermarks of its instances: everything that it ended before has been delivered.
    watermark: Option<String>,
    /// Addresses, RPC services and destinations under which it answered calls.
    answers: Vec<String>,
    /// Its instances, since this server listens.
    instances: Vec<Instance>,
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

/// One process of a service.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Instance {
    /// `service.instance.id`, else host and process, else the address that it sends from.
    id: String,
    first_arrival: String,
    last_arrival: String,
    /// When its metrics or logs last arrived.
    last_signal: Option<String>,
    /// The latest end among the spans that it delivered.
    watermark: Option<String>,
}

impl Instance {
    fn of(view: &InstanceView, redactor: &Redactor) -> Self {
        Self {
            id: redactor.text(&view.id).into_owned(),
            first_arrival: rfc3339(view.first_arrival),
            last_arrival: rfc3339(view.last_arrival),
            last_signal: view.last_signal.map(rfc3339),
            watermark: view.watermark.map(rfc3339),
        }
    }
}

impl ServiceSummary {
    fn of(name: String, mut service: Service, redactor: &Redactor) -> Self {
        service.lags.sort_unstable();
        let last = service.lags.len().saturating_sub(1);
        let at = |share: usize| service.lags.get((service.lags.len() * share / 100).min(last)).copied();
        let known = service.known.as_ref();
        let millis = |time: fn(&ServiceView) -> Duration| {
            known.map_or(0, |known| u64::try_from(time(known).as_millis()).unwrap_or(u64::MAX))
        };
        let instances = || known.into_iter().flat_map(|known| &known.instances);
        let answers = known.into_iter().flat_map(|known| &known.answers);
        let is_seen = service.last_seen > Timestamp::default();
        Self {
            name,
            spans: service.lags.len(),
            last_seen: if is_seen { rfc3339(service.last_seen) } else { NEVER.to_owned() },
            export_lag: ExportLag { p50: at(50), p99: at(99), unit: "ms" },
            heard: known.is_some_and(|known| known.first_heard.is_some()),
            deliveries: known.map_or(0, |known| known.deliveries),
            largest_lag: millis(|known| known.largest_lag),
            overtaking: millis(|known| known.overtaking),
            clock_ahead: millis(|known| known.clock_ahead),
            watermark: instances().filter_map(|instance| instance.watermark).min().map(rfc3339),
            answers: answers.map(|address| redactor.text(address).into_owned()).collect(),
            instances: instances().map(|instance| Instance::of(instance, redactor)).collect(),
        }
    }
}
