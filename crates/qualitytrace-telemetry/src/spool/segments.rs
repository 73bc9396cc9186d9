//! The state of a spool behind its lock: segments, reader, writer and cursor.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::PathBuf,
};

use bytes::Bytes;

use super::{
    Damage, Position, Refused, Taken, count, record, record_len,
    recovery::{self, Scan},
};

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
    pub(super) read: Position,
    /// Ranges that were taken and not acknowledged: start -> end.
    pub(super) outstanding: BTreeMap<Position, Position>,
    pub(super) cursor: Position,
    pub(super) cursor_file: Option<File>,
    pub(super) bytes: u64,
    pub(super) capacity: u64,
    pub(super) next: u64,
    pub(super) damaged_bytes: u64,
    pub(super) damage: Vec<Damage>,
    pub(super) problem: Option<String>,
    pub(super) unsynced: bool,
}

#[derive(Default)]
pub(super) struct Segment {
    pub(super) id: u64,
    pub(super) path: PathBuf,
    pub(super) len: u64,
    /// What lies before this offset was acknowledged in another folder.
    pub(super) begin: u64,
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
    ) -> Result<(), Refused> {
        let full = |inner: &Self| inner.bytes + bytes.len() as u64 > inner.capacity;
        if full(self) && (!self.reclaim() || full(self)) {
            self.problem = Some(format!("the spool is full: `spool.bytes` is {}", self.capacity));
            return Err(Refused);
        }
        let written = self.write(resource, bytes, counts).or_else(|error| {
            // Acknowledged segments are of no use any more; they may be what fills the disk.
            if self.reclaim() { self.write(resource, bytes, counts) } else { Err(error) }
        });
        if let Err(error) = written {
            self.writer = None;
            self.problem = Some(format!("the spool cannot be written: {error}"));
            return Err(Refused);
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
        self.advance();
        let done = self
            .segments
            .back()
            .is_some_and(|last| last.id == self.read.segment && self.read.offset >= last.len);
        if !done || !self.outstanding.is_empty() {
            return false;
        }
        self.writer = None;
        self.reader = None;
        self.read = Position { segment: self.next, offset: 0 };
        self.move_cursor(self.read);
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
        let path = self.folder.join("probe");
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
        let path = self.folder.join(recovery::segment_name(id, 0));
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

    pub(super) fn take(
        &mut self,
        max_items: usize,
        max_bytes: usize,
        damaged: &mut [u64; 3],
    ) -> Option<Taken> {
        loop {
            self.advance();
            let last = self.segments.back()?.id;
            let at = self.segments.iter().position(|segment| segment.id == self.read.segment)?;
            let segment = &self.segments[at];
            if self.read.offset >= segment.len {
                debug_assert!(segment.id == last);
                return None;
            }
            let start = self.read;
            let taken = self.read_records(at, max_items, max_bytes);
            match taken {
                Ok(taken) if !taken.items.is_empty() => {
                    let mut n = [0; 3];
                    count(&taken.items, &mut n);
                    for (unread, n) in self.segments[at].unread.iter_mut().zip(n) {
                        *unread = unread.saturating_sub(n);
                    }
                    let end = Position {
                        offset: start.offset + taken.items.iter().map(record_len).sum::<u64>(),
                        ..start
                    };
                    self.read = end;
                    self.outstanding.insert(start, end);
                    self.end_segment(at, damaged);
                    return Some(taken);
                }
                Ok(_) => return None,
                Err(fault) => {
                    self.read.offset = self.pass_damage(at, start.offset, &fault);
                    self.end_segment(at, damaged);
                }
            }
        }
    }

    /// Counts the items of a segment that were not found when it is read to its end as damaged.
    fn end_segment(&mut self, at: usize, damaged: &mut [u64; 3]) {
        let segment = &mut self.segments[at];
        if self.read.offset >= segment.len {
            for (sum, n) in damaged.iter_mut().zip(std::mem::take(&mut segment.unread)) {
                *sum += n;
            }
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

    fn read_records(&mut self, at: usize, max_items: usize, max_bytes: usize) -> Result<Taken, Fault> {
        let segment = &self.segments[at];
        let start = self.read;
        let left = segment.len - start.offset;
        let mut want = left.min(max_bytes as u64);
        let mut taken = Taken { start, items: Vec::new(), resource: segment.resource.clone() };
        loop {
            let bytes = self.read_at(at, start.offset, want).map_err(|_| Fault::File)?;
            let mut rest = bytes;
            let mut size = 0;
            taken.items.clear();
            let short = loop {
                if taken.items.len() >= max_items || rest.is_empty() {
                    break None;
                }
                match record::read(&rest) {
                    record::Read::Item(item, len) => {
                        size += item.size();
                        if size > max_bytes && !taken.items.is_empty() {
                            break None;
                        }
                        rest = rest.slice(usize::try_from(len).unwrap_or(usize::MAX)..);
                        taken.items.push(item);
                    }
                    record::Read::Short(needed) => break Some(needed),
                    // What comes before the damage is good.
                    record::Read::Bad(_) if !taken.items.is_empty() => break None,
                    record::Read::Bad(reason) => return Err(Fault::Record(reason)),
                }
            };
            match short {
                Some(needed) if taken.items.is_empty() => {
                    if needed > left || needed <= want {
                        return Err(Fault::Record("a record is cut off"));
                    }
                    want = needed;
                }
                Some(_) | None => return Ok(taken),
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

    /// Moves the reader to the next segment when this one is finished.
    pub(super) fn advance(&mut self) {
        loop {
            let Some(first) = self.segments.iter().find(|s| s.id >= self.read.segment) else {
                return;
            };
            if first.id != self.read.segment {
                self.read = Position { segment: first.id, offset: first.first };
            }
            self.read.offset = self.read.offset.max(first.first);
            let next = self.segments.iter().find(|s| s.id > self.read.segment);
            match next {
                Some(next) if self.read.offset >= first.len => {
                    self.read = Position { segment: next.id, offset: next.first };
                }
                Some(_) | None => return,
            }
        }
    }

    pub(super) fn acknowledge(&mut self, start: Position) {
        self.outstanding.remove(&start);
        self.advance();
        let cursor = self.outstanding.keys().next().copied().unwrap_or(self.read).min(self.read);
        if cursor == self.cursor {
            return;
        }
        self.move_cursor(cursor);
    }

    /// Stores the position up to which everything is acknowledged, and removes the segments before it.
    fn move_cursor(&mut self, cursor: Position) {
        self.cursor = cursor;
        self.write_cursor();
        while self.segments.front().is_some_and(|segment| segment.id < cursor.segment) {
            if let Some(segment) = self.segments.pop_front() {
                let _ = fs::remove_file(&segment.path);
                self.bytes = self.bytes.saturating_sub(segment.len);
            }
        }
    }

    /// The file gets its space when the spool is opened, so that it can be written on a full disk.
    pub(super) fn write_cursor(&mut self) {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.cursor.segment.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.cursor.offset.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..16]).to_le_bytes();
        bytes[16..].copy_from_slice(&sum);
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
