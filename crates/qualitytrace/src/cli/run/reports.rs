//! `--junit FILE` and `--report FORMAT[=FILE]`: reports of a run besides the one at the terminal, several at once.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;

use crate::cli::files;
use crate::report::{self, TestReport};
use crate::terminal;

/// The reports of a run.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Write a JUnit report
    #[arg(long, short = 'j', value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write more reports: junit, json, tap, html, markdown, github, each to a file or to standard output; several are
    /// separated by commas
    #[arg(long = "report", value_name = "FORMAT[=FILE],...", value_delimiter = ',')]
    reports: Vec<ReportTarget>,
    /// Whether they are those of the project file.
    #[arg(skip)]
    pub(crate) are_of_project: bool,
}

impl Options {
    /// Whether standard output belongs to one of them.
    pub(crate) fn take_output(&self) -> bool {
        self.reports.iter().any(ReportTarget::takes_output)
    }

    /// Adds the JSON report on standard output, unless it is there already.
    pub(crate) fn add_json(&mut self) {
        let json = ReportTarget { format: Format::Json, file: None };
        if !self.reports.contains(&json) {
            self.reports.push(json);
        }
    }

    /// Fails if a file cannot be written, as far as that can be checked beforehand.
    pub(crate) fn require_writable(&self) -> anyhow::Result<()> {
        if let Some(file) = &self.junit {
            files::require_writable(file).with_context(|| format!("--junit {}", file.display()))?;
        }
        let on_output: Vec<&str> =
            self.reports.iter().filter(|report| report.takes_output()).map(ReportTarget::name).collect();
        if let [first, second, ..] = on_output[..] {
            bail!(
                "the reports {first} and {second} cannot both go to standard output; give one a file: --report \
                 {first},{second}=FILE"
            );
        }
        self.reports.iter().try_for_each(ReportTarget::require_writable)
    }

    /// Fails on reports that do not go with Tracetest's result text. Those of the project file are meant for its other
    /// runs.
    pub(crate) fn require_only_junit(&self) -> anyhow::Result<()> {
        if self.reports.is_empty() {
            return Ok(());
        }
        if !self.are_of_project {
            bail!("--report goes with `qualitytrace run FILE`; leave out -f or --id, or use --junit FILE");
        }
        terminal::err(
            "with -f and --id, the `reports` of the project file are not written; --junit FILE is\n",
        );
        Ok(())
    }

    /// Writes all of them; returns what could not be written.
    pub(crate) fn write(&self, reports: &[TestReport], took: Duration) -> Vec<anyhow::Error> {
        let junit = self.junit.clone().map(ReportTarget::junit);
        let wanted = self.reports.iter().chain(&junit);
        wanted.filter_map(|wanted| wanted.write(reports, took).err()).collect()
    }
}

/// A report to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportTarget {
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

impl FromStr for ReportTarget {
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

impl ReportTarget {
    /// A JUnit report.
    const fn junit(file: PathBuf) -> Self {
        Self { format: Format::Junit, file: Some(file) }
    }

    fn name(&self) -> &'static str {
        FORMATS.iter().find(|(_, format)| *format == self.format).map_or("", |(name, _)| name)
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
                match self.format {
                    Format::Github => terminal::commands(&text),
                    _ => terminal::out(&text),
                }
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
