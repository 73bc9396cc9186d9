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
}
