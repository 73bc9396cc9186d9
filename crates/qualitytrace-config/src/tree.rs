//! The tree shared by YAML and JSON, with the bytes of every node.

use crate::position::Span;

/// One value of a file.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its content.
    pub shape: Shape,
    /// The bytes of the file that it was read from.
    pub span: Span,
}

/// The content of a value.
#[derive(Debug, Clone)]
pub enum Shape {
    /// No value.
    Null,
    /// A single value.
    Scalar(Scalar),
    /// Several values.
    List(Vec<Node>),
    /// Keys with values, in the order of the file. A key may be there twice.
    Map(Vec<Entry>),
}

/// A text, number or boolean: files do not always distinguish them, so the reader of a field decides.
#[derive(Debug, Clone)]
pub struct Scalar {
    /// The text after decoding.
    pub text: String,
    /// How it is quoted.
    pub style: Style,
    /// Whether it can only be a text: it is quoted, a block, or tagged as text.
    pub is_text: bool,
}

/// The quoting style of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Without quotes.
    Plain,
    /// In single quotes.
    Single,
    /// In double quotes.
    Double,
    /// As a literal or folded block.
    Block,
}

/// One key of a mapping with its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The bytes of the key.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

impl Node {
    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self.shape, Shape::Null)
    }

    /// Whether it is empty: no value, an empty text, or a list or mapping of such.
    pub fn is_empty(&self) -> bool {
        match &self.shape {
            Shape::Null => true,
            Shape::Scalar(scalar) => scalar.text.is_empty(),
            Shape::List(items) => items.iter().all(Node::is_empty),
            Shape::Map(entries) => entries.iter().all(|entry| entry.value.is_empty()),
        }
    }

    /// Returns the value of a key, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.shape {
            Shape::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            Shape::Null | Shape::Scalar(_) | Shape::List(_) => None,
        }
    }

    /// Describes its type for messages.
    pub fn describe(&self) -> &'static str {
        match &self.shape {
            Shape::Null => "nothing",
            Shape::List(_) => "a list",
            Shape::Map(_) => "a mapping",
            Shape::Scalar(scalar) => scalar.describe(),
        }
    }
}

impl Scalar {
    /// Describes its type for messages.
    pub fn describe(&self) -> &'static str {
        if self.is_text {
            "a text"
        } else if self.as_bool().is_some() {
            "a truth value"
        } else if self.text.parse::<f64>().is_ok() {
            "a number"
        } else {
            "a text"
        }
    }

    /// Returns the boolean that it is; a quoted one is a text.
    pub fn as_bool(&self) -> Option<bool> {
        match (self.is_text, self.text.as_str()) {
            (false, "true" | "True" | "TRUE") => Some(true),
            (false, "false" | "False" | "FALSE") => Some(false),
            _ => None,
        }
    }

    /// Whether it is a whole number that does not fit 64 bits.
    pub fn is_large_int(&self) -> bool {
        let digits = self.text.strip_prefix(['-', '+']).unwrap_or(&self.text);
        let is_int = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_int && !self.is_text && self.as_int().is_none()
    }

    /// Returns the whole number that it is, decimal, hexadecimal or octal; a quoted one is a text.
    pub fn as_int(&self) -> Option<i64> {
        if self.is_text {
            return None;
        }
        let digits = self.text.replace('_', "");
        if let Some(hex) = digits.strip_prefix("0x") {
            return i64::from_str_radix(hex, 16).ok();
        }
        if let Some(octal) = digits.strip_prefix("0o") {
            return i64::from_str_radix(octal, 8).ok();
        }
        digits.parse().ok()
    }
}
