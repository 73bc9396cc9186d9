//! The disk queue of one sink: append-only segment files, a cursor, and what to do about damage.
//!
//! A record that was written survives the end of the process. Acknowledged records are behind the
//! cursor; a segment that lies behind it as a whole is deleted. Reading stops at the first bad
//! record of a segment, names the damage and goes on with the next segment.

mod books;
mod record;
mod recovery;

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use serde::Serialize;

use crate::item::Item;
use books::{Inner, Segment};
use recovery::{Locked, file_name, lock, read_cursor, scan};

/// Processes that may share a folder, each in a folder of its own inside.
const MAX_SLOTS: usize = 16;

/// Records of one segment, in order.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) start: Position,
    pub(crate) items: Vec<Item>,
    pub(crate) resource: Bytes,
}

/// A place in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    segment: u64,
    offset: u64,
}

/// Bytes that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The segment file.
    pub file: String,
    /// Where the damage begins.
    pub offset: u64,
    /// How many bytes are lost with it.
    pub bytes: u64,
    /// What is wrong.
    pub reason: String,
}

/// What the status shows of a spool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SpoolStatus {
    /// Its folder.
    pub path: String,
    /// Bytes on disk.
    pub bytes: u64,
    /// The cap.
    pub capacity: u64,
    /// Segment files.
    pub segments: usize,
    /// Bytes of segments that could not be read, in all.
    pub damaged_bytes: u64,
    /// The first damaged places.
    pub damage: Vec<Damage>,
    /// What is wrong with the spool now, if anything.
    pub problem: Option<String>,
}

pub(crate) struct Spool {
    folder: PathBuf,
    inner: Mutex<Inner>,
    /// Held while the process lives, so that no other process takes the folder.
    _lock: Option<File>,
}

/// Why a record was not written.
#[derive(Debug)]
pub(crate) enum Refusal {
    Full,
    Io(io::Error),
}

impl Spool {
    /// Opens the folder of a sink. Files of earlier processes are not read yet: see [`Self::recover`].
    pub(crate) fn open(root: &Path, name: &str, capacity: u64) -> io::Result<Self> {
        let mut last = io::Error::other("all folders are in use by other processes");
        for slot in 0..MAX_SLOTS {
            let folder = root.join(file_name(name)).join(slot.to_string());
            match lock(&folder) {
                Ok(Locked::Ours(lock)) => return Self::at(folder, lock, capacity),
                Ok(Locked::Theirs) => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn at(folder: PathBuf, lock: Option<File>, capacity: u64) -> io::Result<Self> {
        let mut segments: VecDeque<Segment> = VecDeque::new();
        let mut found: Vec<(u64, PathBuf)> = fs::read_dir(&folder)?
            .filter_map(Result::ok)
            .filter_map(|entry| {
                let path = entry.path();
                let id = path.file_name()?.to_str()?.strip_suffix(".seg")?.parse().ok()?;
                Some((id, path))
            })
            .collect();
        found.sort();
        let cursor = read_cursor(&folder).unwrap_or_default();
        let mut bytes = 0;
        let next = found.last().map_or(1, |(id, _)| id + 1).max(cursor.segment + 1);
        for (id, path) in found {
            if id < cursor.segment {
                let _ = fs::remove_file(&path);
                continue;
            }
            let len = fs::metadata(&path).map_or(0, |meta| meta.len());
            bytes += len;
            segments.push_back(Segment { id, path, len, first: 0, resource: Bytes::new(), unread: [0; 3] });
        }
        let cursor_file =
            OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("cursor"));
        let problem = cursor_file.as_ref().err().map(|error| format!("the spool is read-only: {error}"));
        let inner = Inner {
            segments,
            writer: None,
            reader: None,
            read: cursor,
            outstanding: BTreeMap::new(),
            cursor,
            cursor_file: cursor_file.ok(),
            bytes,
            capacity,
            next,
            damaged_bytes: 0,
            damage: Vec::new(),
            problem,
            unsynced: false,
        };
        Ok(Self { folder, inner: Mutex::new(inner), _lock: lock })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock was held cannot leave the books worse than a crash would.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what earlier processes left, and returns how many items of each signal wait there.
    pub(crate) fn recover(&self) -> [u64; 3] {
        let (old, cursor): (Vec<(u64, PathBuf, u64)>, Position) = {
            let inner = self.inner();
            let old = inner.segments.iter().filter(|s| s.first == 0);
            (old.map(|s| (s.id, s.path.clone(), s.len)).collect(), inner.cursor)
        };
        let mut total = [0; 3];
        for (id, path, len) in old {
            let scan = scan(&path, len, if id == cursor.segment { cursor.offset } else { 0 });
            let mut inner = self.inner();
            if let Some(damage) = &scan.damage {
                inner.note_damage(damage.clone());
            }
            let at = inner.segments.iter().position(|segment| segment.id == id);
            let Some(segment) = at.and_then(|at| inner.segments.get_mut(at)) else {
                continue;
            };
            segment.first = scan.first.max(1);
            segment.resource = scan.resource;
            segment.unread = scan.items;
            let cut = segment.len.saturating_sub(scan.end);
            // What lies behind the damage is never read.
            segment.len = scan.end;
            inner.bytes -= cut;
            for (sum, n) in total.iter_mut().zip(scan.items) {
                *sum += n;
            }
        }
        let mut inner = self.inner();
        let first = inner.segments.front().map(|segment| Position { segment: segment.id, offset: 0 });
        if let Some(first) = first.filter(|first| first.segment > inner.read.segment) {
            inner.read = first;
        }
        total
    }

    /// Appends the items; all of them or none.
    pub(crate) fn append(&self, resource: &Bytes, items: &[Item], sync: bool) -> Result<(), Refusal> {
        let mut bytes = Vec::with_capacity(items.iter().map(Item::size).sum());
        let mut counts = [0_u64; 3];
        for item in items {
            record::write(item, &mut bytes);
            counts[item.signal as usize] += u64::from(item.count);
        }
        let mut inner = self.inner();
        match inner.append(&self.folder, resource, &bytes, counts, sync) {
            Err(Refusal::Io(error)) => {
                inner.problem = Some(format!("the spool cannot be written: {error}"));
                inner.writer = None;
                Err(Refusal::Io(error))
            }
            other => other,
        }
    }

    /// The next records, at most so many items and bytes.
    pub(crate) fn take(&self, max_items: usize, max_bytes: usize) -> (Option<Taken>, [u64; 3]) {
        let mut damaged = [0; 3];
        let mut inner = self.inner();
        let taken = inner.take(max_items, max_bytes, &mut damaged);
        (taken, damaged)
    }

    /// Passes over leading records that are older than `before`; returns the expired and the damaged items.
    pub(crate) fn expire(&self, before: u64) -> ([u64; 3], [u64; 3]) {
        let (mut expired, mut damaged) = ([0; 3], [0; 3]);
        loop {
            let mut inner = self.inner();
            let Some(taken) = inner.take(512, 1 << 20, &mut damaged) else {
                break;
            };
            let old = taken.items.iter().take_while(|item| item.time < before).count();
            count(&taken.items[..old], &mut expired);
            if old == taken.items.len() {
                inner.acknowledge(taken.start);
                continue;
            }
            // The rest is young: put the reader back behind the old ones.
            let skipped: u64 = taken.items[..old].iter().map(record_len).sum();
            inner.read = Position { segment: taken.start.segment, offset: taken.start.offset + skipped };
            if let Some(segment) = inner.segments.iter_mut().find(|s| s.id == taken.start.segment) {
                count(&taken.items[old..], &mut segment.unread);
            }
            inner.acknowledge(taken.start);
            break;
        }
        (expired, damaged)
    }

    /// Records that need not be kept any longer.
    pub(crate) fn acknowledge(&self, start: Position) {
        self.inner().acknowledge(start);
    }

    /// Forces written bytes to the disk.
    pub(crate) fn sync(&self) {
        let mut inner = self.inner();
        let file = inner.writer.as_ref().filter(|_| inner.unsynced).and_then(|file| file.try_clone().ok());
        inner.unsynced = false;
        drop(inner);
        if let Some(file) = file {
            let _ = file.sync_data();
        }
    }

    pub(crate) fn set_capacity(&self, capacity: u64) {
        self.inner().capacity = capacity;
    }

    pub(crate) fn status(&self) -> SpoolStatus {
        let inner = self.inner();
        SpoolStatus {
            path: self.folder.display().to_string(),
            bytes: inner.bytes,
            capacity: inner.capacity,
            segments: inner.segments.len(),
            damaged_bytes: inner.damaged_bytes,
            damage: inner.damage.clone(),
            problem: inner.problem.clone(),
        }
    }
}

fn record_len(item: &Item) -> u64 {
    (8 + 15 + item.scope.len() + item.body.len()) as u64
}

fn count(items: &[Item], sums: &mut [u64; 3]) {
    for item in items {
        sums[item.signal as usize] += u64::from(item.count);
    }
}
