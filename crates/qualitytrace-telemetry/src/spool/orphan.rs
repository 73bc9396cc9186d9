//! Orphaned spools: those of a sink that was renamed or removed from the configuration.
//!
//! Each spool names its sink. If a current sink sends to the same addresses it takes the items over; otherwise the
//! spool is reported, and removed when its newest item is older than its sink's retention.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::{
    Orphan,
    recovery::{Locked, begins, file_name, lock, read_cursor, remove, segments, slots},
};
use crate::config::{self, Signal, Sink};

/// Retention of a spool that names none.
const DEFAULT_AGE: Duration = Duration::from_hours(24);
/// The file that names the sink of a spool.
const OWNER: &str = "sink.json";

#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    sink: String,
    endpoints: BTreeMap<String, String>,
    keep_seconds: u64,
}

/// What a survey of the folder found.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Folders, each with the index of the sink that takes it over.
    pub(crate) adopted: Vec<(PathBuf, usize)>,
    pub(crate) reported: Vec<Orphan>,
    /// Spools that were removed.
    pub(crate) expired: Vec<Orphan>,
}

/// Writes the file that names the sink of a spool. It contains no secrets.
pub(crate) fn sign(root: &Path, sink: &Sink) {
    let owner = Owner {
        sink: sink.id.clone(),
        endpoints: addresses(sink),
        keep_seconds: sink.limits.spool_age.as_secs(),
    };
    let folder = root.join(file_name(&sink.id));
    let unchanged = read(&folder)
        .is_some_and(|known| known.endpoints == owner.endpoints && known.keep_seconds == owner.keep_seconds);
    if let Some(text) = serde_json::to_vec(&owner).ok().filter(|_| !unchanged) {
        let new = folder.join(format!("{OWNER}.new"));
        // Without the file a renamed sink starts with an empty spool, and the old one is reported.
        let _ = fs::write(&new, text).and_then(|()| fs::rename(&new, folder.join(OWNER)));
    }
}

/// Examines every spool that belongs to none of the sinks and that no process uses.
pub(crate) fn survey(root: &Path, sinks: &[Sink], now: SystemTime) -> Survey {
    let mut survey = Survey::default();
    let used: Vec<String> = sinks.iter().map(|sink| file_name(&sink.id)).collect();
    let Ok(entries) = fs::read_dir(root) else { return survey };
    for folder in entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Other files of the embedding server may lie beside the spools.
        let ours = name.rsplit_once('-').is_some_and(|(_, sum)| sum.len() == 8 && is_hex(sum));
        if ours && !used.iter().any(|used| used == name) {
            look(&folder, sinks, now, &mut survey);
        }
    }
    survey
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn look(folder: &Path, sinks: &[Sink], now: SystemTime, survey: &mut Survey) {
    let owner = read(folder);
    let heir = owner.as_ref().and_then(|owner| {
        let takes = |sink: &&Sink| {
            let own = addresses(sink);
            sink.limits.spool
                && !sink.lossy
                && owner.endpoints.iter().all(|(signal, url)| own.get(signal) == Some(url))
        };
        sinks.iter().position(|sink| takes(&sink))
    });
    let slots = slots(folder);
    if slots.is_empty() && owner.is_none() {
        // The folder of another program.
        return;
    }
    let mut left = slots.len();
    for slot in slots {
        let Ok(Locked::Ours(Some(lock))) = lock(&slot) else { continue };
        let cursors = read_cursor(&slot).unwrap_or_default();
        let files: Vec<fs::Metadata> = segments(&slot)
            .unwrap_or_default()
            .into_iter()
            .filter(|(id, begin, path)| {
                let end = fs::metadata(path).map_or(0, |meta| meta.len());
                begins(*id, *begin, &cursors).into_iter().any(|begin| begin < end)
            })
            .filter_map(|(_, _, path)| fs::metadata(path).ok())
            .collect();
        let newest = files.iter().filter_map(|meta| meta.modified().ok()).max();
        let keep = owner.as_ref().map_or(DEFAULT_AGE, |owner| Duration::from_secs(owner.keep_seconds));
        let expires = newest.unwrap_or(SystemTime::UNIX_EPOCH) + keep;
        let orphan = Orphan {
            path: slot.display().to_string(),
            sink: owner.as_ref().map(|owner| owner.sink.clone()),
            bytes: files.iter().map(fs::Metadata::len).sum(),
            expires_ms: crate::clock::nanos(expires) / 1_000_000,
        };
        let empty = files.is_empty();
        if empty || expires <= now {
            if remove(&slot).is_ok() {
                left -= 1;
                survey.expired.extend((!empty).then_some(orphan));
            }
        } else if let Some(heir) = heir {
            survey.adopted.push((slot, heir));
        } else {
            survey.reported.push(orphan);
        }
        drop(lock);
    }
    if left == 0 {
        let _ = fs::remove_file(folder.join(OWNER));
        // Fails, as it should, when another process has just made a folder in it.
        let _ = fs::remove_dir(folder);
    }
}

fn read(folder: &Path) -> Option<Owner> {
    serde_json::from_slice(&fs::read(folder.join(OWNER)).ok()?).ok()
}

/// Where each signal goes. An address with secrets is shown without them, and told apart by a checksum.
fn addresses(sink: &Sink) -> BTreeMap<String, String> {
    let of = |(signal, url): (&Signal, &String)| {
        let transport = match sink.transport {
            config::Transport::Grpc => "grpc",
            config::Transport::Http => "http",
        };
        let shown = config::shown(url);
        let sum =
            if shown == *url { String::new() } else { format!(" {:08x}", crc32fast::hash(url.as_bytes())) };
        (signal.name().to_owned(), format!("{transport} {shown}{sum}"))
    };
    sink.endpoints.iter().map(of).collect()
}
