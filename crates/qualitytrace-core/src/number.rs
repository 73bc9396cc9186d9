//! Decimal numbers of any size, compared and calculated exactly where possible.

use std::cmp::Ordering;

/// A decimal number: `mantissa` times ten to the power of minus `scale`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number {
    mantissa: i128,
    scale: u32,
}

/// Maximum number of digits that fit 128 bits.
const MAX_DIGITS: usize = 36;
/// The smallest number of 16 digits: a double always holds 15.
const ROUNDED: u128 = 1_000_000_000_000_000;

impl Number {
    /// Parses a number: an optional sign, digits with an optional fraction, an optional exponent.
    ///
    /// Returns `None` for too many digits or too large an exponent: compare such texts with [`compare`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parts = Parts::parse(text)?;
        let mut digits = String::with_capacity(parts.whole.len() + parts.fraction.len());
        digits.push_str(parts.whole);
        digits.push_str(parts.fraction);
        let significant = digits.trim_start_matches('0');
        if significant.len() > MAX_DIGITS {
            return None;
        }
        let mut mantissa: i128 = if significant.is_empty() { 0 } else { significant.parse().ok()? };
        let mut scale = i64::try_from(parts.fraction.len()).ok()? - parts.exponent;
        if mantissa == 0 {
            scale = 0;
        }
        while scale < 0 {
            mantissa = mantissa.checked_mul(10)?;
            scale += 1;
        }
        let scale = u32::try_from(scale).ok().filter(|scale| *scale <= 36)?;
        Some(Self { mantissa: if parts.negative { -mantissa } else { mantissa }, scale })
    }

    pub(crate) fn from_f64(number: f64) -> Option<Self> {
        number.is_finite().then(|| Self::parse(&number.to_string()))?
    }

    pub(crate) fn from_i64(number: i64) -> Self {
        Self { mantissa: number.into(), scale: 0 }
    }

    #[expect(clippy::cast_precision_loss, reason = "only where the exact way is closed")]
    pub(crate) fn to_f64(self) -> f64 {
        // Parsing rounds correctly, which dividing two rounded numbers does not.
        format!("{}e-{}", self.mantissa, self.scale).parse().unwrap_or(self.mantissa as f64)
    }

    /// Returns it as a whole number, if it is one that fits.
    pub(crate) fn to_i64(self) -> Option<i64> {
        let reduced = self.reduced();
        (reduced.scale == 0).then(|| i64::try_from(reduced.mantissa).ok())?
    }

    /// Whether it has as many digits as a rounded double: results calculated with it are rounded too, or the error
    /// of the last digit would grow into a result like 10.0000000000000005.
    pub(crate) fn is_rounded(self) -> bool {
        let Self { mantissa, scale } = self.reduced();
        scale > 0 && mantissa.unsigned_abs() >= ROUNDED
    }

    pub(crate) fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    pub(crate) fn add(self, other: Self) -> Option<Self> {
        let (left, right, scale) = self.aligned(other)?;
        Some(Self { mantissa: left.checked_add(right)?, scale })
    }

    pub(crate) fn subtract(self, other: Self) -> Option<Self> {
        let (left, right, scale) = self.aligned(other)?;
        Some(Self { mantissa: left.checked_sub(right)?, scale })
    }

    pub(crate) fn multiply(self, other: Self) -> Option<Self> {
        let (left, right) = (self.reduced(), other.reduced());
        Some(Self {
            mantissa: left.mantissa.checked_mul(right.mantissa)?,
            scale: left.scale.checked_add(right.scale).filter(|scale| *scale <= 36)?,
        })
    }

    /// Returns the quotient, if it is a whole number.
    pub(crate) fn divide_evenly(self, other: Self) -> Option<Self> {
        let (left, right, _) = self.aligned(other)?;
        (left.checked_rem(right)? == 0).then(|| Self { mantissa: left / right, scale: 0 })
    }

    /// Formats it as decimal digits, without an exponent and without trailing zeros.
    pub(crate) fn to_text(self) -> String {
        let Self { mantissa, scale } = self.reduced();
        let digits = mantissa.unsigned_abs().to_string();
        let sign = if mantissa < 0 { "-" } else { "" };
        let scale = scale as usize;
        if scale == 0 {
            return format!("{sign}{digits}");
        }
        let digits = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        format!("{sign}{whole}.{fraction}")
    }

    fn reduced(mut self) -> Self {
        while self.scale > 0 && self.mantissa % 10 == 0 {
            self.mantissa /= 10;
            self.scale -= 1;
        }
        self
    }

    fn aligned(self, other: Self) -> Option<(i128, i128, u32)> {
        let scale = self.scale.max(other.scale);
        let lift = |number: Self| number.mantissa.checked_mul(10_i128.checked_pow(scale - number.scale)?);
        Some((lift(self)?, lift(other)?, scale))
    }
}

/// The parts of a number as written.
struct Parts<'s> {
    negative: bool,
    whole: &'s str,
    fraction: &'s str,
    exponent: i64,
}

impl<'s> Parts<'s> {
    fn parse(text: &'s str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (number, exponent) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], parse_exponent(&rest[at + 1..])?),
            None => (rest, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let well_formed = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
        well_formed.then_some(Self { negative, whole, fraction, exponent })
    }

    /// Returns the digits without zeros at either end, and the power of ten of the point before them.
    fn normal(&self) -> (String, i64) {
        let digits = format!("{}{}", self.whole, self.fraction);
        let leading = digits.len() - digits.trim_start_matches('0').len();
        let significant = digits.trim_matches('0').to_owned();
        let length = |n: usize| i64::try_from(n).unwrap_or(i64::MAX / 4);
        let power = length(self.whole.len()) - length(leading) + self.exponent;
        (significant, power)
    }
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse::<i64>().unwrap_or(i64::MAX).min(1 << 40);
    Some(if text.starts_with('-') { -size } else { size })
}

/// Whether the text is a number of any size.
pub(crate) fn is_number(text: &str) -> bool {
    Parts::parse(text).is_some()
}

/// Compares two numbers of any size as written; `None` if one of them is not a number.
pub(crate) fn compare(left: &str, right: &str) -> Option<Ordering> {
    if let (Ok(left), Ok(right)) = (left.parse::<i64>(), right.parse::<i64>()) {
        return Some(left.cmp(&right));
    }
    let (left, right) = (Parts::parse(left)?, Parts::parse(right)?);
    let ((left_digits, left_power), (right_digits, right_power)) = (left.normal(), right.normal());
    let sign = |parts: &Parts<'_>, digits: &str| match (digits.is_empty(), parts.negative) {
        (true, _) => 0,
        (false, true) => -1,
        (false, false) => 1,
    };
    let (left_sign, right_sign) = (sign(&left, &left_digits), sign(&right, &right_digits));
    if left_sign != right_sign || left_sign == 0 {
        return Some(left_sign.cmp(&right_sign));
    }
    let size = left_power.cmp(&right_power).then_with(|| left_digits.cmp(&right_digits));
    Some(if left_sign < 0 { size.reverse() } else { size })
}

/// Formats a double as Go does: the shortest text that reads back the same, with an exponent for very large and
/// very small numbers.
pub(crate) fn print_f64(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return if number == 0.0 { "0".to_owned() } else { number.to_string() };
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&exponent) {
        number.to_string()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_by_value_whatever_their_size() {
        for (left, right, expected) in [
            ("1", "1.0", Some(Ordering::Equal)),
            ("1e3", "1000", Some(Ordering::Equal)),
            ("-5", "-6", Some(Ordering::Greater)),
            ("99999999999999999999", "1", Some(Ordering::Greater)),
            (
                "12345678901234567890123456789012345678901",
                "12345678901234567890123456789012345678902",
                Some(Ordering::Less),
            ),
            ("0.1", "0.10000000000000000001", Some(Ordering::Less)),
            ("0", "-0.0", Some(Ordering::Equal)),
            ("1.2.3", "1", None),
            (" 5", "4", None),
            ("", "1", None),
        ] {
            assert_eq!(compare(left, right), expected, "{left} and {right}");
        }
    }

    #[test]
    fn doubles_print_as_go_prints_them() {
        for (number, text) in
            [(1e21, "1e+21"), (0.00001, "1e-05"), (0.0001, "0.0001"), (1.14, "1.14"), (3.0, "3")]
        {
            assert_eq!(print_f64(number), text);
        }
    }
}
