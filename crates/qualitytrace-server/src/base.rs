//! What every part of the server stands on: time, memory, threads, files, limits.

pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod cache;
pub mod clock;
pub(crate) mod compute;
pub(crate) mod decode;
pub mod files;
pub(crate) mod follow;
pub mod limits;
pub(crate) mod private_files;
pub mod redact;
pub(crate) mod request;
pub(crate) mod semaphore;
