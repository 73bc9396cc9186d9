//! Times as Jaeger and Zipkin write them: microseconds.

use serde_json::Number;

const NANOS: u64 = 1_000;

/// Converts microseconds to nanoseconds. A fraction is kept.
pub(crate) fn nanos(key: &str, micros: &Number) -> Result<u64, String> {
    let wrong = || format!("`{key}` is {micros}, not a time in microseconds");
    if let Some(micros) = micros.as_u64() {
        return micros.checked_mul(NANOS).ok_or_else(wrong);
    }
    let nanos = micros.as_f64().map(|micros| (micros * 1e3).round());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the range")]
    let nanos = nanos.filter(|nanos| (0.0..1.8e19).contains(nanos)).map(|nanos| nanos as u64);
    nanos.ok_or_else(wrong)
}

/// Returns the end of a span, in nanoseconds.
pub(crate) fn end(start: u64, duration: Option<&Number>) -> Result<u64, String> {
    let Some(duration) = duration else { return Ok(0) };
    let duration = nanos("duration", duration)?;
    start.checked_add(duration).ok_or_else(|| "`duration` is too large".to_owned())
}
