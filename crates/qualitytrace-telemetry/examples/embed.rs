//! A mail-like server with telemetry: sessions and deliveries become spans, `tracer.<id>` in TOML says where they go.
//!
//! `cargo run -p qualitytrace-telemetry --example embed -- server.toml`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example speaks to a person")]

use std::{process::ExitCode, time::Duration};

use http::HeaderMap;
use qualitytrace_telemetry::{
    Context, KeyValue, SpanExt as _, Telemetry,
    config::{Defaults, File, Severity, Sources},
    record_panics,
};
use tracing_subscriber::{
    Layer as _, filter::LevelFilter, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

const DEFAULT: &str = r#"
[tracer.otel]
type = "open-telemetry"
transport = "grpc"
endpoint = "http://127.0.0.1:4317"
level = "info"
enable = true
enable.log-exporter = true
"#;

fn main() -> ExitCode {
    serve(std::env::args().nth(1))
}

/// Serves some mail with the telemetry that a file configures.
pub(crate) fn serve(file: Option<String>) -> ExitCode {
    let file = match file {
        Some(path) => match std::fs::read_to_string(&path) {
            Ok(text) => File::new(path, text),
            Err(error) => {
                eprintln!("{path} cannot be read: {error}");
                return ExitCode::FAILURE;
            }
        },
        None => File::new("built-in.toml", DEFAULT),
    };
    let mut defaults = Defaults::new("mail");
    defaults.service_version = Some("1.0".to_owned());
    defaults.spool_path = Some(std::env::temp_dir().join("mail-telemetry"));
    let sources = Sources::new(defaults).with_file(file).with_environment();
    let (config, diagnostics) = sources.read();
    for diagnostic in &diagnostics {
        eprintln!("{diagnostic}");
    }
    if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        return ExitCode::FAILURE;
    }
    println!("{}", config.render());
    let telemetry = match Telemetry::start(config) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            eprintln!("telemetry does not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    tracing_subscriber::registry()
        .with(telemetry.layer())
        .with(tracing_subscriber::fmt::layer().with_filter(LevelFilter::WARN))
        .init();
    record_panics();

    let accepted = telemetry.meter("mail").u64_counter("mail.accepted").build();
    for message in 0..100_u32 {
        let session = tracing::info_span!("smtp.session", otel.kind = "server", client.address = "192.0.2.7");
        // A traced client sends its context in headers; this one sends none.
        if let Some(caller) = telemetry.propagators().extract(&HeaderMap::new()) {
            session.continue_from(&caller);
        }
        session.in_scope(|| {
            tracing::info!(message, "mail accepted");
            deliver(&telemetry, message);
            accepted.add(1, &[KeyValue::new("mail.domain", "example.org")]);
        });
    }
    let status = telemetry.shutdown(Duration::from_secs(5));
    println!("{}", status.render());
    ExitCode::SUCCESS
}

/// Forwards a message to the next server, which continues the trace.
fn deliver(telemetry: &Telemetry, message: u32) {
    let attempt = tracing::info_span!("delivery.attempt", otel.kind = "client", message).entered();
    let mut headers = HeaderMap::new();
    if let Some(context) = Context::current() {
        telemetry.propagators().inject(&context, &mut headers);
    }
    if message % 10 == 9 {
        tracing::error!(reason = "mailbox full", "delivery failed");
    }
    drop(attempt);
}
