//! Recovery of a spool from earlier processes: the folder's lock, the cursor, and a scan of the segments.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use super::{Damage, Found, Position, record};
use crate::config::Signal;

pub(super) struct Scan {
    /// Where the first record begins.
    pub(super) first: u64,
    /// The end of the last good record.
    pub(super) end: u64,
    /// `None`: the header cannot be read.
    pub(super) resource: Option<Bytes>,
    pub(super) found: Found,
    /// Unreadable ranges, in order.
    pub(super) damage: Vec<Damage>,
}

/// Scans a whole segment of an earlier process from `offset` on. Damage is skipped.
pub(super) fn scan(path: &Path, len: u64, offset: u64) -> Scan {
    let bytes = Bytes::from(fs::read(path).unwrap_or_default());
    let size = bytes.len() as u64;
    let damaged = |from: u64, to: u64, reason: &str| Damage {
        file: path.display().to_string(),
        offset: from,
        bytes: to.saturating_sub(from).max(1),
        reason: reason.to_owned(),
    };
    let mut scan = Scan { first: 1, end: 0, resource: None, found: Found::default(), damage: Vec::new() };
    let mut at = offset;
    if let Some((resource, first)) = record::read_header(&bytes) {
        scan.resource = Some(resource);
        scan.first = first.max(offset);
        at = scan.first;
    } else {
        let next = record::resync(&bytes, usize::try_from(offset).unwrap_or(usize::MAX));
        let next = next.map_or(size.max(len), |next| next as u64);
        scan.damage.push(damaged(offset, next, "the header of the segment is damaged"));
        scan.first = next.max(1);
        at = at.max(next);
    }
    scan.end = at.min(size);
    while at < size {
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        let reason = match record::read(&bytes.slice(start..)) {
            record::Read::Item(item, len) => {
                scan.found.items[item.signal as usize] += u64::from(item.count);
                at += len;
                scan.end = at;
                continue;
            }
            record::Read::Short(_) => "a record is cut off",
            record::Read::Bad(reason) => reason,
        };
        let next = record::resync(&bytes, start).map_or(size, |next| next as u64);
        scan.found.lost[record::signal(&bytes, start) as usize] += 1;
        scan.damage.push(damaged(at, next, reason));
        at = next;
    }
    let nothing_read = scan.found.items == [0; 3] && scan.found.lost == [0; 3];
    if scan.resource.is_none() && nothing_read {
        // A header alone is no item, but it was followed by one.
        scan.found.lost[Signal::Traces as usize] += 1;
    }
    if size < len && scan.damage.is_empty() {
        scan.found.lost[Signal::Traces as usize] += 1;
        scan.damage.push(damaged(size, len, "the file is shorter than it was"));
    }
    scan
}

/// The segments in a folder by their ids, each with the offset at which reading begins.
pub(super) fn segments(folder: &Path) -> io::Result<Vec<(u64, u64, PathBuf)>> {
    let mut found: Vec<(u64, u64, PathBuf)> = fs::read_dir(folder)?
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let path = entry.path();
            let name = path.file_name()?.to_str()?.strip_suffix(".seg")?;
            let (id, begin) = name.split_once('@').unwrap_or((name, "0"));
            Some((id.parse().ok()?, begin.parse().ok()?, path.clone()))
        })
        .collect();
    found.sort();
    Ok(found)
}

/// The file name of a segment. That of an adopted segment includes the offset at which reading begins.
pub(super) fn segment_name(id: u64, begin: u64) -> String {
    if begin == 0 { format!("{id:020}.seg") } else { format!("{id:020}@{begin}.seg") }
}

/// The lock file that a process holds while it uses the folder.
pub(super) const LOCK: &str = "lock";

pub(super) enum Locked {
    /// `None`: the folder is read-only, so it cannot be locked.
    Ours(Option<File>),
    Theirs,
}

pub(super) fn lock(folder: &Path) -> io::Result<Locked> {
    let mut builder = fs::DirBuilder::new();
    // It may be the first folder to be made on the path, which other users must not read.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.recursive(true).create(folder);
    match OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(LOCK)) {
        Ok(file) => match file.try_lock() {
            Ok(()) => Ok(Locked::Ours(Some(file))),
            Err(fs::TryLockError::WouldBlock) => Ok(Locked::Theirs),
            Err(fs::TryLockError::Error(error)) => Err(error),
        },
        // Items in a read-only folder are still delivered.
        Err(_) if folder.is_dir() => Ok(Locked::Ours(None)),
        Err(error) => Err(made.err().unwrap_or(error)),
    }
}

pub(super) fn open_cursor(folder: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("cursor"))
}

pub(super) fn read_cursor(folder: &Path) -> Option<Position> {
    let bytes = fs::read(folder.join("cursor")).ok()?;
    let body = bytes.get(..16)?;
    let sum = u32::from_le_bytes(bytes.get(16..20)?.try_into().ok()?);
    let number = |range: std::ops::Range<usize>| Some(u64::from_le_bytes(body.get(range)?.try_into().ok()?));
    let position = Position { segment: number(0..8)?, offset: number(8..16)? };
    (crc32fast::hash(body) == sum).then_some(position)
}

/// The folder name of a sink.
pub(super) fn file_name(name: &str) -> String {
    let good = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' }
    };
    let plain: String = name.chars().map(good).collect();
    // The checksum keeps names apart that are the same after the replacement.
    format!("{plain}-{:08x}", crc32fast::hash(name.as_bytes()))
}
