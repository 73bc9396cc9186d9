//! Texts that go over several lines: block scalars (`|`, `>`), and plain or quoted ones with more lines below.

use std::ops::Range;

use super::Line;

/// A text of several lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scalar {
    /// The first byte of the line with its key or its dash.
    pub(super) line: usize,
    /// Its text, without quotes.
    pub(super) bytes: Range<usize>,
    pub(super) quote: Option<char>,
    /// The column of its key or its dash; lines of the text are indented more.
    column: usize,
    /// Whether it has a line below the one with its key.
    is_continued: bool,
}

/// The text of several lines that the byte `at` belongs to.
pub(super) fn around(text: &str, at: usize) -> Option<Scalar> {
    let mut open: Option<Scalar> = None;
    let mut next = 0;
    for line in text.split_inclusive('\n') {
        let start = next;
        next += line.len();
        let line = line.trim_end_matches(['\r', '\n']);
        let has_cursor = (start..=start + line.len()).contains(&at);
        if let Some(scalar) = &mut open {
            let solid = line.trim_start_matches(' ');
            let is_blank = solid.trim().is_empty();
            let column = if is_blank && has_cursor { at - start } else { line.len() - solid.len() };
            if is_blank && !has_cursor {
                continue;
            }
            if column > scalar.column {
                let end = start + line.trim_end().len();
                scalar.bytes.end = if has_cursor { end.max(at) } else { end };
                scalar.is_continued = true;
                continue;
            }
        }
        if let Some(found) = open.take().and_then(|scalar| scalar.closed(text, at)) {
            return Some(found);
        }
        if start > at {
            return None;
        }
        open = begun(&Line::of(line), start, next);
    }
    open.and_then(|scalar| scalar.closed(text, at))
}

/// The text that a line begins, if its lines may go on below.
fn begun(line: &Line<'_>, start: usize, next: usize) -> Option<Scalar> {
    let (column, from) = match line.key {
        Some(key) => (line.column, line.column + key.len() + 1),
        None => (*line.dashes.last()?, line.column),
    };
    let solid = line.text[from..].trim_start();
    let value = start + line.text.len() - solid.len();
    let end = value + solid.trim_end().len();
    let (bytes, quote) = match solid.chars().next()? {
        '|' | '>' => {
            let mark = solid.split(' ').next().unwrap_or_default();
            let is_block = mark[1..].chars().all(|letter| letter.is_ascii_digit() || "+-".contains(letter));
            (is_block.then_some(next..next)?, None)
        }
        '#' | '{' | '[' | '&' | '*' | '!' => return None,
        quote @ ('"' | '\'') => (value + 1..end.max(value + 1), Some(quote)),
        _ => (value..end, None),
    };
    Some(Scalar { line: start, bytes, quote, column, is_continued: false })
}

impl Scalar {
    /// The whole text, without its closing quote, if it has several lines and the byte `at` belongs to it.
    fn closed(mut self, text: &str, at: usize) -> Option<Self> {
        let is_inside = self.is_continued && (self.bytes.start..=self.bytes.end).contains(&at);
        let written = text.get(self.bytes.clone()).filter(|_| is_inside)?;
        if self.quote.is_some_and(|quote| written.ends_with(quote)) && at < self.bytes.end {
            self.bytes.end -= 1;
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the text around `¦`; empty where there is none of several lines.
    fn check(marked: &str, expected: &str) {
        let at = marked.find('¦').unwrap();
        let text = marked.replacen('¦', "", 1);
        let found = around(&text, at).map(|scalar| text[scalar.bytes].to_owned()).unwrap_or_default();
        assert_eq!(found, expected, "{marked}");
    }

    #[test]
    fn texts_of_several_lines_are_found() {
        check("a: |\n  span[\n    na¦me\n  ]\n\nb: 1\n", "  span[\n    name\n  ]");
        check("- selector: >-\n    span[x] ¦\n  name: y\n", "    span[x] ");
        check("- |\n  attr:x¦\n- b", "  attr:x");
        check("a: span[x¦\n  y]\n", "span[x\n  y]");
        check("a: \"span[x\n  y¦]\"\nb: 1", "span[x\n  y]");
        check("a: |\n  b: 1\n  ¦", "  b: 1\n  ");
    }

    #[test]
    fn other_lines_belong_to_none() {
        check("a: |\n  text\nb¦: 1\n", "");
        check("a: |\n  text\n¦", "");
        check("a: x¦\nb: 1\n", "");
        check("a: 'x' ¦\n", "");
        check("a:\n  b: ¦x\n", "");
        check("a: {\n  b¦: 1 }\n", "");
    }
}
