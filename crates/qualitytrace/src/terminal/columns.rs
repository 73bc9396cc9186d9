//! Text in columns of a terminal: a character is as wide as terminals show it, so CJK and emoji take two columns.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The number of columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Pads a text to a width with spaces at its end; a longer one stays as it is.
pub(crate) fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Pads a text to a width, or truncates it there.
pub(crate) fn fitted(text: &str, columns: usize) -> String {
    padded(&cut(text, columns), columns)
}

/// Truncates a text to a width.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut taken = 0;
    let kept = text.chars().take_while(|letter| {
        taken += letter.width().unwrap_or(0);
        taken < columns
    });
    let kept: String = kept.collect();
    if columns == 0 { String::new() } else { format!("{kept}…") }
}

/// Breaks a line at blanks, so that it fits a width; further lines begin with `indent` blanks. A word that is longer than
/// a line stays whole, as addresses and variables should.
pub(crate) fn wrapped(line: &str, columns: usize, indent: usize) -> String {
    let mut text = String::new();
    let mut at = 0;
    for (index, word) in line.split(' ').enumerate() {
        let wide = width(&without_codes(word));
        if index > 0 && wide > 0 && at > indent && at + 1 + wide > columns {
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            at = indent;
        } else if index > 0 {
            text.push(' ');
            at += 1;
        }
        text.push_str(word);
        at += wide;
    }
    text
}

/// A text without its colours.
fn without_codes(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |seen, part| seen + part.split_once('m').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_counted_as_terminals_show_them() {
        for (text, columns, expected) in [
            ("abc", 5, "abc  "),
            ("abcdef", 5, "abcd…"),
            ("注文", 5, "注文 "),
            ("注文する", 5, "注文…"),
            ("注文する", 4, "注… "),
            ("🚀 go", 6, "🚀 go "),
            ("", 2, "  "),
        ] {
            assert_eq!(fitted(text, columns), expected, "{text}");
            assert_eq!(width(expected), columns, "{text}");
        }
    }

    #[test]
    fn lines_are_broken_at_blanks_only() {
        for (line, expected) in [
            ("  short", "  short"),
            ("  set OTEL_TRACES_SAMPLER to it", "  set\n    OTEL_TRACES_SAMPLER\n    to it"),
            ("  \x1b[31mone two three\x1b[0m four", "  \x1b[31mone two three\x1b[0m\n    four"),
            ("http://localhost:11633/a/b", "http://localhost:11633/a/b"),
        ] {
            assert_eq!(wrapped(line, 16, 4), expected, "{line}");
        }
    }
}
