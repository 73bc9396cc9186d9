//! How a server watches itself: OpenTelemetry export that is bounded, lossless and counted.
//!
//! Spans and events of `tracing`, and metrics of the OpenTelemetry API, go to any number of sinks.
//! Each sink has a bounded queue that spills to disk, retries until it is told to stop, and a ledger
//! in which every item is found again. Nothing a receiver does can delay the server.
//!
//! ```no_run
//! use qualitytrace_telemetry::{Telemetry, config::{File, Sources}};
//! use tracing_subscriber::{layer::SubscriberExt as _, util::SubscriberInitExt as _};
//!
//! let text = std::fs::read_to_string("server.toml")?;
//! let sources = Sources { files: vec![File { path: "server.toml".into(), text }], ..Sources::default() };
//! let (config, diagnostics) = sources.read();
//! for diagnostic in &diagnostics {
//!     eprintln!("{diagnostic}");
//! }
//! let telemetry = Telemetry::start(config)?;
//! tracing_subscriber::registry().with(telemetry.layer()).init();
//! tracing::info_span!("work").in_scope(|| tracing::info!("hello"));
//! telemetry.shutdown(std::time::Duration::from_secs(5));
//! # Ok::<(), std::io::Error>(())
//! ```

mod attributes;
mod clock;
pub mod codec;
pub mod config;
mod context;
mod delivery;
mod encode;
mod filter;
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
mod sinks;
mod span;
mod spool;
mod status;
mod telemetry;
pub mod tls;
mod tracer;
mod transport;

pub use context::{Recorded, Suppressed, without_telemetry};
pub use delivery::{Health, circuit::CircuitState};
pub use item::SCHEMA_URL;
pub use layer::record_panics;
pub use ledger::{Balance, Dropped, Loss};
pub use meter::exemplar::Histogram;
pub use meter::prometheus::{CONTENT_TYPE as OPENMETRICS, Exposition};
pub use opentelemetry::{
    KeyValue,
    metrics::Meter,
    trace::{SpanId, SpanKind, TraceId},
};
pub use propagation::{Context, Propagator, Propagators, SpanExt};
pub use spool::{Damage, SpoolStatus, orphan::Orphan};
pub use status::{Probe, SinkStatus, Status};
pub use telemetry::Telemetry;
pub use tracer::{ApplicationSpan, ApplicationTracer};
