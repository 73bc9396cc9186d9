//! Configuration reload while the server runs: on SIGHUP and on changes of the file.
//!
//! An invalid configuration changes nothing; settings that need a restart are named. A file is read once it is
//! unchanged for a moment.

use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use qualitytrace_server::config::{Inputs, Resolved, Row, UnchangedSetting};
use qualitytrace_server::serve::server::Server;
use qualitytrace_telemetry::Telemetry;
use qualitytrace_telemetry::config::{Config, Severity};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long a file must stay unchanged before it is read: saving in place empties it first.
const REST: Duration = Duration::from_millis(250);

/// Events that may change the configuration.
pub(crate) struct Changes {
    hangup: Signal,
    /// Stops its events when dropped.
    _watcher: Option<RecommendedWatcher>,
    /// A capacity of one is enough: one read of the file covers all changes before it.
    events: mpsc::Receiver<()>,
    /// Keeps the channel open where no file is watched.
    _events: mpsc::Sender<()>,
}

impl Changes {
    /// Listens for SIGHUP, and for changes in the folder of the file and in that of its link target: editors and
    /// Kubernetes replace the file.
    pub(crate) fn follow(file: Option<&Path>) -> std::io::Result<Self> {
        let (sender, events) = mpsc::channel(1);
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            _watcher: file.and_then(|file| watch(file, sender.clone())),
            events,
            _events: sender,
        })
    }

    /// Waits for the next event, or until `look`. Returns `true` for SIGHUP.
    async fn next(&mut self, look: Option<Instant>) -> bool {
        tokio::select! {
            _ = self.hangup.recv() => true,
            _ = self.events.recv() => false,
            () = sleep_until(look.unwrap_or_else(Instant::now)), if look.is_some() => false,
        }
    }
}

fn watch(file: &Path, sender: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let told = move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // A full channel means that the file will be read anyway.
            let _ = sender.try_send(());
        }
    };
    let target = file.canonicalize().ok();
    let folders = [Some(folder), target.as_deref().and_then(Path::parent)];
    let watched = notify::recommended_watcher(told).and_then(|mut watcher| {
        for folder in folders.into_iter().flatten() {
            watcher.watch(folder, RecursiveMode::NonRecursive)?;
        }
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

/// A text of the file, and since when it is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileText {
    text: String,
    since: Instant,
}

impl FileText {
    /// The state after reading the file: `None` while its text is the current one, or is empty, which is how a file
    /// begins that is being written.
    fn look(
        before: Option<Self>,
        text: Option<String>,
        counts: Option<&String>,
        now: Instant,
    ) -> Option<Self> {
        let text = text.filter(|text| Some(text) != counts && !text.trim().is_empty())?;
        Some(before.filter(|found| found.text == text).unwrap_or(Self { text, since: now }))
    }

    /// When it is read again.
    fn rests_at(&self) -> Instant {
        self.since + REST
    }
}

/// The configuration that the server runs with.
pub(crate) struct Running {
    inputs: Inputs,
    text: Option<String>,
    rows: Vec<Row>,
    /// The telemetry settings at the start.
    telemetry: Config,
}

impl Running {
    /// Begins with the configuration at the start; its file stays the one to follow.
    pub(crate) fn new(inputs: Inputs, resolved: &Resolved) -> Self {
        let inputs = Inputs { file: resolved.file.clone(), ..inputs };
        Self {
            text: inputs.file.as_ref().and_then(text),
            inputs,
            rows: resolved.rows.clone(),
            telemetry: resolved.telemetry.clone(),
        }
    }

    /// Applies every change until the server ends.
    pub(crate) async fn follow(mut self, mut changes: Changes, server: &Server, telemetry: &Telemetry) {
        let mut found: Option<FileText> = None;
        loop {
            let asked = changes.next(found.as_ref().map(FileText::rests_at)).await;
            let text = self.inputs.file.as_ref().and_then(text);
            let now = Instant::now();
            found = FileText::look(found, text, self.text.as_ref(), now);
            let rested = found.take_if(|found| asked || found.rests_at() <= now);
            if !asked && rested.is_none() {
                continue;
            }
            let resolved = match &rested {
                // The text that was found is applied, whatever the file holds by now.
                Some(found) => Ok(self.inputs.read_as(found.text.clone())),
                None => self.inputs.read(),
            };
            if let Some(found) = rested {
                self.text = Some(found.text);
            }
            match resolved {
                Ok(resolved) => self.reload(resolved, asked, server, telemetry).await,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, "the configuration stays as it was");
                }
            }
        }
    }

    async fn reload(&mut self, resolved: Resolved, asked: bool, server: &Server, telemetry: &Telemetry) {
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
        let kept = server.reload(resolved.config.clone(), asked);
        let (applied, waiting) = self.compare(&resolved, &kept);
        let sinks = resolved.telemetry.sinks.len();
        apply(telemetry, resolved.telemetry).await;
        tracing::info!(applied = applied.join(", "), sinks, "reloaded the configuration");
        for kept in kept {
            tracing::warn!("{kept}");
        }
        if !waiting.is_empty() {
            tracing::warn!("restart the server to apply {}", waiting.join(", "));
        }
    }

    /// Compares with the new settings: returns those that change now and those that need a restart. Kept ones are left
    /// out.
    fn compare(&mut self, resolved: &Resolved, kept: &[UnchangedSetting]) -> (Vec<String>, Vec<String>) {
        let (mut applied, mut waiting) = (Vec::new(), Vec::new());
        let follows = |row: &Row| !kept.iter().any(|kept| kept.covers(&row.key));
        let rows = self.rows.iter_mut().zip(&resolved.rows);
        for (before, now) in rows.filter(|(before, now)| before.value != now.value && follows(now)) {
            if now.live {
                applied.push(format!("{}={}", now.key, now.text()));
                *before = now.clone();
            } else {
                waiting.push(format!("{}={}", now.key, now.text()));
            }
        }
        let fixed = self.telemetry.needs_restart(&resolved.telemetry);
        waiting.extend(fixed.into_iter().map(str::to_owned));
        (applied, waiting)
    }
}

fn text(file: &PathBuf) -> Option<String> {
    std::fs::read_to_string(file).ok()
}

/// Reloads the telemetry on a blocking thread: it waits for pending records, and must not block requests.
async fn apply(telemetry: &Telemetry, config: Config) {
    let telemetry = telemetry.clone();
    if let Err(error) = tokio::task::spawn_blocking(move || telemetry.reload(config)).await {
        tracing::error!(%error, "failed to reload the telemetry");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_counts_when_it_has_stayed_the_same_for_a_while() {
        let start = Instant::now();
        let counts = "old".to_owned();
        let look = |before: Option<FileText>, text: Option<&str>, at: u64| {
            let now = start + Duration::from_millis(at);
            let found = FileText::look(before, text.map(ToOwned::to_owned), Some(&counts), now);
            let rests = found.as_ref().is_some_and(|found| found.rests_at() <= now);
            (found, rests)
        };
        assert_eq!(look(None, Some("\n"), 0).0, None, "it is about to be written");
        let (half, rests) = look(None, Some("ne"), 300);
        assert!(!rests, "it was empty until now");
        let (new, rests) = look(half, Some("new"), 400);
        assert!(!rests);
        let (new, rests) = look(new, Some("new"), 649);
        assert!(!rests);
        let (new, rests) = look(new, Some("new"), 650);
        assert!(rests);
        assert_eq!(look(new.clone(), Some("old"), 700).0, None, "it is what it was");
        assert_eq!(look(new, None, 700).0, None, "a file that is gone changes nothing");
    }
}
