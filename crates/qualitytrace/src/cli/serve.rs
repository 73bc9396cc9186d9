//! `qualitytrace serve`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::{Addresses, Server};
use qualitytrace_telemetry::{Telemetry, record_panics};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use super::Exit;
use super::reload::{Changes, Running};
use super::settings::{self, ConfigOptions, SettingFlags};
use crate::{page, terminal};

/// Timeout for flushing the server's own telemetry at shutdown; the rest stays in the spool.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The warning, besides the log line, for a server that other machines reach without a token.
pub(super) const EXPOSED: &str = "
  WARNING  This server has no tokens and does not only listen on loopback: clients that reach it may read and change
           everything. Set `auth.tokens` (docs/security.md), or leave out `--host`. Tests may run no commands.
";

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    config: ConfigOptions,
    #[command(flatten)]
    settings: SettingFlags,
}

/// Runs the server until it is told to stop.
pub(crate) async fn serve(options: Options) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let inputs = options.config.inputs(options.settings);
    let Some(resolved) = settings::read(&inputs)? else { return Ok(Exit::Error) };
    let running = Running::new(inputs, &resolved);
    let telemetry = Telemetry::start(resolved.telemetry).context("failed to start telemetry")?;
    start_logging("info", Some(&telemetry));
    survive_full_disks();
    let changes = Changes::follow(resolved.file.as_deref()).context("failed to listen to SIGHUP")?;
    let config = Config { page: page::embedded(), ..resolved.config };
    telemetry.observe_runtime(&tokio::runtime::Handle::current());
    let banner = Banner::of(&config);
    let is_exposed = config.is_exposed();
    let server = Server::start_watched(config, telemetry.clone()).await?;
    terminal::out(&banner.text(&server.addresses(), began));
    if is_exposed {
        terminal::err(&format!("{}\n", terminal::style::bad(EXPOSED)));
    }
    tokio::select! {
        () = stop_signal() => {}
        () = running.follow(changes, &server, &telemetry) => {}
    }
    terminal::out("stopping: requests in progress may finish\n");
    server.shutdown().await;
    let flushed = tokio::task::spawn_blocking(move || telemetry.shutdown(FLUSH_TIMEOUT)).await?;
    tracing::debug!(status = flushed.render(), "telemetry ended");
    Ok(Exit::Passed)
}

/// Starts logging to standard error; `RUST_LOG` filters the lines.
pub(crate) fn start_logging(level: &str, telemetry: Option<&Telemetry>) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(format!("{level},sqlx=warn")));
    let colours = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(colours)
        .with_writer(|| terminal::LogWriter)
        .with_filter(filter);
    // Fails only when a test has set up logging already.
    let _ = tracing_subscriber::registry().with(telemetry.map(Telemetry::layer)).with(lines).try_init();
    if telemetry.is_some() {
        record_panics();
    }
}

/// The addresses and schemes of the server, for the banner.
struct Banner {
    page: String,
    main: String,
    otlp_scheme: &'static str,
}

impl Banner {
    fn of(config: &Config) -> Self {
        let scheme = |is_secure: bool| if is_secure { "https" } else { "http" };
        let takes = if config.otlp { "API and OTLP" } else { "API" };
        let main = scheme(config.safety.tls.is_some());
        Self {
            page: format!("{main}://"),
            main: format!("{takes:<13}  {main}://"),
            otlp_scheme: scheme(config.safety.otlp_tls.is_some()),
        }
    }

    fn text(&self, addresses: &Addresses, began: Instant) -> String {
        let or_off = |address: Option<SocketAddr>| {
            address.map_or_else(|| "off".to_owned(), |address| format!("{}://{address}", self.otlp_scheme))
        };
        let page = page::embedded()
            .absent
            .map_or_else(|| format!("{}{}", self.page, addresses.http), |why| format!("not built in: {why}"));
        format!(
            "qualitytrace {} is ready in {} ms\n  Page           {page}\n  {}{}\n  OTLP gRPC      {}\n  OTLP HTTP      {}\n",
            env!("CARGO_PKG_VERSION"),
            began.elapsed().as_millis(),
            self.main,
            addresses.http,
            or_off(addresses.otlp_grpc),
            or_off(addresses.otlp_http),
        )
    }
}

/// Handles SIGXFSZ: a file that would grow beyond `ulimit -f` becomes a failed write, as on a full disk. Unhandled, the
/// signal ends the process.
fn survive_full_disks() {
    let limit = tokio::signal::unix::SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    // The handler stays installed.
    if let Err(error) = tokio::signal::unix::signal(limit) {
        tracing::warn!(%error, "a file that grows beyond `ulimit -f` would end the server");
    }
}

/// Waits for Ctrl-C or SIGTERM.
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
