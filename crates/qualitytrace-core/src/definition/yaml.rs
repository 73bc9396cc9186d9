//! YAML files: reads their documents, and words what is wrong with them.

use qualitytrace_config::tree::Node;
use qualitytrace_config::yaml::{self, AliasSpan, Error, ErrorKind, Limits};

use super::reader::Reader;
use crate::lang::Diagnostic;
use crate::lang::limits::{MAX_DEFINITION_DEPTH as MAX_DEPTH, MAX_DEFINITION_NODES as MAX_NODES};

/// Parses the documents of a YAML stream; empty ones are null.
pub(super) fn parse(reader: &Reader<'_>) -> Vec<Node> {
    if let Some((at, letter)) = reader.source.char_indices().find(|(_, letter)| !is_printable(*letter)) {
        let message =
            format!("this is not valid YAML: it holds the control character U+{:04X}", u32::from(letter));
        let diagnostic = Diagnostic::error("yaml-syntax", reader.letter_at(at), message);
        reader
            .report(diagnostic.helped(format!("write it as \\u{:04X} in double quotes", u32::from(letter))));
        return Vec::new();
    }
    let limits = Limits { depth: MAX_DEPTH, nodes: MAX_NODES };
    // Edits and places rely on the spans of children to lie within those of their parents.
    let documents = yaml::documents(reader.source, limits, AliasSpan::Alias);
    documents
        .into_iter()
        .filter_map(|document| document.root.map_err(|error| reader.report(diagnostic(reader, error))).ok())
        .collect()
}

/// Whether YAML allows the character unescaped: other readers refuse the rest, and a text must mean the same to
/// all of them.
fn is_printable(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

fn diagnostic(reader: &Reader<'_>, error: Error) -> Diagnostic {
    let Error { kind, span } = error;
    match kind {
        ErrorKind::Syntax(why) => {
            let at = span.start;
            let message = format!("this is not valid YAML: {why}");
            let diagnostic = Diagnostic::error("yaml-syntax", reader.letter_at(at), message);
            match advice(reader.source, at) {
                Some(help) => diagnostic.helped(help),
                None => diagnostic,
            }
        }
        ErrorKind::RecursiveAlias => {
            Diagnostic::error("yaml-alias", span, "this alias refers to the value that contains it")
        }
        ErrorKind::TooDeep => {
            let message = format!("lists and mappings nest deeper than {MAX_DEPTH} levels");
            Diagnostic::error("too-deep", span, message)
        }
        ErrorKind::TooLarge { .. } => {
            let message =
                format!("the file holds more than {MAX_NODES} values once its aliases are written out");
            Diagnostic::error("too-large", span, message)
        }
        ErrorKind::Key => Diagnostic::error("yaml-key", span, "a key is a text, not a list or a mapping"),
        ErrorKind::Merge => {
            let message = "only a mapping, or a list of mappings, can be merged with `<<`";
            Diagnostic::error("yaml-merge", span, message)
        }
    }
}

/// Suggests the usual cause of a syntax error at this place.
fn advice(source: &str, at: usize) -> Option<&'static str> {
    let rest = source.get(at..)?;
    if rest.starts_with(": ") || rest.starts_with(":\n") {
        return Some("put a text that holds a colon and a blank in single quotes");
    }
    let line = source[..at].rfind('\n').map_or(0, |at| at + 1);
    let has_tab = source[line..at].contains('\t') || rest.starts_with('\t');
    has_tab.then_some("indent with blanks: YAML does not allow tabs there")
}
