//! Timestamps in the format of the API.

use qualitytrace_core::time::Timestamp;

/// The value for a time that is not known yet.
pub const NEVER: &str = "0001-01-01T00:00:00Z";
/// The value for the end of something that has not ended.
pub const UNFINISHED: &str = "1970-01-01T00:00:00Z";

/// Formats a time in RFC 3339, to the microsecond.
pub fn rfc3339(at: Timestamp) -> String {
    let micros = i64::try_from(at.as_nanos() / 1000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_microsecond(micros).map_or_else(|_| NEVER.to_owned(), |time| time.to_string())
}

/// Whether a text is a time in RFC 3339.
pub fn is_rfc3339(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
}

/// Parses a time in RFC 3339; `None` if it is invalid or before 1970.
pub fn from_rfc3339(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_nanosecond()).ok().map(Timestamp::from_nanos)
}
