//! Checks that the toolchain and the documents name the Rust version of the manifest.

use super::{Broken, tree::Tree};

const MANIFEST: &str = "Cargo.toml";
const TOOLCHAIN: &str = "rust-toolchain.toml";
/// Documents that name the version.
const DOCUMENTS: [&str; 3] =
    ["CONTRIBUTING.md", "crates/qualitytrace-telemetry/README.md", "docs/telemetry.md"];

/// Files that name another version than the manifest, or none.
pub(super) fn disagreeing(tree: &Tree) -> Vec<Broken> {
    let text = |path: &str| tree.get(path).map_or("", |file| file.text.as_str());
    let Some(version) = quoted(text(MANIFEST), "rust-version") else {
        return vec![Broken::new(MANIFEST, "states no `rust-version`")];
    };
    let mut broken = Vec::new();
    let channel = quoted(text(TOOLCHAIN), "channel").unwrap_or_default();
    if channel != version && !channel.starts_with(&format!("{version}.")) {
        let what = format!("builds with `{channel}`, so that `rust-version = \"{version}\"` is not checked");
        broken.push(Broken::new(TOOLCHAIN, what));
    }
    for path in DOCUMENTS.into_iter().filter(|path| !names(text(path), version)) {
        broken.push(Broken::new(path, format!("does not say that Rust {version} is needed")));
    }
    broken
}

/// Whether a text names this version, and no other.
fn names(text: &str, version: &str) -> bool {
    let found = text.split("Rust ").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest[..end].trim_end_matches('.')
    });
    let versions: Vec<&str> = found.filter(|found| found.starts_with(|c: char| c.is_ascii_digit())).collect();
    !versions.is_empty() && versions.iter().all(|found| *found == version)
}

/// The value of `key = "value"`.
fn quoted<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let line = text.lines().find(|line| line.split('=').next().is_some_and(|name| name.trim() == key))?;
    line.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_names_another_version_is_found() {
        let check = |manifest: &str, channel: &str, document: &str| {
            let toolchain = format!("channel = \"{channel}\"\n");
            let mut files = vec![(MANIFEST, manifest), (TOOLCHAIN, toolchain.as_str())];
            files.extend(DOCUMENTS.map(|path| (path, document)));
            disagreeing(&Tree::of(&files)).len()
        };
        let manifest = "[workspace.package]\nrust-version = \"1.95\"\n";
        assert_eq!(check(manifest, "1.95.0", "Needs Rust 1.95. Rust is a language."), 0);
        assert_eq!(check(manifest, "1.96.0", "Needs Rust 1.95"), 1);
        assert_eq!(check(manifest, "1.95.0", "Needs Rust 1.94, and Rust 1.95"), DOCUMENTS.len());
        assert_eq!(check(manifest, "1.95.0", "Needs Rust"), DOCUMENTS.len());
        assert_eq!(check("", "1.95.0", "Needs Rust 1.95"), 1);
    }
}
