//! Shells whose completions are put into the command line as they are: a name of a file or an id would be carried out as
//! part of the command. zsh, fish and elvish quote them.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

/// All shells.
pub(super) const SHELLS: Shells<'static> = Shells(&[
    &ShellScript { shell: &Bash, guard: quoted },
    &Elvish,
    &Fish,
    &ShellScript { shell: &Powershell, guard: plain_lines },
    &Zsh,
]);

/// The variable with which the script for bash says what separates completions.
const SEPARATOR: &str = "_CLAP_IFS";

/// A shell, and what makes its completions harmless.
struct ShellScript {
    shell: &'static dyn EnvCompleter,
    guard: fn(&str) -> String,
}

impl EnvCompleter for ShellScript {
    fn name(&self) -> &'static str {
        self.shell.name()
    }

    fn is(&self, name: &str) -> bool {
        self.shell.is(name)
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        program: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.shell.write_registration(variable, name, program, completer, out)
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut offered = Vec::new();
        self.shell.write_complete(command, words, folder, &mut offered)?;
        out.write_all((self.guard)(&String::from_utf8_lossy(&offered)).as_bytes())
    }
}

/// For bash: a backslash before each letter that has a meaning.
fn quoted(offered: &str) -> String {
    let separator = std::env::var(SEPARATOR).unwrap_or_else(|_| "\n".to_owned());
    let quoted: Vec<String> = offered.split(&*separator).filter_map(escaped).collect();
    quoted.join(&separator)
}

/// For PowerShell: only what needs no quotes.
fn plain_lines(offered: &str) -> String {
    let is_plain = |line: &&str| {
        let word = line.split('\t').next().unwrap_or_default();
        escaped(word).is_some_and(|escaped| escaped == word)
    };
    offered.lines().filter(is_plain).flat_map(|line| [line, "\n"]).collect()
}

/// The word as bash reads it; `None` for one that cannot be on a line.
fn escaped(word: &str) -> Option<String> {
    if word.contains(char::is_control) {
        return None;
    }
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./=:,@%+".contains(letter);
    let escaped =
        word.chars().flat_map(|letter| (!is_plain(letter)).then_some('\\').into_iter().chain([letter]));
    Some(escaped.collect())
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn letters_with_a_meaning_are_escaped() {
        for (word, expected) in [
            ("--server-url", Some("--server-url")),
            ("tests/a.yaml", Some("tests/a.yaml")),
            ("注文", Some("注文")),
            ("$(touch x)", Some("\\$\\(touch\\ x\\)")),
            ("a;b`c`&", Some("a\\;b\\`c\\`\\&")),
            ("a\nb", None),
        ] {
            assert_eq!(escaped(word).as_deref(), expected, "{word}");
        }
    }
}
