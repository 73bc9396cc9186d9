//! The state of disk queues, for the status API and for display.

use serde::Serialize;

/// A range of bytes that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Damage {
    /// The segment file.
    pub file: String,
    /// Where the damage begins.
    pub offset: u64,
    /// How many bytes are lost.
    pub bytes: u64,
    /// What is wrong with them.
    pub reason: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at byte {}: {}", self.file, self.offset, self.reason)
    }
}

/// The status of a spool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
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
    /// The first damaged ranges.
    pub damage: Vec<Damage>,
    /// What is wrong with the spool now, if anything.
    pub problem: Option<String>,
}

/// An orphaned spool, which no sink writes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Orphan {
    /// Its folder.
    pub path: String,
    /// The sink that wrote it, if that can still be read.
    pub sink: Option<String>,
    /// Bytes in it.
    pub bytes: u64,
    /// When it is removed, in milliseconds since 1970.
    pub expires_ms: u64,
}
