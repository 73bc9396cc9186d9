//! The server that `run` starts for itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;
use qualitytrace_server::base::files::AllowedFiles;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::{Config, Listen, OTLP_GRPC_PORT, OTLP_HTTP_PORT, Safety};
use qualitytrace_server::serve::server::Server;

use super::Options;
use crate::cli::own_token::OwnToken;
use crate::cli::project::{Project, ServerSettings};

/// Where the server that is started for the run expects OTLP, besides its own port.
#[derive(Debug, Clone, Args)]
pub(super) struct OtlpOptions {
    /// Address for OTLP over gRPC [default: 4317, or a free port with --with]
    #[arg(long, value_name = "ADDR|off", env = "QUALITYTRACE_OTLP_GRPC_ADDR", value_parser = listen)]
    otlp_grpc_addr: Option<Listen>,
    /// Address for OTLP over HTTP [default: 4318, or a free port with --with]
    #[arg(long, value_name = "ADDR|off", env = "QUALITYTRACE_OTLP_HTTP_ADDR", value_parser = listen)]
    otlp_http_addr: Option<Listen>,
}

fn listen(text: &str) -> Result<Listen, String> {
    Listen::parse(text).ok_or_else(|| "write a port, an ADDRESS:PORT, or `off`".to_owned())
}

/// Starts a server inside this process: a free port for the API, with a token that only this process knows, the usual
/// ports for OTLP, and a database in memory. The project file has its limits.
pub(super) async fn own_server(options: &Options, token: &OwnToken) -> anyhow::Result<Server> {
    let Options { otlp, parallel, windows, with, .. } = options;
    let project = options.project.file.as_ref().map(Project::server_settings).transpose()?;
    let ServerSettings { config, otlp_grpc, otlp_http } = project.unwrap_or_default();
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    // The system that is started is told where to send its spans.
    let address = |given: Option<Listen>, of_project: Option<Listen>, usual: u16| {
        let usual = if with.is_given() { Listen::Port(0) } else { of_project.unwrap_or(Listen::Port(usual)) };
        given.unwrap_or(usual).address(host)
    };
    let config = Config {
        http: SocketAddr::new(host, 0),
        otlp_grpc: address(otlp.otlp_grpc_addr, otlp_grpc, OTLP_GRPC_PORT),
        otlp_http: address(otlp.otlp_http_addr, otlp_http, OTLP_HTTP_PORT),
        // The tests are the user's own files, and the server only lives for them.
        limits: Limits {
            commands: true,
            concurrent_runs: (*parallel).max(1),
            prompt_settle: windows.prompt_settle(with.checks_health()),
            ..config.limits
        },
        redact_headers: config.redact_headers,
        safety: Safety { data_store_files: AllowedFiles::Anywhere, ..token.safety()? },
        wait: windows.policy(),
        ..Config::default()
    };
    Ok(Server::start(config).await?)
}
