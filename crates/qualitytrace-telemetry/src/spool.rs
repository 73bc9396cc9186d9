//! The disk queue of one sink: append-only segment files, a cursor, and recovery from damage.
//!
//! A record that was written survives the end of the process. Acknowledged records are before the cursor; a segment
//! that is wholly before it is deleted. Each signal has a cursor of its own, so that one whose receiver is down does not
//! hold up the others. A record that cannot be read is reported and skipped; those after it are found by their checksums.

pub(crate) mod orphan;
mod record;
mod recovery;
mod segments;
mod status;

use std::{
    collections::VecDeque,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

use crate::{config::Signal, item::Item};
use recovery::{
    Locked, begins, file_name, lock, open_cursor, read_cursor, remove, scan, segment_name, segments, slots,
};
use segments::{Inner, Limit, Reader, Segment};
pub use status::{Damage, Orphan, SpoolStatus};

/// How many processes may share a folder, each in a subfolder of its own.
const MAX_SLOTS: usize = 16;

/// How far each signal is acknowledged.
type Cursors = [Position; 3];

/// Records of one signal in one segment, in order.
#[derive(Debug)]
pub(crate) struct SpooledRecords {
    pub(crate) start: Position,
    pub(crate) items: Vec<Item>,
    /// `None`: the resource that they were recorded under is lost.
    pub(crate) resource: Option<Bytes>,
}

/// What earlier processes left in a spool, per signal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Leftovers {
    /// Items that can be read.
    pub(crate) items: [u64; 3],
    /// Unreadable items: one for each damaged range, since nothing says how many it held.
    pub(crate) lost: [u64; 3],
}

impl Leftovers {
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
pub(crate) struct SpoolError;

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
        let cursors = read_cursor(&folder).unwrap_or_default();
        let mut bytes = 0;
        let last =
            cursors.iter().map(|cursor| cursor.segment).chain(found.iter().map(|(id, _, _)| *id)).max();
        let next = last.unwrap_or_default() + 1;
        for (id, begin, path) in found {
            if cursors.iter().all(|cursor| id < cursor.segment) {
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
            readers: cursors.map(|at| Reader { at, ..Reader::default() }),
            cursors,
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
    pub(crate) fn recover(&self) -> Leftovers {
        let (old, cursors) = {
            let inner = self.inner();
            let old = inner.segments.iter().filter(|s| s.first == 0);
            (old.map(|s| (s.id, s.path.clone(), s.len, s.begin)).collect::<Vec<_>>(), inner.cursors)
        };
        let mut total = Leftovers::default();
        for (id, path, len, begin) in old {
            let scan = scan(&path, len, begins(id, begin, &cursors));
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
            for (reader, begin) in inner.readers.iter_mut().zip(scan.begin) {
                if reader.at.segment == id {
                    reader.at.offset = begin;
                }
            }
            total.add(scan.found);
        }
        // Folders of processes that ended: no other process will take over what they left.
        let beside = self.folder.parent().map(slots).unwrap_or_default();
        for slot in beside.into_iter().filter(|slot| *slot != self.folder) {
            total.add(self.adopt(&slot).unwrap_or_default());
        }
        total
    }

    /// Takes over the segments of another folder, unless a process uses it. Returns how many items of each signal came
    /// with them.
    pub(crate) fn adopt(&self, folder: &Path) -> io::Result<Leftovers> {
        let Locked::Ours(Some(lock)) = lock(folder)? else { return Ok(Leftovers::default()) };
        let cursors = read_cursor(folder).unwrap_or_default();
        let mut total = Leftovers::default();
        for (id, begin, path) in segments(folder)? {
            let len = fs::metadata(&path)?.len();
            let begin = begins(id, begin, &cursors).map(|begin| begin.min(len));
            let scan = scan(&path, len, begin);
            let is_done = cursors.iter().all(|cursor| id < cursor.segment);
            if is_done || scan.found.items == [0; 3] && scan.damage.is_empty() {
                fs::remove_file(&path)?;
                continue;
            }
            let mut inner = self.inner();
            let id = inner.next;
            let adopted = self.folder.join(segment_name(id, scan.begin));
            fs::rename(&path, &adopted)?;
            inner.next += 1;
            // The adopted segment is the last one, so what is written from now on needs a segment after it.
            inner.writer = None;
            inner.bytes += scan.end;
            for damage in &scan.damage {
                inner.note_damage(damage.clone());
            }
            let mut segment = Segment { id, path: adopted, ..Segment::default() };
            segment.recover(&scan);
            inner.segments.push_back(segment);
            total.add(scan.found);
        }
        remove(folder)?;
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
    pub(crate) fn append(&self, resource: &Bytes, items: &[Item], sync: bool) -> Result<(), SpoolError> {
        let mut bytes = Vec::with_capacity(items.iter().map(Item::size).sum());
        let mut counts = [0_u64; 3];
        for item in items {
            record::write(item, &mut bytes);
            counts[item.signal as usize] += u64::from(item.count);
        }
        self.inner().append(resource, &bytes, counts, sync)
    }

    /// Takes the next records of a signal, up to a number of items and bytes.
    pub(crate) fn take(
        &self,
        signal: Signal,
        items: usize,
        bytes: usize,
    ) -> (Option<SpooledRecords>, [u64; 3]) {
        let mut damaged = [0; 3];
        let taken = self.inner().take(signal, Limit { items, bytes, before: None }, &mut damaged);
        (taken, damaged)
    }

    /// Whether there is nothing left to deliver.
    pub(crate) fn is_drained(&self) -> bool {
        self.inner().is_drained()
    }

    /// Skips leading records of each signal that are older than `before`; returns the expired and the damaged items.
    pub(crate) fn expire(&self, before: u64) -> ([u64; 3], [u64; 3]) {
        let (mut expired, mut damaged) = ([0; 3], [0; 3]);
        let limit = Limit { items: 512, bytes: 1 << 20, before: Some(before) };
        for signal in Signal::ALL {
            loop {
                let mut inner = self.inner();
                let Some(taken) = inner.take(signal, limit, &mut damaged) else { break };
                count(&taken.items, &mut expired);
                inner.acknowledge(signal, taken.start);
            }
        }
        (expired, damaged)
    }

    /// Acknowledges the records of a signal that were taken at `start`; they need not be kept any longer.
    pub(crate) fn acknowledge(&self, signal: Signal, start: Position) {
        self.inner().acknowledge(signal, start);
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

fn count(items: &[Item], sums: &mut [u64; 3]) {
    for item in items {
        sums[item.signal as usize] += u64::from(item.count);
    }
}
