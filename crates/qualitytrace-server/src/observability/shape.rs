//! The schema of the telemetry's status. The telemetry crate serializes the status and knows no schemas.
#![expect(dead_code, reason = "only the schemas of these types are used")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Map, Value};

/// All sinks of the server's own telemetry at one moment.
#[derive(JsonSchema)]
#[schemars(rename = "TelemetryStatus")]
pub(super) struct Status {
    /// Records that wait for the recorder; they are in no sink's balance yet.
    intake: u64,
    sinks: Vec<Sink>,
    /// Sinks that a reload removed, which still deliver or have a ledger to show.
    retired: Vec<Sink>,
    /// Spools on disk that no sink writes to.
    orphans: Vec<Orphan>,
}

/// A sink of the server's own telemetry.
#[derive(JsonSchema)]
#[schemars(rename = "TelemetrySink")]
struct Sink {
    id: String,
    /// `server` or `application`.
    role: String,
    /// `grpc` or `http`.
    transport: String,
    /// The address of each signal.
    endpoints: BTreeMap<String, String>,
    /// Whether new items are dropped when the memory is full.
    lossy: bool,
    /// The health of its delivery.
    health: Map<String, Value>,
    memory_items: u64,
    memory_bytes: u64,
    /// The disk queue; null if it has none.
    spool: Option<Map<String, Value>>,
    /// The ledger of each signal: created and recovered items, and what became of them.
    ledger: BTreeMap<String, Map<String, Value>>,
    /// Its problems, a sentence each.
    problems: Vec<String>,
}

/// A spool on disk that no sink writes to.
#[derive(JsonSchema)]
#[schemars(rename = "TelemetryOrphan")]
struct Orphan {
    path: String,
    /// The sink that wrote it, if known.
    sink: Option<String>,
    bytes: u64,
    /// When it is removed, in milliseconds since the epoch.
    expires_ms: u64,
}
