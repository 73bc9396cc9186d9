//! The TOML reader: flat keys, each with its position.

use toml_parser::{ErrorSink, ParseError, Source, parser};

use crate::diagnostic::{Origin, Report};
use crate::located::{Kind, Leaf, Located};
use crate::source_text::SourceText;

/// Reads TOML into flat keys. Keys that are a conflict in strict TOML are kept side by side.
pub(crate) fn leaves(path: &str, text: &str, report: &mut Report) -> Vec<Leaf> {
    let place = SourceText::new(path, text);
    let source = Source::new(text);
    let tokens: Vec<_> = source.lex().collect();
    let mut events: Vec<parser::Event> = Vec::new();
    let mut errors = Errors::default();
    let mut collect = |event: parser::Event| events.push(event);
    parser::parse_document(&tokens, &mut parser::RecursionGuard::new(&mut collect, 32), &mut errors);
    let (table, empty) = (String::new(), None);
    let mut reader = Toml { place, source, table, empty, errors, leaves: Vec::new() };
    let mut rest = events.as_slice();
    while !rest.is_empty() {
        rest = reader.line(rest);
    }
    reader.end_table("");
    for error in &reader.errors.0 {
        let at = error.unexpected().or(error.context()).map_or(0, |span| span.start());
        let message = format!("this is not TOML: {}", error.description());
        report.error(&reader.place.origin(at), "", message, None);
    }
    reader.leaves
}

#[derive(Default)]
struct Errors(Vec<ParseError>);

impl ErrorSink for Errors {
    fn report_error(&mut self, error: ParseError) {
        self.0.push(error);
    }
}

struct Toml<'a> {
    place: SourceText<'a>,
    source: Source<'a>,
    table: String,
    /// The position of the table, as long as it is empty.
    empty: Option<Origin>,
    errors: Errors,
    leaves: Vec<Leaf>,
}

impl Toml<'_> {
    /// Reads one table head or one `key = value`, and returns what follows.
    fn line<'e>(&mut self, events: &'e [parser::Event]) -> &'e [parser::Event] {
        use parser::EventKind as E;
        match events[0].kind() {
            E::StdTableOpen | E::ArrayTableOpen => {
                let origin = self.place.origin(events[0].span().start());
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
            let value = Located { kind: Kind::Null, origin };
            self.leaves.push(Leaf { key: self.table.clone(), value });
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
                    let (value, rest) = self.located(events);
                    self.leaves.push(Leaf { key: key.to_owned(), value });
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

    fn located<'e>(&mut self, mut events: &'e [parser::Event]) -> (Located, &'e [parser::Event]) {
        use parser::EventKind as E;
        let origin = self.place.origin(events[0].span().start());
        if events[0].kind() == E::Scalar {
            let mut value = String::new();
            if let Some(raw) = self.source.get(events[0]) {
                let _ = raw.decode_scalar(&mut value, &mut self.errors);
            }
            return (Located::scalar(value, origin), &events[1..]);
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
                    let (item, rest) = self.located(events);
                    items.push(item);
                    events = rest;
                }
                _ => events = &events[1..],
            }
        }
        (Located { kind: Kind::List(items), origin }, events)
    }
}

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
}
