//! Text in quotes and templates: escapes and `${...}`.

use std::collections::HashMap;
use std::ops::Range;

use super::trail::TokenKind;
use super::{Parser, Quotes};
use crate::json;
use crate::lang::ast::{Expr, Part};
use crate::lang::diagnostic::Diagnostic;
use crate::lang::limits::{MAX_DEPTH, MAX_PARTS};

/// A part of a text: as written and decoded.
enum Piece<'s> {
    Characters { raw: &'s str, cooked: &'s str },
    Interpolation(Expr),
}

impl<'s> Parser<'s> {
    pub(super) fn whole_template(&mut self) -> Vec<Part> {
        let content = 0..self.cursor.text.len();
        let whole = content.clone();
        let pieces = self.pieces(content, whole, |after| after.starts_with("${").then_some(("$", 1)));
        self.cursor.at = self.cursor.text.len();
        join(pieces, false)
    }

    /// Reads the text in quotes that begins here.
    pub(super) fn quoted(&mut self) -> Option<Vec<Part>> {
        let start = self.cursor.at;
        let quote = self.cursor.bump()?;
        let Some(end) = self.closing_quote(quote) else {
            self.cursor.at = self.cursor.text.len();
            self.token(TokenKind::Text, start);
            if self.looks_for_ending() {
                let whole = start..self.cursor.at;
                self.pieces(start + 1..self.cursor.at, whole, |_| None);
                self.ends_too_early();
            }
            let span = self.span(start);
            self.report(
                Diagnostic::error("unclosed-string", span, "this text is never closed")
                    .labelled("never closed")
                    .helped(format!("add the closing `{quote}`")),
            );
            return None;
        };
        let pieces = self.pieces(start + 1..end, start..end + 1, |after| {
            let next = after.chars().next()?;
            Some(match next {
                '\\' => ("\\", 1),
                // In single quotes a double quote needs no escape, and a backslash before it is literal.
                '"' if quote == '"' => ("\"", 1),
                '\'' => ("'", 1),
                'n' => ("\n", 1),
                'r' => ("\r", 1),
                't' => ("\t", 1),
                '$' if after.starts_with("${") => ("$", 1),
                _ => return None,
            })
        });
        self.cursor.at = end + 1;
        // JSON has its own escapes; in single quotes it is taken as written.
        let as_written = quote == '\'' && is_json(&pieces);
        Some(join(pieces, as_written))
    }

    /// Finds the end of the text that begins here. `\"` is part of the text, unless no later quote could end it.
    fn closing_quote(&mut self, quote: char) -> Option<usize> {
        let text = self.cursor.text;
        let mut at = self.cursor.at;
        let mut escaped = None;
        while let Some(c) = text[at..].chars().next() {
            if c == quote {
                return Some(at);
            }
            if c == '\\' {
                let next = text[at + 1..].chars().next();
                if next == Some(quote) {
                    escaped = Some(at + 1);
                }
                at += 1 + next.map_or(0, char::len_utf8);
                continue;
            }
            if self.quotes == Quotes::Nested
                && text[at..].starts_with("${")
                && let Some(end) = self.ends.find(text, at + 2, 0)
            {
                at = end + 1;
                continue;
            }
            at += c.len_utf8();
        }
        escaped
    }

    /// Reads the content of a text; `whole` is its range with the quotes around it.
    fn pieces(
        &mut self,
        content: Range<usize>,
        whole: Range<usize>,
        escape: impl Fn(&str) -> Option<(&'static str, usize)>,
    ) -> Vec<Piece<'s>> {
        let text: &'s str = self.cursor.text;
        let mut pieces = Vec::new();
        let (mut at, mut literal) = (content.start, content.start);
        let mut noted = whole.start;
        while at < content.end {
            let rest = &text[at..content.end];
            if let Some(after) = rest.strip_prefix('\\') {
                if let Some((meaning, length)) = escape(after) {
                    pieces.push(characters(&text[literal..at]));
                    pieces.push(Piece::Characters { raw: &text[at..=at + length], cooked: meaning });
                    at += 1 + length;
                    literal = at;
                    continue;
                }
                at += 1;
                continue;
            }
            if rest.starts_with("${") {
                if let Some(end) = self.interpolation_end(at + 2, content.end) {
                    pieces.push(characters(&text[literal..at]));
                    self.token_at(TokenKind::Text, noted..at);
                    self.token_at(TokenKind::Punctuation, at..at + 2);
                    pieces.push(Piece::Interpolation(self.interpolation(at + 2..end)));
                    self.token_at(TokenKind::Punctuation, end..end + 1);
                    at = end + 1;
                    literal = at;
                    noted = at;
                    if self.parts > MAX_PARTS {
                        break;
                    }
                    continue;
                }
                if self.ends.are_too_deep {
                    self.report_too_deep(at);
                    break;
                }
                if self.looks_for_ending() {
                    self.interpolation(at + 2..content.end);
                    break;
                }
            }
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
        pieces.push(characters(&text[literal..content.end]));
        self.token_at(TokenKind::Text, noted..whole.end);
        pieces
    }

    fn interpolation_end(&mut self, start: usize, limit: usize) -> Option<usize> {
        let end = match self.quotes {
            // A search for a brace that failed once is not repeated.
            Quotes::Plain if self.ends.no_brace_from.is_some_and(|from| start >= from) => return None,
            Quotes::Plain => match self.cursor.text[start..limit].find('}') {
                Some(end) => start + end,
                None => {
                    self.ends.no_brace_from = (limit == self.cursor.text.len()).then_some(start);
                    return None;
                }
            },
            Quotes::Nested => self.ends.find(self.cursor.text, start, 0)?,
        };
        (end > start && end < limit).then_some(end)
    }

    fn interpolation(&mut self, inner: Range<usize>) -> Expr {
        let mut parser = Parser::new(&self.cursor.text[inner.clone()], self.quotes);
        parser.base = self.base + inner.start;
        (parser.depth, parser.parts) = (self.depth, self.parts);
        parser.trail = self.lend_trail(&inner);
        let tree = parser.deeper(Self::whole_expression);
        self.parts = parser.parts;
        self.return_trail(std::mem::take(&mut parser.trail));
        if self.quotes == Quotes::Nested {
            self.beyond.push(inner.clone());
        }
        self.beyond.append(&mut parser.beyond);
        for diagnostic in parser.diagnostics {
            let needs_help = diagnostic.help.is_none();
            self.report(diagnostic);
            if needs_help {
                self.help("write `\\${` to have the characters `${` themselves");
            }
        }
        tree.unwrap_or(Expr { kind: crate::lang::ast::ExprKind::Hole, place: inner.into() })
    }
}

fn characters(text: &str) -> Piece<'_> {
    Piece::Characters { raw: text, cooked: text }
}

fn is_json(pieces: &[Piece<'_>]) -> bool {
    let first = pieces.iter().find_map(|piece| match piece {
        Piece::Characters { raw, .. } => raw.trim_start().chars().next(),
        Piece::Interpolation(_) => Some('0'),
    });
    if !first.is_some_and(|c| matches!(c, '{' | '[')) {
        return false;
    }
    let mut sample = String::new();
    for piece in pieces {
        match piece {
            Piece::Characters { raw, .. } => sample.push_str(as_json(raw)),
            // A digit is valid both inside a JSON text and as a JSON value.
            Piece::Interpolation(_) => sample.push('0'),
        }
    }
    json::look(&sample).is_some()
}

/// Decodes the one escape that JSON does not have: that of the surrounding quote.
fn as_json(raw: &str) -> &str {
    if raw == "\\'" { "'" } else { raw }
}

fn join(pieces: Vec<Piece<'_>>, as_written: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    for piece in pieces {
        match piece {
            Piece::Characters { raw, cooked } => {
                literal.push_str(if as_written { as_json(raw) } else { cooked });
            }
            Piece::Interpolation(expr) => {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                }
                parts.push(Part::Interpolation(expr));
            }
        }
    }
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    parts
}

/// Maximum number of times that every character of a text may be visited to find the ends of its interpolations.
const LOOKS: usize = 64;

/// The ends of the interpolations of one text.
#[derive(Debug)]
pub(super) struct Ends {
    /// By the position where their content begins.
    known: HashMap<usize, Option<usize>>,
    /// The number of characters that may still be visited; a text that needs more is invalid.
    left: usize,
    /// Whether some were not found because they are nested too deeply.
    are_too_deep: bool,
    /// From this position on, the text has no closing brace.
    no_brace_from: Option<usize>,
}

impl Ends {
    pub(super) fn of(text: &str) -> Self {
        Self {
            known: HashMap::new(),
            left: text.len().saturating_mul(LOOKS),
            are_too_deep: false,
            no_brace_from: None,
        }
    }

    /// Finds the `}` that closes the interpolation whose content begins at `start`, skipping quotes.
    fn find(&mut self, text: &str, start: usize, depth: usize) -> Option<usize> {
        if depth > MAX_DEPTH {
            self.are_too_deep = true;
            return None;
        }
        if let Some(end) = self.known.get(&start) {
            return *end;
        }
        let end = self.scan(text, start, depth);
        self.known.insert(start, end);
        end
    }

    fn scan(&mut self, text: &str, start: usize, depth: usize) -> Option<usize> {
        let mut at = start;
        let mut inside = None;
        while let Some(c) = text[at..].chars().next() {
            if self.left == 0 {
                self.are_too_deep = true;
                return None;
            }
            self.left -= 1;
            match (inside, c) {
                (None, '}') => return Some(at),
                (None, '"' | '\'') => inside = Some(c),
                (Some(quote), c) if c == quote => inside = None,
                // The character after the backslash is skipped with it.
                (Some(_), '\\') => {
                    at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8);
                    continue;
                }
                (Some(_), '$') if text[at..].starts_with("${") => {
                    if let Some(end) = self.find(text, at + 2, depth + 1) {
                        at = end;
                    }
                }
                _ => {}
            }
            at += text[at..].chars().next().map_or(0, char::len_utf8);
        }
        None
    }
}
