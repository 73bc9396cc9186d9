//! The YAML parser: builds the tree shared with JSON.
//!
//! Aliases are expanded and merge keys (`<<`) are merged here, both within a budget, so that a short file cannot
//! become a large tree. A broken document does not hide the ones after it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use granit_parser::{Event, Options, Parser, ScalarStyle};

use super::node::{Entry, Node, Scalar, Shape, Style};
use super::reader::Reader;
use crate::lang::Diagnostic;
use crate::lang::limits::{MAX_DEFINITION_DEPTH as MAX_DEPTH, MAX_DEFINITION_NODES as MAX_NODES};

/// Parses the documents of a YAML stream; empty ones are left out.
pub(super) fn parse(reader: &Reader<'_>) -> Vec<Node> {
    if let Some((at, letter)) = reader.source.char_indices().find(|(_, letter)| !is_printable(*letter)) {
        let message =
            format!("this is not valid YAML: it holds the control character U+{:04X}", u32::from(letter));
        let diagnostic = Diagnostic::error("yaml-syntax", reader.letter_at(at), message);
        reader
            .report(diagnostic.helped(format!("write it as \\u{:04X} in double quotes", u32::from(letter))));
        return Vec::new();
    }
    let mut options = Options::default();
    options.emit_comments = false;
    let mut parser = Parser::new_from_str_with_options(reader.source, options);
    let mut documents = Vec::new();
    let mut building = Building::default();
    loop {
        match parser.next_event() {
            None => break,
            Some(Ok((event, span))) => {
                let span = span.byte_range().unwrap_or(0..0);
                match building.take(event, &span) {
                    Ok(Some(document)) => documents.push(document),
                    Ok(None) => {}
                    Err(Refused { code, message, span }) => {
                        reader.error(code, span, message);
                        building = building.next_document();
                        if !parser.proceed_next_document().unwrap_or(false) {
                            break;
                        }
                    }
                }
            }
            Some(Err(error)) => {
                let at = error.marker().byte_offset().unwrap_or(reader.source.len());
                let message = format!("this is not valid YAML: {}", error.info());
                let diagnostic = Diagnostic::error("yaml-syntax", reader.letter_at(at), message);
                reader.report(match advice(reader.source, at) {
                    Some(help) => diagnostic.helped(help),
                    None => diagnostic,
                });
                building = building.next_document();
                if !parser.proceed_next_document().unwrap_or(false) {
                    break;
                }
            }
        }
    }
    documents
}

/// Whether YAML allows the character unescaped: other readers refuse the rest, and a text must mean the same to
/// all of them.
fn is_printable(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
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

/// Why a document was refused.
struct Refused {
    code: &'static str,
    message: String,
    span: Range<usize>,
}

/// A document that is being built, from the outside in.
#[derive(Default)]
struct Building {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

/// A list or mapping whose end has not been seen.
struct Open {
    start: usize,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map(Vec<Entry>, Option<(String, Range<usize>)>),
}

impl Building {
    /// Resets the state for the next document, but not the number of nodes built.
    fn next_document(self) -> Self {
        Self { nodes: self.nodes, ..Self::default() }
    }

    /// Handles one event; returns the document's root once it is complete.
    fn take(&mut self, event: Event<'_>, span: &Range<usize>) -> Result<Option<Node>, Refused> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tagged = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let node = scalar(text.into_owned(), style, tagged, span.clone());
                self.complete(node, anchor)
            }
            Event::SequenceStart(_, anchor, _) => self.begin(span, anchor, Content::List(Vec::new())),
            Event::MappingStart(_, anchor, _) => self.begin(span, anchor, Content::Map(Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else {
                    return Ok(None);
                };
                let (shape, end) = match open.content {
                    Content::List(items) => {
                        let end = items.last().map_or(span.end, |item| item.span.end);
                        (Shape::List(items), end)
                    }
                    Content::Map(entries, _) => {
                        let end = entries.last().map_or(span.end, |entry| entry.value.span.end);
                        (Shape::Map(merged(entries)?), end)
                    }
                };
                // A flow collection ends with its bracket, a block collection with its last value.
                let end = if span.is_empty() { end } else { span.end };
                let node = Node { shape, span: open.start..end.max(open.start) };
                self.complete(node, open.anchor)
            }
            Event::Alias(anchor) => {
                let mut node = self.anchors.get(&anchor).cloned().ok_or_else(|| Refused {
                    code: "yaml-alias",
                    message: "this alias refers to the value that contains it".to_owned(),
                    span: span.clone(),
                })?;
                self.spend(size(&node), span)?;
                // An error inside an aliased collection points at the anchor, one in an aliased scalar at the alias.
                if let Shape::Scalar(_) = node.shape {
                    node.span = span.clone();
                }
                self.complete(node, 0)
            }
            _ => Ok(None),
        }
    }

    fn begin(
        &mut self,
        span: &Range<usize>,
        anchor: usize,
        content: Content,
    ) -> Result<Option<Node>, Refused> {
        if self.open.len() >= MAX_DEPTH {
            return Err(Refused {
                code: "too-deep",
                message: format!("lists and mappings nest deeper than {MAX_DEPTH} levels"),
                span: span.clone(),
            });
        }
        self.open.push(Open { start: span.start, anchor, content });
        Ok(None)
    }

    fn complete(&mut self, node: Node, anchor: usize) -> Result<Option<Node>, Refused> {
        self.spend(1, &node.span)?;
        if anchor != 0 {
            // Anchors inside anchors would multiply their copies.
            self.spend(size(&node), &node.span)?;
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.anchors.clear();
            return Ok(Some(node));
        };
        match &mut open.content {
            Content::List(items) => items.push(node),
            Content::Map(entries, pending) => match pending.take() {
                Some((key, key_span)) => entries.push(Entry { key, key_span, value: node }),
                None => *pending = Some(key(node)?),
            },
        }
        Ok(None)
    }

    fn spend(&mut self, nodes: usize, span: &Range<usize>) -> Result<(), Refused> {
        self.nodes += nodes;
        if self.nodes <= MAX_NODES {
            return Ok(());
        }
        Err(Refused {
            code: "too-large",
            message: format!("the file holds more than {MAX_NODES} values once its aliases are written out"),
            span: span.clone(),
        })
    }
}

fn scalar(text: String, style: ScalarStyle, tagged: bool, span: Range<usize>) -> Node {
    let style = match style {
        ScalarStyle::SingleQuoted => Style::Single,
        ScalarStyle::DoubleQuoted => Style::Double,
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
        ScalarStyle::Plain => Style::Plain,
    };
    let is_text = tagged || style != Style::Plain;
    let shape = match (is_text, text.as_str()) {
        (false, "" | "~" | "null" | "Null" | "NULL") => Shape::Null,
        _ => Shape::Scalar(Scalar { text, style, is_text }),
    };
    Node { shape, span }
}

fn key(node: Node) -> Result<(String, Range<usize>), Refused> {
    match node.shape {
        Shape::Scalar(scalar) => Ok((scalar.text, node.span)),
        Shape::Null => Ok((String::new(), node.span)),
        Shape::List(_) | Shape::Map(_) => Err(Refused {
            code: "yaml-key",
            message: "a key is a text, not a list or a mapping".to_owned(),
            span: node.span,
        }),
    }
}

/// Merges the mappings under `<<` into the mapping itself; its own keys win.
fn merged(entries: Vec<Entry>) -> Result<Vec<Entry>, Refused> {
    if entries.iter().all(|entry| entry.key != "<<") {
        return Ok(entries);
    }
    let (merges, mut own): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|entry| entry.key == "<<");
    let mut known: HashSet<String> = own.iter().map(|entry| entry.key.clone()).collect();
    for merge in merges {
        let sources = match merge.value.shape {
            Shape::List(items) => items,
            _ => vec![merge.value],
        };
        for source in sources {
            let Shape::Map(inherited) = source.shape else {
                return Err(Refused {
                    code: "yaml-merge",
                    message: "only a mapping, or a list of mappings, can be merged with `<<`".to_owned(),
                    span: source.span,
                });
            };
            for entry in inherited {
                if known.insert(entry.key.clone()) {
                    own.push(entry);
                }
            }
        }
    }
    Ok(own)
}

fn size(node: &Node) -> usize {
    match &node.shape {
        Shape::Null | Shape::Scalar(_) => 1,
        Shape::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Shape::Map(entries) => 1 + entries.iter().map(|entry| size(&entry.value)).sum::<usize>(),
    }
}
