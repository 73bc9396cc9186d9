//! Java programs, from Maven Central: the jars of a program and of what it depends on, fetched once.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use super::{folder_of, once};
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
        let place = format!("{name}-{version}-{recipe}/jars");
        once(&place, &format!("fetching {title} {version}"), |new| {
            let recipe = folder_of(new).join("pom.xml");
            fs::write(&recipe, self.pom()).context("failed to write the recipe")?;
            let mut maven = maven()?;
            maven.args(["dependency:copy-dependencies", "-DincludeScope=runtime", "-f"]).arg(&recipe);
            process::run(maven.arg(format!("-DoutputDirectory={}", new.display())))
        })
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

/// Maven, where it and Java are there.
pub(super) fn maven() -> Result<Command> {
    for program in ["java", "mvn"] {
        process::require(program, "install Java 17 and Maven, or leave the peers out with --no-peers")?;
    }
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B"]);
    Ok(maven)
}
