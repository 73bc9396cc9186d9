//! Recovery of a spool from earlier processes: the folder's lock, the cursor, and a scan of the segments.

use std::{
    cmp::Ordering,
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use super::{Cursors, Damage, Leftovers, MAX_SLOTS, Position, record};
use crate::config::Signal;

pub(super) struct Scan {
    /// Where the first record begins.
    pub(super) first: u64,
    /// The end of the last good record.
    pub(super) end: u64,
    /// Where the first item of each signal begins that counts.
    pub(super) begin: [u64; 3],
    /// `None`: the header cannot be read.
    pub(super) resource: Option<Bytes>,
    pub(super) found: Leftovers,
    /// Unreadable ranges, in order.
    pub(super) damage: Vec<Damage>,
}

/// Scans a whole segment of an earlier process. Items of each signal count from its offset in `from` on. Damage is
/// skipped.
pub(super) fn scan(path: &Path, len: u64, from: [u64; 3]) -> Scan {
    let offset = from.into_iter().min().unwrap_or_default();
    let bytes = Bytes::from(fs::read(path).unwrap_or_default());
    let size = bytes.len() as u64;
    let damaged = |from: u64, to: u64, reason: &str| Damage {
        file: path.display().to_string(),
        offset: from,
        bytes: to.saturating_sub(from).max(1),
        reason: reason.to_owned(),
    };
    let (found, damage) = (Leftovers::default(), Vec::new());
    let mut scan = Scan { first: 1, end: 0, begin: from, resource: None, found, damage };
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
            record::RecordRead::Item(item, len) => {
                let signal = item.signal as usize;
                // It may begin before its offset, if damage before it has moved it.
                if at + len > from[signal] {
                    if scan.found.items[signal] == 0 {
                        scan.begin[signal] = at;
                    }
                    scan.found.items[signal] += u64::from(item.count);
                }
                at += len;
                scan.end = at;
                continue;
            }
            record::RecordRead::Short(_) => "a record is cut off",
            record::RecordRead::Bad(reason) => reason,
        };
        let next = record::resync(&bytes, start).map_or(size, |next| next as u64);
        let signal = record::signal(&bytes, start) as usize;
        scan.found.lost[signal] += u64::from(at >= from[signal]);
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

/// The offsets in a segment at which reading begins, given those in its name and how far each signal is acknowledged.
pub(super) fn begins(id: u64, begin: [u64; 3], cursors: &Cursors) -> [u64; 3] {
    let mut from = begin;
    for (from, cursor) in from.iter_mut().zip(cursors) {
        match id.cmp(&cursor.segment) {
            Ordering::Less => *from = u64::MAX,
            Ordering::Equal => *from = cursor.offset.max(*from),
            Ordering::Greater => {}
        }
    }
    from
}

/// The segments in a folder by their ids, each with the offsets at which reading begins, per signal.
pub(super) fn segments(folder: &Path) -> io::Result<Vec<(u64, [u64; 3], PathBuf)>> {
    let mut found: Vec<(u64, [u64; 3], PathBuf)> = fs::read_dir(folder)?
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let path = entry.path();
            let name = path.file_name()?.to_str()?.strip_suffix(".seg")?;
            let (id, begin) = name.split_once('@').unwrap_or((name, "0"));
            Some((id.parse().ok()?, read_begin(begin)?, path.clone()))
        })
        .collect();
    found.sort();
    Ok(found)
}

/// The file name of a segment. That of an adopted segment includes the offset at which reading begins, or one for each
/// signal if they differ.
pub(super) fn segment_name(id: u64, begin: [u64; 3]) -> String {
    match begin {
        [0, 0, 0] => format!("{id:020}.seg"),
        [all, b, c] if all == b && all == c => format!("{id:020}@{all}.seg"),
        [a, b, c] => format!("{id:020}@{a}-{b}-{c}.seg"),
    }
}

fn read_begin(text: &str) -> Option<[u64; 3]> {
    let numbers: Vec<u64> = text.split('-').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    match numbers[..] {
        [all] => Some([all; 3]),
        [a, b, c] => Some([a, b, c]),
        _ => None,
    }
}

/// The lock file that a process holds while it uses the folder.
pub(super) const LOCK: &str = "lock";
/// The file that says how far each signal is acknowledged.
const CURSOR: &str = "cursor";
/// A file that is written to see whether the disk has room.
pub(super) const PROBE: &str = "probe";

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

/// The folders in that of a sink which are spools, one for each process that used it at the same time. Other programs may
/// have folders of a similar name.
pub(super) fn slots(folder: &Path) -> Vec<PathBuf> {
    let is_spool = |slot: &PathBuf| {
        let has_segments = || segments(slot).is_ok_and(|found| !found.is_empty());
        slot.join(LOCK).is_file() && (read_cursor(slot).is_some() || has_segments())
    };
    (0..MAX_SLOTS).map(|slot| folder.join(slot.to_string())).filter(is_spool).collect()
}

/// Removes the files of a spool, and its folder unless there is something else in it.
pub(super) fn remove(slot: &Path) -> io::Result<()> {
    let own = [PROBE, CURSOR, LOCK].map(|name| slot.join(name));
    for path in segments(slot)?.into_iter().map(|(_, _, path)| path).chain(own) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    let _ = fs::remove_dir(slot);
    Ok(())
}

pub(super) fn open_cursor(folder: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(CURSOR))
}

/// The bytes of the cursor file: a position for each signal, and a checksum.
pub(super) fn cursor_bytes(cursors: &Cursors) -> Vec<u8> {
    let numbers = cursors.iter().flat_map(|cursor| [cursor.segment, cursor.offset]);
    let mut bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// Reads how far each signal is acknowledged. Earlier versions wrote one position for all of them.
pub(super) fn read_cursor(folder: &Path) -> Option<Cursors> {
    let bytes = fs::read(folder.join(CURSOR)).ok()?;
    let checked = |len: usize| {
        let sum = u32::from_le_bytes(bytes.get(len..len + 4)?.try_into().ok()?);
        bytes.get(..len).filter(|body| crc32fast::hash(body) == sum)
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
    let position = |at: &[u8]| Position { segment: number(&at[..8]), offset: number(&at[8..16]) };
    match checked(48) {
        Some(each) => Some([position(each), position(&each[16..]), position(&each[32..])]),
        None => checked(16).map(|all| [position(all); 3]),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_that_of_an_earlier_version_counts_for_every_signal() {
        let folder = tempfile::tempdir().unwrap();
        let cursors = [3, 1, 2].map(|segment| Position { segment, offset: segment << 40 });
        fs::write(folder.path().join(CURSOR), cursor_bytes(&cursors)).unwrap();
        assert_eq!(read_cursor(folder.path()), Some(cursors));
        let mut old: Vec<u8> = [7_u64, 300].into_iter().flat_map(u64::to_le_bytes).collect();
        old.extend(crc32fast::hash(&old).to_le_bytes());
        fs::write(folder.path().join(CURSOR), old).unwrap();
        assert_eq!(read_cursor(folder.path()), Some([Position { segment: 7, offset: 300 }; 3]));
    }

    #[test]
    fn the_name_of_a_segment_tells_where_each_signal_begins() {
        for begin in [[0; 3], [16; 3], [16, 0, 99]] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(segment_name(5, begin));
            fs::write(&path, "").unwrap();
            assert_eq!(segments(folder.path()).unwrap(), [(5, begin, path)]);
        }
    }
}
