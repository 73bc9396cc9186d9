//! Follows the configuration while the server runs: a changed file or SIGHUP applies what can be applied.
//!
//! A configuration with a mistake changes nothing; what needs a restart is named.

use std::path::{Path, PathBuf};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use qualitytrace_server::config::{Inputs, Resolved, Row};
use qualitytrace_server::server::Server;
use qualitytrace_telemetry::Telemetry;
use qualitytrace_telemetry::config::{Config, Recorder, Severity};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// Whatever may mean that the configuration is another one.
pub(crate) struct Changes {
    hangup: Signal,
    /// Ends its events when dropped.
    _watcher: Option<RecommendedWatcher>,
    /// One place is enough: who reads the file reads all that happened to it.
    events: mpsc::Receiver<()>,
    /// Keeps the channel open where no file is watched.
    _events: mpsc::Sender<()>,
}

impl Changes {
    /// Listens to SIGHUP, and to what happens in the folder of the file: editors and Kubernetes put a new file in the
    /// place of the old one.
    pub(crate) fn follow(file: Option<&Path>) -> std::io::Result<Self> {
        let (sender, events) = mpsc::channel(1);
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            _watcher: file.and_then(|file| watch(file, sender.clone())),
            events,
            _events: sender,
        })
    }

    /// Waits for the next one. `true` when it was asked for by SIGHUP.
    async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.hangup.recv() => true,
            _ = self.events.recv() => false,
        }
    }
}

fn watch(file: &Path, sender: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let told = move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // Full means that somebody is about to look anyway.
            let _ = sender.try_send(());
        }
    };
    let watched = notify::recommended_watcher(told).and_then(|mut watcher| {
        watcher.watch(folder, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    match watched {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            let folder = folder.display();
            tracing::warn!(%error, "changes in {folder} are not noticed; send SIGHUP after one");
            None
        }
    }
}

/// What the server runs with.
pub(crate) struct Running {
    inputs: Inputs,
    text: Option<String>,
    rows: Vec<Row>,
    recorder: Recorder,
}

impl Running {
    /// Begins with what was read at the start. The file that was found then is the one that counts.
    pub(crate) fn new(inputs: Inputs, resolved: &Resolved) -> Self {
        let inputs = Inputs { file: resolved.file.clone(), ..inputs };
        Self {
            text: inputs.file.as_ref().and_then(text),
            inputs,
            rows: resolved.rows.clone(),
            recorder: resolved.telemetry.recorder.clone(),
        }
    }

    /// Applies every change until the end of the server.
    pub(crate) async fn follow(mut self, mut changes: Changes, server: &Server, telemetry: &Telemetry) {
        loop {
            let asked = changes.next().await;
            let text = self.inputs.file.as_ref().and_then(text);
            if asked || (text.is_some() && text != self.text) {
                self.text = text;
                self.reload(server, telemetry).await;
            }
        }
    }

    async fn reload(&mut self, server: &Server, telemetry: &Telemetry) {
        let resolved = match self.inputs.read() {
            Ok(resolved) => resolved,
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the configuration stays as it was"
                );
                return;
            }
        };
        for diagnostic in &resolved.diagnostics {
            match diagnostic.severity {
                Severity::Note => tracing::info!("{diagnostic}"),
                Severity::Warning => tracing::warn!("{diagnostic}"),
                Severity::Error => tracing::error!("{diagnostic}"),
            }
        }
        if resolved.is_wrong() {
            tracing::error!("the configuration stays as it was");
            return;
        }
        let (applied, waiting) = self.compare(&resolved);
        let undone = server.reload(resolved.config);
        let sinks = resolved.telemetry.sinks.len();
        apply(telemetry, resolved.telemetry).await;
        tracing::info!(applied = applied.join(", "), sinks, "reloaded the configuration");
        for undone in undone {
            tracing::error!("{undone}");
        }
        if !waiting.is_empty() {
            tracing::warn!("restart the server to apply {}", waiting.join(", "));
        }
    }

    /// The settings that change now, and those that need a restart.
    fn compare(&mut self, resolved: &Resolved) -> (Vec<String>, Vec<String>) {
        let (mut applied, mut waiting) = (Vec::new(), Vec::new());
        for (before, now) in self.rows.iter_mut().zip(&resolved.rows).filter(|(a, b)| a.value != b.value) {
            if now.live {
                applied.push(format!("{}={}", now.key, now.text()));
                *before = now.clone();
            } else {
                waiting.push(format!("{}={}", now.key, now.text()));
            }
        }
        if self.recorder != resolved.telemetry.recorder {
            waiting.push("telemetry.recorder".to_owned());
        }
        (applied, waiting)
    }
}

fn text(file: &PathBuf) -> Option<String> {
    std::fs::read_to_string(file).ok()
}

/// Reloading waits a moment for what is on its way, so it must not hold up requests.
async fn apply(telemetry: &Telemetry, config: Config) {
    let telemetry = telemetry.clone();
    if let Err(error) = tokio::task::spawn_blocking(move || telemetry.reload(config)).await {
        tracing::error!(%error, "failed to reload the telemetry");
    }
}
