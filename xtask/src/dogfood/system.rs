//! The programs of a dog-food run: PostgreSQL, the back ends, the Collector, the subject and the observer, on free
//! loopback ports.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use qualitytrace_testing::port;

use super::backends::BackEnds;
use crate::{
    peers::postgres,
    process::{self, Guard, accepts, says_ready},
    temporary::Folder,
    workspace,
};

/// How long a program may take to end; a server flushes its telemetry first.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// The name of the subject's service in `dogfood/subject.yaml`, and the name after the reload.
const NAMES: [&str; 2] = ["serviceName: subject", "serviceName: reloaded-subject"];

/// The programs that are started.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) ours: PathBuf,
    /// The server that is tested: ours, or one with faults.
    pub(crate) subject: PathBuf,
    pub(crate) collector: PathBuf,
}

/// The servers that take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Two, with PostgreSQL and the back ends.
    Pair,
    /// One that observes itself.
    Alone,
    /// Two, of which the subject shows the fault of this name.
    Mutated(&'static str),
}

/// The running programs. Dropping it ends them all and removes their files.
#[derive(Debug)]
pub(crate) struct System<'p> {
    programs: &'p Programs,
    mode: Mode,
    /// The address of the subject.
    pub(crate) subject: String,
    pub(crate) subject_http: SocketAddr,
    /// Where the subject receives OTLP over gRPC.
    pub(crate) subject_grpc: SocketAddr,
    /// The address of the observer.
    pub(crate) observer: String,
    collector_grpc: SocketAddr,
    // Field order is drop order: clients end before the programs that they talk to, folders come last.
    subject_process: Guard,
    _observer_process: Option<Guard>,
    collector: Guard,
    postgres: Option<postgres::Postgres>,
    /// Two servers have them.
    pub(crate) backends: Option<BackEnds>,
    folder: Folder,
}

impl<'p> System<'p> {
    pub(crate) fn start(programs: &'p Programs, mode: Mode) -> Result<Self> {
        let folder = Folder::new("dogfood")?;
        let [collector_grpc, subject_grpc, observer_grpc, subject, observer] =
            [(); 5].map(|()| SocketAddr::from(([127, 0, 0, 1], port())));
        let observer = if mode == Mode::Alone { subject } else { observer };
        let [subject_url, observer_url] = [subject, observer].map(|address| format!("http://{address}"));
        let backends = (mode == Mode::Pair).then(|| BackEnds::start(subject)).transpose()?;
        let launch = Launch {
            programs,
            mode,
            collector_grpc,
            subject: &subject_url,
            observer: &observer_url,
            backends: backends.as_ref(),
            folder: &folder.0,
        };
        let collector = launch.collector()?;
        let config = folder.0.join("subject.yaml");
        let further = backends.as_ref().map(|_| "backends/subject.yaml");
        fs::write(&config, joined(std::iter::once("subject.yaml").chain(further))?)
            .context("failed to write the subject's configuration")?;
        let (postgres, database) = match mode {
            Mode::Pair => {
                let postgres = postgres::start()?;
                let url = postgres.url.clone();
                (Some(postgres), url)
            }
            Mode::Alone | Mode::Mutated(_) => (None, "sqlite::memory:".to_owned()),
        };
        let observer_process = (mode != Mode::Alone)
            .then(|| {
                launch.server("observer", &programs.ours, observer, observer_grpc, "sqlite::memory:", &[])
            })
            .transpose()?;
        let settings = ["--config".to_owned(), config.display().to_string()];
        let subject_process =
            launch.server("subject", &programs.subject, subject, subject_grpc, &database, &settings)?;
        Ok(Self {
            programs,
            mode,
            subject: subject_url,
            subject_http: subject,
            subject_grpc,
            observer: observer_url,
            collector_grpc,
            subject_process,
            _observer_process: observer_process,
            collector,
            postgres,
            backends,
            folder,
        })
    }

    /// The name that the semantic conventions have for the subject's database.
    pub(crate) fn database(&self) -> &'static str {
        match self.mode {
            Mode::Pair => "postgresql",
            Mode::Alone | Mode::Mutated(_) => "sqlite",
        }
    }

    /// Replaces the Collector by another one at the same address. What the subject sends meanwhile waits in its spool.
    pub(crate) fn restart_collector(&mut self) -> Result<()> {
        self.collector.terminate(STOP_LIMIT).context("failed to stop the Collector")?;
        let launch = Launch {
            programs: self.programs,
            mode: self.mode,
            collector_grpc: self.collector_grpc,
            subject: &self.subject,
            observer: &self.observer,
            backends: self.backends.as_ref(),
            folder: &self.folder.0,
        };
        self.collector = launch.collector()?;
        Ok(())
    }

    /// Changes the configuration of the subject's telemetry while it runs.
    pub(crate) fn reload(&self) -> Result<()> {
        let path = self.folder.0.join("subject.yaml");
        let text = fs::read_to_string(&path).context("failed to read the subject's configuration")?;
        let [before, after] = NAMES;
        if !text.contains(before) {
            bail!("dogfood/subject.yaml does not have `{before}`");
        }
        fs::write(&path, text.replace(before, after))?;
        process::run(Command::new("kill").args(["-HUP", &self.subject_process.0.id().to_string()]))
    }

    /// Ends PostgreSQL while the subject goes on.
    pub(crate) fn take_database_away(&mut self) {
        self.postgres = None;
    }

    /// What the Collector received, one JSON document a line.
    pub(crate) fn received(&self) -> Result<String> {
        let path = self.received_file();
        fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
    }

    /// The Collector's file.
    pub(crate) fn received_file(&self) -> PathBuf {
        received_file(&self.folder.0)
    }

    /// The last lines of the log of the subject, for errors.
    pub(crate) fn log_of_subject(&self) -> String {
        let text = fs::read_to_string(self.folder.0.join("subject.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Ends the subject, which flushes its telemetry, and then the Collector, which writes its file. A subject whose
    /// database is away is killed: it would wait for it.
    pub(crate) fn stop(&mut self) -> Result<()> {
        if self.mode == Mode::Pair && self.postgres.is_none() {
            self.subject_process.0.kill().context("failed to kill the subject")?;
        } else {
            self.subject_process.terminate(STOP_LIMIT).context("failed to stop the subject")?;
        }
        self.collector.terminate(STOP_LIMIT).context("failed to stop the Collector")
    }
}

/// What every program of one system is started with.
#[derive(Clone, Copy, Debug)]
struct Launch<'a> {
    programs: &'a Programs,
    mode: Mode,
    collector_grpc: SocketAddr,
    subject: &'a str,
    observer: &'a str,
    backends: Option<&'a BackEnds>,
    folder: &'a Path,
}

impl Launch<'_> {
    fn collector(&self) -> Result<Guard> {
        let config = match self.mode {
            Mode::Pair | Mode::Mutated(_) => "collector.yaml",
            Mode::Alone => "collector-alone.yaml",
        };
        let mut command = process::bound_to_us("KILL", &self.programs.collector);
        let backends = self.backends.map(|_| "backends/collector.yaml");
        for file in std::iter::once(config).chain(backends) {
            command.arg("--config").arg(of_dogfood(file));
        }
        self.name_backends(&mut command);
        command.env("COLLECTOR_GRPC", self.collector_grpc.to_string());
        command.env("COLLECTOR_FILE", received_file(self.folder));
        command.env("OBSERVER", self.observer).env("SUBJECT", self.subject);
        process::started(command, "collector", self.folder, || accepts(self.collector_grpc))
    }

    fn name_backends(&self, command: &mut Command) {
        command.envs(self.backends.map(BackEnds::variables).into_iter().flatten());
    }

    /// Starts one of our servers.
    fn server(
        &self,
        name: &str,
        program: &Path,
        http: SocketAddr,
        grpc: SocketAddr,
        database: &str,
        further: &[String],
    ) -> Result<Guard> {
        let mut command = process::bound_to_us("KILL", program);
        command.arg("serve").arg("--server.httpPort").arg(http.port().to_string());
        command.arg("--otlp-grpc-addr").arg(grpc.to_string()).args(["--otlp-http-addr", "off"]);
        command.arg("--database-url").arg(database).arg("--data-dir").arg(self.folder.join(name));
        command.args(further);
        command.env("COLLECTOR_GRPC", self.collector_grpc.to_string()).current_dir(self.folder);
        self.name_backends(&mut command);
        if let Mode::Mutated(fault) = self.mode {
            command.env("MUTATION", fault);
        }
        process::started(command, name, self.folder, || says_ready(http))
    }
}

/// A file of the folder `dogfood`.
pub(crate) fn of_dogfood(path: &str) -> PathBuf {
    workspace::root().join("dogfood").join(path)
}

/// The texts of files of the folder `dogfood`, one after the other.
fn joined<'f>(files: impl Iterator<Item = &'f str>) -> Result<String> {
    let read =
        |file| fs::read_to_string(of_dogfood(file)).with_context(|| format!("failed to read dogfood/{file}"));
    files.map(read).collect()
}

fn received_file(folder: &Path) -> PathBuf {
    folder.join("received.json")
}
