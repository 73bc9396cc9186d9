//! Checks of the crates of others: their licences, crates that must not come back, and crates in several versions.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::Broken;
use crate::{process, workspace::cargo};

/// Licences that the program may be distributed under together with its own.
const LICENCES: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
/// Crates whose manifest names a file instead of a licence; each was read.
const LICENCE_FILES: [&str; 1] = ["jsonpath-rust"];
/// Crates that must not be used, and why.
const BANNED: [(&str, &str); 5] = [
    ("aws-lc-sys", "the provider of rustls is `ring`"),
    ("native-tls", "TLS is `rustls`"),
    ("openssl-sys", "TLS is `rustls`"),
    ("sqlx-macros", "it compiles both database drivers again for the build host"),
    ("tracing-log", "log lines are events of `tracing`"),
];
/// Crates that are there in several versions, and who holds them back. Each costs build time.
const DUPLICATES: [(&str, &str); 23] = [
    ("base64", "sqlx and tonic use 0.22"),
    ("bitflags", "ariadne of apollo-compiler uses 1"),
    ("block-buffer", "rsasl uses digest 0.10"),
    ("cpufeatures", "rsasl uses sha2 0.10"),
    ("crypto-common", "rsasl uses digest 0.10"),
    ("digest", "rsasl uses 0.10"),
    ("fluent-uri", "boon uses 0.3"),
    ("getrandom", "ring uses 0.2, rand 0.9 uses 0.3"),
    ("hashbrown", "rowan of apollo-compiler uses 0.14, sqlx uses 0.16"),
    ("hmac", "rsasl uses 0.12"),
    ("logos", "protox-parse uses 0.15"),
    ("logos-codegen", "protox-parse uses 0.15"),
    ("logos-derive", "protox-parse uses 0.15"),
    ("quick-xml", "quick-junit uses 0.41"),
    ("rand", "rsasl uses 0.8, opentelemetry_sdk uses 0.9, sqlx uses 0.10"),
    ("rand_chacha", "rsasl uses rand 0.8"),
    ("rand_core", "rsasl uses rand 0.8, opentelemetry_sdk uses rand 0.9"),
    ("sha1", "tungstenite uses 0.10"),
    ("sha2", "rsasl uses 0.10"),
    ("syn", "prost-derive, tracing-attributes and logos use 2"),
    ("thiserror", "jsonpath-rust of apollo-compiler uses 1"),
    ("thiserror-impl", "jsonpath-rust of apollo-compiler uses 1"),
    ("unicode-width", "miette of protox uses 0.1"),
];

/// A crate of others.
#[derive(Debug)]
pub(super) struct Package {
    name: String,
    version: String,
    licence: Option<String>,
}

/// Lists the crates of others that are built, for the program and for its tests.
pub(super) fn packages() -> Result<Vec<Package>> {
    // Unlike `cargo metadata`, it leaves out dependencies of features that are not switched on.
    let tree = process::output(&mut cargo([
        "tree",
        "--workspace",
        "--locked",
        "--prefix=none",
        "--format={p}|{l}",
    ]))?;
    Ok(tree.lines().filter_map(package).collect())
}

/// Reads `serde v1.0.0|MIT`. Crates of our own have their path in between.
fn package(line: &str) -> Option<Package> {
    let (package, licence) = line.split_once('|')?;
    let (name, version) = package.split_once(" v")?;
    let licence = licence.trim_end_matches(" (*)");
    (!version.contains(" (/")).then(|| Package {
        name: name.to_owned(),
        version: version.split(' ').next().unwrap_or_default().to_owned(),
        licence: (!licence.is_empty()).then(|| licence.to_owned()),
    })
}

/// Crates whose licence is not on the list.
pub(super) fn unlicensed(packages: &[Package]) -> Vec<Broken> {
    let is_allowed = |package: &&Package| match &package.licence {
        Some(expression) => is_satisfied(expression),
        None => LICENCE_FILES.contains(&package.name.as_str()),
    };
    let unlicensed = packages.iter().filter(|package| !is_allowed(package));
    let broken = unlicensed.map(|package| {
        let licence = package.licence.as_deref().unwrap_or("a licence file");
        Broken::new(
            "Cargo.lock",
            format!("`{}` has {licence}, which is not among the allowed licences", package.name),
        )
    });
    broken.collect()
}

/// Whether the list allows one alternative of an SPDX expression. `/` is the old way to write `OR`.
fn is_satisfied(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let expression = expression.trim();
    let alternatives = split(expression, " OR ");
    if alternatives.len() > 1 {
        return alternatives.into_iter().any(is_satisfied);
    }
    let parts = split(expression, " AND ");
    if parts.len() > 1 {
        return parts.into_iter().all(is_satisfied);
    }
    match expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => is_satisfied(inner),
        None => LICENCES.contains(&expression.split(" WITH ").next().unwrap_or_default().trim()),
    }
}

/// Splits at an operator outside parentheses.
fn split<'e>(expression: &'e str, operator: &str) -> Vec<&'e str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, letter) in expression.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 && at >= start && expression[at..].starts_with(operator) => {
                parts.push(&expression[start..at]);
                start = at + operator.len();
            }
            _ => {}
        }
    }
    parts.push(&expression[start..]);
    parts
}

/// Banned crates that are used.
pub(super) fn banned(packages: &[Package]) -> Vec<Broken> {
    let used = BANNED.iter().filter(|(name, _)| packages.iter().any(|package| package.name == *name));
    used.map(|(name, why)| Broken::new("Cargo.lock", format!("`{name}` must not be used: {why}"))).collect()
}

/// Crates in several versions without a reason, and reasons without a crate in several versions.
pub(super) fn duplicated(packages: &[Package]) -> Vec<Broken> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let known = |name: &str| DUPLICATES.iter().any(|(known, _)| *known == name);
    let unknown = versions.iter().filter(|(name, _)| !known(name)).map(|(name, versions)| {
        let versions: Vec<&str> = versions.iter().copied().collect();
        format!("`{name}` is there as {}: use one version, or say who holds it back", versions.join(" and "))
    });
    let outdated = DUPLICATES.iter().filter(|(name, _)| !versions.contains_key(name));
    let outdated =
        outdated.map(|(name, _)| format!("`{name}` is there once: take it out of the known duplicates"));
    unknown.chain(outdated).map(|what| Broken::new("Cargo.lock", what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str, version: &str, licence: Option<&str>) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: licence.map(ToOwned::to_owned),
        }
    }

    #[test]
    fn lines_of_cargo_tree_are_read() {
        let read = |line: &str| package(line).map(|found| (found.name, found.version, found.licence));
        let serde = ("serde".to_owned(), "1.0.0".to_owned(), Some("MIT OR Apache-2.0".to_owned()));
        assert_eq!(read("serde v1.0.0|MIT OR Apache-2.0"), Some(serde.clone()));
        assert_eq!(read("serde v1.0.0 (proc-macro)|MIT OR Apache-2.0 (*)"), Some(serde));
        assert_eq!(read("ours v2.0.0 (/ours)|MIT"), None);
        assert_eq!(read("bare v1.0.0|"), Some(("bare".to_owned(), "1.0.0".to_owned(), None)));
    }

    #[test]
    fn licences_are_read_as_expressions() {
        for (expression, is_allowed) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("(GPL-3.0 OR MIT) AND LGPL-2.1", false),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("", false),
        ] {
            assert_eq!(is_satisfied(expression), is_allowed, "{expression}");
        }
        let found = unlicensed(&[made("a", "1.0.0", Some("GPL-3.0")), made("b", "1.0.0", None)]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn banned_crates_and_new_duplicates_are_found() {
        let packages = [
            made("openssl-sys", "0.9.0", Some("MIT")),
            made("serde", "1.0.0", Some("MIT")),
            made("serde", "2.0.0", Some("MIT")),
        ];
        assert_eq!(banned(&packages).len(), 1);
        let found = duplicated(&packages);
        assert!(found.iter().any(|broken| broken.what.starts_with("`serde` is there as 1.0.0 and 2.0.0")));
        assert!(found.iter().any(|broken| broken.what.starts_with("`base64` is there once")), "{found:?}");
    }
}
