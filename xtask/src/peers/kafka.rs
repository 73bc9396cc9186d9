//! Apache Kafka: the jars of its broker, from Maven Central.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use super::{cache, lock};
use crate::process;

const VERSION: &str = "4.3.1";
/// To be raised with changes of `pom`, so that an older set of jars is not used.
const RECIPE: u32 = 1;

/// Fetches the jars unless they are there already; returns their folder. Tests run the broker with `java -cp FOLDER/*`.
pub(crate) fn install() -> Result<PathBuf> {
    let dir = cache()?.join(format!("kafka-{VERSION}-{RECIPE}"));
    let jars = dir.join("jars");
    if jars.is_dir() {
        return Ok(jars);
    }
    let _lock = lock("kafka")?;
    if jars.is_dir() {
        return Ok(jars);
    }
    for program in ["java", "mvn"] {
        process::require(program, "install Java 17 and Maven, or leave the peers out with --no-peers")?;
    }
    println!("    fetching Kafka {VERSION} to {} (once)", jars.display());
    fs::create_dir_all(&dir).with_context(|| format!("failed to make the folder {}", dir.display()))?;
    let recipe = dir.join("pom.xml");
    fs::write(&recipe, pom()).context("failed to write the recipe")?;
    let new = dir.join("jars.new");
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-f"]).arg(&recipe);
    maven.arg(format!("-DoutputDirectory={}", new.display()));
    process::run(&mut maven).context("failed to fetch Kafka")?;
    // Renamed last, so that a partial download is not used.
    fs::rename(&new, &jars).with_context(|| format!("failed to move the jars to {}", jars.display()))?;
    Ok(jars)
}

fn pom() -> String {
    let parts = [
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.slf4j", "slf4j-nop", "1.7.36"),
    ];
    let parts = parts.map(|(group, name, version)| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        )
    });
    format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>qualitytrace</groupId><artifactId>kafka</artifactId>\
         <version>1</version><dependencies>{}</dependencies></project>\n",
        parts.concat()
    )
}
