//! The canonical layout of definition files: comments stay, the meaning stays, a second time changes nothing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use qualitytrace_core::definition::{Format, LayoutError, formatted, read};

#[track_caller]
fn check(source: &str, expected: &str) {
    let text = formatted(source, Format::Yaml).unwrap_or_else(|error| panic!("{error}: {source}"));
    assert_eq!(text, expected);
    assert_eq!(formatted(&text, Format::Yaml).as_deref(), Ok(expected), "a second time");
}

#[test]
fn keys_have_an_order_and_comments_go_with_them() {
    check(
        "# About the file.\n\nspec:\n    # What it checks.\n    specs:\n    - assertions: # all of them\n      - attr:a = 1   # one\n      # - attr:b = 2\n      selector: span[]\n      name: n\n    name: Checkout\n    id: a\ntype: Test\n",
        "# About the file.\n\ntype: Test\nspec:\n  id: a\n  name: Checkout\n  # What it checks.\n  specs:\n    - name: n\n      selector: span[]\n      assertions: # all of them\n        - attr:a = 1 # one\n        # - attr:b = 2\n",
    );
}

#[test]
fn the_time_of_a_spec_is_between_its_spans_and_what_they_must_hold() {
    check(
        "type: Test\nspec:\n  name: a\n  specs:\n    - within: 1m # a job\n      assertions: [attr:a = 1]\n      selector: span[]\n",
        "type: Test\nspec:\n  name: a\n  specs:\n    - selector: span[]\n      within: 1m # a job\n      assertions: [attr:a = 1]\n",
    );
}

#[test]
fn texts_keep_their_lines() {
    check(
        "type: Test\nspec:\n      name: >-\n          folded\n          text\n      trigger:\n            type: http\n            httpRequest:\n                  url: \"http://shop/\n                     orders\"\n                  method: POST\n                  body: |\n                       {\n                         \"a\": 1\n                       }\n                  headers: [\n                    {key: a, value: b},\n                  ]\n",
        "type: Test\nspec:\n  name: >-\n    folded\n    text\n  trigger:\n    type: http\n    httpRequest:\n      method: POST\n      url: \"http://shop/\n        orders\"\n      headers: [\n        {key: a, value: b},\n      ]\n      body: |\n        {\n          \"a\": 1\n        }\n",
    );
}

#[test]
fn blank_lines_are_kept_one_at_a_time() {
    check(
        "type: Test\n\n\n\nspec:\n\n  name: a\n\n\n  # b\n  description: c\n\n---\n# second\ntype: Config\nspec: {}\n\n\n",
        "type: Test\n\nspec:\n  name: a\n\n  # b\n  description: c\n---\n# second\ntype: Config\nspec: {}\n",
    );
}

#[test]
fn the_line_that_names_the_schema_stays_first() {
    check(
        "# yaml-language-server: $schema=./definition.json\nspec:\n  name: a\ntype: Test\n",
        "# yaml-language-server: $schema=./definition.json\ntype: Test\nspec:\n  name: a\n",
    );
}

#[test]
fn a_key_without_a_value_and_a_comment_in_a_list_stay() {
    check(
        "type: Test\nspec:\n  name: a\n  description:\n  specs:\n  # first\n  -\n    # second\n    selector: span[]\n    assertions: []\n  # last\n",
        "type: Test\nspec:\n  name: a\n  description:\n  specs:\n    # first\n    -\n      # second\n      selector: span[]\n      assertions: []\n  # last\n",
    );
}

#[test]
fn json_is_indented_and_ordered() {
    let source = r#"{"spec":{"specs":[],"name":"a","trigger":{"type":"http","httpRequest":{"url":"http://x","method":"GET"}}},"type":"Config"}"#;
    let text = formatted(source, Format::Json).expect("it can be read");
    assert!(text.starts_with("{\n  \"type\": \"Config\",\n  \"spec\": {\n    \"name\": \"a\","), "{text}");
    assert_eq!(formatted(&text, Format::Json).as_deref(), Ok(text.as_str()));
}

#[test]
fn what_cannot_be_read_or_has_anchors_is_refused() {
    let refused = |source: &str| formatted(source, Format::Yaml).unwrap_err();
    assert!(matches!(refused("type: [\n"), LayoutError::Unreadable { .. }));
    let anchored = "type: Test\nspec: &a\n  name: x\n";
    assert!(matches!(refused(anchored), LayoutError::Unusual { .. }));
}

/// The definitions in `examples`.
static EXAMPLES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut texts = Vec::new();
    for folder in ["shop", "go/tests", "java/tests", "node/tests", "python/tests"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(folder);
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                texts.push(std::fs::read_to_string(path).unwrap());
            }
        }
    }
    assert!(texts.len() > 10, "{} examples", texts.len());
    texts.sort();
    texts
});

#[test]
fn the_examples_have_the_canonical_layout() {
    for text in EXAMPLES.iter() {
        check(text, text);
    }
}

/// Puts comments and blank lines between the lines of a file, and indents it otherwise.
fn disturbed(text: &str, marks: &[u8], factor: usize, has_returns: bool) -> String {
    let mut out = String::new();
    let mut block_depth = None;
    for (number, line) in text.lines().enumerate() {
        let solid = line.trim_start_matches(' ');
        let depth = line.len() - solid.len();
        let is_in_block = block_depth.is_some_and(|block| solid.is_empty() || depth > block);
        if !is_in_block {
            block_depth = (solid.ends_with(": |") || solid.ends_with(": >-")).then_some(depth);
            match marks.get(number % marks.len().max(1)).copied().unwrap_or(0) % 8 {
                0 => {
                    let note = format!("{}# note {number}\n", " ".repeat(depth * factor));
                    out.push_str(&note);
                }
                1 => out.push('\n'),
                2 => out.push_str("\n\n# far left\n"),
                _ => {}
            }
        }
        let is_marked = !is_in_block && block_depth.is_none() && number % 5 == 1;
        let is_plain = solid.ends_with(|c: char| c.is_ascii_alphanumeric()) && !solid.starts_with('#');
        let comment = if is_marked && is_plain { "   # beside" } else { "" };
        // The text of an item stays in the column of the keys below it.
        let spread = match solid.strip_prefix("- ") {
            Some(item) if !is_in_block => format!("-{}{item}", " ".repeat(2 * factor - 1)),
            _ => solid.to_owned(),
        };
        let line = format!("{}{spread}{comment}\n", " ".repeat(depth * factor));
        out.push_str(&line);
    }
    if has_returns { out.replace('\n', "\r\n") } else { out }
}

fn comments(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> =
        text.lines().filter_map(|line| line.find("# ").map(|at| line[at..].trim_end())).collect();
    found.sort_unstable();
    found
}

#[test]
fn whatever_the_layout_was_the_meaning_and_the_comments_stay() {
    let mut runner = TestRunner::new(Config { cases: 256, ..Config::default() });
    let cases = (0..EXAMPLES.len(), proptest::collection::vec(any::<u8>(), 1..40), 1_usize..4, any::<bool>());
    let result = runner.run(&cases, |(example, marks, factor, has_returns)| {
        let source = disturbed(&EXAMPLES[example], &marks, factor, has_returns);
        let text =
            formatted(&source, Format::Yaml).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(formatted(&text, Format::Yaml), Ok(text.clone()));
        prop_assert_eq!(comments(&source), comments(&text));
        let resources = |text: &str| {
            read(text, Format::Yaml)
                .documents
                .into_iter()
                .map(|document| document.resource)
                .collect::<Vec<_>>()
        };
        prop_assert_eq!(resources(&source), resources(&text));
        Ok(())
    });
    result.unwrap();
}
