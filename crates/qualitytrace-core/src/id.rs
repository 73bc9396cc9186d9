//! The identifiers of traces and spans, as bytes and as lower-case hex.

use std::fmt;
use std::str::FromStr;

/// A trace id of sixteen bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId([u8; 16]);

/// A span id of eight bytes, unique inside its trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanId([u8; 8]);

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id: expected {digits} hexadecimal digits, not all zero")]
pub struct ParseIdError {
    text: String,
    digits: usize,
}

macro_rules! id {
    ($name:ident, $bytes:literal) => {
        impl $name {
            /// Makes an id of these bytes; `None` when all are zero.
            pub fn from_bytes(bytes: [u8; $bytes]) -> Option<Self> {
                (bytes != [0; $bytes]).then_some(Self(bytes))
            }

            /// Makes an id of a byte string; `None` unless it has the right length and is not zero.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                Self::from_bytes(bytes.try_into().ok()?)
            }

            /// Returns the bytes in network order.
            pub fn to_bytes(self) -> [u8; $bytes] {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                parse_hex(text)
                    .and_then(Self::from_bytes)
                    .ok_or_else(|| ParseIdError { text: text.to_owned(), digits: $bytes * 2 })
            }
        }
    };
}

id!(TraceId, 16);
id!(SpanId, 8);

fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_and_parse_as_hex() {
        let text = "5b8efff798038103d269b633813fc60c";
        assert_eq!(text.parse::<TraceId>().unwrap().to_string(), text);
        assert_eq!("EEE19B7EC3C1B174".parse::<SpanId>().unwrap().to_string(), "eee19b7ec3c1b174");
    }

    #[test]
    fn zero_short_and_odd_texts_are_no_ids() {
        for text in ["", "0000000000000000", "eee19b7ec3c1b17", "eee19b7ec3c1b17g", "éee19b7ec3c1b17"] {
            assert!(text.parse::<SpanId>().is_err(), "{text}");
        }
    }
}
