//! The demo shop alone, as a separate process.

use std::process::Stdio;

use qualitytrace_testing::{DEADLINE, within};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::program;

/// A running shop. It is killed on drop.
pub(super) struct Shop {
    /// The address of its gateway.
    pub(super) gateway: String,
    _child: Child,
}

impl Shop {
    /// Starts the shop, which sends its spans to `endpoint`.
    pub(super) async fn start(endpoint: &str, bug: Option<&str>) -> Self {
        let mut command = Command::new(program());
        command.args(["demo", "--export-to", endpoint]);
        command.args(bug.map(|bug| ["--break", bug]).into_iter().flatten());
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let gateway = within(DEADLINE, "the shop says where it is", async {
            loop {
                let line = lines.next_line().await.unwrap().expect("the shop stays open");
                if let Some((_, gateway)) = line.split_once("GATEWAY=") {
                    return gateway.trim().to_owned();
                }
            }
        })
        .await;
        Self { gateway, _child: child }
    }
}
