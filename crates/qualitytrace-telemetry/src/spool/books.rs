//! The state of a spool behind its lock: segments, reader, writer and cursor.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use bytes::Bytes;

use super::{Damage, Position, Refusal, Taken, count, record, record_len};

/// A segment is closed at this size, or at an eighth of a smaller cap.
const SEGMENT: u64 = 8 << 20;
/// Damage is always counted; this many places are also named.
const MAX_NAMED: usize = 32;

pub(super) struct Inner {
    pub(super) segments: VecDeque<Segment>,
    pub(super) writer: Option<File>,
    pub(super) reader: Option<(u64, File)>,
    pub(super) read: Position,
    /// Taken and not acknowledged: start -> end.
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

pub(super) struct Segment {
    pub(super) id: u64,
    pub(super) path: PathBuf,
    pub(super) len: u64,
    pub(super) first: u64,
    pub(super) resource: Bytes,
    /// Items not read yet, per signal.
    pub(super) unread: [u64; 3],
}

impl Inner {
    pub(super) fn append(
        &mut self,
        folder: &Path,
        resource: &Bytes,
        bytes: &[u8],
        counts: [u64; 3],
        sync: bool,
    ) -> Result<(), Refusal> {
        if self.bytes + bytes.len() as u64 > self.capacity {
            return Err(Refusal::Full);
        }
        let limit = SEGMENT.min(self.capacity / 8).max(1 << 16);
        let fits = self.writer.is_some()
            && self.segments.back().is_some_and(|last| last.len < limit && last.resource == *resource);
        if !fits {
            self.roll(folder, resource).map_err(Refusal::Io)?;
        }
        let (Some(file), Some(segment)) = (&mut self.writer, self.segments.back_mut()) else {
            return Err(Refusal::Full);
        };
        if let Err(error) = file.write_all(bytes) {
            // Take back what was written of it, so that the segment stays whole.
            let _ = file.set_len(segment.len);
            return Err(Refusal::Io(error));
        }
        segment.len += bytes.len() as u64;
        self.bytes += bytes.len() as u64;
        for (unread, n) in segment.unread.iter_mut().zip(counts) {
            *unread += n;
        }
        self.unsynced = true;
        self.problem = None;
        if sync {
            file.sync_data().map_err(Refusal::Io)?;
            self.unsynced = false;
        }
        Ok(())
    }

    fn roll(&mut self, folder: &Path, resource: &Bytes) -> io::Result<()> {
        let id = self.next;
        let path = folder.join(format!("{id:020}.seg"));
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
            resource: resource.clone(),
            unread: [0; 3],
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
                    return Some(taken);
                }
                Ok(_) => return None,
                Err(reason) => {
                    let segment = &mut self.segments[at];
                    let lost = segment.len - start.offset;
                    let found = Damage {
                        file: segment.path.display().to_string(),
                        offset: start.offset,
                        bytes: lost,
                        reason: reason.to_owned(),
                    };
                    segment.len = start.offset;
                    for (sum, n) in damaged.iter_mut().zip(std::mem::take(&mut segment.unread)) {
                        *sum += n;
                    }
                    self.bytes -= lost;
                    if segment.id == last {
                        self.writer = None;
                    }
                    self.note_damage(found);
                    if self.read.segment == last {
                        return None;
                    }
                }
            }
        }
    }

    fn read_records(&mut self, at: usize, max_items: usize, max_bytes: usize) -> Result<Taken, &'static str> {
        let segment = &self.segments[at];
        let start = self.read;
        let left = segment.len - start.offset;
        let mut want = left.min(max_bytes as u64);
        let mut taken = Taken { start, items: Vec::new(), resource: segment.resource.clone() };
        loop {
            let bytes = self.read_at(at, start.offset, want).map_err(|_| "the file cannot be read")?;
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
                    // What came before the damage is good.
                    record::Read::Bad(_) if !taken.items.is_empty() => break None,
                    record::Read::Bad(reason) => return Err(reason),
                }
            };
            match short {
                Some(needed) if taken.items.is_empty() => {
                    if needed > left || needed <= want {
                        return Err("a record is cut off");
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

    /// Moves the reader to the next segment where this one is finished.
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
        self.cursor = cursor;
        if let Some(file) = &mut self.cursor_file {
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&cursor.segment.to_le_bytes());
            bytes[8..16].copy_from_slice(&cursor.offset.to_le_bytes());
            let sum = crc32fast::hash(&bytes[..16]).to_le_bytes();
            bytes[16..].copy_from_slice(&sum);
            let _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&bytes));
        }
        while self.segments.front().is_some_and(|segment| segment.id < cursor.segment) {
            if let Some(segment) = self.segments.pop_front() {
                let _ = fs::remove_file(&segment.path);
                self.bytes = self.bytes.saturating_sub(segment.len);
            }
        }
    }

    pub(super) fn note_damage(&mut self, damage: Damage) {
        self.damaged_bytes += damage.bytes;
        if self.damage.len() < MAX_NAMED {
            self.damage.push(damage);
        }
    }
}
