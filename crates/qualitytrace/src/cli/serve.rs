//! `qualitytrace serve`.

mod safety;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use qualitytrace_core::wait::Policy;
use qualitytrace_server::config::{Config, HTTP_PORT, OTLP_GRPC_PORT, OTLP_HTTP_PORT};
use qualitytrace_server::limits::Limits;
use qualitytrace_server::server::{Addresses, Server};
use qualitytrace_telemetry::{Telemetry, record_panics};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use self::safety::SafetyOptions;
use super::Exit;
use super::telemetry::ConfigOptions;
use crate::report;

/// How long the server's own telemetry may take to leave when it stops; the rest waits in the spool.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Address to bind; loopback unless told otherwise
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1", env = "QUALITYTRACE_HOST")]
    host: IpAddr,
    /// Port of the REST API; it takes OTLP too
    #[arg(long = "server.httpPort", value_name = "PORT", default_value_t = HTTP_PORT, env = "QUALITYTRACE_SERVER_HTTPPORT")]
    http_port: u16,
    #[command(flatten)]
    config: ConfigOptions,
    #[command(flatten)]
    otlp: OtlpOptions,
    /// Where traces and runs are kept [default: a SQLite file in the data folder]
    ///
    /// `sqlite::memory:`, `sqlite://FILE` or `postgres://USER:PASSWORD@HOST/NAME`.
    #[arg(long, value_name = "URL", env = "QUALITYTRACE_DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    safety: SafetyOptions,
}

/// Where OTLP is expected besides the main port.
#[derive(Debug, Clone, Args)]
pub(crate) struct OtlpOptions {
    /// Address for OTLP over gRPC [default: the host, port 4317]
    #[arg(long, value_name = "ADDR|off", env = "QUALITYTRACE_OTLP_GRPC_ADDR")]
    otlp_grpc_addr: Option<Listen>,
    /// Address for OTLP over HTTP [default: the host, port 4318]
    #[arg(long, value_name = "ADDR|off", env = "QUALITYTRACE_OTLP_HTTP_ADDR")]
    otlp_http_addr: Option<Listen>,
}

impl OtlpOptions {
    pub(crate) fn grpc(&self, host: IpAddr) -> Option<SocketAddr> {
        self.otlp_grpc_addr.map_or(Some(SocketAddr::new(host, OTLP_GRPC_PORT)), Listen::address)
    }

    pub(crate) fn http(&self, host: IpAddr) -> Option<SocketAddr> {
        self.otlp_http_addr.map_or(Some(SocketAddr::new(host, OTLP_HTTP_PORT)), Listen::address)
    }
}

/// An address, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Listen {
    On(SocketAddr),
    Off,
}

impl Listen {
    fn address(self) -> Option<SocketAddr> {
        match self {
            Self::On(address) => Some(address),
            Self::Off => None,
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse().map(Self::On).map_err(|_| "write HOST:PORT with a numeric host, or `off`".to_owned())
    }
}

/// How much the server takes on.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
struct LimitOptions {
    /// Largest request body, as sent
    #[arg(long = "limits.bodyBytes", value_name = "SIZE", value_parser = size, default_value = "64MiB")]
    body_bytes: u64,
    /// Largest request body, after decompression
    #[arg(long = "limits.decompressedBytes", value_name = "SIZE", value_parser = size, default_value = "64MiB")]
    decompressed_bytes: u64,
    /// Bytes that may wait for the store at one time
    #[arg(long = "limits.ingestBytes", value_name = "SIZE", value_parser = size, default_value = "96MiB")]
    ingest_bytes: u64,
    /// Spans kept of one trace
    #[arg(long = "limits.spansPerTrace", value_name = "N", default_value_t = 200_000)]
    spans_per_trace: u64,
    /// Bytes of traces and logs kept in total
    #[arg(long = "limits.retainedBytes", value_name = "SIZE", value_parser = size, default_value = "16GiB")]
    retained_bytes: u64,
    /// How long a trace is kept that belongs to no run
    #[arg(long = "limits.retention", value_name = "DURATION", value_parser = duration, default_value = "24h")]
    retention: Duration,
    /// Runs under way at one time
    #[arg(long = "runs.concurrency", value_name = "N", default_value_t = 64)]
    concurrency: usize,
    /// Runs that may wait for their turn; further ones are refused
    #[arg(long = "runs.queue", value_name = "N", default_value_t = 10_000)]
    queue: u64,
    /// Let tests run commands on this machine (triggers of type `exec` and `playwrightengine`)
    #[arg(long = "runs.commands")]
    commands: bool,
}

impl LimitOptions {
    fn limits(&self) -> Limits {
        Limits {
            body_bytes: self.body_bytes,
            decompressed_bytes: self.decompressed_bytes,
            ingest_bytes: self.ingest_bytes,
            spans_per_trace: self.spans_per_trace,
            retained_bytes: self.retained_bytes,
            retention: self.retention,
            concurrent_runs: self.concurrency.max(1),
            queued_runs: self.queue.max(1),
            commands: self.commands,
            ..Limits::default()
        }
    }
}

/// A number of bytes, with an optional unit.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        "TiB" | "T" => 1_u64 << 40,
        _ => return Err("write a number with B, KiB, MiB, GiB or TiB, such as 64MiB".to_owned()),
    };
    let number: u64 =
        digits.trim().parse().map_err(|_| "write a whole number with a unit, such as 64MiB".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "the number is too large".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 =
        digits.parse().map_err(|_| "write a number with ms, s, m, h or d, such as 24h".to_owned())?;
    let millis = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("write a number with ms, s, m, h or d, such as 24h".to_owned()),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(|| "the time is too long".to_owned())
}

/// Runs the server until it is told to stop.
pub(crate) async fn serve(options: Options) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let Some(telemetry) = options.config.start()? else { return Ok(Exit::Error) };
    start_logging("info", Some(&telemetry));
    let database_url = match options.database_url {
        Some(url) => url,
        None => default_database_url()?,
    };
    let config = Config {
        http: SocketAddr::new(options.host, options.http_port),
        otlp_grpc: options.otlp.grpc(options.host),
        otlp_http: options.otlp.http(options.host),
        safety: options.safety.safety(&database_url),
        database_url,
        wait: Policy::default(),
        limits: options.limits.limits(),
    };
    telemetry.observe_runtime(&tokio::runtime::Handle::current());
    let server = Server::start_watched(config, telemetry.clone()).await?;
    report::out(&banner(&server.addresses(), began));
    stop_signal().await;
    report::out("stopping: requests under way may end\n");
    server.shutdown().await;
    let flushed = tokio::task::spawn_blocking(move || telemetry.shutdown(FLUSH_TIMEOUT)).await?;
    tracing::debug!(status = flushed.render(), "telemetry ended");
    Ok(Exit::Passed)
}

/// Log lines go to standard error; `RUST_LOG` chooses which.
pub(crate) fn start_logging(level: &str, telemetry: Option<&Telemetry>) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(format!("{level},sqlx=warn")));
    let colours = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let lines =
        tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(std::io::stderr).with_filter(filter);
    // Fails only when a test has set up logging already.
    let _ = tracing_subscriber::registry().with(telemetry.map(Telemetry::layer)).with(lines).try_init();
    if telemetry.is_some() {
        record_panics();
    }
}

fn banner(addresses: &Addresses, began: Instant) -> String {
    let or_off =
        |address: Option<SocketAddr>| address.map_or_else(|| "off".to_owned(), |address| address.to_string());
    format!(
        "qualitytrace {} is ready in {} ms\n  API and OTLP   http://{}\n  OTLP gRPC      {}\n  OTLP HTTP      {}\n",
        env!("CARGO_PKG_VERSION"),
        began.elapsed().as_millis(),
        addresses.http,
        or_off(addresses.otlp_grpc),
        or_off(addresses.otlp_http),
    )
}

/// A SQLite file in the data folder.
fn default_database_url() -> anyhow::Result<String> {
    let folder = data_folder().context("no data folder is known; name a database with --database-url URL")?;
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("failed to create the data folder {}", folder.display()))?;
    Ok(format!("sqlite://{}", folder.join("qualitytrace.db").display()))
}

pub(crate) fn data_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("QUALITYTRACE_DATA_DIR")
        .or_else(|| Some(set("XDG_DATA_HOME")?.join("qualitytrace")))
        .or_else(|| Some(set("HOME")?.join(".local/share/qualitytrace")))
}

/// Waits for Ctrl-C or a polite request to end.
pub(crate) async fn stop_signal() {
    let interrupt = tokio::signal::ctrl_c();
    match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
        }
        Err(_) => drop(interrupt.await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("10"), Ok(10));
        assert!(size("10Mb").is_err());
        assert!(size("99999999999TiB").is_err());
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("24h"), Ok(Duration::from_hours(24)));
        assert!(duration("24").is_err());
    }
}
