//! The one runtime value: what attributes hold and what expressions compute.

use std::sync::Arc;

/// A typed value. Attributes keep the type in which they arrived.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// Nothing: a value that was sent empty, or a path that led nowhere.
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
    /// A length of time in nanoseconds; it may be negative.
    Duration(i64),
    /// Values in order.
    List(Vec<Value>),
    /// Named values in order.
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
