//! Durations as users write them: their type, reader and JSON.

use std::time::Duration;

use super::reader::Fields;
use crate::lang::Diagnostic;

/// A duration, and how the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Period {
    /// The duration.
    pub duration: Duration,
    /// As written, like `1m30s`.
    pub text: String,
}

impl Period {
    pub(super) fn new(text: &str, duration: Duration) -> Self {
        Self { duration, text: text.to_owned() }
    }
}

/// 2^63: the first number of nanoseconds that does not fit a signed 64-bit integer.
const LONGEST: f64 = 9_223_372_036_854_775_808.0;

/// Parses a duration as Go writes it: numbers with units, one after the other.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut nanos = 0_f64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters =
            rest.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        nanos += number * unit;
        rest = &rest[letters..];
    }
    let is_duration = !text.is_empty() && nanos < LONGEST;
    is_duration.then(|| Duration::try_from_secs_f64(nanos / 1e9).ok()).flatten()
}

/// Reads a duration.
pub(super) fn read(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<Period> {
    read_or(fields, key, |text| format!("`{key}` takes a duration, not `{text}`"))
}

/// Reads a duration; `complaint` words the error for a text that is none.
pub(super) fn read_or(
    fields: &mut Fields<'_, '_>,
    key: &'static str,
    complaint: impl Fn(&str) -> String,
) -> Option<Period> {
    let reader = fields.reader;
    let text = fields.text(key).filter(|text| !text.is_empty())?;
    let parsed = parse_duration(&text.value);
    if parsed.is_none() {
        let message = complaint(&text.value);
        let diagnostic = Diagnostic::error("wrong-duration", text.place(0..text.value.len()), message);
        reader.report(diagnostic.helped("write a number and a unit, like `500ms`, `5s` or `1m30s`"));
    }
    parsed.map(|duration| Period::new(&text.value, duration))
}

/// Explains why a text is not a duration, in the words that existing clients recognise.
pub(super) fn unreadable(text: &str) -> String {
    let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    while rest.starts_with(is_digit) {
        rest = rest.trim_start_matches(is_digit);
        let unit = &rest[..rest.find(is_digit).unwrap_or(rest.len())];
        match unit {
            "" => return format!("missing unit in duration \"{text}\""),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => rest = &rest[unit.len()..],
            _ => return format!("unknown unit \"{unit}\" in duration \"{text}\""),
        }
    }
    format!("invalid duration \"{text}\"")
}

/// Returns a duration as its user wrote it.
pub(super) fn text(period: Option<&Period>) -> Option<&str> {
    period.map(|period| period.text.as_str())
}
