//! The terminal: standard output and error, with colours only where they are wanted, and texts that fit its columns.

pub(crate) mod columns;
pub(crate) mod style;

use std::io::{self, IsTerminal as _, Write};
use std::sync::OnceLock;
use std::time::Duration;

/// The first error of a write to standard output.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Writes to standard output, with colours only where they are wanted. Failures are returned by [`lost`].
pub(crate) fn out(text: &str) {
    let mut stdout = anstream::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Only the first error is kept.
        let _ = LOST.set(error);
    }
}

/// Why some of the output was lost. A closed pipe is no loss: its reader has seen enough.
pub(crate) fn lost() -> Option<&'static io::Error> {
    LOST.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
}

/// Writes to standard error, with colours only where they are wanted.
pub(crate) fn err(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
}

/// Asks the user for a value; `None` where no one can answer: without a terminal, in CI, or at the end of the input.
pub(crate) fn ask(what: &str, default: Option<&str>) -> Option<String> {
    let is_attended = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !is_attended || std::env::var_os("CI").is_some() {
        return None;
    }
    let hint = default.map(|default| format!(" [{default}]")).unwrap_or_default();
    err(&format!("{what}{hint}: "));
    let mut line = String::new();
    if io::stdin().read_line(&mut line).ok()? == 0 {
        return None;
    }
    let answer = line.trim();
    if answer.is_empty() { default.map(ToOwned::to_owned) } else { Some(answer.to_owned()) }
}

/// Formats a number with a noun in singular or plural.
pub(crate) fn counted(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Formats a duration with about three digits.
pub(crate) fn duration(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{}.{:02} s", micros / 1_000_000, micros % 1_000_000 / 10_000),
        _ => format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60),
    }
}

/// Shrinks column widths to the terminal, from the first column on, but not below the least widths. `around` is the
/// width of the rest of the line.
pub(crate) fn fitting<const N: usize>(
    mut wanted: [usize; N],
    least: [usize; N],
    around: usize,
) -> [usize; N] {
    let Some(width) = style::width() else { return wanted };
    let mut excess = (around + wanted.iter().sum::<usize>()).saturating_sub(width);
    for (wanted, least) in wanted.iter_mut().zip(least) {
        let less = excess.min(wanted.saturating_sub(least));
        *wanted -= less;
        excess -= less;
    }
    wanted
}
