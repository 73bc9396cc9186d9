//! Settings beside the tests in their files: gates, analyzer, polling profile and variables of a run.
//!
//! They apply to the runs of this command only; nothing that a server stores is changed.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use qualitytrace_core::definition::{self, Document, Resource, Stored, VariableSet};
use qualitytrace_server::wire::request::RunSettings;
use serde_json::{Map, Value};

use super::plan::same_file;
use crate::cli::files::File;
use crate::cli::files::references::profile_path;
use crate::terminal;

/// Settings and variables that were found in the files.
#[derive(Debug, Default)]
pub(crate) struct FileSettings {
    pub(crate) required_gates: Option<Vec<String>>,
    pub(crate) settings: RunSettings,
    sets: Vec<VariableSet>,
}

/// The variable set that a run uses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChosenSet {
    /// No set.
    None,
    /// A set from the files.
    Read(VariableSet),
    /// A set that the server stores under this id.
    Stored(String),
}

impl FileSettings {
    /// Collects the settings of the files. Fails on two documents of a kind of which a run takes one; kinds that do not
    /// apply to a run are reported.
    pub(crate) fn of(files: &[File]) -> anyhow::Result<Self> {
        let mut found = Self::default();
        let named = named_profiles(files);
        for file in files {
            let is_named = named.iter().any(|path| same_file(path, &file.path));
            for Document { resource, .. } in &file.reading.documents {
                // A profile that tests name applies to these tests only.
                if !(is_named && matches!(resource, Resource::PollingProfile(_))) {
                    found.add(&file.path, resource)?;
                }
            }
        }
        Ok(found)
    }

    fn add(&mut self, path: &Path, resource: &Resource) -> anyhow::Result<()> {
        let path = path.display();
        let kind = resource.kind().as_str();
        let once = |is_known: bool| {
            if is_known {
                bail!(
                    "{path}: there is another {kind} in these files, and a run uses one; leave one of them out"
                );
            }
            Ok(())
        };
        match resource {
            Resource::Test(_) | Resource::TestSuite(_) => {}
            Resource::VariableSet(set) => self.sets.push(set.clone()),
            Resource::TestRunner(runner) => {
                once(self.required_gates.is_some())?;
                let gates = runner.required_gates.iter().map(|gate| gate.as_str().to_owned());
                self.required_gates = Some(gates.collect());
            }
            Resource::Analyzer(_) => {
                once(self.settings.analyzer.is_some())?;
                self.settings.analyzer = Some(spec(resource));
            }
            Resource::PollingProfile(_) => {
                once(self.settings.polling_profile.is_some())?;
                self.settings.polling_profile = Some(spec(resource));
            }
            Resource::DataStore(_) | Resource::Config(_) | Resource::Demo(_) => terminal::err(&format!(
                "{path}: a {kind} has no meaning for a run; store it on a server with `qualitytrace apply`\n"
            )),
        }
        Ok(())
    }

    /// The variable set with this file, id or name; without one, the only set in the files.
    pub(crate) fn chosen_set(&self, named: Option<&str>) -> anyhow::Result<ChosenSet> {
        let Some(named) = named else {
            return Ok(match &*self.sets {
                [] => ChosenSet::None,
                [set] => ChosenSet::Read(set.clone()),
                sets => {
                    let names: Vec<&str> = sets.iter().map(name).collect();
                    terminal::err(&format!(
                        "the files hold {} variable sets, and none of them is used: choose one of {} with --vars\n",
                        sets.len(),
                        names.join(", ")
                    ));
                    ChosenSet::None
                }
            });
        };
        if Path::new(named).is_file() {
            return read_set(Path::new(named)).map(ChosenSet::Read);
        }
        let known = self.sets.iter().find(|set| set.id.as_deref() == Some(named) || set.name == named);
        Ok(known.cloned().map_or_else(|| ChosenSet::Stored(named.to_owned()), ChosenSet::Read))
    }
}

/// The files that tests name for their polling profiles.
fn named_profiles(files: &[File]) -> Vec<PathBuf> {
    let tests = files.iter().flat_map(|file| {
        file.reading.documents.iter().filter_map(|document| match &document.resource {
            Resource::Test(test) => profile_path(&file.path, test),
            _ => None,
        })
    });
    tests.collect()
}

fn name(set: &VariableSet) -> &str {
    set.id.as_deref().unwrap_or(&set.name)
}

fn read_set(path: &Path) -> anyhow::Result<VariableSet> {
    let file = File::read(path)?;
    terminal::err(&file.complaints());
    if !file.is_usable() {
        bail!("the variable set {} cannot be used", path.display());
    }
    let sets = file.reading.documents.into_iter().filter_map(|document| match document.resource {
        Resource::VariableSet(set) => Some(set),
        _ => None,
    });
    let mut sets = sets.collect::<Vec<_>>().into_iter();
    let first = sets.next();
    first.with_context(|| format!("{} holds no variable set; one has `type: VariableSet`", path.display()))
}

fn spec(resource: &Resource) -> Map<String, Value> {
    match definition::to_spec_json(resource, &Stored::default()) {
        Value::Object(spec) => spec,
        _ => Map::new(),
    }
}
