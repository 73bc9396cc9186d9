//! The back ends of a dog-food run: Jaeger and Zipkin have every span of the Collector's file, with the same parent, name
//! and service, and Prometheus has its metrics. Each is asked through its own API.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use qualitytrace_testing::port;
use serde_json::Value;

use super::{
    ledger::{Received, Span, SpanId},
    metrics,
};
use crate::{
    peers::{
        jaeger::{self, Jaeger},
        prometheus::{self, Prometheus},
        zipkin::{self, Zipkin},
    },
    process, workspace,
};

/// How long a back end may take until it shows what it was sent.
const SHOWN_LIMIT: Duration = Duration::from_secs(30);
/// More traces than a run has; as many as Jaeger keeps.
const TRACES: &str = "limit=100000";
/// How many differences are told.
const TOLD: usize = 5;
/// The alerts that are shipped.
const ALERTS: &str = "deploy/prometheus/alerts.yaml";

/// The running back ends.
#[derive(Debug)]
pub(crate) struct BackEnds {
    jaeger: Jaeger,
    zipkin: Zipkin,
    prometheus: Prometheus,
    /// Where the Collector offers metrics to Prometheus.
    scraped: SocketAddr,
}

impl BackEnds {
    /// Starts them all. Zipkin gets ready while the suites run: the Collector retries.
    pub(crate) fn start(subject: SocketAddr) -> Result<Self> {
        let zipkin = zipkin::start()?;
        let scraped = SocketAddr::from(([127, 0, 0, 1], port()));
        let jobs = [(metrics::SERVER_JOB, subject), (metrics::COLLECTOR_JOB, scraped)];
        let alerts = workspace::root().join(ALERTS).display().to_string();
        let prometheus = prometheus::start(&jobs, &alerts)?;
        Ok(Self { jaeger: jaeger::start()?, zipkin, prometheus, scraped })
    }

    /// The variables of `dogfood/backends`.
    pub(crate) fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("JAEGER", self.jaeger.otlp.clone()),
            ("ZIPKIN", self.zipkin.url.clone()),
            ("SCRAPED", self.scraped.to_string()),
            ("PROMETHEUS", self.prometheus.url.clone()),
        ]
    }

    /// Waits until Zipkin is ready: a Collector that ends earlier has nowhere to send its spans.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.zipkin.wait()
    }

    /// Checks that Prometheus has the metrics of the Collector's file, whichever way they came, and evaluates the alerts.
    pub(crate) fn check_metrics(&self, file: &Path) -> Result<()> {
        until_shown("Prometheus", || metrics::check(&self.prometheus.url, file))
    }

    /// Checks that Jaeger and Zipkin have every span.
    pub(crate) fn check_spans(&self, received: &Received) -> Result<()> {
        let of_jaeger = |service: &str| of_jaeger(&self.jaeger.query, service);
        until_shown("Jaeger", || Ok(differences(&received.spans, &found(received, of_jaeger)?)))?;
        let of_zipkin = |service: &str| of_zipkin(&self.zipkin.url, service);
        let expected = received.spans.iter().map(|(id, span)| (id.clone(), as_zipkin_shows(span))).collect();
        until_shown("Zipkin", || Ok(differences(&expected, &found(received, of_zipkin)?)))
    }
}

/// Asks again until nothing differs.
fn until_shown(name: &str, differences: impl Fn() -> Result<Vec<String>>) -> Result<()> {
    let asked = Instant::now();
    loop {
        let differences = differences().with_context(|| format!("failed to ask {name}"))?;
        if differences.is_empty() {
            return Ok(());
        }
        if asked.elapsed() > SHOWN_LIMIT {
            let told = differences[..differences.len().min(TOLD)].join("\n");
            bail!("{name} differs from the Collector's file in {} places:\n{told}", differences.len());
        }
        thread::sleep(Duration::from_millis(500));
    }
}

type Spans = BTreeMap<SpanId, Span>;

/// The spans of every service in the file, as a back end shows them.
fn found(received: &Received, of: impl Fn(&str) -> Result<Vec<(SpanId, Span)>>) -> Result<Spans> {
    let mut services: Vec<&str> = received.spans.values().map(|span| span.service.as_str()).collect();
    services.sort_unstable();
    services.dedup();
    let mut spans = Spans::new();
    for service in services {
        spans.extend(of(service)?);
    }
    Ok(spans)
}

/// What a back end lacks, and what it shows differently.
fn differences(expected: &Spans, found: &Spans) -> Vec<String> {
    let differs = expected.iter().filter_map(|(id, span)| match found.get(id) {
        Some(there) if there == span => None,
        there => Some(format!("{id:?}: expected {span:?}, got {there:?}")),
    });
    let surplus = found.iter().filter(|(id, _)| !expected.contains_key(*id));
    differs.chain(surplus.map(|(id, span)| format!("{id:?}: {span:?} is not in the file"))).collect()
}

fn of_jaeger(url: &str, service: &str) -> Result<Vec<(SpanId, Span)>> {
    let told: Value =
        serde_json::from_str(&process::get(&format!("{url}/api/traces?service={service}&{TRACES}"))?)?;
    let traces = told["data"].as_array().context("the answer has no traces")?;
    let spans = traces.iter().flat_map(|trace| {
        let spans = trace["spans"].as_array().into_iter().flatten();
        spans.map(|span| {
            let mut references = span["references"].as_array().into_iter().flatten();
            let parent = references.find(|reference| reference["refType"] == "CHILD_OF");
            let process = &trace["processes"][word(&span["processID"])];
            let facts = Span {
                parent: parent.map(|parent| word(&parent["spanID"])).unwrap_or_default(),
                name: word(&span["operationName"]),
                service: word(&process["serviceName"]),
            };
            ((word(&span["traceID"]), word(&span["spanID"])), facts)
        })
    });
    Ok(spans.collect())
}

fn of_zipkin(url: &str, service: &str) -> Result<Vec<(SpanId, Span)>> {
    let told = process::get(&format!("{url}/api/v2/traces?serviceName={service}&{TRACES}"))?;
    let told: Vec<Vec<Value>> = serde_json::from_str(&told)?;
    let spans = told.iter().flatten().map(|span| {
        let facts = Span {
            parent: word(&span["parentId"]),
            name: word(&span["name"]),
            service: word(&span["localEndpoint"]["serviceName"]),
        };
        ((word(&span["traceId"]), word(&span["id"])), facts)
    });
    Ok(spans.collect())
}

/// Zipkin shows all names in lower case.
fn as_zipkin_shows(span: &Span) -> Span {
    let Span { parent, name, service } = span;
    Span { parent: parent.clone(), name: name.to_lowercase(), service: service.to_lowercase() }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
