//! The examples of the documentation.

use qualitytrace_core::definition::{Format, check, read};

/// The fenced blocks of a language, each with the line on which it begins.
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
