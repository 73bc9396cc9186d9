//! `run --with COMMAND`: the system under test, started with its exporter set to the server of the run, and ended with
//! its child processes.
//!
//! While the tests run, the addresses of `--ready` get health checks, as from a cluster. A service that answers them sends
//! spans: evidence that it delivers, without which a missing span of that service proves nothing.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::durations::seconds_or_duration;
use crate::terminal;

/// How many of the last lines of a command are kept, and how many bytes of each.
const KEPT_LINES: usize = 50;
const KEPT_BYTES: usize = 1_000;
/// How long the system may take to be ready, unless the user says it.
const READY_TIMEOUT: Duration = Duration::from_mins(1);
/// How often it is checked whether the system is ready.
const READY_INTERVAL: Duration = Duration::from_millis(50);
/// How often the system gets a health check while the tests run, and how long its answer may take. A service is known after
/// 20 deliveries, which are counted twice a second at most: within the settle and confirm windows of a first test.
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_millis(250);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a command and its child processes may take to end by themselves, and how often that is checked.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const END_INTERVAL: Duration = Duration::from_millis(10);

/// Waits for the end of its input and kills a process group.
const WATCHDOG: &str = "trap '' HUP INT TERM; read -r _; kill -s KILL -- \"-$1\"";

/// The process groups of commands that are running. A second interrupt ends this process at once, and them with it.
static GROUPS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

#[derive(Debug, Default, Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Command that starts the system under test, with its exporter set to this run; may be given more than once
    #[arg(long, value_name = "COMMAND", help_heading = "System under test")]
    with: Vec<String>,
    /// Address or port that answers when the system is ready; may be given more than once
    #[arg(long, value_name = "URL|PORT", help_heading = "System under test")]
    ready: Vec<Ready>,
    /// How long the system may take to be ready, like 2m; 1m by default
    #[arg(long, value_name = "DURATION", value_parser = seconds_or_duration, help_heading = "System under test")]
    ready_timeout: Option<Duration>,
    /// The folder that the commands are started in; `None` for the current one.
    #[arg(skip)]
    pub(crate) folder: Option<PathBuf>,
}

/// What answers when the system is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ready {
    /// Any answer below 500.
    Url(String),
    /// A connection.
    Port(u16),
}

impl FromStr for Ready {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(port) => Ok(Self::Port(port)),
            Err(_) if text.starts_with("http://") || text.starts_with("https://") => {
                Ok(Self::Url(text.to_owned()))
            }
            Err(_) => Err("write a port, or an address that begins with http://".to_owned()),
        }
    }
}

impl Options {
    /// Whether there is a command to start.
    pub(crate) fn is_given(&self) -> bool {
        !self.with.is_empty()
    }

    /// Whether the system gets health checks while the tests run.
    pub(crate) fn checks_health(&self) -> bool {
        self.is_given() && self.ready.iter().any(|ready| matches!(ready, Ready::Url(_)))
    }

    /// The commands to start.
    pub(crate) fn commands(&self) -> &[String] {
        &self.with
    }

    /// Fails on flags that do not fit together.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.with.is_empty() && !self.ready.is_empty() {
            bail!("--ready is about the system that --with COMMAND starts; add --with, or leave out --ready");
        }
        Ok(())
    }

    /// Starts the commands, with spans sent to `endpoint` over HTTP, and waits until they are ready.
    pub(crate) async fn start(&self, endpoint: &str) -> anyhow::Result<System> {
        let client = reqwest::Client::builder().no_proxy().timeout(ANSWER_TIMEOUT).build()?;
        for ready in &self.ready {
            if ready.answers(&client).await {
                bail!(
                    "{ready} answers before --with has started anything: another process would be tested. Stop it, or run \
                     without --with to test it as it is"
                );
            }
        }
        let mut system = System { commands: Vec::new(), health_checks: JoinSet::new() };
        for line in &self.with {
            system.commands.push(Running::start(line, endpoint, self.folder.as_deref())?);
        }
        self.until_ready(&mut system, &client).await?;
        for ready in self.ready.iter().filter(|ready| matches!(ready, Ready::Url(_))) {
            system.health_checks.spawn(check_health(ready.clone(), client.clone()));
        }
        Ok(system)
    }

    async fn until_ready(&self, system: &mut System, client: &reqwest::Client) -> anyhow::Result<()> {
        let until = Instant::now() + self.ready_timeout.unwrap_or(READY_TIMEOUT);
        for ready in &self.ready {
            while !ready.answers(client).await {
                system.require_running()?;
                if Instant::now() > until {
                    bail!(
                        "the system is not ready after {}: {ready} does not answer; give it longer with \
                         --ready-timeout\n{}",
                        terminal::duration(self.ready_timeout.unwrap_or(READY_TIMEOUT)),
                        system.output()
                    );
                }
                tokio::time::sleep(READY_INTERVAL).await;
            }
        }
        system.require_running()
    }
}

impl Ready {
    async fn answers(&self, client: &reqwest::Client) -> bool {
        match self {
            Self::Url(url) => client.get(url).send().await.is_ok_and(|answer| answer.status().as_u16() < 500),
            Self::Port(port) => tokio::net::TcpStream::connect(("127.0.0.1", *port)).await.is_ok(),
        }
    }
}

/// Asks again and again, whatever the answer: only the span that it causes counts.
async fn check_health(ready: Ready, client: reqwest::Client) {
    loop {
        tokio::time::sleep(HEALTH_CHECK_INTERVAL).await;
        let _ = ready.answers(&client).await;
    }
}

impl std::fmt::Display for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url(url) => f.write_str(url),
            Self::Port(port) => write!(f, "port {port}"),
        }
    }
}

/// The commands that are running.
#[derive(Debug)]
pub(crate) struct System {
    commands: Vec<Running>,
    /// They end when it is dropped.
    health_checks: JoinSet<()>,
}

impl System {
    fn require_running(&mut self) -> anyhow::Result<()> {
        for command in &mut self.commands {
            if let Ok(Some(status)) = command.child.try_wait() {
                bail!("`{}` ended before the tests: {status}\n{}", command.line, command.output());
            }
        }
        Ok(())
    }

    fn output(&self) -> String {
        self.commands.iter().map(Running::output).collect()
    }

    /// Ends the commands and their child processes. One that has ended by itself is reported.
    pub(crate) async fn stop(mut self) {
        self.health_checks.abort_all();
        for command in &mut self.commands {
            if let Ok(Some(status)) = command.child.try_wait() {
                let output = command.output();
                terminal::err(&format!("`{}` ended during the tests: {status}\n{output}", command.line));
            }
            command.signal(Signal::TERM);
        }
        let until = Instant::now() + END_TIMEOUT;
        for command in &mut self.commands {
            while command.is_running() && Instant::now() < until {
                tokio::time::sleep(END_INTERVAL).await;
            }
            command.signal(Signal::KILL);
            let _ = command.child.wait().await;
        }
    }
}

/// A command that is running, with the last lines of its output. Dropped, it is killed with its child processes.
#[derive(Debug)]
struct Running {
    line: String,
    child: Child,
    group: Option<Pid>,
    watchdog: Option<Child>,
    output: Arc<Mutex<VecDeque<String>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Running {
    fn start(line: &str, endpoint: &str, folder: Option<&Path>) -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        if let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) {
            command.current_dir(folder);
        }
        command
            .args(["-c", line])
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
            // Spans are sent soon, so that first runs, of which nothing is known, need not wait long.
            .env("OTEL_BSP_SCHEDULE_DELAY", "100")
            .env("OTEL_BLRP_SCHEDULE_DELAY", "100")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().with_context(|| format!("failed to start `{line}`"))?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).extend(group);
        let output = Arc::default();
        let readers = [
            child.stdout.take().map(|stream| keep(stream, &output)),
            child.stderr.take().map(|stream| keep(stream, &output)),
        ];
        let readers = readers.into_iter().flatten().collect();
        let mut running = Self { line: line.to_owned(), child, group, watchdog: None, output, readers };
        running.watchdog =
            group.map(watchdog).transpose().with_context(|| format!("failed to watch `{line}`"))?;
        Ok(running)
    }

    fn output(&self) -> String {
        let lines = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().flat_map(|line| ["  | ", line, "\n"]).collect()
    }

    /// Whether the command or one of its child processes is running.
    fn is_running(&mut self) -> bool {
        // A command that has ended is a member of its group until its status is read.
        let _ = self.child.try_wait();
        self.group.is_some_and(|group| test_kill_process_group(group).is_ok())
    }

    /// Sends a signal to the command and its child processes. A group that is gone needs none.
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        // Nothing is left to be killed, and its number may be given to another group.
        self.watchdog = None;
        self.readers.iter().for_each(JoinHandle::abort);
        let mut groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|group| Some(*group) != self.group);
    }
}

/// Starts a process that kills a group as soon as this process is gone, even by SIGKILL: its end of a pipe closes then.
/// It is in a group of its own, so that an interrupt at the terminal does not end it.
fn watchdog(group: Pid) -> std::io::Result<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", WATCHDOG, "watchdog", &group.as_raw_nonzero().to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).kill_on_drop(true).spawn()
}

/// Kills every command that is running, with its child processes.
pub(crate) fn kill_all() {
    for group in GROUPS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let _ = kill_process_group(*group, Signal::KILL);
    }
}

/// Reads a stream to its end and keeps its last lines.
fn keep(
    stream: impl AsyncRead + Unpin + Send + 'static,
    lines: &Arc<Mutex<VecDeque<String>>>,
) -> JoinHandle<()> {
    let kept = Arc::clone(lines);
    tokio::spawn(async move {
        let mut reader = BufReader::new(stream);
        while let Ok(bytes) = reader.fill_buf().await {
            if bytes.is_empty() {
                break;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
            let line = String::from_utf8_lossy(&bytes[..end.min(KEPT_BYTES)]).trim_end().to_owned();
            reader.consume(end);
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_back(crate::report::visible::text(&line));
            if kept.len() > KEPT_LINES {
                kept.pop_front();
            }
        }
    })
}
