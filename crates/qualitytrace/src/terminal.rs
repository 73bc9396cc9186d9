//! The terminal: standard output and error, with colours only where they are wanted, and texts that fit its columns.
//!
//! Everything that this program shows passes [`out`] or [`err`], and the filter there.

pub(crate) mod columns;
pub(crate) mod filter;
pub(crate) mod style;

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anstream::stream::RawStream;

use self::filter::{Log, Reader};

/// The first error of a write to standard output.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// What ends the wrapping of lines that GitHub would take for commands. No text of others can have it.
static STOP_TOKEN: LazyLock<String> = LazyLock::new(|| format!("{:032x}", rand::random::<u128>()));

/// The readers of both streams.
static READERS: LazyLock<(Reader, Reader)> = LazyLock::new(|| (reader(&io::stdout()), reader(&io::stderr())));

/// How many lines are drawn at the end of the terminal, which other output erases first.
static LIVE: Mutex<usize> = Mutex::new(0);

/// Writes to standard output, with colours only where they are wanted. Failures are returned by [`lost`].
pub(crate) fn out(text: &str) {
    write_out(&filter::shown(text, READERS.0, &STOP_TOKEN));
}

/// Writes workflow commands of our own, whose parts are escaped, to standard output.
pub(crate) fn commands(text: &str) {
    write_out(&filter::shown(text, Reader { log: Log::None, ..READERS.0 }, &STOP_TOKEN));
}

fn write_out(text: &str) {
    let _erased = erase();
    let mut stdout = anstream::stdout().lock();
    if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Only the first error is kept.
        let _ = LOST.set(error);
    }
}

/// Who reads a stream.
fn reader(stream: &impl RawStream) -> Reader {
    let is_set =
        |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    let is_terminal = stream.is_terminal();
    let wants_colours = anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never;
    let log = match () {
        () if is_terminal => Log::None,
        () if is_set("GITHUB_ACTIONS") => Log::GitHub,
        () if ["CI", "TF_BUILD", "TEAMCITY_VERSION"].into_iter().any(is_set) => Log::Other,
        () => Log::None,
    };
    Reader { obeys_codes: is_terminal || wants_colours, log }
}

/// Why some of the output was lost. A closed pipe is no loss: its reader has seen enough.
pub(crate) fn lost() -> Option<&'static io::Error> {
    LOST.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
}

/// Writes to standard error, with colours only where they are wanted.
pub(crate) fn err(text: &str) {
    let reader = READERS.1;
    // GitHub reads both streams at the same time, so that one cannot stop commands for the other. No program reads this
    // one: lines may be changed.
    let log = if reader.log == Log::GitHub { Log::Other } else { reader.log };
    let shown = filter::shown(text, Reader { log, ..reader }, &STOP_TOKEN);
    let _erased = erase();
    let mut stderr = anstream::stderr().lock();
    let _ = stderr.write_all(shown.as_bytes()).and_then(|()| stderr.flush());
}

/// Draws lines at the end of the terminal, in place of those that were drawn there before.
pub(crate) fn redraw(lines: &[String]) {
    let mut live = erase();
    let text = lines.join("\n");
    let shown = filter::shown(&text, Reader { obeys_codes: true, log: Log::None }, &STOP_TOKEN);
    let mut stderr = anstream::stderr().lock();
    let _ = stderr.write_all(shown.as_bytes()).and_then(|()| stderr.flush());
    *live = lines.len();
}

/// Whether lines are drawn at the end of the terminal.
pub(crate) fn is_live() -> bool {
    *LIVE.lock().unwrap_or_else(PoisonError::into_inner) > 0
}

/// Erases the lines at the end of the terminal. Nothing else is drawn before the guard is dropped.
fn erase() -> MutexGuard<'static, usize> {
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    if *live > 0 {
        let mut stderr = anstream::stderr().lock();
        let _ = stderr.write_all(erasure(*live).as_bytes()).and_then(|()| stderr.flush());
        *live = 0;
    }
    live
}

/// The codes that erase as many lines; the cursor is at the end of the last of them.
fn erasure(lines: usize) -> String {
    let mut codes = String::new();
    if lines > 1 {
        // Writing to a String cannot fail.
        let _ = write!(codes, "\x1b[{}A", lines - 1);
    }
    if lines > 0 {
        codes.push_str("\r\x1b[J");
    }
    codes
}

/// A writer of log lines, which pass the filter, too. Their colours are those of the logger, which escapes the codes of
/// others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        err(&filter::adopted(&String::from_utf8_lossy(line)));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::erasure;

    #[test]
    fn lines_are_erased_from_the_first_one_on() {
        assert_eq!(erasure(0), "");
        assert_eq!(erasure(1), "\r\x1b[J");
        assert_eq!(erasure(4), "\x1b[3A\r\x1b[J");
    }
}
