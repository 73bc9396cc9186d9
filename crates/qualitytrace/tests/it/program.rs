//! Starting the real program and talking to it.

use std::net::SocketAddr;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// A `qualitytrace serve` on free ports. Killed when dropped.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) http: SocketAddr,
}

impl Served {
    /// Starts the server and waits until it says that it is ready.
    pub(crate) async fn start(database_url: &str) -> Self {
        let quiet = ["--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
        Self::start_with(&[&quiet[..], &["--database-url", database_url]].concat()).await
    }

    /// The same with these arguments and nothing else.
    pub(crate) async fn start_with(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_qualitytrace"))
            .arg("serve")
            .args(arguments)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = None;
        while let Some(line) = lines.next_line().await.unwrap() {
            if let Some((_, rest)) = line.split_once("http://") {
                address = Some(rest.parse().unwrap());
            }
            if line.trim_start().starts_with("OTLP HTTP") {
                break;
            }
        }
        // What the server prints from here on must go somewhere, or it would block.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self { child, http: address.expect("the server says where it listens") }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }
}
