//! The parser. It is total: any text gives a tree and a list of diagnostics.
//!
//! Texts that Tracetest accepts keep their meaning. Extensions to its language are recorded in [`Parsed::beyond`].

mod assertion;
mod condition;
mod expression;
mod literal;
mod selector;
mod text;
mod trail;

use std::ops::Range;

use super::ast::{Assertion, Expr, Part, Selector};
use super::cursor::Cursor;
use super::diagnostic::Diagnostic;
use super::limits::{MAX_DEPTH, MAX_DIAGNOSTICS, MAX_PARTS};
use text::Ends;
use trail::TrailMode;

pub(crate) use trail::{Continuations, MAX_TOKENS, SyntaxChoice, is_word};
pub use trail::{Token, TokenKind};

/// A form of text: each has its own grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// A selector.
    Selector,
    /// An assertion.
    Assertion,
    /// An expression: the value of an output.
    Expression,
    /// A text in which `${...}` is replaced: the fields of a trigger.
    Template,
}

/// A tree, and the diagnostics of its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed<T> {
    /// The tree; it has holes where the text could not be parsed.
    pub tree: T,
    /// The diagnostics, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// The ranges that Tracetest would have refused.
    pub beyond: Vec<Range<usize>>,
}

impl<T> Parsed<T> {
    /// Whether the tree can be used.
    pub fn is_valid(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Returns the first error.
    pub fn error(&self) -> Option<&Diagnostic> {
        self.diagnostics.iter().find(|diagnostic| diagnostic.is_error())
    }
}

/// Parses a selector; an empty text selects every span.
pub fn parse_selector(text: &str) -> Parsed<Selector> {
    let mut parser = Parser::new(text, Quotes::Plain);
    let tree = parser.whole_selector();
    parser.finish(tree)
}

/// Parses an assertion.
pub fn parse_assertion(text: &str) -> Parsed<Assertion> {
    in_either_mode(text, Parser::whole_assertion)
}

/// Parses an expression.
pub fn parse_expression(text: &str) -> Parsed<Expr> {
    in_either_mode(text, Parser::whole_expression)
}

/// Parses a text in which `${...}` is replaced: the fields of a trigger.
pub fn parse_template(text: &str) -> Parsed<Vec<Part>> {
    in_either_mode(text, Parser::whole_template)
}

/// Returns the tokens of a text, in order and apart from each other, with gaps where the parser could not read it.
pub(crate) fn tokens(text: &str, form: Form) -> Vec<Token> {
    let note = |quotes| note(text, form, quotes, TrailMode::Tokens(Vec::new()));
    let (plain, is_valid) = note(Quotes::Plain);
    if is_valid || !text.contains("${") {
        return plain.into_tokens();
    }
    let (nested, is_valid) = note(Quotes::Nested);
    if is_valid { nested } else { plain }.into_tokens()
}

/// Returns what could stand where a text ends.
pub(crate) fn ending(text: &str, form: Form) -> Continuations {
    let note = |quotes| note(text, form, quotes, TrailMode::Ending(Continuations::default())).0.into_ending();
    let plain = note(Quotes::Plain);
    if plain.wanted.is_empty() && text.contains("${") { note(Quotes::Nested) } else { plain }
}

/// Parses a text for the notes; returns also whether it is valid.
fn note(text: &str, form: Form, quotes: Quotes, trail: TrailMode) -> (TrailMode, bool) {
    let mut parser = Parser::new(text, quotes);
    parser.trail = trail;
    match form {
        Form::Selector => drop(parser.whole_selector()),
        Form::Assertion => drop(parser.whole_assertion()),
        Form::Expression => drop(parser.whole_expression()),
        Form::Template => drop(parser.whole_template()),
    }
    let is_valid = !parser.diagnostics.iter().any(Diagnostic::is_error);
    (parser.trail, is_valid)
}

/// In Tracetest a `${...}` cannot hold the quote that ends its text, or a `}`. Only a text that is invalid that
/// way is parsed with nested quotes, so that no text changes its meaning.
fn in_either_mode<'s, T>(text: &'s str, read: fn(&mut Parser<'s>) -> T) -> Parsed<T> {
    let run = |quotes| {
        let mut parser = Parser::new(text, quotes);
        let tree = read(&mut parser);
        parser.finish(tree)
    };
    let plain = run(Quotes::Plain);
    if plain.is_valid() || !text.contains("${") {
        return plain;
    }
    let nested = run(Quotes::Nested);
    if nested.is_valid() { nested } else { plain }
}

/// Whether `${...}` may hold quotes and braces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    Plain,
    Nested,
}

struct Parser<'s> {
    cursor: Cursor<'s>,
    quotes: Quotes,
    depth: usize,
    /// The number of values, conditions and filters read so far.
    parts: usize,
    /// The offset of this text in the outer text, added to every place.
    base: usize,
    diagnostics: Vec<Diagnostic>,
    beyond: Vec<Range<usize>>,
    ends: Ends,
    trail: TrailMode,
}

impl<'s> Parser<'s> {
    fn new(text: &'s str, quotes: Quotes) -> Self {
        Self {
            cursor: Cursor::new(text),
            quotes,
            depth: 0,
            parts: 0,
            base: 0,
            diagnostics: Vec::new(),
            beyond: Vec::new(),
            ends: Ends::of(text),
            trail: TrailMode::Off,
        }
    }

    fn finish<T>(mut self, tree: T) -> Parsed<T> {
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
        Parsed { tree, diagnostics: self.diagnostics, beyond: self.beyond }
    }

    fn span(&self, start: usize) -> Range<usize> {
        self.base + start..self.base + self.cursor.at.max(start)
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        // One mistake often causes two errors at the same place; only the first is kept.
        let known = self.diagnostics.iter().any(|other| {
            other.is_error() && diagnostic.is_error() && other.span.start == diagnostic.span.start
        });
        // One error is enough to refuse the text; more than the maximum would not be read.
        if !known && self.diagnostics.len() < MAX_DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
        }
    }

    fn beyond(&mut self, start: usize) {
        let span = self.span(start);
        self.beyond.push(span);
    }

    /// Reports that something else was expected here.
    fn unexpected(&mut self, code: &'static str, expected: &str) -> &mut Self {
        self.ends_in_error();
        let word = self.cursor.next_word();
        let found = if self.cursor.at_end() {
            "the text ends".to_owned()
        } else {
            format!("found `{}`", &self.cursor.text[word.clone()])
        };
        let span = self.base + word.start..self.base + word.end;
        self.report(
            Diagnostic::error(code, span, format!("expected {expected}, {found}"))
                .labelled(format!("expected {expected}")),
        );
        self
    }

    /// Adds a suggestion to the last diagnostic.
    fn help(&mut self, help: impl Into<String>) {
        if let Some(last) = self.diagnostics.last_mut().filter(|last| last.help.is_none()) {
            last.help = Some(help.into());
        }
    }

    fn report_too_deep(&mut self, at: usize) {
        let at = self.base + at;
        let message = format!("nested more than {MAX_DEPTH} levels deep");
        let diagnostic = Diagnostic::error("nested-too-deeply", at..at, message);
        self.report(diagnostic.labelled("too deep").helped("write it in fewer levels"));
    }

    /// Counts one more part. If there are too many, skips the rest of the text.
    fn part(&mut self) -> Option<()> {
        self.parts += 1;
        if self.parts <= MAX_PARTS {
            return Some(());
        }
        let at = self.base + self.cursor.at;
        let message = format!("a text has at most {MAX_PARTS} values, conditions and filters");
        self.report(Diagnostic::error("too-large", at..at, message).helped("write several shorter ones"));
        self.cursor.at = self.cursor.text.len();
        None
    }

    /// Runs `read` one level deeper; beyond the maximum depth it skips the rest of the text.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= MAX_DEPTH {
            self.report_too_deep(self.cursor.at);
            self.cursor.at = self.cursor.text.len();
            return None;
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        Some(result)
    }
}
