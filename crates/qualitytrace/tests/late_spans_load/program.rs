//! The real program as a separate process, with its resource usage.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use qualitytrace_testing::{DEADLINE, try_eventually_blocking, within};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

/// A `qualitytrace serve` on free ports. Killed when dropped.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) http: SocketAddr,
    log: mpsc::UnboundedReceiver<String>,
}

impl Served {
    /// Starts the server and waits until it says that it is ready.
    pub(crate) async fn start(program: &Path, database_url: &str, arguments: &[&str]) -> Self {
        let quiet = ["--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
        Self::start_with(program, &[&quiet[..], &["--database-url", database_url], arguments].concat()).await
    }

    /// The same with these arguments and nothing else.
    pub(crate) async fn start_with(program: &Path, arguments: &[&str]) -> Self {
        Self::start_in(program, &[], arguments).await
    }

    /// The same with these variables.
    pub(crate) async fn start_in(program: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .arg("serve")
            .args(arguments)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = within(DEADLINE, "the server says where it listens", async {
            let mut address = None;
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some((_, rest)) = line.split_once("://").filter(|(name, _)| name.contains("API")) {
                    address = Some(rest.parse().unwrap());
                }
                if line.trim_start().starts_with("OTLP HTTP") {
                    break;
                }
            }
            address
        })
        .await;
        // The rest of the output must be read, or the server would block.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        // The log too.
        let (sender, log) = mpsc::unbounded_channel();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let _ = sender.send(line);
            }
        });
        Self { child, log, http: address.expect("the server says where it listens") }
    }

    /// Waits for a log line with this text.
    pub(crate) async fn logged(&mut self, part: &str) -> String {
        within(DEADLINE, format!("the log says `{part}`"), async {
            loop {
                let line = self.log.recv().await.unwrap_or_else(|| panic!("the log ends without `{part}`"));
                if line.contains(part) {
                    return line;
                }
            }
        })
        .await
    }

    /// The log lines that no call has returned yet.
    pub(crate) fn log_so_far(&mut self) -> String {
        let mut log = String::new();
        while let Ok(line) = self.log.try_recv() {
            log = log + &line + "\n";
        }
        log
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }

    /// Seconds of processor time used so far.
    pub(crate) fn processor_seconds(&self) -> f64 {
        let stat = self.proc_file("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).unwrap();
        (ticks(11) + ticks(12)) / f64::from(per_second)
    }

    /// Its peak memory in MiB.
    pub(crate) fn peak_mib(&self) -> u64 {
        self.memory_mib("VmHWM:")
    }

    /// A figure of its memory in MiB, by the name that it has in `/proc`.
    pub(crate) fn memory_mib(&self, name: &str) -> u64 {
        let status = self.proc_file("status");
        let figure = status.lines().find_map(|line| line.strip_prefix(name));
        figure.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
    }

    fn proc_file(&self, name: &str) -> String {
        let process = self.child.id().unwrap_or_default();
        std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default()
    }
}

impl Drop for Served {
    /// Waits until it is gone: another server may need its database next.
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        let gone = try_eventually_blocking(DEADLINE, "the server ends", || {
            !matches!(self.child.try_wait(), Ok(None))
        });
        assert!(gone.is_ok() || std::thread::panicking(), "{gone:?}");
    }
}

/// The program next to this one: examples are built into a folder below it.
pub(crate) fn beside() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let program = own.parent().and_then(Path::parent).unwrap().join("qualitytrace");
    assert!(
        program.is_file(),
        "{} is not there; build it with `cargo build -p qualitytrace`",
        program.display()
    );
    program
}
