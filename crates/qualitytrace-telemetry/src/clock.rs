//! Wall clock readings in the unit of OTLP.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970; a time before that reads as 0.
pub(crate) fn nanos(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// The current time in nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    nanos(SystemTime::now())
}
