//! Which of the tests and suites in the files are run: by name, id, tag, change, last result and shard.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::{StringValueParser, TypedValueParser};
use regex::Regex;

use super::last_run;
use crate::terminal;

/// Settings of git in place of those that name a program.
const SAFE_SETTINGS: [&str; 4] =
    ["core.fsmonitor=false", "diff.external=", "core.hooksPath=/dev/null", "core.pager=cat"];

#[derive(Debug, Default, Args)]
#[group(skip)]
pub(crate) struct Options {
    /// Run only tests and suites whose name, id or file this regular expression matches
    #[arg(long, value_name = "REGEX", help_heading = "Selection")]
    grep: Option<Regex>,
    /// Run only tests and suites with this tag; may be given more than once: one of them is enough
    #[arg(long = "tag", value_name = "NAME,...", value_delimiter = ',', value_parser = trimmed(), help_heading = "Selection")]
    tags: Vec<String>,
    /// Run only what did not pass in the last run in this folder
    #[arg(long, help_heading = "Selection")]
    last_failed: bool,
    /// Run only what changed since a commit: the definition or a file that it names; without a commit, what is not
    /// committed yet
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, require_equals = true, default_missing_value = "HEAD", help_heading = "Selection")]
    only_changed: Option<String>,
    /// Run one of N equal parts, like 1/3; each on another machine
    #[arg(long, value_name = "I/N", help_heading = "Selection")]
    shard: Option<Shard>,
    /// Start nothing new after a test that does not pass
    #[arg(long, help_heading = "Selection")]
    pub(crate) fail_fast: bool,
    /// Print what would be run, and run nothing
    #[arg(long, help_heading = "Selection")]
    pub(crate) list: bool,
}

/// One of several parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    /// Counted from 0.
    index: usize,
    count: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        let shard = parts.filter(|(index, count): &(usize, usize)| (1..=*count).contains(index));
        let (index, count) = shard.ok_or("write which part and how many there are, like 1/3")?;
        Ok(Self { index: index - 1, count })
    }
}

/// A test or suite that may be run. Those of a suite include its steps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Candidate {
    /// Its own name.
    pub(crate) name: String,
    /// All names and ids.
    pub(crate) words: Vec<String>,
    pub(crate) ids: Vec<String>,
    pub(crate) tags: Vec<String>,
    /// The definition and the files that it names.
    pub(crate) paths: Vec<PathBuf>,
}

/// The facts that a selection depends on.
#[derive(Debug, Default)]
struct Facts {
    /// The names of what did not pass last time; `None` when that does not count.
    failed: Option<HashSet<String>>,
    /// Files that changed; `None` when that does not count.
    changed: Option<HashSet<PathBuf>>,
}

/// A name of a list that people separate with a comma and a blank.
fn trimmed() -> impl TypedValueParser<Value = String> {
    StringValueParser::new().map(|name| name.trim().to_owned())
}

impl Options {
    /// Whether each candidate is selected. Fails when a name or id matches none.
    pub(crate) fn selected(&self, ids: &[String], candidates: &[Candidate]) -> anyhow::Result<Vec<bool>> {
        let mut facts = Facts::default();
        if self.last_failed {
            facts.failed = last_run::failed();
            if facts.failed.is_none() {
                terminal::err("no test failed in the last run here, so all of them are run\n");
            }
        }
        if let Some(commit) = &self.only_changed {
            facts.changed = Some(changed_files(commit)?);
        }
        let selected = self.among(ids, &facts, candidates);
        let is_named = self.grep.is_some() || !ids.is_empty() || !self.tags.is_empty();
        if is_named && self.shard.is_none() && !selected.contains(&true) {
            bail!("none of {} tests and suites {}; --list shows them", candidates.len(), self.wanted(ids));
        }
        Ok(selected)
    }

    /// The conditions on names, ids and tags, for a message.
    fn wanted(&self, ids: &[String]) -> String {
        let called = self.grep.as_ref().map(ToString::to_string);
        let called = called.or_else(|| (!ids.is_empty()).then(|| ids.join(", ")));
        let called = called.map(|what| format!("is called `{what}`"));
        let tagged = (!self.tags.is_empty()).then(|| format!("has the tag `{}`", self.tags.join("` or `")));
        called.into_iter().chain(tagged).collect::<Vec<_>>().join(" and ")
    }

    fn among(&self, ids: &[String], facts: &Facts, candidates: &[Candidate]) -> Vec<bool> {
        let mut count = 0;
        let is_selected = |candidate: &Candidate| {
            let paths = || candidate.paths.iter().map(|path| path.to_string_lossy().into_owned());
            let is_matched = self.grep.as_ref().is_none_or(|grep| {
                candidate.words.iter().any(|word| grep.is_match(word))
                    || paths().any(|path| grep.is_match(&path))
            });
            let is_named = ids.is_empty() || candidate.ids.iter().any(|id| ids.contains(id));
            let is_tagged = self.tags.is_empty() || candidate.tags.iter().any(|tag| self.tags.contains(tag));
            let has_failed = facts.failed.as_ref().is_none_or(|failed| failed.contains(&candidate.name));
            let has_changed = facts
                .changed
                .as_ref()
                .is_none_or(|changed| candidate.paths.iter().any(|path| changed.contains(&plain(path))));
            let is_in = is_matched && is_named && is_tagged && has_failed && has_changed;
            count += usize::from(is_in);
            is_in && self.shard.is_none_or(|shard| (count - 1) % shard.count == shard.index)
        };
        candidates.iter().map(is_selected).collect()
    }
}

/// The files of this repository that differ from a commit, and new ones.
fn changed_files(commit: &str) -> anyhow::Result<HashSet<PathBuf>> {
    // A name that begins with a dash would be an option.
    if commit.starts_with('-') {
        bail!("`{commit}` is no commit");
    }
    // The tests may be beside this folder: both commands are about the repository as a whole.
    let top = git(Path::new(""), &["rev-parse", "--show-toplevel"])?;
    let top = Path::new(top.trim_end_matches('\n'));
    let mut changed = HashSet::new();
    for arguments in [
        &[
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=all",
            "--name-only",
            "-z",
            commit,
            "--",
        ][..],
        &["ls-files", "--others", "--exclude-standard", "-z"],
    ] {
        let names = git(top, arguments)?;
        changed.extend(names.split('\0').filter(|name| !name.is_empty()).map(|name| plain(&top.join(name))));
    }
    Ok(changed)
}

/// The output of a git command in a folder; an empty path is the current one. A repository may be of anybody, so no
/// program that it configures is run, and nothing is fetched.
fn git(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(SAFE_SETTINGS.iter().flat_map(|setting| ["-c", setting]));
    for setting in filters(folder) {
        command.arg("-c").arg(setting);
    }
    command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none").env("GIT_TERMINAL_PROMPT", "0");
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.context("--only-changed needs git")?;
    if !output.status.success() {
        bail!("--only-changed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Settings that switch off the filters which a repository configures for its files. Those of the user stay.
fn filters(folder: &Path) -> Vec<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["config", "--local", "--includes", "--name-only", "-z", "--list"]);
    let output = command.stdin(Stdio::null()).output().map(|output| output.stdout).unwrap_or_default();
    let names = String::from_utf8_lossy(&output).into_owned();
    let of_filter = |name: &&str| {
        let key = name.rsplit('.').next().unwrap_or_default();
        name.starts_with("filter.") && ["clean", "smudge", "process", "required"].contains(&key)
    };
    // Without a value, a filter does nothing; `required` without one is false.
    names.split('\0').filter(of_filter).map(|name| format!("{name}=")).collect()
}

fn plain(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.components().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidates(count: usize) -> Vec<Candidate> {
        let candidate = |at: usize| Candidate {
            name: format!("Test {at}"),
            words: vec![format!("Test {at}"), format!("id-{at}")],
            ids: vec![format!("id-{at}")],
            tags: vec![if at.is_multiple_of(2) { "even" } else { "odd" }.to_owned(), format!("tag-{at}")],
            paths: vec![PathBuf::from(format!("tests/{at}.yaml"))],
        };
        (0..count).map(candidate).collect()
    }

    fn check(options: &Options, ids: &[&str], facts: &Facts, expected: &[usize]) {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        let selected = options.among(&ids, facts, &candidates(4));
        let selected: Vec<usize> = (0..4).filter(|at| selected[*at]).collect();
        assert_eq!(selected, expected, "{options:?}");
    }

    #[test]
    fn conditions_hold_together() {
        let grep = |text: &str| Options { grep: Some(Regex::new(text).unwrap()), ..Options::default() };
        let none = Facts::default();
        check(&Options::default(), &[], &none, &[0, 1, 2, 3]);
        check(&grep("[12]$"), &[], &none, &[1, 2]);
        check(&grep("id-3|tests/0"), &[], &none, &[0, 3]);
        check(&Options::default(), &["id-2", "x"], &none, &[2]);
        check(&grep("[12]$"), &["id-2", "id-3"], &none, &[2]);
        let tags = |tags: &[&str]| Options {
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..Options::default()
        };
        check(&tags(&["odd"]), &[], &none, &[1, 3]);
        check(&tags(&["tag-0", "tag-3", "x"]), &[], &none, &[0, 3]);
        check(&Options { tags: tags(&["odd"]).tags, ..grep("[12]$") }, &[], &none, &[1]);
        let failed = Facts { failed: Some(["Test 3".to_owned()].into()), ..Facts::default() };
        check(&Options::default(), &[], &failed, &[3]);
        let changed = Facts { changed: Some([plain(Path::new("tests/1.yaml"))].into()), ..Facts::default() };
        check(&Options::default(), &[], &changed, &[1]);
        check(&Options { shard: Some("2/2".parse().unwrap()), ..grep("[123]$") }, &[], &none, &[2]);
    }

    #[test]
    fn a_part_is_one_of_its_count() {
        for wrong in ["", "1", "0/2", "3/2", "a/b", "1/0"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn each_test_is_in_exactly_one_part(tests in 0..40_usize, count in 1..9_usize) {
            let mut seen = vec![0; tests];
            for index in 0..count {
                let options = Options { shard: Some(Shard { index, count }), ..Options::default() };
                let selected = options.among(&[], &Facts::default(), &candidates(tests));
                seen.iter_mut().zip(selected).for_each(|(seen, is_in)| *seen += usize::from(is_in));
            }
            prop_assert!(seen.iter().all(|seen| *seen == 1));
        }
    }
}
