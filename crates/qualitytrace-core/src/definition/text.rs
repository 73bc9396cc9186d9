//! Texts of a definition with their place in the file.

use std::ops::Range;

use qualitytrace_config::tree::Style;

/// A text of the user with its place in the file.
///
/// Two texts are equal when their values are, wherever they are in the file.
#[derive(Debug, Clone, Default)]
pub struct Text {
    /// The text after YAML or JSON decoding.
    pub value: String,
    /// The place that it was read from; `None` for a text that did not come from a file.
    pub origin: Option<Origin>,
}

impl Text {
    /// Maps a range of this text to bytes of the file.
    ///
    /// A part of the text without bytes of its own maps to the whole text; a text that did not come from a file
    /// returns `span`.
    pub fn place(&self, span: Range<usize>) -> Range<usize> {
        match &self.origin {
            Some(origin) => origin.place(span),
            None => span,
        }
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }
}

/// Whether a text begins like the path of a file, which the command line reads.
pub(super) fn is_path(text: &str) -> bool {
    ["./", "../", "/"].iter().any(|start| text.starts_with(start))
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Text {}

impl From<&str> for Text {
    fn from(value: &str) -> Self {
        Self { value: value.to_owned(), origin: None }
    }
}

impl From<String> for Text {
    fn from(value: String) -> Self {
        Self { value, origin: None }
    }
}

/// The place of a text in its file, and how its bytes map to the file's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The bytes of the file that it was read from, quotes included.
    pub span: Range<usize>,
    /// In order of the text, without gaps; empty when the mapping is unknown.
    pieces: Vec<Piece>,
}

/// A part of the text and the bytes of the file that encode it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    text: Range<usize>,
    file: Range<usize>,
}

impl Piece {
    /// Whether the file has it without escapes.
    fn is_verbatim(&self) -> bool {
        self.text.len() == self.file.len()
    }
}

impl Origin {
    /// Finds out how `value` is written at `span` of `source`.
    pub(super) fn trace(source: &str, span: Range<usize>, value: &str, style: Style) -> Self {
        // Only block scalars need the column: a file of one long line is not searched backwards for every text.
        let column = || {
            let line = source.get(..span.start).and_then(|before| before.rfind('\n'));
            span.start - line.map_or(0, |at| at + 1)
        };
        let pieces = source
            .get(span.clone())
            .and_then(|written| align(written, value, style, column))
            .unwrap_or_default()
            .into_iter()
            .map(|piece| Piece {
                text: piece.text,
                file: piece.file.start + span.start..piece.file.end + span.start,
            })
            .collect();
        Self { span, pieces }
    }

    /// An origin without a mapping of its parts.
    pub(super) fn unknown(span: Range<usize>) -> Self {
        Self { span, pieces: Vec::new() }
    }

    fn place(&self, span: Range<usize>) -> Range<usize> {
        let (Some(first), Some(last)) = (self.pieces.first(), self.pieces.last()) else {
            return self.span.clone();
        };
        let start = match self.pieces.iter().find(|piece| span.start < piece.text.end) {
            Some(piece) if piece.is_verbatim() => piece.file.start + (span.start - piece.text.start),
            Some(piece) => piece.file.start,
            None => last.file.end,
        };
        let end = match self.pieces.iter().find(|piece| span.end <= piece.text.end) {
            Some(piece) if span.end <= first.text.start => piece.file.start,
            Some(piece) if piece.is_verbatim() => piece.file.start + (span.end - piece.text.start),
            Some(piece) => piece.file.end,
            None => last.file.end,
        };
        start..end.max(start)
    }
}

/// Aligns a scalar as written with its decoded value; `None` when they diverge.
fn align(written: &str, value: &str, style: Style, column: impl Fn() -> usize) -> Option<Vec<Piece>> {
    let bytes = written.as_bytes();
    let (mut at, end, indent) = match style {
        Style::Plain => (0, bytes.len(), 0),
        Style::Single | Style::Double => (1, bytes.len().checked_sub(1)?, 0),
        // A block scalar begins with its first character, so that character's column is its indentation.
        Style::Block => (0, bytes.len(), column()),
    };
    let mut pieces: Vec<Piece> = Vec::new();
    let mut line_start = false;
    for (index, letter) in value.char_indices() {
        let text = index..index + letter.len_utf8();
        if line_start && letter != '\n' {
            at = skip_indent(bytes, at, indent);
        }
        let file = loop {
            if at >= end {
                // The line break that a block ends with may lie outside the scalar's bytes.
                break (letter == '\n' || letter == ' ').then_some(end..end)?;
            }
            if style == Style::Block && letter == '\n' && at == 0 {
                // Blank lines before the first character lie outside.
                break 0..0;
            }
            if let Some(file) = matched(written, at, letter, style) {
                break file;
            }
            // Line breaks with their indentation are folded away, and a backslash before a break drops it.
            if style == Style::Double && bytes[at] == b'\\' {
                at += 1;
            }
            if !bytes.get(at)?.is_ascii_whitespace() {
                return None;
            }
            at += 1;
        };
        at = file.end.max(at);
        line_start = style == Style::Block && !file.is_empty() && bytes.get(file.start) == Some(&b'\n');
        push(&mut pieces, Piece { text, file });
    }
    Some(pieces)
}

/// Returns the bytes at `at` that encode `letter`.
fn matched(written: &str, at: usize, letter: char, style: Style) -> Option<Range<usize>> {
    let rest = written.get(at..)?;
    let bytes = rest.as_bytes();
    let length = match (style, bytes[0]) {
        (Style::Double, b'\\') => escape(bytes)?,
        (Style::Single, b'\'') if letter == '\'' => 2,
        (_, b'\n' | b'\r') if letter == ' ' || letter == '\n' => {
            if rest.starts_with("\r\n") {
                2
            } else {
                1
            }
        }
        _ if rest.starts_with(letter) => letter.len_utf8(),
        _ => return None,
    };
    Some(at..at + length)
}

/// Returns the length of the escape sequence at the start of `bytes`; `None` when it encodes no character.
fn escape(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        b'\n' | b'\r' => None,
        b'x' => Some(4),
        b'U' => Some(10),
        b'u' => {
            // Two escapes encode one character outside the basic plane.
            let high = bytes.get(2).map(u8::to_ascii_lowercase) == Some(b'd')
                && matches!(bytes.get(3), Some(b'8' | b'9' | b'a' | b'b' | b'A' | b'B'));
            Some(if high && bytes.get(6..8) == Some(b"\\u") { 12 } else { 6 })
        }
        _ => Some(2),
    }
}

fn skip_indent(bytes: &[u8], at: usize, indent: usize) -> usize {
    let spaces = bytes[at.min(bytes.len())..].iter().take(indent).take_while(|byte| **byte == b' ').count();
    at + spaces
}

/// Adds a piece, merged with the one before where both are verbatim and adjacent.
fn push(pieces: &mut Vec<Piece>, next: Piece) {
    if let Some(last) = pieces.last_mut()
        && last.is_verbatim()
        && next.is_verbatim()
        && last.file.end == next.file.start
    {
        last.text.end = next.text.end;
        last.file.end = next.file.end;
        return;
    }
    pieces.push(next);
}

/// Maps the values of named texts.
pub(super) fn mapped_pairs<E>(
    pairs: &[(String, Text)],
    text: &mut impl FnMut(&Text) -> Result<Text, E>,
) -> Result<Vec<(String, Text)>, E> {
    pairs.iter().map(|(name, value)| Ok((name.clone(), text(value)?))).collect()
}
