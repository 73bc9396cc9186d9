//! The runtime value: the content of attributes and the result of expressions.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::json::{self, Json, JsonKind};
use crate::number::{is_number, print_f64};
use crate::time::{exact_duration, parse_plain_duration};

/// A typed value. Attributes keep the type in which they arrived.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// No value: sent empty, or the result of a path without a match.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// Text.
    String(Arc<str>),
    /// Raw bytes.
    Bytes(Arc<[u8]>),
    /// A duration in nanoseconds; it may be negative.
    Duration(i64),
    /// A list.
    List(Vec<Value>),
    /// Named values, in order.
    Object(Vec<(Arc<str>, Value)>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl Value {
    /// Returns the value as text, with which files written for Tracetest compare.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::String(text) => Cow::Borrowed(text),
            other => {
                let mut text = String::new();
                // Writing to a string cannot fail.
                let _ = other.write(&mut text);
                Cow::Owned(text)
            }
        }
    }

    /// Returns the approximate size of its text in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Duration(_) => 8,
            Self::String(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(items) => items.iter().map(|item| item.size() + size_of::<Self>()).sum(),
            Self::Object(members) => {
                members.iter().map(|(name, value)| name.len() + value.size() + size_of::<Self>()).sum()
            }
        }
    }

    /// Writes the value as text.
    pub fn write(&self, out: &mut impl fmt::Write) -> fmt::Result {
        match self {
            Self::Null => Ok(()),
            Self::Bool(truth) => write!(out, "{truth}"),
            Self::Int(number) => write!(out, "{number}"),
            Self::Float(number) => out.write_str(&print_f64(*number)),
            Self::String(text) => out.write_str(text),
            Self::Bytes(bytes) => out.write_str(&base64(bytes)),
            Self::Duration(nanos) => out.write_str(&exact_duration(*nanos)),
            Self::List(items) => {
                out.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.write_str(", ")?;
                    }
                    match item.type_name() {
                        "string" if !matches!(item, Self::Bool(_)) => {
                            let mut quoted = String::new();
                            json::write_string(&item.text(), &mut quoted);
                            out.write_str(&quoted)?;
                        }
                        _ => item.write(out)?,
                    }
                }
                out.write_char(']')
            }
            Self::Object(_) => out.write_str(&self.to_json().to_text()),
        }
    }

    /// Returns the name of the value's type, in Tracetest's words; text has the type that it looks like.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "nil",
            Self::Int(_) | Self::Float(_) => "number",
            Self::Duration(_) => "duration",
            Self::List(_) => "array",
            Self::Object(_) => "json",
            Self::Bool(_) | Self::Bytes(_) => "string",
            Self::String(text) => infer(text).type_name(),
        }
    }

    pub(crate) fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(truth) => Json::Bool(*truth),
            Self::Int(number) => Json::Number(number.to_string()),
            Self::Float(number) if number.is_finite() => Json::Number(print_f64(*number)),
            Self::String(_) | Self::Bytes(_) | Self::Duration(_) | Self::Float(_) => {
                Json::String(self.text().into_owned())
            }
            Self::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Self::Object(members) => Json::Object(
                members.iter().map(|(name, value)| (name.to_string(), value.to_json())).collect(),
            ),
        }
    }
}

/// The type that a text looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inferred {
    /// A number, as written.
    Number,
    /// A duration in nanoseconds.
    Duration(i64),
    /// A JSON object, or a list of objects only.
    Json,
    /// Any other JSON list.
    Array,
    /// Plain text.
    Text,
}

impl Inferred {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Duration(_) => "duration",
            Self::Json => "json",
            Self::Array => "array",
            Self::Text => "string",
        }
    }
}

/// Infers the type that a text looks like.
pub(crate) fn infer(text: &str) -> Inferred {
    let Some(first) = text.bytes().find(|b| !b.is_ascii_whitespace()) else {
        return Inferred::Text;
    };
    match first {
        b'0'..=b'9' | b'-' => {
            // Only valid JSON numbers, and digits with leading zeros: `1.`, `+5` and `.5` are text.
            let looks = text.ends_with(|c: char| c.is_ascii_digit()) && !text.starts_with("-.");
            if looks && is_number(text) {
                Inferred::Number
            } else {
                parse_plain_duration(text).map_or(Inferred::Text, Inferred::Duration)
            }
        }
        b'{' | b'[' => match json::look(text) {
            Some(JsonKind::Objects) => Inferred::Json,
            Some(JsonKind::List) => Inferred::Array,
            Some(JsonKind::Scalar) | None => Inferred::Text,
        },
        _ => Inferred::Text,
    }
}

/// Encodes bytes in the standard base64 alphabet with padding, as OTLP in JSON does.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .zip([16, 8, 0])
            .fold(0_u32, |group, (byte, shift)| group | u32::from(*byte) << shift);
        for (index, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let letter = LETTERS[(group >> shift & 63) as usize];
            out.push(if index <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}
