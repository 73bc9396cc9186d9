//! The minimal use of the crate; README.md shows it.
//!
//! `OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 cargo run -p qualitytrace-telemetry --example quickstart`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example speaks to a person")]

use std::time::Duration;

use qualitytrace_telemetry::{
    Telemetry,
    config::{Defaults, Sources},
};
use tracing_subscriber::{layer::SubscriberExt as _, util::SubscriberInitExt as _};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318` and similar variables say where everything goes.
    let (config, diagnostics) = Sources::new(Defaults::new("mail")).with_environment().read();
    for diagnostic in &diagnostics {
        eprintln!("{diagnostic}");
    }
    let telemetry = Telemetry::start(config)?;
    tracing_subscriber::registry().with(telemetry.layer()).init();

    let accepted = telemetry.meter("mail").u64_counter("mail.accepted").build();
    tracing::info_span!("smtp.session", otel.kind = "server").in_scope(|| {
        tracing::info!("mail accepted");
        accepted.add(1, &[]);
    });

    // Prints the ledger, which accounts for every span, log record and data point.
    println!("{}", telemetry.shutdown(Duration::from_secs(5)).render());
    Ok(())
}
