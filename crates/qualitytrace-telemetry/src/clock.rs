//! Wall clock readings as OTLP writes them.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970; a clock before that reads as 0.
pub(crate) fn nanos(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Now.
pub(crate) fn now() -> u64 {
    nanos(SystemTime::now())
}
