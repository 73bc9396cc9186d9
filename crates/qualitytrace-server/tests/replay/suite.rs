//! Replay of recorded requests against a new server; its responses are compared with the recorded ones.
//!
//! Entries are sent in order, and state carries over from one to the next. Values that vary between two captures are
//! ignored; deliberate differences are listed in `golden/differences/differences.json` with their reasons.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;

#[path = "compare.rs"]
mod compare;
#[path = "entry.rs"]
mod entry;
#[path = "known.rs"]
mod known;
#[path = "refused.rs"]
mod refused;
#[path = "subject.rs"]
mod subject;
#[path = "target.rs"]
mod target;

use compare::{Masks, differences};
use entry::Entry;
use known::Known;
use refused::Refused;
use target::Target;

/// The order in which the areas were recorded.
const AREAS: [&str; 17] = [
    "version",
    "configs",
    "pollingprofiles",
    "analyzers",
    "testrunners",
    "datastores",
    "variablesets",
    "demos",
    "tests",
    "runs",
    "testsuites",
    "resources",
    "expressions",
    "wizard",
    "cloud_only",
    "errors",
    "otlp",
];
/// The address of the system under test in the recordings.
const RECORDED_SUBJECT: &str = "127.0.0.1:8085";
/// The timeout of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Returns the project's own copy of the recordings.
pub(crate) fn own_recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The results of a folder.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// One item for each file, in the order of the recording.
    files: Vec<(String, Counts)>,
}

#[derive(Debug, Default)]
struct Counts {
    same: usize,
    known: BTreeMap<String, usize>,
    /// Deliberate differences.
    deliberate: Vec<(String, Vec<String>)>,
    failed: Vec<(String, Vec<String>)>,
}

impl Summary {
    /// Whether every response is as recorded, or as the list of differences says.
    pub(crate) fn is_good(&self) -> bool {
        !self.files.is_empty() && self.files.iter().all(|(_, counts)| counts.failed.is_empty())
    }

    /// Formats the failures, then the counts per file.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        for (file, counts) in &self.files {
            for (name, found) in &counts.failed {
                let _ = writeln!(out, "{file}: {name}");
                for line in found {
                    let _ = writeln!(out, "    {line}");
                }
            }
        }
        let _ = writeln!(out, "{:16} {:>6} {:>6} {:>6}", "file", "same", "known", "failed");
        let mut total = (0, 0, 0);
        for (file, counts) in &self.files {
            let known = counts.known.values().sum::<usize>();
            let _ = writeln!(out, "{file:16} {:>6} {known:>6} {:>6}", counts.same, counts.failed.len());
            total = (total.0 + counts.same, total.1 + known, total.2 + counts.failed.len());
        }
        let _ = writeln!(out, "{:16} {:>6} {:>6} {:>6}", "total", total.0, total.1, total.2);
        out
    }

    /// Formats every deliberate difference.
    pub(crate) fn deliberate(&self) -> String {
        let mut out = String::new();
        for (file, counts) in &self.files {
            for (name, found) in &counts.deliberate {
                let _ = writeln!(out, "{file}: {name}\n    {}", found.join("\n    "));
            }
        }
        out
    }

    /// Formats the reasons of the known differences, with the number of entries that each explains.
    pub(crate) fn reasons(&self) -> String {
        let mut reasons = BTreeMap::new();
        for (reason, count) in self.files.iter().flat_map(|(_, counts)| &counts.known) {
            *reasons.entry(reason).or_insert(0) += count;
        }
        reasons.iter().fold(String::new(), |text, (reason, count)| format!("{text}{count:>6}  {reason}\n"))
    }
}

/// Replays every file of a folder against a fresh server in memory.
pub(crate) async fn run(folder: &Path) -> Result<Summary, String> {
    let server = start_server().await?;
    let addresses = server.addresses();
    let subject = subject::start(addresses.http, RECORDED_SUBJECT)
        .await
        .map_err(|error| format!("the system under test does not start: {error}"))?;
    let otlp = addresses.otlp_http.unwrap_or(addresses.http);
    let mut replay = Replay {
        target: Target::new(addresses.http, otlp, RECORDED_SUBJECT, &subject.to_string(), REQUEST_TIMEOUT)?,
        known: known::all()?,
        refused: Refused::default(),
        areas: AREAS.into_iter().filter(|area| folder.join(format!("{area}.json")).exists()).collect(),
    };
    let mut summary = Summary::default();
    for area in replay.areas.clone() {
        let path = folder.join(format!("{area}.json"));
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let entries: Vec<Entry> =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut counts = Counts::default();
        for entry in &entries {
            replay.step(area, entry, &mut counts).await?;
        }
        summary.files.push((area.to_owned(), counts));
    }
    server.shutdown().await;
    Ok(summary)
}

async fn start_server() -> Result<Server, String> {
    let free = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config { http: free, otlp_grpc: None, otlp_http: Some(free), ..Config::default() };
    Server::start(config).await.map_err(|error| format!("the server does not start: {error}"))
}

struct Replay {
    target: Target,
    known: Vec<Known>,
    refused: Refused,
    areas: Vec<&'static str>,
}

impl Replay {
    async fn step(&mut self, area: &str, entry: &Entry, counts: &mut Counts) -> Result<(), String> {
        self.target.prepare(area, entry, &self.areas).await?;
        let actual = self.target.send(entry).await?;
        let original = entry.expected();
        let masks = Masks { paths: entry.varies.clone(), unordered: Vec::new() };
        let mut found = match &original {
            Some(original) => {
                let expected = self.refused.without(entry, original);
                let mut masks = masks.clone();
                masks.paths.extend(self.refused.masks(entry));
                differences(&expected, &actual, &masks)
            }
            None => vec![format!("the original gave no answer, got {}", actual.status)],
        };
        if found.is_empty() {
            counts.same += 1;
            return Ok(());
        }
        let about: Vec<&Known> = self.known.iter().filter(|known| known.is_about(area, entry)).collect();
        let mut narrowed = actual.clone();
        let (mut expected, mut masks) = (original.clone().unwrap_or_default(), masks);
        for known in &about {
            expected = known.expected(&expected, &actual);
            masks.paths.extend(known.masks());
            masks.unordered.extend(known.unordered());
        }
        for known in &about {
            expected = known.narrowed(&expected);
            narrowed = known.narrowed(&narrowed);
        }
        masks.paths.extend(self.refused.masks(entry));
        let left = differences(&self.refused.without(entry, &expected), &narrowed, &masks);
        if about.is_empty() || !left.is_empty() {
            found = if about.is_empty() { found } else { left };
            counts.failed.push((entry.name.clone(), found));
        } else {
            counts.deliberate.push((entry.name.clone(), found));
            let reason = &about[about.len() - 1].reason;
            *counts.known.entry(reason.clone()).or_default() += 1;
        }
        self.refused.learn(entry, original.as_ref(), &actual);
        Ok(())
    }
}
