//! The disk queue of one sink: append-only segment files, a cursor, and what to do about damage.
//!
//! A record that was written survives the end of the process. Acknowledged records are behind the
//! cursor; a segment that lies behind it as a whole is deleted. Reading stops at the first bad
//! record of a segment, names the damage and goes on with the next segment.

mod record;

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use serde::Serialize;

use crate::item::Item;

/// A segment is closed at this size, or at an eighth of a smaller cap.
const SEGMENT: u64 = 8 << 20;
/// Damage is always counted; this many places are also named.
const MAX_NAMED: usize = 32;
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

struct Inner {
    segments: VecDeque<Segment>,
    writer: Option<File>,
    reader: Option<(u64, File)>,
    read: Position,
    /// Taken and not acknowledged: start -> end.
    outstanding: BTreeMap<Position, Position>,
    cursor: Position,
    cursor_file: Option<File>,
    bytes: u64,
    capacity: u64,
    next: u64,
    damaged_bytes: u64,
    damage: Vec<Damage>,
    problem: Option<String>,
    unsynced: bool,
}

struct Segment {
    id: u64,
    path: PathBuf,
    len: u64,
    first: u64,
    resource: Bytes,
    /// Items not read yet, per signal.
    unread: [u64; 3],
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
            segments.push_back(Segment {
                id,
                path,
                len,
                first: 0,
                resource: Bytes::new(),
                unread: [0; 3],
            });
        }
        let cursor_file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(folder.join("cursor"));
        let problem = cursor_file
            .as_ref()
            .err()
            .map(|error| format!("the spool is read-only: {error}"));
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
        Ok(Self {
            folder,
            inner: Mutex::new(inner),
            _lock: lock,
        })
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
        let first = inner.segments.front().map(|segment| Position {
            segment: segment.id,
            offset: 0,
        });
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
            inner.read = Position {
                segment: taken.start.segment,
                offset: taken.start.offset + skipped,
            };
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
        let file = inner
            .writer
            .as_ref()
            .filter(|_| inner.unsynced)
            .and_then(|file| file.try_clone().ok());
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

impl Inner {
    fn append(
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
            && self
                .segments
                .back()
                .is_some_and(|last| last.len < limit && last.resource == *resource);
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

    fn take(&mut self, max_items: usize, max_bytes: usize, damaged: &mut [u64; 3]) -> Option<Taken> {
        loop {
            self.advance();
            let last = self.segments.back()?.id;
            let at = self
                .segments
                .iter()
                .position(|segment| segment.id == self.read.segment)?;
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
        let mut taken = Taken {
            start,
            items: Vec::new(),
            resource: segment.resource.clone(),
        };
        loop {
            let bytes = self
                .read_at(at, start.offset, want)
                .map_err(|_| "the file cannot be read")?;
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
    fn advance(&mut self) {
        loop {
            let Some(first) = self.segments.iter().find(|s| s.id >= self.read.segment) else {
                return;
            };
            if first.id != self.read.segment {
                self.read = Position {
                    segment: first.id,
                    offset: first.first,
                };
            }
            self.read.offset = self.read.offset.max(first.first);
            let next = self.segments.iter().find(|s| s.id > self.read.segment);
            match next {
                Some(next) if self.read.offset >= first.len => {
                    self.read = Position {
                        segment: next.id,
                        offset: next.first,
                    };
                }
                Some(_) | None => return,
            }
        }
    }

    fn acknowledge(&mut self, start: Position) {
        self.outstanding.remove(&start);
        self.advance();
        let cursor = self
            .outstanding
            .keys()
            .next()
            .copied()
            .unwrap_or(self.read)
            .min(self.read);
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
        while self
            .segments
            .front()
            .is_some_and(|segment| segment.id < cursor.segment)
        {
            if let Some(segment) = self.segments.pop_front() {
                let _ = fs::remove_file(&segment.path);
                self.bytes = self.bytes.saturating_sub(segment.len);
            }
        }
    }

    fn note_damage(&mut self, damage: Damage) {
        self.damaged_bytes += damage.bytes;
        if self.damage.len() < MAX_NAMED {
            self.damage.push(damage);
        }
    }
}

struct Scan {
    first: u64,
    /// Behind the last good record.
    end: u64,
    resource: Bytes,
    items: [u64; 3],
    damage: Option<Damage>,
}

/// Reads a whole segment of an earlier process from `offset` on.
fn scan(path: &Path, len: u64, offset: u64) -> Scan {
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
        return Scan {
            first: 0,
            end: 0,
            resource: Bytes::new(),
            items: [0; 3],
            damage,
        };
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
    Scan {
        first,
        end: at,
        resource,
        items,
        damage: found,
    }
}

enum Locked {
    /// `None`: the folder is read-only, so nobody can lock it.
    Ours(Option<File>),
    Theirs,
}

fn lock(folder: &Path) -> io::Result<Locked> {
    let made = fs::create_dir_all(folder);
    match OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join("lock"))
    {
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

fn read_cursor(folder: &Path) -> Option<Position> {
    let bytes = fs::read(folder.join("cursor")).ok()?;
    let body = bytes.get(..16)?;
    let sum = u32::from_le_bytes(bytes.get(16..20)?.try_into().ok()?);
    let number = |range: std::ops::Range<usize>| Some(u64::from_le_bytes(body.get(range)?.try_into().ok()?));
    let position = Position {
        segment: number(0..8)?,
        offset: number(8..16)?,
    };
    (crc32fast::hash(body) == sum).then_some(position)
}

/// A sink's name as a folder's.
fn file_name(name: &str) -> String {
    let good = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' || c == '.' {
            c
        } else {
            '_'
        }
    };
    let plain: String = name.chars().map(good).collect();
    // Two names that look alike as folders stay apart.
    format!("{plain}-{:08x}", crc32fast::hash(name.as_bytes()))
}
