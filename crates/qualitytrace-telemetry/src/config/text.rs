//! Configuration texts as trees and as flat keys, each with its position.
//!
//! Nothing here knows what a key means. A tree keeps lists of maps (the declarative format needs them); the flat form
//! allows `enable = true` beside `enable.log-exporter = true`, which neither strict TOML nor nested YAML allows.

use granit_parser::{Event, Parser, ScalarStyle, Span};
use toml_parser::{ErrorSink, ParseError, Source, parser};

use super::diagnostic::{Origin, Report, Severity};

/// Limit on nodes, against alias bombs.
const MAX_NODES: usize = 100_000;

/// The YAML merge key.
const MERGE: &str = "<<";

/// A value with its position.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) origin: Origin,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Null,
    Scalar(String),
    List(Vec<Node>),
    /// Keys with their own positions.
    Map(Vec<(String, Origin, Node)>),
}

/// A key and a value that is not a map.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            Kind::Map(pairs) => pairs.iter().find(|(k, _, _)| k == key).map(|(_, _, node)| node),
            Kind::Null | Kind::Scalar(_) | Kind::List(_) => None,
        }
    }

    /// All leaves under dotted keys. The position of an entry is that of its value, or of its key where there is no
    /// value.
    pub(crate) fn flatten(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        flatten(self, String::new(), &mut entries);
        entries
    }
}

fn flatten(node: &Node, prefix: String, entries: &mut Vec<Entry>) {
    match &node.kind {
        Kind::Map(pairs) if !pairs.is_empty() || prefix.is_empty() => {
            for (key, _, child) in pairs {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(child, key, entries);
            }
        }
        Kind::Null | Kind::Scalar(_) | Kind::List(_) | Kind::Map(_) => {
            entries.push(Entry { key: prefix, node: node.clone() });
        }
    }
}

fn place(path: &str, span: Span) -> Origin {
    Origin::File { path: path.to_owned(), line: span.start.line(), column: span.start.col() + 1 }
}

/// Reads one YAML (or JSON) document.
pub(crate) fn yaml(path: &str, text: &str, report: &mut Report) -> Option<Node> {
    let mut reader = Yaml { path, events: Vec::new(), next: 0, anchors: Vec::new(), nodes: 0 };
    for event in Parser::new_from_str(text) {
        match event {
            Ok(pair) => reader.events.push(pair),
            Err(error) => {
                let mark = error.marker();
                let origin =
                    Origin::File { path: path.to_owned(), line: mark.line(), column: mark.col() + 1 };
                let is_json =
                    std::path::Path::new(path).extension().is_some_and(|extension| extension == "json");
                let format = if is_json { "JSON" } else { "YAML" };
                report.error(&origin, "", format!("this is not {format}: {}", error.info()), None);
                return None;
            }
        }
    }
    match reader.document() {
        Ok(node) => {
            if let Some(origin) = reader.next_document() {
                let message = "a configuration is one document: what begins here is not read".to_owned();
                report.push(Severity::Warning, &origin, "", message, None);
            }
            Some(node)
        }
        Err((origin, message)) => {
            report.error(&origin, "", message, None);
            None
        }
    }
}

struct Yaml<'a> {
    path: &'a str,
    events: Vec<(Event<'a>, Span)>,
    next: usize,
    anchors: Vec<(usize, Node)>,
    nodes: usize,
}

type Failure = (Origin, String);

impl Yaml<'_> {
    fn document(&mut self) -> Result<Node, Failure> {
        while let Some((event, span)) = self.events.get(self.next) {
            let origin = place(self.path, *span);
            match event {
                Event::StreamStart | Event::DocumentStart(..) => self.next += 1,
                Event::StreamEnd | Event::DocumentEnd => {
                    return Ok(Node { kind: Kind::Map(Vec::new()), origin });
                }
                _ => return self.node(0),
            }
        }
        let origin = Origin::File { path: self.path.to_owned(), line: 1, column: 1 };
        Ok(Node { kind: Kind::Map(Vec::new()), origin })
    }

    /// The position of the next document.
    fn next_document(&self) -> Option<Origin> {
        let left = self.events.get(self.next..)?;
        let (_, span) = left.iter().find(|(event, _)| matches!(event, Event::DocumentStart(..)))?;
        Some(place(self.path, *span))
    }

    fn node(&mut self, depth: usize) -> Result<Node, Failure> {
        let Some((event, span)) = self.events.get(self.next).cloned() else {
            let origin = Origin::File { path: self.path.to_owned(), line: 1, column: 1 };
            return Err((origin, "the file ends too early".to_owned()));
        };
        let origin = place(self.path, span);
        self.next += 1;
        self.nodes += 1;
        if depth > 64 || self.nodes > MAX_NODES {
            return Err((origin, "the file nests too deep or is too large".to_owned()));
        }
        let anchor = event.anchor_id();
        let kind = match event {
            Event::Scalar(text, style, ..) => {
                let plain = matches!(style, ScalarStyle::Plain);
                if plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL") {
                    Kind::Null
                } else {
                    Kind::Scalar(text.into_owned())
                }
            }
            Event::Alias(id) => {
                let found = self.anchors.iter().rev().find(|(anchor, _)| *anchor == id);
                let Some((_, node)) = found else {
                    return Err((origin, "this alias has no anchor".to_owned()));
                };
                self.nodes += count(node);
                if self.nodes > MAX_NODES {
                    return Err((origin, "the file is too large once its aliases are read".to_owned()));
                }
                return Ok(node.clone());
            }
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                while !matches!(self.events.get(self.next), Some((Event::SequenceEnd, _)) | None) {
                    items.push(self.node(depth + 1)?);
                }
                self.next += 1;
                Kind::List(items)
            }
            Event::MappingStart(..) => Kind::Map(self.pairs(depth)?),
            _ => return Err((origin, "a value is expected here".to_owned())),
        };
        let node = Node { kind, origin };
        if let Some(anchor) = anchor {
            self.anchors.push((anchor, node.clone()));
        }
        Ok(node)
    }

    fn pairs(&mut self, depth: usize) -> Result<Vec<(String, Origin, Node)>, Failure> {
        let mut pairs: Vec<(String, Origin, Node)> = Vec::new();
        let mut merged: Vec<(String, Origin, Node)> = Vec::new();
        while !matches!(self.events.get(self.next), Some((Event::MappingEnd, _)) | None) {
            let key = self.node(depth + 1)?;
            let name = match key.kind {
                Kind::Scalar(name) => name,
                Kind::Null => String::new(),
                Kind::List(_) | Kind::Map(_) => {
                    return Err((key.origin, "a key must be a word".to_owned()));
                }
            };
            let value = self.node(depth + 1)?;
            if name == MERGE {
                merged.extend(mergeable(value)?);
                continue;
            }
            if pairs.iter().any(|(other, _, _)| *other == name) {
                return Err((key.origin, format!("`{name}` is given twice")));
            }
            pairs.push((name, key.origin, value));
        }
        self.next += 1;
        // A mapping's own pairs override merged ones, and earlier merged pairs override later ones.
        for (name, origin, value) in merged {
            if !pairs.iter().any(|(other, _, _)| *other == name) {
                pairs.push((name, origin, value));
            }
        }
        Ok(pairs)
    }
}

/// The pairs of a merge key's value: those of a mapping, or of a list of mappings.
fn mergeable(value: Node) -> Result<Vec<(String, Origin, Node)>, Failure> {
    match value.kind {
        Kind::Map(pairs) => Ok(pairs),
        Kind::List(items) => Ok(items.into_iter().map(mergeable).collect::<Result<Vec<_>, _>>()?.concat()),
        Kind::Null | Kind::Scalar(_) => {
            Err((value.origin, format!("`{MERGE}` takes a mapping, or a list of them")))
        }
    }
}

fn count(node: &Node) -> usize {
    1 + match &node.kind {
        Kind::Null | Kind::Scalar(_) => 0,
        Kind::List(items) => items.iter().map(count).sum(),
        Kind::Map(pairs) => pairs.iter().map(|(_, _, node)| count(node)).sum(),
    }
}

/// Reads TOML into flat keys. Keys that are a conflict in strict TOML are kept side by side.
pub(crate) fn toml(path: &str, text: &str, report: &mut Report) -> Vec<Entry> {
    let source = Source::new(text);
    let tokens: Vec<_> = source.lex().collect();
    let mut events: Vec<parser::Event> = Vec::new();
    let mut errors = Errors::default();
    let mut collect = |event: parser::Event| events.push(event);
    parser::parse_document(&tokens, &mut parser::RecursionGuard::new(&mut collect, 32), &mut errors);
    let (table, empty) = (String::new(), None);
    let mut reader = Toml { path, text, source, table, empty, errors, entries: Vec::new() };
    let mut rest = events.as_slice();
    while !rest.is_empty() {
        rest = reader.line(rest);
    }
    reader.end_table("");
    for error in reader.errors.0 {
        let at = error.unexpected().or(error.context()).map_or(0, |span| span.start());
        report.error(
            &position(path, text, at),
            "",
            format!("this is not TOML: {}", error.description()),
            None,
        );
    }
    reader.entries
}

#[derive(Default)]
struct Errors(Vec<ParseError>);

impl ErrorSink for Errors {
    fn report_error(&mut self, error: ParseError) {
        self.0.push(error);
    }
}

/// The line and column of a byte.
fn position(path: &str, text: &str, byte: usize) -> Origin {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |tail| tail.chars().count()) + 1;
    Origin::File { path: path.to_owned(), line, column }
}

struct Toml<'a> {
    path: &'a str,
    text: &'a str,
    source: Source<'a>,
    table: String,
    /// The position of the table, as long as it is empty.
    empty: Option<Origin>,
    errors: Errors,
    entries: Vec<Entry>,
}

impl Toml<'_> {
    /// Reads one table head or one `key = value`, and returns what follows.
    fn line<'e>(&mut self, events: &'e [parser::Event]) -> &'e [parser::Event] {
        use parser::EventKind as E;
        match events[0].kind() {
            E::StdTableOpen | E::ArrayTableOpen => {
                let origin = position(self.path, self.text, events[0].span().start());
                let (key, rest) = self.key(&events[1..]);
                self.end_table(&key);
                (self.table, self.empty) = (key, Some(origin));
                rest
            }
            E::SimpleKey => {
                self.empty = None;
                let (key, rest) = self.key(events);
                let table = self.table.clone();
                self.value(&join(&table, &key), rest)
            }
            _ => &events[1..],
        }
    }

    /// Ends a table. An empty one is a key without a value, unless the next one is a part of it.
    fn end_table(&mut self, next: &str) {
        let is_part = next.strip_prefix(&self.table).is_some_and(|rest| rest.starts_with('.'));
        if let Some(origin) = self.empty.take().filter(|_| !is_part) {
            self.entries.push(Entry { key: self.table.clone(), node: Node { kind: Kind::Null, origin } });
        }
    }

    /// Reads a dotted key; the events that end it are skipped.
    fn key<'e>(&mut self, mut events: &'e [parser::Event]) -> (String, &'e [parser::Event]) {
        use parser::EventKind as E;
        let mut key = String::new();
        while let Some(event) = events.first() {
            match event.kind() {
                E::SimpleKey => {
                    let mut name = String::new();
                    if let Some(raw) = self.source.get(event) {
                        raw.decode_key(&mut name, &mut self.errors);
                    }
                    key = join(&key, &name);
                }
                E::KeySep | E::Whitespace => {}
                E::KeyValSep | E::StdTableClose | E::ArrayTableClose => return (key, &events[1..]),
                _ => return (key, events),
            }
            events = &events[1..];
        }
        (key, events)
    }

    fn value<'e>(&mut self, key: &str, mut events: &'e [parser::Event]) -> &'e [parser::Event] {
        use parser::EventKind as E;
        while let Some(event) = events.first() {
            match event.kind() {
                E::Whitespace | E::Newline | E::Comment => events = &events[1..],
                E::InlineTableOpen => return self.inline_table(key, &events[1..]),
                E::ArrayOpen | E::Scalar => {
                    let (node, rest) = self.node(events);
                    self.entries.push(Entry { key: key.to_owned(), node });
                    return rest;
                }
                _ => return events,
            }
        }
        events
    }

    fn inline_table<'e>(&mut self, prefix: &str, mut events: &'e [parser::Event]) -> &'e [parser::Event] {
        use parser::EventKind as E;
        while let Some(event) = events.first() {
            match event.kind() {
                E::InlineTableClose => return &events[1..],
                E::SimpleKey => {
                    let (key, rest) = self.key(events);
                    events = self.value(&join(prefix, &key), rest);
                }
                _ => events = &events[1..],
            }
        }
        events
    }

    fn node<'e>(&mut self, mut events: &'e [parser::Event]) -> (Node, &'e [parser::Event]) {
        use parser::EventKind as E;
        let origin = position(self.path, self.text, events[0].span().start());
        if events[0].kind() == E::Scalar {
            let mut value = String::new();
            if let Some(raw) = self.source.get(events[0]) {
                let _ = raw.decode_scalar(&mut value, &mut self.errors);
            }
            return (Node { kind: Kind::Scalar(value), origin }, &events[1..]);
        }
        let mut items = Vec::new();
        events = &events[1..];
        while let Some(event) = events.first() {
            match event.kind() {
                E::ArrayClose => {
                    events = &events[1..];
                    break;
                }
                E::Scalar | E::ArrayOpen => {
                    let (node, rest) = self.node(events);
                    items.push(node);
                    events = rest;
                }
                _ => events = &events[1..],
            }
        }
        (Node { kind: Kind::List(items), origin }, events)
    }
}

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}
