//! The plan of a run: tests and suites from files, and which of them are selected.

mod running;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use qualitytrace_core::definition::{Format, Resource, Spec, Test, TestSuite, Text, Trigger};

use super::selection::{self, Candidate};
use crate::cli::Exit;
use crate::cli::files::references::{self, step_path};
use crate::cli::files::{self, DefinitionFilesError, File};
use crate::report::{Level, Source, SpecLines, visible};
use crate::terminal;

/// The tests and suites to run.
#[derive(Debug)]
pub(crate) struct Plan {
    files: Vec<File>,
    tests: Vec<FoundTest>,
    suites: Vec<FoundSuite>,
}

/// A test, and where it was found.
#[derive(Debug)]
struct FoundTest {
    file: usize,
    document: usize,
    path: PathBuf,
    id: Option<String>,
    name: String,
    tags: Vec<String>,
    source: String,
    format: Format,
    is_step: bool,
    is_selected: bool,
}

/// A suite, and where it was found.
#[derive(Debug)]
struct FoundSuite {
    suite: TestSuite,
    file: usize,
    document: usize,
    /// The tests that it needs, each with the path of the step that names it, if it does so by path.
    tests: Vec<(Option<PathBuf>, usize)>,
    is_selected: bool,
}

/// How long the server of a run stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerLifetime {
    /// It ends with the run.
    Run,
    /// It can be looked at after the run: reports name addresses of its page.
    AfterRun,
    /// It outlives the command: generated ids are written into the files, too.
    Lasting,
}

/// How to run a plan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanOptions {
    /// Limit on concurrent triggers.
    pub(crate) parallel: usize,
    /// How long failures by absence are checked again; `None` leaves it to the polling profiles.
    pub(crate) confirm: Option<Duration>,
    /// Whether nothing new begins after a test that did not pass.
    pub(crate) fail_fast: bool,
    /// How long the server stays.
    pub(crate) stay: ServerLifetime,
    /// How much is shown of tests as they end.
    pub(crate) level: Level,
}

/// A stored test or suite.
#[derive(Debug)]
pub(crate) struct StoredRunnable {
    pub(crate) id: String,
    pub(crate) is_suite: bool,
}

impl Plan {
    /// Plans the tests of these files. Returns `None` when they have errors. `print` gets the diagnostics.
    ///
    /// Tests that are steps of one of the suites run in that suite only: they may need its outputs.
    /// `value` are the variables of the environment for files of steps.
    pub(crate) fn of(
        mut files: Vec<File>,
        value: impl Fn(&str) -> Option<String>,
        print: fn(&str),
    ) -> anyhow::Result<Option<Self>> {
        read_missing_steps(&mut files, value);
        files::find_twins(&mut files);
        for file in &files {
            print(&file.complaints());
        }
        if !files.iter().all(File::is_usable) {
            return Ok(None);
        }
        let mut plan = Self { files: Vec::new(), tests: Vec::new(), suites: Vec::new() };
        for (at, file) in files.iter().enumerate() {
            for (index, document) in file.reading.documents.iter().enumerate() {
                if let Resource::Test(test) = &document.resource {
                    let source = references::inlined(file, document)?;
                    plan.tests.push(found(file, test, (at, index), source));
                }
            }
        }
        for (at, file) in files.iter().enumerate() {
            for (document, suite) in suites(file) {
                plan.add_suite(at, document, &file.path, suite);
            }
        }
        plan.files = files;
        if plan.tests.is_empty() && plan.suites.is_empty() {
            return Err(
                DefinitionFilesError("the files hold no test; a test has `type: Test`".to_owned()).into()
            );
        }
        Ok(Some(plan))
    }

    /// Whether a test of the files runs a command or a script on the server's machine.
    pub(crate) fn runs_commands(&self) -> bool {
        let mut documents = self.files.iter().flat_map(|file| &file.reading.documents);
        documents.any(|document| match &document.resource {
            Resource::Test(test) => {
                matches!(test.trigger, Some(Trigger::Exec(_) | Trigger::PlaywrightEngine(_)))
            }
            _ => false,
        })
    }

    fn add_suite(&mut self, file: usize, document: usize, path: &Path, suite: &TestSuite) {
        let mut tests = Vec::new();
        for step in suite.all_steps() {
            let path = step_path(path, step);
            let known = self.tests.iter().position(|test| match &path {
                Some(path) => same_file(&test.path, path),
                None => test.id.as_deref() == Some(&step.test.value),
            });
            if let Some(test) = known {
                self.tests[test].is_step = true;
                tests.push((path, test));
            }
        }
        self.suites.push(FoundSuite { suite: suite.clone(), file, document, tests, is_selected: true });
    }

    /// The files.
    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    /// The ids that the files give to tests.
    pub(crate) fn ids(&self) -> BTreeSet<String> {
        self.tests.iter().filter_map(|test| test.id.clone()).collect()
    }

    /// Selects what is run.
    pub(crate) fn select(&mut self, selection: &selection::Options, ids: &[String]) -> anyhow::Result<()> {
        let alone: Vec<usize> = (0..self.tests.len()).filter(|at| !self.tests[*at].is_step).collect();
        let suites = self.suites.iter().map(|suite| self.candidate_of_suite(suite));
        let tests = alone.iter().map(|at| self.candidate_of_test(&self.tests[*at]));
        let candidates: Vec<Candidate> = suites.chain(tests).collect();
        let selected = selection.selected(ids, &candidates)?;
        let (suites, tests) = selected.split_at(self.suites.len());
        for (suite, is_selected) in self.suites.iter_mut().zip(suites) {
            suite.is_selected = *is_selected;
        }
        for (at, is_selected) in alone.into_iter().zip(tests) {
            self.tests[at].is_selected = *is_selected;
        }
        Ok(())
    }

    fn candidate_of_test(&self, test: &FoundTest) -> Candidate {
        let file = &self.files[test.file];
        let ids: Vec<String> = test.id.iter().cloned().collect();
        let named = references::paths(file, &file.reading.documents[test.document]);
        Candidate {
            name: test.name.clone(),
            words: ids.iter().chain([&test.name]).cloned().collect(),
            ids,
            tags: test.tags.clone(),
            paths: named.into_iter().chain([test.path.clone()]).collect(),
        }
    }

    fn candidate_of_suite(&self, found: &FoundSuite) -> Candidate {
        let file = &self.files[found.file];
        let mut all = Candidate { name: found.suite.name.clone(), ..Candidate::default() };
        all.ids.extend(found.suite.id.clone());
        all.words.extend(all.ids.iter().chain([&found.suite.name]).cloned());
        all.paths.push(file.path.clone());
        all.paths.extend(references::paths(file, &file.reading.documents[found.document]));
        all.tags.extend(found.suite.tags.iter().cloned());
        for (_, test) in &found.tests {
            let step = self.candidate_of_test(&self.tests[*test]);
            all.words.extend(step.words);
            all.ids.extend(step.ids);
            all.tags.extend(step.tags);
            all.paths.extend(step.paths);
        }
        all
    }

    /// Whether nothing is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.alone().next().is_none() && !self.suites.iter().any(|suite| suite.is_selected)
    }

    /// Prints what is selected, a line each.
    pub(crate) fn list(&self) -> Exit {
        let line = |kind: &str, path: &Path, id: Option<&str>, name: &str, tags: &[String]| {
            let id = id.map(|id| format!(" ({})", visible::text(id))).unwrap_or_default();
            let tags: Vec<String> = tags.iter().map(|tag| format!("  #{}", visible::text(tag))).collect();
            let tags = tags.concat();
            terminal::out(&format!("{kind:<5}  {}  {}{id}{tags}\n", path.display(), visible::text(name)));
        };
        for found in self.suites.iter().filter(|suite| suite.is_selected) {
            let TestSuite { id, name, tags, .. } = &found.suite;
            line("suite", &self.files[found.file].path, id.as_deref(), name, tags);
        }
        for test in self.alone() {
            line("test", &test.path, test.id.as_deref(), &test.name, &test.tags);
        }
        Exit::Passed
    }

    /// Where a test is defined.
    fn source(&self, test: &FoundTest) -> Source {
        let file = &self.files[test.file];
        let document = &file.reading.documents[test.document];
        let specs = match &document.resource {
            Resource::Test(test) => test.specs.as_slice(),
            _ => &[],
        };
        let line = |span: &Range<usize>| file.line(span.start);
        let first = line(&document.span);
        let of_text = |text: &Text| text.origin.as_ref().map_or(first, |origin| line(&origin.span));
        let lines = |spec: &Spec| SpecLines {
            line: of_text(&spec.selector),
            assertions: spec.assertions.iter().map(of_text).collect(),
        };
        let path = files::plain(&file.path).display().to_string();
        Source { path, line: first, specs: specs.iter().map(lines).collect() }
    }

    /// The selected tests that are no steps of a suite.
    fn alone(&self) -> impl Iterator<Item = &FoundTest> {
        self.tests.iter().filter(|test| !test.is_step && test.is_selected)
    }
}

fn found(file: &File, test: &Test, at: (usize, usize), source: String) -> FoundTest {
    let name = if test.name.is_empty() { file.path.display().to_string() } else { test.name.clone() };
    let (path, id, format) = (file.path.clone(), test.id.clone(), file.format);
    let ((file, document), is_step, is_selected, tags) = (at, false, true, test.tags.clone());
    FoundTest { file, document, path, id, name, tags, source, format, is_step, is_selected }
}

/// The suites of a file, with their indices.
fn suites(file: &File) -> impl Iterator<Item = (usize, &TestSuite)> {
    file.reading.documents.iter().enumerate().filter_map(|(at, document)| match &document.resource {
        Resource::TestSuite(suite) => Some((at, suite)),
        _ => None,
    })
}

/// Reads the step files of suites that were not named themselves. Unreadable ones are reported where they are named.
fn read_missing_steps(files: &mut Vec<File>, value: impl Fn(&str) -> Option<String>) {
    let mut paths = Vec::new();
    for at in 0..files.len() {
        let is_known = |path: &Path| files.iter().any(|file| same_file(&file.path, path));
        let missing = references::missing_steps(&files[at], is_known);
        paths.extend(references::step_paths(&files[at]));
        files[at].reading.diagnostics.extend(missing);
    }
    for path in paths {
        if !files.iter().any(|file| same_file(&file.path, &path))
            && let Ok(file) = File::read_expanded(&path, &value)
        {
            files.push(file);
        }
    }
}

pub(super) fn same_file(a: &Path, b: &Path) -> bool {
    let plain = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.components().collect());
    plain(a) == plain(b)
}
