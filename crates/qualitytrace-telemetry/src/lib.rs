//! Self-monitoring of a server: OpenTelemetry export that is bounded, lossless and counted.
//!
//! Spans and events of `tracing`, and metrics of the OpenTelemetry API, go to any number of sinks. Each sink has a
//! bounded queue that spills to disk, retries until it is told to stop, and a ledger that accounts for every item.
//! Nothing that a receiver does can delay the server.
//!
//! ```no_run
//! use qualitytrace_telemetry::{Telemetry, config::{Defaults, File, Sources}};
//! use tracing_subscriber::{layer::SubscriberExt as _, util::SubscriberInitExt as _};
//!
//! let file = File::new("server.toml", std::fs::read_to_string("server.toml")?);
//! let (config, diagnostics) = Sources::new(Defaults::new("mail")).with_file(file).with_environment().read();
//! for diagnostic in &diagnostics {
//!     eprintln!("{diagnostic}");
//! }
//! let telemetry = Telemetry::start(config)?;
//! tracing_subscriber::registry().with(telemetry.layer()).init();
//! tracing::info_span!("work").in_scope(|| tracing::info!("hello"));
//! telemetry.shutdown(std::time::Duration::from_secs(5));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Cargo features: `grpc` and `http` (OTLP transports), `spool` (disk queues), `prometheus` (metrics as text), all on
//! by default, and `tower` (a layer for HTTP servers). A configuration that needs a disabled feature is refused with
//! its name.

mod attributes;
mod clock;
#[cfg(feature = "grpc")]
pub mod codec;
pub mod config;
mod context;
mod delivery;
mod encode;
mod filter;
mod global;
#[cfg(feature = "tower")]
pub mod http_server;
mod item;
mod layer;
mod ledger;
mod meter;
mod pattern;
mod probe;
mod propagation;
mod queue;
mod record;
mod recorder;
pub mod redact;
mod resource;
mod sampling;
mod self_metrics;
mod sinks;
mod span;
#[cfg_attr(not(feature = "spool"), path = "spool/absent.rs")]
mod spool;
mod status;
mod telemetry;
#[cfg(any(feature = "grpc", feature = "http"))]
pub mod tls;
mod tracer;
mod transport;

pub use context::{Recorded, Suppressed, without_telemetry};
pub use delivery::{Health, circuit::CircuitState};
pub use item::SCHEMA_URL;
pub use layer::{SpanExt, record_panics};
pub use ledger::{Balance, Dropped, Loss};
pub use meter::exemplar::Histogram;
#[cfg(feature = "prometheus")]
pub use meter::prometheus::{CONTENT_TYPE as OPENMETRICS, Exposition};
pub use opentelemetry::{
    KeyValue,
    metrics::Meter,
    trace::{SpanId, SpanKind, TraceId},
};
pub use propagation::{Context, Propagator, Propagators};
pub use spool::{Damage, Orphan, SpoolStatus};
pub use status::{Probe, SinkStatus, Status};
pub use telemetry::Telemetry;
pub use tracer::{ApplicationSpan, ApplicationTracer};
