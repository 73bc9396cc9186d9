//! Checks that every dependency has its reason in ARCHITECTURE.md.

use super::{Broken, tree::Tree};

const MANIFEST: &str = "Cargo.toml";
const REASONS: &str = "ARCHITECTURE.md";

/// Dependencies of the workspace that ARCHITECTURE.md does not name in backticks.
pub(super) fn unexplained(tree: &Tree) -> Vec<Broken> {
    let manifest = tree.get(MANIFEST).map_or("", |file| &file.text);
    let Some(reasons) = tree.get(REASONS) else {
        return vec![Broken::new(REASONS, "is missing: it names each dependency with its reason")];
    };
    let missing = shared(manifest).filter(|name| !reasons.text.contains(&format!("`{name}`")));
    missing.map(|name| Broken::new(MANIFEST, format!("`{name}` has no reason in {REASONS}"))).collect()
}

/// Dependencies of the workspace that no crate uses.
pub(super) fn unused(tree: &Tree) -> Vec<Broken> {
    let manifest = tree.get(MANIFEST).map_or("", |file| &file.text);
    let members: Vec<_> = tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")).collect();
    let asks = |text: &str, name: &str| {
        let ways = [format!("{name}.workspace = true"), format!("{name} = {{ workspace = true")];
        text.lines().any(|line| ways.iter().any(|way| line.starts_with(way)))
    };
    let unused = shared(manifest).filter(|name| !members.iter().any(|member| asks(&member.text, name)));
    unused.map(|name| Broken::new(MANIFEST, format!("`{name}` is used by no crate: take it out"))).collect()
}

/// The names under `[workspace.dependencies]`, without our own crates.
fn shared(manifest: &str) -> impl Iterator<Item = &str> {
    let section = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let entries = section.take_while(|line| !line.starts_with('['));
    let named = entries.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    named.filter(|(_, value)| !value.contains("path = ")).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let manifest = "[workspace.dependencies]\nours = { path = \"ours\" }\n# Errors\nanyhow = \"1\"\nserde = \"1\"\n\
                        \n[profile.dev]\ndebug = 1\n";
        let tree =
            Tree::of(&[("Cargo.toml", manifest), ("ARCHITECTURE.md", "- `anyhow`: errors of `main`\n")]);
        assert_eq!(
            unexplained(&tree),
            [Broken::new("Cargo.toml", "`serde` has no reason in ARCHITECTURE.md")]
        );
    }

    #[test]
    fn a_dependency_that_no_crate_uses_is_found() {
        let manifest = "[workspace.dependencies]\nanyhow = \"1\"\nserde = \"1\"\ntoml = \"1\"\n";
        let member = "[dependencies]\nanyhow.workspace = true\nserde = { workspace = true, features = [] }\n";
        let tree = Tree::of(&[("Cargo.toml", manifest), ("a/Cargo.toml", member)]);
        assert_eq!(unused(&tree), [Broken::new("Cargo.toml", "`toml` is used by no crate: take it out")]);
    }
}
