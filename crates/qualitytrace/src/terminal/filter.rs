//! What may reach a terminal or the log of a CI job: our own colours, and texts.
//!
//! Names, answers and files of others are shown, and some of their characters are orders to what shows them. This is the
//! last place that they pass, so nothing depends on each caller having escaped them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use anstyle::Style;

/// Marks the codes of this process. It is made of numbers, as parameters of a code are: where it was not removed, a
/// terminal ignores it. It is random, so that no text of others can have it.
static MARK: LazyLock<String> =
    LazyLock::new(|| format!("\x1b[{};{};", u32::MAX - rand::random::<u32>() / 2, rand::random::<u32>()));
/// How a code begins.
const CODE: &str = "\x1b[";
/// What a CI system takes for an order, anywhere in a line: GitHub and Azure, Azure, `TeamCity`.
const ORDERS: [&str; 3] = ["##[", "##vso[", "##teamcity["];

/// Who reads a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reader {
    /// Whether it obeys escape codes, as a terminal does.
    pub(super) obeys_codes: bool,
    pub(super) log: Log,
}

/// Whether a stream is the log of a CI job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Log {
    None,
    /// It knows a way to stop its commands.
    GitHub,
    Other,
}

/// A text in a style, whose codes pass the filter.
pub(super) fn styled(style: Style, text: &str) -> String {
    format!("{}{text}{}", marked(&style.to_string()), marked(&format!("{style:#}")))
}

/// A text whose colours are ours, although another library wrote them.
pub(crate) fn adopted(text: &str) -> String {
    let mut parts = text.split(CODE);
    let mut adopted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        adopted.push_str(if is_colour(part) { &MARK } else { CODE });
        adopted.push_str(part);
    }
    adopted
}

fn marked(codes: &str) -> String {
    codes.replace(CODE, &MARK)
}

/// Whether a text begins as a colour does after [`CODE`].
fn is_colour(rest: &str) -> bool {
    rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';').starts_with('m')
}

/// The text as its reader may get it. Several lines of a GitHub log are wrapped where one of them would be an order;
/// `token` ends that.
pub(super) fn shown<'t>(text: &'t str, reader: Reader, token: &str) -> Cow<'t, str> {
    let text = if reader.obeys_codes { Cow::Owned(harmless(text)) } else { unmarked(text) };
    match reader.log {
        Log::GitHub if is_order(&text) => {
            let end = if text.ends_with('\n') { "" } else { "\n" };
            Cow::Owned(format!("::stop-commands::{token}\n{text}{end}::{token}::\n"))
        }
        Log::Other if is_order(&text) => Cow::Owned(broken_up(&text)),
        Log::None | Log::GitHub | Log::Other => text,
    }
}

/// A JSON text that means the same and has neither codes nor orders: in JSON they only occur in strings, which have their
/// own way to spell them out.
pub(crate) fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '#' && shown.ends_with('#') || is_unseen(letter) && letter != '\n' {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// What ends a line for a CI system: some take a carriage return alone for one.
const LINE_ENDS: [char; 2] = ['\n', '\r'];

/// The text in which no line is an order.
fn broken_up(text: &str) -> String {
    let lines = text.split_inclusive(LINE_ENDS).map(|line| {
        let mut line = line.to_owned();
        for order in ORDERS {
            line = line.replace(order, &format!("# {}", &order[1..]));
        }
        if line.trim_start().starts_with("::") { line.replacen("::", ": :", 1) } else { line }
    });
    lines.collect()
}

/// Whether a CI system would obey a line.
fn is_order(text: &str) -> bool {
    text.split(LINE_ENDS).any(|line| line.trim_start().starts_with("::"))
        || ORDERS.iter().any(|order| text.contains(order))
}

/// Our codes without their marks.
fn unmarked(text: &str) -> Cow<'_, str> {
    if text.contains(MARK.as_str()) { Cow::Owned(text.replace(MARK.as_str(), CODE)) } else { text.into() }
}

/// Our codes, and the text around them without orders to a terminal.
fn harmless(text: &str) -> String {
    let mut parts = text.split(MARK.as_str());
    let mut shown = spelled_out(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find('m').map_or(0, |end| end + 1);
        shown.push_str(CODE);
        shown.push_str(&part[..end]);
        shown.push_str(&spelled_out(&part[end..]));
    }
    shown
}

/// The text with everything spelled out that steers a terminal, except for line ends and tabs.
fn spelled_out(text: &str) -> String {
    let mut letters = text.chars().peekable();
    let mut shown = String::with_capacity(text.len());
    while let Some(letter) = letters.next() {
        let is_line_end = letter == '\n' || letter == '\r' && letters.peek() == Some(&'\n');
        if is_line_end || letter == '\t' || !is_unseen(letter) {
            shown.push(letter);
        } else {
            shown.extend(letter.escape_default());
        }
    }
    shown
}

/// Control characters (C0, DEL and C1), line separators, marks that change the text direction, and code points that are
/// no characters, which XML cannot hold.
pub(crate) fn is_unseen(letter: char) -> bool {
    let is_none = u32::from(letter) & 0xfffe == 0xfffe || matches!(letter, '\u{fdd0}'..='\u{fdef}');
    letter.is_control()
        || is_none
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use anstyle::AnsiColor;

    use super::*;

    const TERMINAL: Reader = Reader { obeys_codes: true, log: Log::None };
    const PROGRAM: Reader = Reader { obeys_codes: false, log: Log::None };
    const GITHUB: Reader = Reader { obeys_codes: false, log: Log::GitHub };
    const OTHER: Reader = Reader { obeys_codes: false, log: Log::Other };

    fn check(text: &str, reader: Reader, expected: &str) {
        assert_eq!(shown(text, reader, "T"), expected, "{text:?}");
    }

    #[test]
    fn a_terminal_gets_our_colours_and_no_codes_of_others() {
        let ours = styled(AnsiColor::Red.on_default().bold(), "bad");
        check(&format!("{ours}\n"), TERMINAL, "\x1b[1m\x1b[31mbad\x1b[0m\n");
        check("\x1b[31mred\x1b]0;title\x07", TERMINAL, "\\u{1b}[31mred\\u{1b}]0;title\\u{7}");
        check("\u{9b}31m \u{90} \u{202e} \x7f", TERMINAL, "\\u{9b}31m \\u{90} \\u{202e} \\u{7f}");
        check("a\r\nb\tc\rd\n", TERMINAL, "a\r\nb\tc\\rd\n");
        let nested = styled(AnsiColor::Red.on_default(), "\x1b[2J");
        check(&nested, TERMINAL, "\x1b[31m\\u{1b}[2J\x1b[0m");
        check(&adopted("\x1b[1;31merror\x1b[0m\x1b[2J"), TERMINAL, "\x1b[1;31merror\x1b[0m\\u{1b}[2J");
    }

    #[test]
    fn a_log_gets_no_orders() {
        check("fine: a::b\n", GITHUB, "fine: a::b\n");
        check("a\n  ::error::x", GITHUB, "::stop-commands::T\na\n  ::error::x\n::T::\n");
        check("x ##[error]y\n", GITHUB, "::stop-commands::T\nx ##[error]y\n::T::\n");
        check("x ##[error]y\n ::a::b\n", OTHER, "x # #[error]y\n : :a::b\n");
        check("##vso[a]b ##teamcity[c]", OTHER, "# #vso[a]b # #teamcity[c]");
        check("::error::x ##[a]\x1b[1m", PROGRAM, "::error::x ##[a]\x1b[1m");
    }

    #[test]
    fn json_stays_what_it_is() {
        let value = serde_json::json!({ "a\u{9b}": ["##[error]###", "\u{202e}\u{7f}\n\t\u{1b}", "ü 👍 \u{2028} \u{fffe} \u{1fffe}"] });
        let written = json(&format!("{value:#}"));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), value);
        assert!(!written.contains(|letter| is_unseen(letter) && letter != '\n'), "{written}");
        assert!(!written.contains("##"), "{written}");
    }
}
