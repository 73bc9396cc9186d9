//! Checks the telemetry crate with each of its features alone, with none and with all, and its documentation.

use std::fs;

use anyhow::{Context as _, Result};

use crate::{
    process,
    workspace::{cargo, root},
};

const PACKAGE: &str = "qualitytrace-telemetry";

/// Compiles every combination.
pub(crate) fn check() -> Result<()> {
    let path = root().join("crates").join(PACKAGE).join("Cargo.toml");
    let manifest = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let names = names(&manifest);
    let choices = [String::new()].into_iter().chain(names.iter().cloned()).chain([names.join(",")]);
    for features in choices {
        let mut clippy = cargo(["clippy", "--quiet", "--package", PACKAGE, "--no-default-features"]);
        process::run(clippy.args(["--features", &features, "--", "-D", "warnings"]))
            .with_context(|| format!("{PACKAGE} does not compile with the features `{features}` alone"))?;
    }
    let mut doc = cargo(["doc", "--quiet", "--package", PACKAGE, "--all-features", "--no-deps"]);
    process::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

/// The features of a manifest, without `default`.
fn names(manifest: &str) -> Vec<String> {
    let section = manifest.lines().skip_while(|line| *line != "[features]").skip(1);
    let entries = section.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    let named = entries.filter_map(|line| line.split_once(" = ").map(|(name, _)| name.to_owned()));
    named.filter(|name| name != "default").collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn features_are_read_off_the_manifest() {
        let manifest = "[package]\nname = \"a\"\n[features]\ndefault = [\"b\"]\n# B.\nb = []\nc = [\"dep:d\"]\n\n[dependencies]\nd = 1\n";
        assert_eq!(super::names(manifest), ["b", "c"]);
    }
}
