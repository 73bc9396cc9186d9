//! A server with faults: a copy of the sources with the patches of `dogfood/mutations`. One build serves all of them,
//! because a fault shows only if the variable `MUTATION` names it.

use std::{
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use super::system::of_dogfood;
use crate::{
    process,
    workspace::{self, Profile},
};

/// Folders that are not sources, or that only make the page, which is built already.
const NOT_SOURCES: [&str; 3] = [".git", "target", "node_modules"];
/// The kinds of files that cargo builds further crates from. Without these it would only take longer.
const BUILT: [&str; 5] = ["d", "dylib", "rlib", "rmeta", "so"];

/// A built server. Dropping it removes its files, which take some gigabytes.
#[derive(Debug)]
pub(crate) struct Mutant {
    folder: PathBuf,
    pub(crate) program: PathBuf,
}

impl Drop for Mutant {
    fn drop(&mut self) {
        // What is left would be removed by the next build.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Builds the server with the faults of these names.
///
/// What the workspace has built is copied too: cargo builds anew only what the patches change.
pub(crate) fn build(names: &[&str]) -> Result<Mutant> {
    let (built, folder) = (workspace::target(), workspace::target().join("mutant"));
    let _ = fs::remove_dir_all(&folder);
    let (source, target) = (folder.join("source"), folder.join("target"));
    let root = workspace::root();
    let is_source = |path: &Path| {
        let is_named = |part: &OsStr| part.to_str().is_some_and(|it| NOT_SOURCES.contains(&it));
        // A module may have the name of such a folder.
        let is_module = path.strip_prefix(&root).is_ok_and(|path| path.iter().any(|part| part == "src"));
        path != built && (is_module || !path.file_name().is_some_and(is_named))
    };
    copy(&root, &source, &is_source)?;
    for name in names {
        apply(&source, &patch(name), &[])?;
    }
    for part in [".fingerprint", "build"] {
        copy(&built.join("debug").join(part), &target.join("debug").join(part), &|_| true)?;
    }
    let is_built =
        |path: &Path| path.extension().and_then(OsStr::to_str).is_some_and(|it| BUILT.contains(&it));
    copy(&built.join("debug/deps"), &target.join("debug/deps"), &is_built)?;
    let program = workspace::build_programs_of(&source, &target, Profile::Debug)?.join("qualitytrace");
    Ok(Mutant { folder, program })
}

fn patch(name: &str) -> PathBuf {
    of_dogfood(&format!("mutations/{name}.patch"))
}

fn apply(source: &Path, patch: &Path, flags: &[&str]) -> Result<()> {
    process::require("git", "install Git, which applies the patches")?;
    let mut git = Command::new("git");
    // In a folder of a repository, git would look for the files at its top.
    git.env("GIT_CEILING_DIRECTORIES", source.parent().unwrap_or(source)).current_dir(source);
    process::output(git.arg("apply").args(flags).arg(patch))
        .map(drop)
        .with_context(|| format!("{} no longer fits the sources: make it anew", patch.display()))
}

/// Copies a folder with the times of its files, by which cargo knows what it has built.
fn copy(from: &Path, to: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("failed to make the folder {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("failed to read {}", from.display()))? {
        let entry = entry?;
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if !is_wanted(&path) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy(&path, &copied, is_wanted)?;
        } else {
            fs::copy(&path, &copied)
                .and_then(|_| File::options().append(true).open(&copied))
                .and_then(|file| file.set_modified(entry.metadata()?.modified()?))
                .with_context(|| format!("failed to copy {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dogfood::MUTATIONS;

    #[test]
    fn every_patch_fits_the_sources() {
        for mutation in &MUTATIONS {
            apply(&workspace::root(), &patch(mutation.name), &["--check"]).unwrap();
        }
    }
}
