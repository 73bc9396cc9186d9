//! A server inside this process that receives spans, for tools that need one and are told of none.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Context;
use clap::Args;
use qualitytrace_server::config::{Config, Listen, OTLP_GRPC_PORT, OTLP_HTTP_PORT};
use qualitytrace_server::serve::server::Server;

use crate::cli::own_token::OwnToken;
use crate::client::Client;

/// Where the server expects OTLP.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Address for OTLP over gRPC of a server that is started [default: 4317]
    #[arg(long, value_name = "ADDR|off", value_parser = listen)]
    otlp_grpc_addr: Option<Listen>,
    /// Address for OTLP over HTTP of a server that is started [default: 4318]
    #[arg(long, value_name = "ADDR|off", value_parser = listen)]
    otlp_http_addr: Option<Listen>,
}

fn listen(text: &str) -> Result<Listen, String> {
    Listen::parse(text).ok_or_else(|| "write a port, an ADDRESS:PORT, or `off`".to_owned())
}

impl Options {
    /// The default ports, or the given ones.
    pub(crate) fn addresses(&self) -> [Option<SocketAddr>; 2] {
        let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let address = |given: Option<Listen>, usual: u16| {
            given.map_or(Some(SocketAddr::new(host, usual)), |given| given.address(host))
        };
        [address(self.otlp_grpc_addr, OTLP_GRPC_PORT), address(self.otlp_http_addr, OTLP_HTTP_PORT)]
    }
}

/// Starts a server with these addresses for OTLP, and a token that only this process knows.
pub(crate) async fn start(
    [otlp_grpc, otlp_http]: [Option<SocketAddr>; 2],
) -> anyhow::Result<(Server, Client)> {
    let token = OwnToken::random();
    let config = Config {
        http: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        otlp_grpc,
        otlp_http,
        safety: token.safety()?,
        ..Config::default()
    };
    let server = Server::start(config).await.context(
        "failed to start a server that receives spans; name a running one with --server-url, or other ports with \
         --otlp-grpc-addr and --otlp-http-addr",
    )?;
    let client = Client::new(&server.addresses().http.to_string())?;
    Ok((server, client.with_token(Some(token.text()))))
}
