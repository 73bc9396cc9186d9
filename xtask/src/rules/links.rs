//! Checks that documents lead to files and headings that exist.

use std::collections::BTreeSet;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::{
    Broken,
    tree::{Source, Tree},
};

/// The documents whose paths of crates must exist, and how these end.
const GUIDES: [(&str, &str); 2] = [("ARCHITECTURE.md", ""), ("CONTRIBUTING.md", ".rs")];

/// What a document has that others can lead to, and where it leads itself.
#[derive(Default)]
struct Document {
    anchors: BTreeSet<String>,
    links: Vec<String>,
    /// Pieces of code in the text.
    codes: Vec<String>,
}

/// Links of documents to files or headings that do not exist, and paths that the guides of the code name in vain.
pub(super) fn broken(tree: &Tree) -> Vec<Broken> {
    let mut broken = Vec::new();
    for file in tree.files.iter().filter(|file| is_document(file)) {
        let document = Document::read(&file.text);
        for link in document.links.iter().filter(|link| !link.contains(':')) {
            if let Some(what) = wrong(tree, file, link) {
                broken.push(Broken::new(&file.path, format!("leads to `{link}`, {what}")));
            }
        }
        if let Some((_, end)) = GUIDES.iter().find(|(path, _)| *path == file.path) {
            let named = document.codes.iter().filter(|code| code.ends_with(end)).flat_map(|code| paths(code));
            let missing = named.filter(|path| !is_known(tree, path));
            broken.extend(
                missing.map(|path| Broken::new(&file.path, format!("names `{path}`, which does not exist"))),
            );
        }
    }
    broken
}

fn is_document(file: &Source) -> bool {
    std::path::Path::new(&file.path).extension().is_some_and(|extension| extension == "md")
}

/// What is wrong with a link of a file.
fn wrong(tree: &Tree, from: &Source, link: &str) -> Option<&'static str> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { from.path.clone() } else { resolved(&from.path, path) };
    if !exists(tree, &target) {
        return Some("which does not exist");
    }
    let file = tree.get(&target).filter(|file| is_document(file) && !anchor.is_empty())?;
    (!Document::read(&file.text).anchors.contains(anchor)).then_some("which has no such heading")
}

/// The path that a link of this file leads to.
fn resolved(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// Whether a file or folder exists, also one that is no text.
fn exists(tree: &Tree, path: &str) -> bool {
    let folder = format!("{path}/");
    let is_read = tree.files.iter().any(|file| file.path == path || file.path.starts_with(&folder));
    is_read || crate::workspace::root().join(path).exists()
}

/// The paths in a piece of code: `qualitytrace-core/src/{series,suite}.rs` is two.
fn paths(code: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "/._-{,}".contains(letter);
    if !code.contains('/') || code.starts_with('/') || code.contains("..") || !code.chars().all(is_part) {
        return Vec::new();
    }
    match code.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (choices, after))) => {
            choices.split(',').map(|choice| format!("{before}{choice}{after}")).collect()
        }
        None => vec![code.trim_end_matches('/').to_owned()],
    }
}

/// Whether a path exists, from the root or from any folder: a row that has named a crate goes on inside of it.
fn is_known(tree: &Tree, path: &str) -> bool {
    let (file, folder) = (format!("/{path}"), format!("/{path}/"));
    let is_below = |known: &Source| {
        let known = format!("/{}", known.path);
        known.ends_with(&file) || known.contains(&folder)
    };
    tree.files.iter().any(is_below)
}

impl Document {
    fn read(text: &str) -> Self {
        let mut document = Self::default();
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let number = (1..=document.anchors.len() + 1)
                        .find(|number| !document.anchors.contains(&numbered(&anchor, *number)));
                    document.anchors.insert(numbered(&anchor, number.unwrap_or(1)));
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(dest_url.to_string());
                }
                Event::Code(code) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    document.codes.push(code.to_string());
                }
                Event::Text(text) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        document
    }
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect::<String>().to_lowercase()
}

/// The anchor of the heading that is the first, second, .. with its text.
fn numbered(anchor: &str, number: usize) -> String {
    if number == 1 { anchor.to_owned() } else { format!("{anchor}-{}", number - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found() {
        let page = "# The `run` of it\n## Same\n## Same\n[a](b.md#deep) [c](../x.md) [here](#the-run-of-it) [s](#same-1)";
        let tree = Tree::of(&[
            ("docs/a.md", page),
            ("docs/b.md", "# Shallow"),
            ("ARCHITECTURE.md", "`xtask/none.rs`, `a b/c`"),
        ]);
        let found: Vec<String> = broken(&tree).into_iter().map(|broken| broken.what).collect();
        assert_eq!(
            found,
            [
                "leads to `b.md#deep`, which has no such heading",
                "leads to `../x.md`, which does not exist",
                "names `xtask/none.rs`, which does not exist",
            ]
        );
    }

    #[test]
    fn braces_stand_for_several_paths() {
        assert_eq!(
            paths("qualitytrace-core/src/{series,suite}.rs"),
            ["qualitytrace-core/src/series.rs", "qualitytrace-core/src/suite.rs"]
        );
        assert!(paths("/api/tests").is_empty() && paths("a b/c").is_empty());
    }
}
