//! The keys of the section `run` of a project file, and the flags that they stand for.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use clap::Arg;

/// A key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// The flag, without its dashes; empty for the paths.
    pub(super) flag: &'static str,
    pub(super) takes: Takes,
}

/// The values that a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// On or off.
    Switch,
    /// One text.
    Text,
    /// Several texts, or one.
    List,
    /// A file, relative to the project file.
    File,
    /// Several of them, or one.
    Files,
    /// A file, or the id of a stored resource.
    FileOrId,
    /// `FORMAT=FILE` or `FORMAT`, or a mapping from formats to files.
    Reports,
}

impl Key {
    /// Whether a flag of the table is the one of this key.
    pub(super) fn is_of(&self, flag: &Arg) -> bool {
        match flag.get_long() {
            Some(long) => long == self.flag,
            None => flag.get_id() == self.name,
        }
    }
}

/// The keys of files that must be the project's own: a token is sent to a server, and the others are written.
const OWNED: [&str; 4] = ["token-file", "junit", "reports", "learned"];

impl Key {
    /// The file that a value of the flag names, if it must be below the folder of the project.
    pub(super) fn owned_file(&self, value: &OsStr) -> Option<PathBuf> {
        if !OWNED.contains(&self.name) {
            return None;
        }
        match self.takes {
            Takes::Reports => {
                let after = value.as_bytes().iter().position(|byte| *byte == b'=')? + 1;
                Some(OsStr::from_bytes(&value.as_bytes()[after..]))
                    .filter(|file| *file != "-")
                    .map(Into::into)
            }
            _ => Some(value.into()),
        }
    }
}

impl Takes {
    /// Describes the values, for messages.
    pub(super) const fn expected(self) -> &'static str {
        match self {
            Self::Switch => "true or false",
            Self::Text => "a single value",
            Self::List => "a value or a list",
            Self::File => "a file name",
            Self::Files => "a file name or a list of them",
            Self::FileOrId => "a file name or an id",
            Self::Reports => "formats with their files, as `junit: FILE`",
        }
    }

    /// The texts of the file as values of the flag: paths become relative to the current folder.
    pub(super) fn values(self, folder: &Path, texts: Vec<String>) -> Vec<OsString> {
        let value = |text: String| match self {
            Self::Switch | Self::Text | Self::List => text.into(),
            Self::File | Self::Files => folder.join(text).into_os_string(),
            Self::FileOrId => {
                let file = folder.join(&text);
                if file.is_file() { file.into_os_string() } else { text.into() }
            }
            Self::Reports => match text.split_once('=') {
                Some((_, "-")) | None => text.into(),
                Some((format, file)) => {
                    let mut value = OsString::from(format!("{format}="));
                    value.push(folder.join(file));
                    value
                }
            },
        };
        texts.into_iter().map(value).collect()
    }
}

const fn key(name: &'static str, takes: Takes) -> Key {
    Key { name, flag: name, takes }
}

const fn renamed(name: &'static str, flag: &'static str, takes: Takes) -> Key {
    Key { name, flag, takes }
}

/// All keys, in the order of the documentation.
pub(super) const KEYS: &[Key] = &[
    renamed("paths", "", Takes::Files),
    renamed("tags", "tag", Takes::List),
    renamed("server", "server-url", Takes::Text),
    key("token-file", Takes::File),
    key("local", Takes::Switch),
    key("reconnect-timeout", Takes::Text),
    key("with", Takes::List),
    key("ready", Takes::List),
    key("ready-timeout", Takes::Text),
    key("otlp-grpc-addr", Takes::Text),
    key("otlp-http-addr", Takes::Text),
    key("env-file", Takes::Files),
    renamed("secrets", "secret", Takes::List),
    key("vars", Takes::FileOrId),
    key("required-gates", Takes::List),
    key("parallel", Takes::Text),
    key("retries", Takes::Text),
    key("repeat", Takes::Text),
    key("fail-fast", Takes::Switch),
    key("fail-on-flaky", Takes::Switch),
    key("quiet", Takes::Text),
    key("settle", Takes::Text),
    key("timeout", Takes::Text),
    key("within", Takes::Text),
    key("confirm", Takes::Text),
    key("uninstrumented", Takes::List),
    key("learned", Takes::File),
    key("failures-only", Takes::Switch),
    key("junit", Takes::File),
    renamed("reports", "report", Takes::Reports),
];

/// Flags that are about one call, or that a file must not say for its reader: it is shared, and may be of anybody.
pub(super) const NOT_IN_FILE: &[&str] = &[
    "project",
    "trust-project",
    "config",
    "token",
    "skip-verify",
    "output",
    "verbose",
    "file",
    "id",
    "skip-result-wait",
    "group",
    "environment",
    "grep",
    "last-failed",
    "only-changed",
    "shard",
    "list",
    "var",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_a_key_of_the_file_or_known_not_to_be_one() {
        let run = super::super::run_command();
        for flag in run.get_arguments() {
            let keys = KEYS.iter().filter(|key| key.is_of(flag)).count();
            let is_left_out = flag.get_long().is_some_and(|long| NOT_IN_FILE.contains(&long));
            assert_eq!(keys + usize::from(is_left_out), 1, "{flag:?}");
        }
        for key in KEYS {
            assert!(run.get_arguments().any(|flag| key.is_of(flag)), "{}", key.name);
        }
    }
}
