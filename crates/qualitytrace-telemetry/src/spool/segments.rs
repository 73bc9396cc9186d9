//! The state of a spool behind its lock: segments, reader, writer and cursor.

use std::{
    collections::{BTreeSet, VecDeque},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::PathBuf,
};

use bytes::Bytes;

use super::{
    Cursors, Damage, Position, SpoolError, SpooledRecords, count, record,
    recovery::{self, Scan},
};
use crate::{config::Signal, item::Item};

/// A segment is closed at this size, or at an eighth of a smaller cap.
const SEGMENT: u64 = 8 << 20;
/// Bytes that must be writable before the disk counts as usable again.
const PROBE: usize = 4_096;
/// How many damaged places are named; all damage is counted.
const MAX_NAMED: usize = 32;

pub(super) struct Inner {
    pub(super) folder: PathBuf,
    /// Held while the process uses the folder, so that no other process takes it.
    pub(super) lock: Option<File>,
    pub(super) segments: VecDeque<Segment>,
    pub(super) writer: Option<File>,
    pub(super) reader: Option<(u64, File)>,
    /// Each signal is read by itself: one that cannot be delivered does not hold up the others.
    pub(super) readers: [Reader; 3],
    pub(super) cursors: Cursors,
    pub(super) cursor_file: Option<File>,
    pub(super) bytes: u64,
    pub(super) capacity: u64,
    pub(super) next: u64,
    pub(super) damaged_bytes: u64,
    pub(super) damage: Vec<Damage>,
    pub(super) problem: Option<String>,
    pub(super) unsynced: bool,
}

/// How far one signal was read.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) at: Position,
    /// Where ranges begin that were taken and not acknowledged.
    pub(super) outstanding: BTreeSet<Position>,
}

/// How much to take at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    pub(super) items: usize,
    pub(super) bytes: usize,
    /// Take only what was made before this time.
    pub(super) before: Option<u64>,
}

#[derive(Default)]
pub(super) struct Segment {
    pub(super) id: u64,
    pub(super) path: PathBuf,
    pub(super) len: u64,
    /// What lies before these offsets was acknowledged by an earlier process, per signal.
    pub(super) begin: [u64; 3],
    /// Where the first record begins; 0 while the file was not scanned.
    pub(super) first: u64,
    /// `None`: its header is damaged, so the resource of its records is lost.
    pub(super) resource: Option<Bytes>,
    /// Items not read yet, per signal.
    pub(super) unread: [u64; 3],
    /// Unreadable ranges that were reported: from, to.
    pub(super) gaps: Vec<(u64, u64)>,
}

impl Segment {
    /// Sets the state to what a scan of the file found. What lies after the last good record is never read.
    pub(super) fn recover(&mut self, scan: &Scan) {
        self.first = scan.first;
        self.begin = scan.begin;
        self.len = scan.end;
        self.resource.clone_from(&scan.resource);
        self.unread = scan.found.items;
        self.gaps = scan.damage.iter().map(|damage| (damage.offset, damage.offset + damage.bytes)).collect();
    }
}

/// Why a read at a position failed.
enum Fault {
    /// The bytes are no valid record.
    Record(&'static str),
    /// The file cannot be read.
    File,
}

impl Inner {
    pub(super) fn append(
        &mut self,
        resource: &Bytes,
        bytes: &[u8],
        counts: [u64; 3],
        sync: bool,
    ) -> Result<(), SpoolError> {
        let full = |inner: &Self| inner.bytes + bytes.len() as u64 > inner.capacity;
        if full(self) && (!self.reclaim() || full(self)) {
            self.problem = Some(format!("the spool is full: `spool.bytes` is {}", self.capacity));
            return Err(SpoolError);
        }
        let written = self.write(resource, bytes, counts).or_else(|error| {
            // Acknowledged segments are of no use any more; they may be what fills the disk.
            if self.reclaim() { self.write(resource, bytes, counts) } else { Err(error) }
        });
        if let Err(error) = written {
            self.writer = None;
            self.problem = Some(format!("the spool cannot be written: {error}"));
            return Err(SpoolError);
        }
        self.problem = None;
        self.unsynced = true;
        if let Some(file) = self.writer.as_ref().filter(|_| sync) {
            match file.sync_data() {
                Ok(()) => self.unsynced = false,
                // The bytes are in the file all the same: to refuse them would count them twice.
                Err(error) => self.problem = Some(format!("the spool cannot be synced: {error}")),
            }
        }
        Ok(())
    }

    fn write(&mut self, resource: &Bytes, bytes: &[u8], counts: [u64; 3]) -> io::Result<()> {
        let limit = SEGMENT.min(self.capacity / 8).max(1 << 16);
        let fits = self.writer.is_some()
            && self
                .segments
                .back()
                .is_some_and(|last| last.len < limit && last.resource.as_ref() == Some(resource));
        if !fits {
            self.roll(resource)?;
        }
        let (Some(file), Some(segment)) = (&mut self.writer, self.segments.back_mut()) else {
            return Err(io::Error::other("there is no segment"));
        };
        if let Err(error) = file.write_all(bytes) {
            // Truncate a partial write, so that the segment stays valid.
            let _ = file.set_len(segment.len);
            if segment.len == segment.first {
                // An empty segment for each attempt would fill a full disk even more.
                let _ = fs::remove_file(&segment.path);
                self.bytes = self.bytes.saturating_sub(segment.len);
                self.segments.pop_back();
                self.writer = None;
            }
            return Err(error);
        }
        segment.len += bytes.len() as u64;
        self.bytes += bytes.len() as u64;
        for (unread, n) in segment.unread.iter_mut().zip(counts) {
            *unread += n;
        }
        Ok(())
    }

    /// Removes all segments, the current one included, if everything in them is acknowledged. Returns whether that
    /// freed space.
    fn reclaim(&mut self) -> bool {
        self.move_cursors();
        let Some(last) = self.segments.back() else { return false };
        let end = Position { segment: last.id, offset: last.len };
        if self.readers.iter().any(|reader| reader.at < end || !reader.outstanding.is_empty()) {
            return false;
        }
        self.writer = None;
        self.reader = None;
        for reader in &mut self.readers {
            reader.at = Position { segment: self.next, offset: 0 };
        }
        self.move_cursors();
        true
    }

    /// Frees the disk space of acknowledged records at once, instead of with the next write, and checks whether a
    /// problem is over.
    pub(super) fn tidy(&mut self) {
        // Nothing can be removed from a read-only folder.
        if self.lock.is_some() {
            self.reclaim();
        }
        if self.is_removed() {
            let again = recovery::lock(&self.folder).and_then(|locked| match locked {
                recovery::Locked::Ours(lock) => Ok(lock),
                recovery::Locked::Theirs => Err(io::Error::other("another process uses it")),
            });
            let then = match again {
                Ok(lock) => {
                    self.lock = lock;
                    // From now on records are written to files in the new folder.
                    self.writer = None;
                    self.cursor_file = None;
                    self.write_cursor();
                    "it was made again".to_owned()
                }
                Err(error) => format!("it cannot be made again: {error}"),
            };
            self.problem =
                Some(format!("the folder of the spool, `{}`, was removed; {then}", self.folder.display()));
        } else if self.problem.is_some() && self.bytes < self.capacity && self.probe().is_ok() {
            self.problem = None;
        }
    }

    /// Whether the opened folder was removed or replaced.
    #[cfg(unix)]
    fn is_removed(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let Some(Ok(opened)) = self.lock.as_ref().map(File::metadata) else { return false };
        let named = fs::metadata(self.folder.join(recovery::LOCK));
        named.map_or(true, |named| (named.dev(), named.ino()) != (opened.dev(), opened.ino()))
    }

    /// An open file cannot be removed on these systems.
    #[cfg(not(unix))]
    fn is_removed(&self) -> bool {
        false
    }

    /// Checks whether a file can be written.
    fn probe(&self) -> io::Result<()> {
        let path = self.folder.join(recovery::PROBE);
        let written = fs::write(&path, [0; PROBE]);
        let removed = fs::remove_file(&path);
        written.and(removed)
    }

    fn roll(&mut self, resource: &Bytes) -> io::Result<()> {
        let id = self.next;
        if self.lock.is_none() {
            // The folder was read-only when it was opened, so another process may have locked it by now.
            match recovery::lock(&self.folder)? {
                recovery::Locked::Ours(lock) => self.lock = lock,
                recovery::Locked::Theirs => return Err(io::Error::other("another process uses the folder")),
            }
        }
        let path = self.folder.join(recovery::segment_name(id, [0; 3]));
        let mut file = OpenOptions::new().create_new(true).append(true).open(&path)?;
        self.next += 1;
        let header = record::header(resource);
        if let Err(error) = file.write_all(&header) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        let first = header.len() as u64;
        self.bytes += first;
        self.segments.push_back(Segment {
            id,
            path,
            len: first,
            first,
            resource: Some(resource.clone()),
            ..Segment::default()
        });
        self.writer = Some(file);
        Ok(())
    }

    /// Takes the next records of a signal.
    pub(super) fn take(
        &mut self,
        signal: Signal,
        limit: Limit,
        damaged: &mut [u64; 3],
    ) -> Option<SpooledRecords> {
        loop {
            self.advance(signal);
            let start = self.readers[signal as usize].at;
            let at = self.segments.iter().position(|segment| segment.id == start.segment)?;
            let segment = &self.segments[at];
            if segment.first == 0 || start.offset >= segment.len {
                return None;
            }
            match self.read_records(at, start, signal, limit) {
                Ok((_, end)) if end == start.offset => return None,
                Ok((items, end)) => {
                    let mut n = [0; 3];
                    count(&items, &mut n);
                    let segment = &mut self.segments[at];
                    let unread = &mut segment.unread[signal as usize];
                    *unread = unread.saturating_sub(n[signal as usize]);
                    let resource = segment.resource.clone();
                    self.pass(at, signal, end, damaged);
                    // Otherwise there were only records of other signals.
                    if !items.is_empty() {
                        self.readers[signal as usize].outstanding.insert(start);
                        return Some(SpooledRecords { start, items, resource });
                    }
                }
                Err(fault) => {
                    let end = self.pass_damage(at, start.offset, &fault);
                    self.pass(at, signal, end, damaged);
                }
            }
        }
    }

    /// Moves a reader within its segment. Items that were not found by the end of the segment count as damaged.
    fn pass(&mut self, at: usize, signal: Signal, end: u64, damaged: &mut [u64; 3]) {
        self.readers[signal as usize].at.offset = end;
        let segment = &mut self.segments[at];
        if end >= segment.len {
            damaged[signal as usize] += std::mem::take(&mut segment.unread[signal as usize]);
        }
    }

    /// Skips damage: returns the offset at which reading goes on.
    fn pass_damage(&mut self, at: usize, offset: u64, fault: &Fault) -> u64 {
        let segment = &self.segments[at];
        if let Some((_, to)) = segment.gaps.iter().find(|(from, to)| (*from..*to).contains(&offset)) {
            return (*to).min(segment.len);
        }
        let len = segment.len;
        let (to, reason) = match fault {
            Fault::File => (len, "the file cannot be read"),
            Fault::Record(reason) => {
                let rest = self.read_at(at, offset, len - offset).unwrap_or_default();
                let next = record::resync(&rest, 0).map_or(len, |next| (offset + next as u64).min(len));
                (next, *reason)
            }
        };
        let segment = &mut self.segments[at];
        segment.gaps.push((offset, to));
        let file = segment.path.display().to_string();
        if at + 1 == self.segments.len() {
            // The file may have been replaced by now.
            self.writer = None;
        }
        self.note_damage(Damage { file, offset, bytes: to - offset, reason: reason.to_owned() });
        to
    }

    /// Reads records of a signal from `start` on and passes those of other signals. Returns where it stopped.
    fn read_records(
        &mut self,
        at: usize,
        start: Position,
        signal: Signal,
        limit: Limit,
    ) -> Result<(Vec<Item>, u64), Fault> {
        let left = self.segments[at].len - start.offset;
        let mut want = left.min(limit.bytes as u64);
        loop {
            let mut rest = self.read_at(at, start.offset, want).map_err(|_| Fault::File)?;
            let mut items: Vec<Item> = Vec::new();
            let (mut end, mut size) = (start.offset, 0);
            let short = loop {
                if items.len() >= limit.items || rest.is_empty() {
                    break None;
                }
                match record::read(&rest) {
                    record::RecordRead::Item(item, len) => {
                        if item.signal == signal {
                            size += item.size();
                            let full = size > limit.bytes && !items.is_empty();
                            if full || limit.before.is_some_and(|before| item.time >= before) {
                                break None;
                            }
                            items.push(item);
                        }
                        rest = rest.slice(usize::try_from(len).unwrap_or(usize::MAX)..);
                        end += len;
                    }
                    record::RecordRead::Short(needed) => break Some(needed),
                    // What comes before the damage is good.
                    record::RecordRead::Bad(_) if end > start.offset => break None,
                    record::RecordRead::Bad(reason) => return Err(Fault::Record(reason)),
                }
            };
            match short {
                Some(needed) if end == start.offset => {
                    if needed > left || needed <= want {
                        return Err(Fault::Record("a record is cut off"));
                    }
                    want = needed;
                }
                Some(_) | None => return Ok((items, end)),
            }
        }
    }

    fn read_at(&mut self, at: usize, offset: u64, len: u64) -> io::Result<Bytes> {
        let segment = &self.segments[at];
        if self.reader.as_ref().is_none_or(|(id, _)| *id != segment.id) {
            self.reader = Some((segment.id, File::open(&segment.path)?));
        }
        let Some((_, file)) = &mut self.reader else {
            return Err(io::Error::other("no file"));
        };
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(len).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    /// Moves a reader to the next segment when this one has nothing more for it.
    fn advance(&mut self, signal: Signal) {
        let signal = signal as usize;
        loop {
            let at = self.readers[signal].at;
            let Some(segment) = self.segments.iter().find(|segment| segment.id >= at.segment) else { return };
            if segment.first == 0 {
                // What is in it is not known yet.
                return;
            }
            let mut offset = segment.first.max(segment.begin[signal]);
            if segment.id == at.segment {
                offset = offset.max(at.offset);
            }
            if segment.unread[signal] == 0 {
                offset = offset.max(segment.len);
            }
            let next = self.segments.iter().find(|next| next.id > segment.id && offset >= segment.len);
            let Some(next) = next else {
                self.readers[signal].at = Position { segment: segment.id, offset };
                return;
            };
            self.readers[signal].at = Position { segment: next.id, offset: 0 };
        }
    }

    /// Whether there is nothing left to deliver.
    pub(super) fn is_drained(&self) -> bool {
        self.segments.iter().all(|segment| segment.first > 0 && segment.unread == [0; 3])
            && self.readers.iter().all(|reader| reader.outstanding.is_empty())
    }

    pub(super) fn acknowledge(&mut self, signal: Signal, start: Position) {
        self.readers[signal as usize].outstanding.remove(&start);
        self.move_cursors();
    }

    /// Stores the positions up to which everything is acknowledged, and removes the segments before all of them.
    fn move_cursors(&mut self) {
        for signal in Signal::ALL {
            self.advance(signal);
        }
        let cursors =
            self.readers.each_ref().map(|reader| reader.outstanding.first().copied().unwrap_or(reader.at));
        if cursors == self.cursors {
            return;
        }
        self.cursors = cursors;
        self.write_cursor();
        let oldest = cursors.into_iter().min().unwrap_or_default();
        while self.segments.front().is_some_and(|segment| segment.id < oldest.segment) {
            if let Some(segment) = self.segments.pop_front() {
                let _ = fs::remove_file(&segment.path);
                self.bytes = self.bytes.saturating_sub(segment.len);
            }
        }
    }

    /// The file gets its space when the spool is opened, so that it can be written on a full disk.
    pub(super) fn write_cursor(&mut self) {
        let bytes = recovery::cursor_bytes(&self.cursors);
        if self.cursor_file.is_none() {
            self.cursor_file = recovery::open_cursor(&self.folder).ok();
        }
        if let Some(file) = &mut self.cursor_file {
            let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&bytes));
        }
    }

    pub(super) fn note_damage(&mut self, damage: Damage) {
        self.damaged_bytes += damage.bytes;
        if self.damage.len() < MAX_NAMED {
            self.damage.push(damage);
        }
    }
}
