//! The examples of the documentation.

use std::path::{Path, PathBuf};

use qualitytrace_core::definition::{Format, check, read};
use regex::Regex;

/// Returns the fenced blocks of a language, each with the line on which it begins.
fn blocks<'d>(document: &'d str, language: &str) -> Vec<(usize, &'d str)> {
    let mut blocks = Vec::new();
    let (mut begun, mut line, mut at) = (None, 0, 0);
    for text in document.split_inclusive('\n') {
        line += 1;
        let fence = text.trim_end();
        match begun {
            None if fence.strip_prefix("```") == Some(language) => begun = Some((line, at + text.len())),
            Some((first, start)) if fence == "```" => {
                blocks.push((first, &document[start..at]));
                begun = None;
            }
            _ => {}
        }
        at += text.len();
    }
    blocks
}

#[test]
fn every_example_of_a_definition_is_read_without_a_word() {
    for (name, document, at_least) in [
        ("docs/definitions.md", include_str!("../../../../docs/definitions.md"), 10),
        ("docs/recipes.md", include_str!("../../../../docs/recipes.md"), 11),
        ("README.md", include_str!("../../../../README.md"), 1),
    ] {
        let blocks = blocks(document, "yaml");
        assert!(blocks.len() >= at_least, "the examples of {name} are gone");
        for (line, block) in blocks {
            let reading = read(block, Format::Yaml);
            let found: Vec<_> =
                reading.documents.iter().flat_map(|document| check(&document.resource)).collect();
            assert!(!reading.documents.is_empty(), "{name}:{line}");
            assert!(reading.diagnostics.is_empty(), "{name}:{line}: {:?}", reading.diagnostics);
            assert!(found.is_empty(), "{name}:{line}: {found:?}");
        }
    }
}

/// Returns the Rust files of a folder, recursively.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().expect("a folder").map(|entry| entry.expect("a file").path());
    entries
        .flat_map(|path| match path.extension() {
            _ if path.is_dir() => sources(&path),
            Some(ending) if ending == "rs" => vec![path],
            _ => Vec::new(),
        })
        .collect()
}

/// Returns the diagnostic codes in a source text: literals that are the first argument of a report, or the value
/// of a constant.
fn codes(source: &str) -> Vec<String> {
    let call = r#"(?:error\(|warning\(|code:)\s*"([a-z]+(?:-[a-z]+)+)""#;
    let constant = r#"const [A-Z_]+: &str = "([a-z]+(?:-[a-z]+)+)";"#;
    [call, constant]
        .iter()
        .flat_map(|pattern| {
            let found = Regex::new(pattern).expect("a pattern");
            found.captures_iter(source).map(|found| found[1].to_owned()).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the sources are what is tested")]
fn every_code_of_a_message_is_documented() {
    let document = include_str!("../../../../docs/definitions.md");
    let listed = document.split("## Codes of messages").nth(1).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files =
        ["src/definition", "../qualitytrace/src/cli"].map(|folder| sources(&root.join(folder))).concat();
    let texts = files.iter().map(|file| (file, std::fs::read_to_string(file).unwrap()));
    let found: Vec<_> =
        texts.flat_map(|(file, text)| codes(&text).into_iter().map(move |code| (file, code))).collect();
    assert!(found.len() > 50, "the codes are written in another way: {found:?}");
    for (file, code) in found {
        assert!(
            listed.contains(&format!("`{code}`")),
            "docs/definitions.md does not list `{code}` of {file:?}"
        );
    }
}
