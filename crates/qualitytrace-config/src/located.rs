//! Values of settings with their origin, as trees and under flat keys.
//!
//! A tree keeps lists of maps, which the declarative file of OpenTelemetry needs. The flat form allows `enable = true`
//! beside `enable.log-exporter = true`, which neither strict TOML nor nested YAML allows.

use std::collections::HashSet;
use std::path::Path;

use crate::diagnostic::{Origin, Report, Severity};
use crate::source_text::SourceText;
use crate::tree::{Node, Shape};
use crate::yaml::{self, AliasSpan, Document, ErrorKind};

/// Bounds of a file of settings, against alias bombs.
const LIMITS: yaml::Limits = yaml::Limits { depth: 64, nodes: 100_000 };

/// A value with its origin.
#[derive(Debug, Clone)]
pub struct Located {
    /// Its content.
    pub kind: Kind,
    /// Where it came from.
    pub origin: Origin,
}

/// The content of a value.
#[derive(Debug, Clone)]
pub enum Kind {
    /// No value.
    Null,
    /// A single value; the reader of a setting decides whether it is a text or a number.
    Scalar(String),
    /// Several values.
    List(Vec<Located>),
    /// Keys with their own origins.
    Map(Vec<(String, Origin, Located)>),
}

/// A dotted key and its value, which is not a map.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The key, as the user wrote it.
    pub key: String,
    /// Its value.
    pub value: Located,
}

impl Located {
    /// A single value.
    pub fn scalar(text: impl Into<String>, origin: Origin) -> Self {
        Self { kind: Kind::Scalar(text.into()), origin }
    }

    /// Returns the value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.kind {
            Kind::Map(pairs) => pairs.iter().find(|(k, _, _)| k == key).map(|(_, _, value)| value),
            Kind::Null | Kind::Scalar(_) | Kind::List(_) => None,
        }
    }

    /// Returns all leaves under dotted keys.
    pub fn flatten(&self) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        flatten(self, String::new(), &mut leaves);
        leaves
    }

    /// Reads one YAML (or JSON) document; reports why there is none.
    pub fn from_yaml(path: &str, text: &str, report: &mut Report) -> Option<Self> {
        let source = SourceText::new(path, text);
        let documents = yaml::documents(text, LIMITS, AliasSpan::Anchor);
        let is_syntax = |document: &&Document| {
            matches!(&document.root, Err(yaml::Error { kind: ErrorKind::Syntax(_), .. }))
        };
        let located = match documents.iter().find(is_syntax).or(documents.first()) {
            None => Ok(Self { kind: Kind::Map(Vec::new()), origin: source.origin(text.len()) }),
            Some(Document { root: Ok(root), .. }) => located(root, &source),
            Some(Document { root: Err(error), .. }) => {
                Err((source.origin(error.span.start), message(&error.kind, path)))
            }
        };
        match located {
            Ok(located) => {
                if let Some(second) = documents.get(1) {
                    let origin = source.origin(second.start.start);
                    let message = "a configuration is one document: what begins here is not read".to_owned();
                    report.push(Severity::Warning, &origin, "", message, None);
                }
                Some(located)
            }
            Err((origin, message)) => {
                report.error(&origin, "", message, None);
                None
            }
        }
    }
}

fn flatten(value: &Located, prefix: String, leaves: &mut Vec<Leaf>) {
    match &value.kind {
        Kind::Map(pairs) if !pairs.is_empty() || prefix.is_empty() => {
            for (key, _, child) in pairs {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(child, key, leaves);
            }
        }
        Kind::Null | Kind::Scalar(_) | Kind::List(_) | Kind::Map(_) => {
            leaves.push(Leaf { key: prefix, value: value.clone() });
        }
    }
}

/// Resolves the positions of a tree. A key that is given twice is refused: one of its values would be lost.
fn located(node: &Node, source: &SourceText<'_>) -> Result<Located, (Origin, String)> {
    let origin = source.origin(node.span.start);
    let kind = match &node.shape {
        Shape::Null => Kind::Null,
        Shape::Scalar(scalar) => Kind::Scalar(scalar.text.clone()),
        Shape::List(items) => {
            Kind::List(items.iter().map(|item| located(item, source)).collect::<Result<_, _>>()?)
        }
        Shape::Map(entries) => {
            let (mut known, mut pairs) = (HashSet::new(), Vec::new());
            for entry in entries {
                let key_origin = source.origin(entry.key_span.start);
                let value = located(&entry.value, source)?;
                if !known.insert(entry.key.as_str()) {
                    return Err((key_origin, format!("`{}` is given twice", entry.key)));
                }
                pairs.push((entry.key.clone(), key_origin, value));
            }
            Kind::Map(pairs)
        }
    };
    Ok(Located { kind, origin })
}

fn message(error: &ErrorKind, path: &str) -> String {
    match error {
        ErrorKind::Syntax(why) => {
            let is_json = Path::new(path).extension().is_some_and(|extension| extension == "json");
            format!("this is not {}: {why}", if is_json { "JSON" } else { "YAML" })
        }
        ErrorKind::RecursiveAlias => "this alias has no anchor".to_owned(),
        ErrorKind::TooDeep | ErrorKind::TooLarge { by_alias: false } => {
            "the file nests too deep or is too large".to_owned()
        }
        ErrorKind::TooLarge { by_alias: true } => {
            "the file is too large once its aliases are read".to_owned()
        }
        ErrorKind::Key => "a key must be a word".to_owned(),
        ErrorKind::Merge => "`<<` takes a mapping, or a list of them".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let mut report = Report::default();
        Located::from_yaml(path, text, &mut report);
        let said: Vec<String> = report.diagnostics.iter().map(ToString::to_string).collect();
        assert_eq!(said, expected, "{text}");
    }

    #[test]
    fn what_cannot_be_read_is_reported_with_its_position() {
        check("c.yaml", "a: 1\n[b]: 2\n", &["c.yaml:2:1: error: a key must be a word"]);
        check("c.yaml", "a: 1\né: {b: 1, b: 2}\n", &["c.yaml:2:11: error: `b` is given twice"]);
        check("c.yaml", "a:\n  <<: 1\n", &["c.yaml:2:7: error: `<<` takes a mapping, or a list of them"]);
        check("c.yaml", "a: &a\n  - *a\n", &["c.yaml:2:5: error: this alias has no anchor"]);
        let deep = format!("a: {}", "[".repeat(70) + &"]".repeat(70));
        check("c.yaml", &deep, &["c.yaml:1:67: error: the file nests too deep or is too large"]);
        check("c.json", "[1", &["c.json:1:1: error: this is not JSON: unclosed bracket '['"]);
    }

    #[test]
    fn a_second_document_is_not_read_and_its_syntax_still_counts() {
        let unread = "c.yaml:2:1: warning: a configuration is one document: what begins here is not read";
        check("c.yaml", "a: 1\n---\nb: 1\n", &[unread]);
        check("c.yaml", "a: 1\n---\n[b]: 1\n", &[unread]);
        check("c.yaml", "a: 1\n---\n}\n", &["c.yaml:3:1: error: this is not YAML: misplaced bracket"]);
    }

    #[test]
    fn an_aliased_value_has_the_origin_of_its_anchor() {
        let tree = Located::from_yaml("c.yaml", "a: &x 1\nb: *x\n", &mut Report::default()).unwrap();
        let origins: Vec<String> = tree.flatten().iter().map(|leaf| leaf.value.origin.to_string()).collect();
        assert_eq!(origins, ["c.yaml:1:7", "c.yaml:1:7"]);
    }
}
