//! The program at a terminal: a pseudo-terminal in place of its standard input, output and error.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, ExitStatus, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Runs a command at a terminal that gets this input, and returns everything that the terminal was sent.
///
/// # Panics
/// If there is no terminal, or the command cannot be started.
pub fn at_terminal(command: &mut Command, input: &str) -> (ExitStatus, String) {
    run(command, input).expect("the command runs at a terminal")
}

fn run(command: &mut Command, input: &str) -> std::io::Result<(ExitStatus, String)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = File::from(rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?);
    command.env_remove("CI").env_remove("NO_COLOR").env("TERM", "xterm-256color");
    command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
    let mut child = command.spawn()?;
    // The terminal ends when nobody has its other side open, and the command holds it as well as the child.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut master = File::from(master);
    master.write_all(input.as_bytes())?;
    let mut sent = Vec::new();
    let mut buffer = [0; 4096];
    // A terminal without its other side answers with an error, not with an end.
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        sent.extend_from_slice(&buffer[..read]);
    }
    Ok((child.wait()?, String::from_utf8_lossy(&sent).into_owned()))
}

/// What steers a terminal in a text, beside colours and the erasing of lines that were drawn before.
pub fn foreign_codes(sent: &str) -> Vec<char> {
    let mut found = Vec::new();
    let mut rest = sent;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        match letter {
            '\u{1b}' => match own_code(rest) {
                Some(after) => rest = after,
                None => found.push(letter),
            },
            '\r' if rest.starts_with(['\n', '\u{1b}']) => {}
            '\n' | '\t' => {}
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => found.push(letter),
            letter if letter.is_control() => found.push(letter),
            _ => {}
        }
    }
    found
}

/// What follows a code of ours: `[` and numbers, and then `m` (a colour), `A` (up) or `J` (erase what is below).
fn own_code(text: &str) -> Option<&str> {
    let numbers = text.strip_prefix('[')?;
    let after = numbers.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';');
    let is_plain = after.len() == numbers.len();
    match after.chars().next()? {
        'm' | 'A' => Some(&after[1..]),
        // With a number, it would erase the whole screen.
        'J' if is_plain => Some(&after[1..]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_and_the_erasing_of_own_lines_are_ours() {
        assert_eq!(foreign_codes("\u{1b}[31mred\u{1b}[0m\r\n\u{1b}[2A\r\u{1b}[J\tend"), []);
        for (text, expected) in [
            ("\u{1b}[2J", '\u{1b}'),
            ("\u{1b}]0;title\u{7}", '\u{1b}'),
            ("a\rb", '\r'),
            ("\u{9b}2J", '\u{9b}'),
            ("\u{202e}", '\u{202e}'),
            ("\u{8}", '\u{8}'),
        ] {
            assert_eq!(foreign_codes(text).first(), Some(&expected), "{text:?}");
        }
    }
}
