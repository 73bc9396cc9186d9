//! A started peer: its process, its folder, its output, and the wait until it is ready.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use qualitytrace_testing::port;

use crate::{
    process::{Guard, accepts},
    temporary::Folder,
};

/// The name of the file with its output.
const LOG: &str = "log";

/// A peer that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    title: &'static str,
    // Field order is drop order: the process ends before its folder is removed.
    process: Guard,
    folder: Folder,
}

impl Running {
    /// Starts a peer in a temporary folder, which `command` may fill.
    pub(super) fn start(
        title: &'static str,
        purpose: &str,
        command: impl FnOnce(&Path) -> Result<Command>,
    ) -> Result<Self> {
        // Several of one kind may run at the same time.
        let folder = Folder::new(&format!("{purpose}-{}", port()))?;
        let mut command = command(&folder.0)?;
        let log = fs::File::create(folder.0.join(LOG)).context("failed to make the log of a peer")?;
        command.current_dir(&folder.0).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = Guard(command.spawn().with_context(|| format!("failed to start {title}"))?);
        Ok(Self { title, process, folder })
    }

    /// Waits until all of these addresses accept connections.
    pub(super) fn wait(&mut self, addresses: &[SocketAddr], limit: Duration) -> Result<()> {
        let asked = Instant::now();
        while !addresses.iter().all(|address| accepts(*address)) {
            if self.process.0.try_wait()?.is_some() || asked.elapsed() > limit {
                let said = fs::read_to_string(self.folder.0.join(LOG)).unwrap_or_default();
                bail!("{} did not become ready: {}", self.title, said.trim());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Free loopback addresses.
pub(super) fn addresses<const N: usize>() -> [SocketAddr; N] {
    [(); N].map(|()| SocketAddr::from(([127, 0, 0, 1], port())))
}
