//! The YAML reader: builds a tree whose nodes know their bytes.
//!
//! Aliases are expanded and merge keys (`<<`) are merged here, both within limits, so that a short text cannot become
//! a large tree. A broken document does not hide the ones after it. How an error is worded is up to the caller.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Options, Parser, ScalarStyle};

use crate::position::Span;
use crate::tree::{Entry, Node, Scalar, Shape, Style};

/// Bounds of what is read.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The deepest nesting of lists and mappings.
    pub depth: usize,
    /// The largest number of values in all documents together, with their aliases expanded.
    pub nodes: usize,
}

/// The span of a scalar that is written as an alias. One inside an aliased list or mapping is always its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AliasSpan {
    /// The alias: spans of children then lie within those of their parents.
    Alias,
    /// The anchored value: there it is written, and there it is changed.
    Anchor,
}

/// One document of a text.
#[derive(Debug, Clone)]
pub struct Document {
    /// The bytes that mark its beginning: `---`, or none.
    pub start: Span,
    /// Its value, or why it has none.
    pub root: Result<Node, Error>,
}

/// Why a document cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The bytes at fault; a syntax error has only a position.
    pub span: Span,
}

/// What is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// It is not YAML, for this reason.
    Syntax(String),
    /// An alias refers to the value that contains it.
    RecursiveAlias,
    /// Lists and mappings nest deeper than the limit.
    TooDeep,
    /// There are more values than the limit allows.
    TooLarge {
        /// Whether the value that exceeds it is an alias.
        by_alias: bool,
    },
    /// A key is a list or a mapping.
    Key,
    /// The value of `<<` is neither a mapping nor a list of mappings.
    Merge,
}

/// Reads every document of a text; one without a value is a null.
pub fn documents(text: &str, limits: Limits, alias_span: AliasSpan) -> Vec<Document> {
    let mut options = Options::default();
    options.emit_comments = false;
    let mut parser = Parser::new_from_str_with_options(text, options);
    let mut documents = Vec::new();
    let mut start = 0..0;
    let mut builder = Builder::new(limits, alias_span);
    while let Some(event) = parser.next_event() {
        let root = match event {
            Ok((event, span)) => {
                let span = span.byte_range().unwrap_or(0..0);
                if let Event::DocumentStart(..) = event {
                    start = span.clone();
                }
                builder.take(event, &span).transpose()
            }
            Err(error) => {
                let at = error.marker().byte_offset().unwrap_or(text.len());
                Some(Err(Error { kind: ErrorKind::Syntax(error.info().clone()), span: at..at }))
            }
        };
        let Some(root) = root else { continue };
        let is_broken = root.is_err();
        documents.push(Document { start: start.clone(), root });
        if is_broken {
            builder = builder.next_document();
            if !parser.proceed_next_document().unwrap_or(false) {
                break;
            }
        }
    }
    documents
}

/// A document that is being built, from the outside in.
struct Builder {
    limits: Limits,
    alias_span: AliasSpan,
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
    Map(Vec<Entry>, Option<(String, Span)>),
}

impl Builder {
    fn new(limits: Limits, alias_span: AliasSpan) -> Self {
        Self { limits, alias_span, open: Vec::new(), anchors: HashMap::new(), nodes: 0 }
    }

    /// Resets the state for the next document, but not the number of nodes built.
    fn next_document(self) -> Self {
        Self { nodes: self.nodes, ..Self::new(self.limits, self.alias_span) }
    }

    /// Handles one event; returns the document's root once it is complete.
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<Option<Node>, Error> {
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
                let Some(mut node) = self.anchors.get(&anchor).cloned() else {
                    return Err(Error { kind: ErrorKind::RecursiveAlias, span: span.clone() });
                };
                self.spend(size(&node), span, true)?;
                if let Shape::Scalar(_) = node.shape
                    && self.alias_span == AliasSpan::Alias
                {
                    node.span = span.clone();
                }
                self.complete(node, 0)
            }
            _ => Ok(None),
        }
    }

    fn begin(&mut self, span: &Span, anchor: usize, content: Content) -> Result<Option<Node>, Error> {
        if self.open.len() >= self.limits.depth {
            return Err(Error { kind: ErrorKind::TooDeep, span: span.clone() });
        }
        self.open.push(Open { start: span.start, anchor, content });
        Ok(None)
    }

    fn complete(&mut self, node: Node, anchor: usize) -> Result<Option<Node>, Error> {
        self.spend(1, &node.span, false)?;
        if anchor != 0 {
            // Anchors inside anchors would multiply their copies.
            self.spend(size(&node), &node.span, false)?;
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

    fn spend(&mut self, nodes: usize, span: &Span, by_alias: bool) -> Result<(), Error> {
        self.nodes += nodes;
        if self.nodes <= self.limits.nodes {
            return Ok(());
        }
        Err(Error { kind: ErrorKind::TooLarge { by_alias }, span: span.clone() })
    }
}

fn scalar(text: String, style: ScalarStyle, tagged: bool, span: Span) -> Node {
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

fn key(node: Node) -> Result<(String, Span), Error> {
    match node.shape {
        Shape::Scalar(scalar) => Ok((scalar.text, node.span)),
        Shape::Null => Ok((String::new(), node.span)),
        Shape::List(_) | Shape::Map(_) => Err(Error { kind: ErrorKind::Key, span: node.span }),
    }
}

/// Merges the mappings under `<<` into the mapping itself; its own keys win, then those that are merged first.
fn merged(entries: Vec<Entry>) -> Result<Vec<Entry>, Error> {
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
                return Err(Error { kind: ErrorKind::Merge, span: source.span });
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { depth: 4, nodes: 40 };

    /// Writes a tree in one line, each scalar with its bytes.
    fn written(node: &Node) -> String {
        let list = |parts: Vec<String>| parts.join(" ");
        match &node.shape {
            Shape::Null => "null".to_owned(),
            Shape::Scalar(scalar) => format!("{}@{:?}", scalar.text, node.span),
            Shape::List(items) => format!("[{}]", list(items.iter().map(written).collect())),
            Shape::Map(entries) => {
                let pair = |entry: &Entry| format!("{}: {}", entry.key, written(&entry.value));
                format!("{{{}}}", list(entries.iter().map(pair).collect()))
            }
        }
    }

    #[track_caller]
    fn check(text: &str, alias_span: AliasSpan, expected: &[&str]) {
        let found: Vec<String> = documents(text, LIMITS, alias_span)
            .iter()
            .map(|document| match &document.root {
                Ok(node) => written(node),
                Err(Error { kind: ErrorKind::Syntax(_), span }) => format!("syntax {span:?}"),
                Err(error) => format!("{:?} {:?}", error.kind, error.span),
            })
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn values_know_their_bytes() {
        check("a: 1\nb: [x, 'y']\nc:\n", AliasSpan::Alias, &["{a: 1@3..4 b: [x@9..10 y@12..15] c: null}"]);
        check("", AliasSpan::Alias, &[]);
        check("--- 1\n---\n--- 2\n", AliasSpan::Alias, &["1@4..5", "null", "2@14..15"]);
    }

    #[test]
    fn an_aliased_scalar_has_the_span_that_is_asked_for() {
        let text = "a: &x 1\nb: *x\nc: &l [2]\nd: *l\n";
        check(text, AliasSpan::Alias, &["{a: 1@6..7 b: 1@11..13 c: [2@21..22] d: [2@21..22]}"]);
        check(text, AliasSpan::Anchor, &["{a: 1@6..7 b: 1@6..7 c: [2@21..22] d: [2@21..22]}"]);
    }

    #[test]
    fn own_keys_go_before_merged_ones() {
        let text = "x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\n";
        check(text, AliasSpan::Alias, &["{x: {a: 1@10..11 b: 2@16..17} y: {b: 3@34..35 a: 1@10..11}}"]);
        check("<<: 1\n", AliasSpan::Alias, &["Merge 4..5"]);
    }

    #[test]
    fn a_broken_document_does_not_hide_the_next() {
        check("a: [\n---\nb: 1\n", AliasSpan::Alias, &["syntax 3..3", "{b: 1@12..13}"]);
        check("[a]: 1\n---\n2\n", AliasSpan::Alias, &["Key 0..3", "2@11..12"]);
    }

    #[test]
    fn trees_are_bounded() {
        check("[[[[[1]]]]]", AliasSpan::Alias, &["TooDeep 4..5"]);
        let wide = "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]";
        check(
            &format!("a: &a {wide}\nb: *a\nc: *a"),
            AliasSpan::Alias,
            &["TooLarge { by_alias: true } 46..48"],
        );
        check("a: &a [*a]", AliasSpan::Alias, &["RecursiveAlias 7..9"]);
    }
}
