//! Stub for a build without the feature `spool`: opening a disk queue fails.

mod status;

use std::{convert::Infallible, io, path::Path};

use bytes::Bytes;

use crate::{
    config::{Signal, features::Feature},
    item::Item,
};
pub use status::{Damage, Orphan, SpoolStatus};

/// A disk queue; it cannot be constructed.
pub(crate) struct Spool(Infallible);

/// The items were not written.
#[derive(Debug)]
pub(crate) struct SpoolError;

/// What was recovered; never constructed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leftovers {
    pub(crate) items: [u64; 3],
    pub(crate) lost: [u64; 3],
}

/// A position in the spool; never constructed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position;

/// Records that were taken; never constructed.
#[derive(Debug)]
pub(crate) struct SpooledRecords {
    pub(crate) start: Position,
    pub(crate) items: Vec<Item>,
    pub(crate) resource: Option<Bytes>,
}

impl Spool {
    pub(crate) fn open(_: &Path, _: &str, _: u64) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, Feature::Spool.missing()))
    }

    pub(crate) fn recover(&self) -> Leftovers {
        match self.0 {}
    }

    pub(crate) fn adopt(&self, _: &Path) -> io::Result<Leftovers> {
        match self.0 {}
    }

    pub(crate) fn tidy(&self) {
        match self.0 {}
    }

    pub(crate) fn release(&self) {
        match self.0 {}
    }

    pub(crate) fn append(&self, _: &Bytes, _: &[Item], _: bool) -> Result<(), SpoolError> {
        match self.0 {}
    }

    pub(crate) fn is_drained(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn take(&self, _: Signal, _: usize, _: usize) -> (Option<SpooledRecords>, [u64; 3]) {
        match self.0 {}
    }

    pub(crate) fn expire(&self, _: u64) -> ([u64; 3], [u64; 3]) {
        match self.0 {}
    }

    pub(crate) fn acknowledge(&self, _: Signal, _: Position) {
        match self.0 {}
    }

    pub(crate) fn sync(&self) {
        match self.0 {}
    }

    pub(crate) fn set_capacity(&self, _: u64) {
        match self.0 {}
    }

    pub(crate) fn status(&self) -> SpoolStatus {
        match self.0 {}
    }
}

pub(crate) mod orphan {
    use std::{
        path::{Path, PathBuf},
        time::SystemTime,
    };

    use super::Orphan;
    use crate::config::Sink;

    #[derive(Debug, Default)]
    pub(crate) struct Survey {
        pub(crate) adopted: Vec<(PathBuf, usize)>,
        pub(crate) reported: Vec<Orphan>,
        pub(crate) expired: Vec<Orphan>,
    }

    pub(crate) fn sign(_: &Path, _: &Sink) {}

    pub(crate) fn survey(_: &Path, _: &[Sink], _: SystemTime) -> Survey {
        Survey::default()
    }
}
