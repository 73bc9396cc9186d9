//! `--report FORMAT[=FILE]`: reports of a run besides the one at the terminal, several at once.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;

use super::files;
use crate::report::{self, TestReport};
use crate::terminal;

/// A report to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    format: Format,
    /// `None` for standard output.
    file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Junit,
    Json,
    Tap,
    Html,
    Markdown,
    Github,
}

const FORMATS: [(&str, Format); 6] = [
    ("junit", Format::Junit),
    ("json", Format::Json),
    ("tap", Format::Tap),
    ("html", Format::Html),
    ("markdown", Format::Markdown),
    ("github", Format::Github),
];

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, file) = match text.split_once('=') {
            Some((name, file)) => (name, Some(PathBuf::from(file)).filter(|file| *file != Path::new("-"))),
            None => (text, None),
        };
        let names: Vec<&str> = FORMATS.iter().map(|(name, _)| *name).collect();
        let found = FORMATS.iter().find(|(known, _)| *known == name);
        let (_, format) = found
            .ok_or_else(|| format!("write FORMAT or FORMAT=FILE; the formats are {}", names.join(", ")))?;
        Ok(Self { format: *format, file })
    }
}

impl Wanted {
    /// A JUnit report.
    pub(crate) const fn junit(file: PathBuf) -> Self {
        Self { format: Format::Junit, file: Some(file) }
    }

    /// Whether standard output belongs to this report: a program reads it.
    pub(crate) fn takes_output(&self) -> bool {
        self.file.is_none() && !matches!(self.format, Format::Github) && self.summary_file().is_none()
    }

    /// Fails if its file cannot be written, as far as that can be checked beforehand.
    pub(crate) fn require_writable(&self) -> anyhow::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        files::require_writable(file).with_context(|| format!("--report {}", file.display()))
    }

    /// Writes the report.
    pub(crate) fn write(&self, reports: &[TestReport], took: Duration) -> anyhow::Result<()> {
        let text = match self.format {
            Format::Junit => report::junit::document(reports, took)?,
            Format::Json => report::json::document(reports, took),
            Format::Tap => report::tap::document(reports),
            Format::Html => report::html::document(reports, took),
            Format::Markdown => report::markdown::document(reports, took),
            Format::Github => report::github::document(reports),
        };
        let appended = self.summary_file();
        match (&self.file, appended) {
            (Some(file), _) => std::fs::write(file, text)
                .with_context(|| format!("failed to write the report {}", file.display())),
            (None, Some(file)) => std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(&file)
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .with_context(|| format!("failed to write the job summary {}", file.display())),
            (None, None) => {
                terminal::out(&text);
                Ok(())
            }
        }
    }

    /// The file that GitHub shows as the summary of a job, where Markdown without a file goes.
    fn summary_file(&self) -> Option<PathBuf> {
        let is_meant = self.format == Format::Markdown && self.file.is_none();
        let named = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|name| !name.is_empty());
        named.filter(|_| is_meant).map(PathBuf::from)
    }
}
