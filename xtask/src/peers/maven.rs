//! Java programs, from Maven Central: the jars of a program and of what it depends on, fetched once.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use super::{cache, lock};
use crate::process;

/// A set of jars.
#[derive(Debug)]
pub(super) struct Jars {
    /// The name for people.
    pub(super) title: &'static str,
    /// The name of its folder.
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// To be raised with changes of `artifacts`, so that an older set of jars is not used.
    pub(super) recipe: u32,
    /// Group, name and version of what is fetched with all that it depends on.
    pub(super) artifacts: &'static [(&'static str, &'static str, &'static str)],
}

impl Jars {
    /// Fetches the jars unless they are there already; returns their folder, for `java -cp FOLDER/*`.
    pub(super) fn install(&self) -> Result<PathBuf> {
        let Self { title, name, version, recipe, .. } = self;
        let dir = cache()?.join(format!("{name}-{version}-{recipe}"));
        let jars = dir.join("jars");
        if jars.is_dir() {
            return Ok(jars);
        }
        let _lock = lock(name)?;
        if jars.is_dir() {
            return Ok(jars);
        }
        require()?;
        println!("    fetching {title} {version} to {} (once)", jars.display());
        fs::create_dir_all(&dir).with_context(|| format!("failed to make the folder {}", dir.display()))?;
        let recipe = dir.join("pom.xml");
        fs::write(&recipe, self.pom()).context("failed to write the recipe")?;
        let new = dir.join("jars.new");
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-f"]).arg(&recipe);
        maven.arg(format!("-DoutputDirectory={}", new.display()));
        process::run(&mut maven).with_context(|| format!("failed to fetch {title}"))?;
        // Renamed last, so that a partial download is not used.
        fs::rename(&new, &jars).with_context(|| format!("failed to move the jars to {}", jars.display()))?;
        Ok(jars)
    }

    fn pom(&self) -> String {
        let artifacts = self.artifacts.iter().map(|(group, name, version)| {
            format!(
                "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
            )
        });
        format!(
            "<project><modelVersion>4.0.0</modelVersion><groupId>qualitytrace</groupId><artifactId>{}</artifactId>\
             <version>1</version><dependencies>{}</dependencies></project>\n",
            self.name,
            artifacts.collect::<String>()
        )
    }
}

/// Checks for what fetches and runs jars.
pub(super) fn require() -> Result<()> {
    for program in ["java", "mvn"] {
        process::require(program, "install Java 17 and Maven, or leave the peers out with --no-peers")?;
    }
    Ok(())
}
