//! What earlier processes left: whose folder it is, where they stopped, and what can still be read.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
};

use bytes::Bytes;

use super::{Damage, Position, record};

pub(super) struct Scan {
    pub(super) first: u64,
    /// Behind the last good record.
    pub(super) end: u64,
    pub(super) resource: Bytes,
    pub(super) items: [u64; 3],
    pub(super) damage: Option<Damage>,
}

/// Reads a whole segment of an earlier process from `offset` on.
pub(super) fn scan(path: &Path, len: u64, offset: u64) -> Scan {
    let bytes = Bytes::from(fs::read(path).unwrap_or_default());
    let damage = |at: u64, reason: &str| {
        Some(Damage {
            file: path.display().to_string(),
            offset: at,
            bytes: len.saturating_sub(at).max(1),
            reason: reason.to_owned(),
        })
    };
    let Some((resource, first)) = record::read_header(&bytes) else {
        let damage = damage(0, "the header of the segment is damaged");
        return Scan { first: 0, end: 0, resource: Bytes::new(), items: [0; 3], damage };
    };
    let mut at = offset.max(first);
    let mut items = [0; 3];
    let mut found = None;
    while at < bytes.len() as u64 {
        match record::read(&bytes.slice(usize::try_from(at).unwrap_or(usize::MAX)..)) {
            record::Read::Item(item, len) => {
                items[item.signal as usize] += u64::from(item.count);
                at += len;
            }
            record::Read::Short(_) => {
                found = damage(at, "a record is cut off");
                break;
            }
            record::Read::Bad(reason) => {
                found = damage(at, reason);
                break;
            }
        }
    }
    Scan { first, end: at, resource, items, damage: found }
}

pub(super) enum Locked {
    /// `None`: the folder is read-only, so nobody can lock it.
    Ours(Option<File>),
    Theirs,
}

pub(super) fn lock(folder: &Path) -> io::Result<Locked> {
    let mut builder = fs::DirBuilder::new();
    // It may be the first to be made in a folder of which others are not to see the inside.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let made = builder.recursive(true).create(folder);
    match OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock")) {
        Ok(file) => match file.try_lock() {
            Ok(()) => Ok(Locked::Ours(Some(file))),
            Err(fs::TryLockError::WouldBlock) => Ok(Locked::Theirs),
            Err(fs::TryLockError::Error(error)) => Err(error),
        },
        // What lies in a folder that we may only read is still delivered.
        Err(_) if folder.is_dir() => Ok(Locked::Ours(None)),
        Err(error) => Err(made.err().unwrap_or(error)),
    }
}

pub(super) fn read_cursor(folder: &Path) -> Option<Position> {
    let bytes = fs::read(folder.join("cursor")).ok()?;
    let body = bytes.get(..16)?;
    let sum = u32::from_le_bytes(bytes.get(16..20)?.try_into().ok()?);
    let number = |range: std::ops::Range<usize>| Some(u64::from_le_bytes(body.get(range)?.try_into().ok()?));
    let position = Position { segment: number(0..8)?, offset: number(8..16)? };
    (crc32fast::hash(body) == sum).then_some(position)
}

/// A sink's name as a folder's.
pub(super) fn file_name(name: &str) -> String {
    let good = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '_' }
    };
    let plain: String = name.chars().map(good).collect();
    // Two names that look alike as folders stay apart.
    format!("{plain}-{:08x}", crc32fast::hash(name.as_bytes()))
}
