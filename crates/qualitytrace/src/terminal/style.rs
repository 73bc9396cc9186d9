//! Colours with a meaning. Whether they are shown is decided where the text is written.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

use super::filter;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const UNSURE: Style = AnsiColor::Yellow.on_default();
const FAINT: Style = Style::new().dimmed();
const STRONG: Style = Style::new().bold();

/// Whether standard output shows colours.
pub(crate) fn coloured() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// The width of the terminal in columns; `None` where standard output is no terminal.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// The number of lines of the terminal; `None` where standard output is no terminal.
pub(crate) fn height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|lines| *lines > 0)
}

pub(crate) fn good(text: impl Display) -> String {
    styled(GOOD, text)
}

pub(crate) fn bad(text: impl Display) -> String {
    styled(BAD, text)
}

pub(crate) fn unsure(text: impl Display) -> String {
    styled(UNSURE, text)
}

pub(crate) fn faint(text: impl Display) -> String {
    styled(FAINT, text)
}

pub(crate) fn strong(text: impl Display) -> String {
    styled(STRONG, text)
}

pub(crate) fn error(text: impl Display) -> String {
    styled(BAD.bold(), text)
}

fn styled(style: Style, text: impl Display) -> String {
    filter::styled(style, &text.to_string())
}
