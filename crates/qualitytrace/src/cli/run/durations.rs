//! Durations in flags: one grammar for all of them.

use std::time::Duration;

use qualitytrace_core::time::parse_duration;

/// Parses a duration with its unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let number = text.trim();
    if number != "0" && number.parse::<f64>().is_ok() {
        return Err(format!("it has no unit: write {number}s or {number}ms"));
    }
    let nanos = parse_duration(text).and_then(|nanos| u64::try_from(nanos).ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| "write a duration, like 6s or 500ms".to_owned())
}

/// Parses a duration; a bare number counts seconds.
pub(super) fn seconds_or_duration(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_secs).or_else(|_| duration(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_unit_is_refused_where_it_could_mean_two_things() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for text in ["30", "1.5"] {
            assert_eq!(duration(text), Err(format!("it has no unit: write {text}s or {text}ms")));
        }
        assert_eq!(seconds_or_duration("10"), seconds_or_duration("10s"));
        assert!(duration("soon").is_err() && duration("-3s").is_err());
    }
}
