//! The disk queue of one sink: append-only segment files, a cursor, and recovery from damage.
//!
//! A record that was written survives the end of the process. Acknowledged records are before the cursor; a segment
//! that is wholly before it is deleted. A record that cannot be read is reported and skipped; those after it are found
//! by their checksums.

pub(crate) mod orphan;
mod record;
mod recovery;
mod segments;
mod status;

use std::{
    collections::{BTreeMap, VecDeque},
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

use crate::item::Item;
use recovery::{Locked, file_name, lock, open_cursor, read_cursor, scan, segment_name, segments};
use segments::{Inner, Segment};
pub use status::{Damage, Orphan, SpoolStatus};

/// How many processes may share a folder, each in a subfolder of its own.
const MAX_SLOTS: usize = 16;

/// Records of one segment, in order.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) start: Position,
    pub(crate) items: Vec<Item>,
    /// `None`: the resource that they were recorded under is lost.
    pub(crate) resource: Option<Bytes>,
}

/// What earlier processes left in a spool, per signal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Found {
    /// Items that can be read.
    pub(crate) items: [u64; 3],
    /// Unreadable items: one for each damaged range, since nothing says how many it held.
    pub(crate) lost: [u64; 3],
}

impl Found {
    fn add(&mut self, other: Self) {
        add(&mut self.items, other.items);
        add(&mut self.lost, other.lost);
    }
}

/// A position in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    segment: u64,
    offset: u64,
}

pub(crate) struct Spool {
    folder: PathBuf,
    inner: Mutex<Inner>,
}

/// The items were not written; the status says why.
#[derive(Debug)]
pub(crate) struct Refused;

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

    fn at(folder: PathBuf, lock: Option<fs::File>, capacity: u64) -> io::Result<Self> {
        let mut kept: VecDeque<Segment> = VecDeque::new();
        let found = segments(&folder)?;
        let cursor = read_cursor(&folder).unwrap_or_default();
        let mut bytes = 0;
        let next = found.last().map_or(1, |(id, _, _)| id + 1).max(cursor.segment + 1);
        for (id, begin, path) in found {
            if id < cursor.segment {
                let _ = fs::remove_file(&path);
                continue;
            }
            let len = fs::metadata(&path).map_or(0, |meta| meta.len());
            bytes += len;
            kept.push_back(Segment { id, path, len, begin, ..Segment::default() });
        }
        let cursor_file = open_cursor(&folder);
        let problem = cursor_file.as_ref().err().map(|error| format!("the spool is read-only: {error}"));
        let mut inner = Inner {
            folder: folder.clone(),
            lock,
            segments: kept,
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
        inner.write_cursor();
        Ok(Self { folder, inner: Mutex::new(inner) })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock was held cannot leave the state worse than a crash would.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what earlier processes left, and returns how many items of each signal wait there.
    pub(crate) fn recover(&self) -> Found {
        let (old, cursor): (Vec<(u64, PathBuf, u64, u64)>, Position) = {
            let inner = self.inner();
            let old = inner.segments.iter().filter(|s| s.first == 0);
            (old.map(|s| (s.id, s.path.clone(), s.len, s.begin)).collect(), inner.cursor)
        };
        let mut total = Found::default();
        for (id, path, len, begin) in old {
            let scan = scan(&path, len, if id == cursor.segment { cursor.offset.max(begin) } else { begin });
            let mut inner = self.inner();
            for damage in &scan.damage {
                inner.note_damage(damage.clone());
            }
            let at = inner.segments.iter().position(|segment| segment.id == id);
            let Some(segment) = at.and_then(|at| inner.segments.get_mut(at)) else {
                continue;
            };
            let cut = segment.len.saturating_sub(scan.end);
            segment.recover(&scan);
            inner.bytes -= cut;
            total.add(scan.found);
        }
        let mut inner = self.inner();
        let first = inner.segments.front().map(|segment| Position { segment: segment.id, offset: 0 });
        if let Some(first) = first.filter(|first| first.segment > inner.read.segment) {
            inner.read = first;
        }
        drop(inner);
        // Folders of processes that ended: no other process will take over what they left.
        for slot in (0..MAX_SLOTS).map(|slot| self.folder.with_file_name(slot.to_string())) {
            if slot != self.folder && slot.is_dir() {
                total.add(self.adopt(&slot).unwrap_or_default());
            }
        }
        total
    }

    /// Takes over the segments of another folder, unless a process uses it. Returns how many items of each signal came
    /// with them.
    pub(crate) fn adopt(&self, folder: &Path) -> io::Result<Found> {
        let Locked::Ours(Some(lock)) = lock(folder)? else { return Ok(Found::default()) };
        let cursor = read_cursor(folder).unwrap_or_default();
        let mut total = Found::default();
        for (id, begin, path) in segments(folder)? {
            let begin = if id == cursor.segment { cursor.offset.max(begin) } else { begin };
            let scan = scan(&path, fs::metadata(&path)?.len(), begin);
            if id < cursor.segment || scan.found.items == [0; 3] && scan.damage.is_empty() {
                fs::remove_file(&path)?;
                continue;
            }
            let mut inner = self.inner();
            let id = inner.next;
            let adopted = self.folder.join(segment_name(id, begin));
            fs::rename(&path, &adopted)?;
            inner.next += 1;
            // The adopted segment is the last one, so what is written from now on needs a segment after it.
            inner.writer = None;
            inner.bytes += scan.end;
            for damage in &scan.damage {
                inner.note_damage(damage.clone());
            }
            let mut segment = Segment { id, path: adopted, begin, ..Segment::default() };
            segment.recover(&scan);
            inner.segments.push_back(segment);
            total.add(scan.found);
        }
        fs::remove_dir_all(folder)?;
        drop(lock);
        Ok(total)
    }

    /// Frees the disk space of acknowledged records, and checks whether a problem is over.
    pub(crate) fn tidy(&self) {
        self.inner().tidy();
    }

    /// Releases the folder for the next process that opens it.
    pub(crate) fn release(&self) {
        let mut inner = self.inner();
        inner.writer = None;
        inner.lock = None;
    }

    /// Appends the items; all of them or none.
    pub(crate) fn append(&self, resource: &Bytes, items: &[Item], sync: bool) -> Result<(), Refused> {
        let mut bytes = Vec::with_capacity(items.iter().map(Item::size).sum());
        let mut counts = [0_u64; 3];
        for item in items {
            record::write(item, &mut bytes);
            counts[item.signal as usize] += u64::from(item.count);
        }
        self.inner().append(resource, &bytes, counts, sync)
    }

    /// Takes the next records, up to a number of items and bytes.
    pub(crate) fn take(&self, max_items: usize, max_bytes: usize) -> (Option<Taken>, [u64; 3]) {
        let mut damaged = [0; 3];
        let mut inner = self.inner();
        let taken = inner.take(max_items, max_bytes, &mut damaged);
        (taken, damaged)
    }

    /// Skips leading records that are older than `before`; returns the expired and the damaged items.
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
            // The rest is young: put the reader back after the old ones.
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

    /// Acknowledges the records that were taken at `start`; they need not be kept any longer.
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

fn add(sums: &mut [u64; 3], counts: [u64; 3]) {
    for (sum, n) in sums.iter_mut().zip(counts) {
        *sum += n;
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
