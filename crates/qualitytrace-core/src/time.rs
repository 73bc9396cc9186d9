//! Timestamps and durations, as nanoseconds and as users write them.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// Nanoseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Makes a timestamp `nanos` nanoseconds after the Unix epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the whole milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Returns the time since `earlier`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the nanoseconds since `other`; negative when `other` is later.
    pub const fn nanos_since(self, other: Self) -> i64 {
        if self.0 >= other.0 { saturated(self.0 - other.0) } else { -saturated(other.0 - self.0) }
    }

    /// Returns the time that is this many nanoseconds later; earlier when negative.
    #[must_use]
    pub const fn shifted(self, nanos: i64) -> Self {
        Self(self.0.saturating_add_signed(nanos))
    }
}

const fn saturated(nanos: u64) -> i64 {
    if nanos > i64::MAX.cast_unsigned() { i64::MAX } else { nanos.cast_signed() }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The units of durations, from the largest to the smallest, with their nanoseconds.
const UNITS: [(&str, i64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Parses a duration as users write it (`25ms`, `1.5 h`, `1h30m`, `2d`, `-3s`) to nanoseconds; a whole number
/// alone counts nanoseconds. Several units go from the largest to the smallest, each once.
///
/// Fractions of a nanosecond are dropped. A value that does not fit 64 bits saturates.
pub fn parse_duration(text: &str) -> Option<i64> {
    let nearest = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    nanoseconds(text).map(|nanos| i64::try_from(nanos).unwrap_or(nearest))
}

/// Whether a duration is too long to be counted in nanoseconds: about 292 years.
pub(crate) fn is_too_long(text: &str) -> bool {
    nanoseconds(text).is_some_and(|nanos| i64::try_from(nanos).is_err())
}

fn nanoseconds(text: &str) -> Option<i128> {
    if let Ok(nanos) = text.parse::<i64>() {
        return Some(nanos.into());
    }
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut total = 0_i128;
    let mut last = i64::MAX;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| c.is_ascii_alphabetic())?);
        let end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        let unit = if name == "d" { DAY } else { UNITS.iter().find(|(known, _)| *known == name)?.1 };
        // A blank before the unit is allowed only in a duration with one unit.
        let is_alone = rest.len() == text.len() - usize::from(is_negative) && after.is_empty();
        let number = number.strip_suffix(' ').filter(|_| is_alone).unwrap_or(number);
        if unit >= last {
            return None;
        }
        total = total.saturating_add(scaled(number, unit)?);
        (last, rest) = (unit, after);
    }
    (last < i64::MAX).then_some(if is_negative { -total } else { total })
}

/// A day in nanoseconds. Days are read but never written: other readers do not know them.
const DAY: i64 = 86_400_000_000_000;

/// Parses a duration with its unit right behind the number, without a sign: only such text is taken for a
/// duration.
pub(crate) fn parse_plain_duration(text: &str) -> Option<i64> {
    let digit_first = text.as_bytes().first().is_some_and(u8::is_ascii_digit);
    let unit_last = text.as_bytes().last().is_some_and(u8::is_ascii_alphabetic);
    (digit_first && unit_last && !text.contains(' ')).then(|| parse_duration(text))?
}

/// Multiplies a decimal number with an optional fraction by a unit.
fn scaled(number: &str, unit: i64) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    // No unit has more than 14 digits, so later ones cannot matter.
    let fraction = &fraction[..fraction.len().min(15)];
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let unit = i128::from(unit);
    // Too many digits for 128 bits are too many for 64.
    let whole = whole.parse::<i128>().ok().and_then(|whole| whole.checked_mul(unit));
    Some(whole.map_or(i128::MAX, |whole| {
        whole.saturating_add(fraction.parse::<i128>().unwrap_or(0) * unit / scale)
    }))
}

/// Formats a duration for reading: about three digits of one unit, `25ms`, `1.2s`, `61s`, `24h`.
pub fn format_duration(nanos: i64) -> String {
    if nanos < 0 {
        return match nanos.checked_neg() {
            Some(nanos) => format!("-{}", format_duration(nanos)),
            None => format!("-{}", format_duration(i64::MAX)),
        };
    }
    if nanos < 1_000_000_000 {
        // At most 999 of a unit: what rounds to more is written in the next one.
        let fits = |(_, size): &&(&str, i64)| rounded(nanos, *size) < 1_000;
        if let Some((unit, size)) = UNITS[3..].iter().rev().find(fits) {
            return format!("{}{unit}", rounded(nanos, *size));
        }
    }
    let exact = |size: i64| nanos >= size && nanos % (size / 10) == 0;
    let short = |size: i64| rounded(nanos, size / 10) < 10_000;
    let coarse = &UNITS[..3];
    let (unit, size) = coarse
        .iter()
        .find(|(_, size)| exact(*size))
        .or_else(|| coarse.iter().rev().find(|(_, size)| short(*size)))
        .unwrap_or(&UNITS[0]);
    let tenths = rounded(nanos, size / 10);
    if tenths % 10 == 0 {
        format!("{}{unit}", tenths / 10)
    } else {
        format!("{}.{}{unit}", tenths / 10, tenths % 10)
    }
}

/// Divides `nanos` by `size` and rounds to the nearest whole number; a half goes to the even one.
fn rounded(nanos: i64, size: i64) -> i64 {
    let (whole, rest) = (nanos / size, nanos % size);
    match (rest * 2).cmp(&size) {
        std::cmp::Ordering::Less => whole,
        std::cmp::Ordering::Equal => whole + whole % 2,
        std::cmp::Ordering::Greater => whole + 1,
    }
}

/// Formats a duration without loss: in the largest unit that it fills, with the decimals that it needs.
pub fn exact_duration(nanos: i64) -> String {
    if nanos == 0 {
        return "0ns".to_owned();
    }
    let size = nanos.unsigned_abs();
    let unit = UNITS.iter().find(|(name, unit)| {
        let unit = unit.unsigned_abs();
        // Minutes and hours only where one decimal suffices.
        size >= unit && (matches!(*name, "s" | "ms" | "us" | "ns") || size.is_multiple_of(unit / 10))
    });
    let (name, unit) = unit.unwrap_or(&UNITS[5]);
    let unit = unit.unsigned_abs();
    let sign = if nanos < 0 { "-" } else { "" };
    let (whole, mut rest) = (size / unit, size % unit);
    let mut text = format!("{sign}{whole}");
    if rest > 0 {
        text.push('.');
        while rest > 0 {
            rest *= 10;
            text.push(char::from(b'0' + u8::try_from(rest / unit).unwrap_or(0)));
            rest %= unit;
        }
    }
    text + name
}

/// Rounds a measured duration to the precision at which it is compared: whole milliseconds, whole microseconds
/// below one millisecond, nanoseconds below one microsecond.
pub(crate) fn measured(nanos: i64) -> i64 {
    match nanos {
        1_000_000.. => rounded(nanos, 1_000_000) * 1_000_000,
        1_000..1_000_000 => rounded(nanos, 1_000) * 1_000,
        _ => nanos,
    }
}

/// Formats a time in RFC 3339. An event without a time has always been shown with Go's zero time.
pub(crate) fn rfc3339(nanos: u64) -> String {
    if nanos == 0 {
        return "0001-01-01T00:00:00Z".to_owned();
    }
    jiff::Timestamp::from_nanosecond(i128::from(nanos))
        .map_or_else(|_| nanos.to_string(), |time| time.to_string())
}

/// Compares a measured duration with a written one at its precision: 25.187564 ms equals `25ms`.
pub(crate) fn measured_against(nanos: i64, written: i64) -> Ordering {
    if measured(nanos) == written { Ordering::Equal } else { nanos.cmp(&written) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_in_every_unit() {
        for (text, nanos) in [
            ("1ns", Some(1)),
            ("1.5ms", Some(1_500_000)),
            ("4.35ms", Some(4_350_000)),
            ("2 m", Some(120_000_000_000)),
            ("-5ms", Some(-5_000_000)),
            ("0.0000001ms", Some(0)),
            ("5", Some(5)),
            ("99999999999999999999h", Some(i64::MAX)),
            ("5MS", None),
            ("abc", None),
            ("1.ms", None),
            ("1h30m", Some(5_400_000_000_000)),
            ("1m30.5s", Some(90_500_000_000)),
            ("-1d12h", Some(-129_600_000_000_000)),
            ("1d", Some(86_400_000_000_000)),
            ("30m1h", None),
            ("1h1h", None),
            ("1h 30m", None),
            ("1h30", None),
            ("1h-30m", None),
            ("h", None),
            ("", None),
        ] {
            assert_eq!(parse_duration(text), nanos, "{text}");
        }
    }

    #[test]
    fn a_day_is_a_unit() {
        assert_eq!(parse_duration("1d"), Some(86_400_000_000_000));
        assert_eq!(parse_plain_duration("2d"), Some(172_800_000_000_000));
    }

    #[test]
    fn durations_print_short_and_exact() {
        for (nanos, short, exact) in [
            (0, "0ns", "0ns"),
            (-5, "-5ns", "-5ns"),
            (1_500, "2us", "1.5us"),
            (999_499, "999us", "999.499us"),
            (999_999, "1ms", "999.999us"),
            (999_999_999, "1s", "999.999999ms"),
            (25_187_564, "25ms", "25.187564ms"),
            (1_234_567_890, "1.2s", "1.23456789s"),
            (61_000_000_000, "61s", "61s"),
            (61_234_000_000, "61.2s", "61.234s"),
            (90_000_000_000, "1.5m", "1.5m"),
            (3_660_000_000_000, "61m", "61m"),
            (86_400_000_000_000, "24h", "24h"),
            (i64::MAX, "2562047.8h", "9223372036.854775807s"),
        ] {
            assert_eq!(format_duration(nanos), short);
            assert_eq!(exact_duration(nanos), exact);
            assert_eq!(parse_duration(exact), Some(nanos));
        }
    }
}
