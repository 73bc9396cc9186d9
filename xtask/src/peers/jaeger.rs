//! Jaeger: a data store of tests, with traces in its memory or in OpenSearch; in benchmarks, it stands beside ours.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Error, Result};
use qualitytrace_testing::try_eventually_blocking;
use serde_json::{Value, json};

use super::{
    module::Program,
    running::{Running, addresses},
};
use crate::process;

const JAEGER: Program = Program {
    name: "jaeger",
    module: "github.com/jaegertracing/jaeger",
    // The version of the module; the program of this version is Jaeger 2.13.
    version: "v1.76.0",
    tags: "",
};
/// Start timeout.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// How long the first span may take into an index.
const INDEX_LIMIT: Duration = Duration::from_mins(2);

/// Builds Jaeger unless it is there already.
pub(crate) fn install() -> Result<PathBuf> {
    JAEGER.install()
}

/// A running Jaeger. Dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Jaeger {
    /// The address of its query service over gRPC.
    pub(crate) grpc: SocketAddr,
    /// The URL of its query API.
    pub(crate) query: String,
    /// The URL of its OTLP over HTTP.
    pub(crate) otlp: String,
    _running: Running,
}

/// Starts a Jaeger that keeps traces in memory on free loopback ports, and waits until it is ready.
pub(crate) fn start() -> Result<Jaeger> {
    start_with("jaeger", &["memory: { memory: { max_traces: 100000 } }".to_owned()])
}

/// Starts a Jaeger that writes to an OpenSearch, each span twice: with its tags in a list, into the indexes
/// `list-jaeger-span-*`, and with its tags as fields, into `fields-jaeger-span-*`. Both indexes are there when this
/// returns.
pub(crate) fn start_on(opensearch: &str) -> Result<Jaeger> {
    let backend = |prefix: &str, tags: &str| {
        let index = "{ shards: 1, replicas: 0 }";
        format!(
            "{prefix}: {{ opensearch: {{ server_urls: [\"{opensearch}\"], tags_as_fields: {{ {tags} }}, \
             bulk_processing: {{ flush_interval: 100ms }}, \
             indices: {{ index_prefix: {prefix}, spans: {index}, services: {index} }} }} }}"
        )
    };
    let backends = [backend("list", "all: false"), backend("fields", "all: true, dot_replacement: \"@\"")];
    let jaeger = start_with("jaeger-on-opensearch", &backends)?;
    create_indexes(&jaeger, opensearch, ["list", "fields"])?;
    Ok(jaeger)
}

/// Sends a span and waits until it can be found: the first one of a day creates the indexes, which takes many seconds on
/// a busy machine.
fn create_indexes(jaeger: &Jaeger, opensearch: &str, prefixes: [&str; 2]) -> Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos().to_string();
    let span = json!({ "traceId": "00000000000000000000000000000001", "spanId": "0000000000000001", "name": "first",
        "startTimeUnixNano": now, "endTimeUnixNano": now });
    let service = json!({ "key": "service.name", "value": { "stringValue": "peers" } });
    let of_resource = json!({ "resource": { "attributes": [service] }, "scopeSpans": [{ "spans": [span] }] });
    let request = json!({ "resourceSpans": [of_resource] }).to_string();
    process::post_json(&format!("{}/v1/traces", jaeger.otlp), &request)?;
    for prefix in prefixes {
        let index = format!("{prefix}-jaeger-span-*");
        try_eventually_blocking(INDEX_LIMIT, format!("Jaeger has written a span to {index}"), || {
            let answer = process::get(&format!("{opensearch}/{index}/_count")).ok()?;
            let answer: Value = serde_json::from_str(&answer).ok()?;
            (answer["count"].as_u64()? > 0).then_some(())
        })
        .map_err(Error::msg)?;
    }
    Ok(())
}

fn start_with(purpose: &str, backends: &[String]) -> Result<Jaeger> {
    let program = install()?;
    let [grpc, query, otlp] = addresses();
    let mut running = Running::start("Jaeger", purpose, |folder| {
        let settings = folder.join("jaeger.yaml");
        fs::write(&settings, configuration(backends, grpc, query, otlp))
            .context("failed to write Jaeger's configuration")?;
        let mut command = process::bound_to_us("KILL", &program);
        command.arg("--config").arg(&settings);
        Ok(command)
    })?;
    running.wait(&[grpc, query, otlp], READY_LIMIT)?;
    Ok(Jaeger { grpc, query: format!("http://{query}"), otlp: format!("http://{otlp}"), _running: running })
}

/// Without a batch processor, so that a span can be read as soon as it is acknowledged, and without spans of its own.
/// Every backend is written to, and the first one is queried.
fn configuration(backends: &[String], grpc: SocketAddr, query: SocketAddr, otlp: SocketAddr) -> String {
    let names: Vec<&str> = backends.iter().filter_map(|backend| Some(backend.split_once(':')?.0)).collect();
    let exporters: Vec<String> = names.iter().map(|name| format!("jaeger_storage_exporter/{name}")).collect();
    let settings: Vec<String> = names
        .iter()
        .zip(&exporters)
        .map(|(name, exporter)| format!("{exporter}: {{ trace_storage: {name} }}"))
        .collect();
    let (queried, backends) = (names.first().copied().unwrap_or_default(), backends.join(", "));
    let (settings, exporters) = (settings.join(", "), exporters.join(", "));
    format!(
        "\
extensions:
  jaeger_query:
    enable_tracing: false
    storage: {{ traces: {queried} }}
    grpc: {{ endpoint: {grpc} }}
    http: {{ endpoint: {query} }}
  jaeger_storage: {{ backends: {{ {backends} }} }}
receivers: {{ otlp: {{ protocols: {{ http: {{ endpoint: {otlp} }} }} }} }}
exporters: {{ {settings} }}
service:
  extensions: [jaeger_storage, jaeger_query]
  telemetry: {{ metrics: {{ level: none }}, logs: {{ level: warn }} }}
  pipelines: {{ traces: {{ receivers: [otlp], exporters: [{exporters}] }} }}
"
    )
}
