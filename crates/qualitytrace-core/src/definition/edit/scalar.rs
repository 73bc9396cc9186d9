//! How a text is written as a scalar.

use std::fmt::Write as _;

use qualitytrace_config::tree::Style;

use crate::definition::Format;

/// Plain words that mean something else than a text to some readers.
const RESERVED: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// Where a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    /// In a block of YAML.
    Block,
    /// Between brackets or braces in YAML.
    Flow,
    /// In JSON.
    Json,
}

impl Context {
    /// The context of what is between brackets.
    pub(super) const fn flow(format: Format) -> Self {
        match format {
            Format::Yaml => Self::Flow,
            Format::Json => Self::Json,
        }
    }

    /// Writes a key of a definition.
    pub(super) fn key(self, key: &str) -> String {
        match self {
            Self::Json => quoted(key),
            Self::Block | Self::Flow => key.to_owned(),
        }
    }

    /// Writes a text without quotes where that is possible.
    pub(super) fn scalar(self, text: &str) -> String {
        self.scalar_like(text, Style::Plain)
    }

    /// Writes a text in the quotes of the one that it replaces, if these can hold it.
    pub(super) fn scalar_like(self, text: &str, style: Style) -> String {
        match style {
            _ if self == Self::Json => quoted(text),
            Style::Plain | Style::Block if self.is_plain(text) => text.to_owned(),
            Style::Plain | Style::Block | Style::Single if is_single_line(text) => {
                format!("'{}'", text.replace('\'', "''"))
            }
            Style::Plain | Style::Block | Style::Single | Style::Double => escaped(text),
        }
    }

    fn is_plain(self, text: &str) -> bool {
        let marks: &[&str] = match self {
            Self::Flow => &[",", "[", "]", "{", "}", ":", "?", " #", "\t#"],
            Self::Block | Self::Json => &[": ", ":\t", " #", "\t#"],
        };
        let has_mark = marks.iter().any(|mark| text.contains(mark)) || text.ends_with([':', ' ', '\t']);
        let is_reserved = RESERVED.contains(&text.to_lowercase().as_str());
        let is_letter = |letter: char| letter.is_ascii_alphabetic();
        text.starts_with(is_letter) && is_single_line(text) && !has_mark && !is_reserved
    }
}

/// Writes a word, as ids are: without quotes only if it has nothing but letters, digits, `-` and `_`.
pub(super) fn word(text: &str) -> String {
    let is_plain =
        text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_');
    if is_plain && Context::Flow.is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Writes a text in double quotes, as JSON has it.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Whether single quotes can hold the text: it has no line break and no character that must be escaped.
fn is_single_line(text: &str) -> bool {
    !text.contains(needs_escape)
}

/// Whether a character means something else unescaped, or is not allowed.
fn needs_escape(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Writes a text in double quotes, with escapes that every reader of YAML knows.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if needs_escape(letter) => {
                let _ = write!(out, "\\u{:04X}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}
