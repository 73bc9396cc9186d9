//! The format of a segment file: a header with the resource, then records with checksums.

use bytes::{Buf, Bytes};

use crate::{config::Signal, item::Item};

const MAGIC: &[u8; 8] = b"QTSPOOL1";
/// Length and checksum.
const HEAD: usize = 8;
/// Signal, count, time and scope length.
const FIXED: usize = 1 + 4 + 8 + 2;
/// The largest record; a larger length is damage.
const MAX_RECORD: usize = 64 << 20;

/// The header of a segment.
pub(crate) fn header(resource: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(resource.len() + 16);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&u32::try_from(resource.len()).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(resource).to_le_bytes());
    out.extend_from_slice(resource);
    out
}

/// Reads the resource and the offset of the first record.
pub(crate) fn read_header(mut bytes: &[u8]) -> Option<(Bytes, u64)> {
    if bytes.len() < 16 || &bytes[..8] != MAGIC {
        return None;
    }
    bytes.advance(8);
    let len = bytes.get_u32_le() as usize;
    let sum = bytes.get_u32_le();
    let resource = bytes.get(..len)?;
    (crc32fast::hash(resource) == sum).then(|| (Bytes::copy_from_slice(resource), 16 + len as u64))
}

/// Appends one record.
pub(crate) fn write(item: &Item, out: &mut Vec<u8>) {
    let len = FIXED + item.scope.len() + item.body.len();
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    let sum_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let start = out.len();
    out.push(item.signal as u8);
    out.extend_from_slice(&item.count.to_le_bytes());
    out.extend_from_slice(&item.time.to_le_bytes());
    out.extend_from_slice(&u16::try_from(item.scope.len()).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&item.scope);
    out.extend_from_slice(&item.body);
    let sum = crc32fast::hash(&out[start..]).to_le_bytes();
    out[sum_at..sum_at + 4].copy_from_slice(&sum);
}

/// The result of reading a record.
pub(crate) enum RecordRead {
    /// A record and its length on disk.
    Item(Item, u64),
    /// The record is longer than these bytes; this many are needed.
    Short(u64),
    /// No record can be read here.
    Bad(&'static str),
}

/// Finds the next valid record after a damaged one. The damaged record's length is trusted if a record or the end of
/// the bytes follows there; else every offset is tried.
pub(crate) fn resync(bytes: &Bytes, bad: usize) -> Option<usize> {
    let good = |at: usize| at < bytes.len() && matches!(read(&bytes.slice(at..)), RecordRead::Item(..));
    let length = |at: usize| {
        let head = bytes.get(at..at + 4)?;
        let len = usize::try_from(u32::from_le_bytes(head.try_into().ok()?)).ok()?;
        (FIXED..=MAX_RECORD).contains(&len).then_some(at + HEAD + len)
    };
    if let Some(end) = length(bad).filter(|end| *end <= bytes.len()) {
        if end == bytes.len() {
            return None;
        }
        if good(end) {
            return Some(end);
        }
    }
    // The checksum is only computed where the fields before it are plausible.
    let plausible = |at: usize| {
        let end = length(at).filter(|end| *end <= bytes.len())?;
        let fixed = bytes.get(at + HEAD..at + HEAD + FIXED)?;
        let scope = usize::from(u16::from_le_bytes([fixed[13], fixed[14]]));
        (fixed[0] <= 2 && fixed[1..5] != [0; 4] && at + HEAD + FIXED + scope <= end).then_some(())
    };
    (bad + 1..bytes.len()).find(|at| plausible(*at).is_some() && good(*at))
}

/// The signal of the record that begins here, as far as its bytes can be trusted.
pub(crate) fn signal(bytes: &[u8], start: usize) -> Signal {
    match bytes.get(start + HEAD) {
        Some(1) => Signal::Metrics,
        Some(2) => Signal::Logs,
        _ => Signal::Traces,
    }
}

pub(crate) fn read(bytes: &Bytes) -> RecordRead {
    if bytes.len() < HEAD {
        return RecordRead::Short(HEAD as u64);
    }
    let mut head = bytes.slice(..HEAD);
    let len = head.get_u32_le() as usize;
    let sum = head.get_u32_le();
    if !(FIXED..=MAX_RECORD).contains(&len) {
        return RecordRead::Bad("a record has an impossible length");
    }
    if bytes.len() < HEAD + len {
        return RecordRead::Short((HEAD + len) as u64);
    }
    let mut record = bytes.slice(HEAD..HEAD + len);
    if crc32fast::hash(&record) != sum {
        return RecordRead::Bad("a record has a wrong checksum");
    }
    let signal = match record.get_u8() {
        0 => Signal::Traces,
        1 => Signal::Metrics,
        2 => Signal::Logs,
        _ => return RecordRead::Bad("a record has an unknown signal"),
    };
    let count = record.get_u32_le();
    let time = record.get_u64_le();
    let scope_len = record.get_u16_le() as usize;
    if scope_len > record.len() {
        return RecordRead::Bad("a record has an impossible scope");
    }
    let scope = record.split_to(scope_len);
    RecordRead::Item(Item { signal, count, time, scope, body: record }, (HEAD + len) as u64)
}
