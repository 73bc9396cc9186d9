//! The grammar of selectors: literals.

use super::Parser;
use super::selector::{is_identifier_part, is_identifier_start};
use super::trail::{SyntaxChoice, TokenKind};
use crate::lang::ast::{Literal, Name};
use crate::lang::diagnostic::{Diagnostic, nearest};
use crate::lang::vocabulary;
use crate::time;

impl<'s> Parser<'s> {
    pub(super) fn literal(&mut self, name: &Name) -> Option<Literal> {
        self.blanks();
        self.want(|| SyntaxChoice::Value(name.clone()));
        let start = self.cursor.at;
        let literal = match self.cursor.peek() {
            Some('"') => {
                let text = self.selector_string();
                self.token(TokenKind::Text, start);
                Literal::Text(text?)
            }
            Some('“' | '”') => Literal::Text(self.curly_string()?),
            Some('-') => {
                self.cursor.bump();
                if !self.cursor.peek().is_some_and(|c| c.is_ascii_digit() || c == '.') {
                    self.unexpected("expected-value", "a number after `-`");
                    return None;
                }
                self.beyond(start);
                self.number(start)?
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(start)?,
            Some(c) if is_identifier_start(c) => self.bare_word(name)?,
            _ => {
                self.unexpected("expected-value", "a value");
                let next = self.cursor.peek();
                if next.is_none_or(|c| c == ']') {
                    self.help("to select the spans that have the attribute, write `exists` after its name");
                } else if next.is_some_and(|c| matches!(c, '\'' | '`' | '‘' | '’')) {
                    self.help("values of text stand in straight double quotes: \"...\"");
                }
                return None;
            }
        };
        self.token(token_of(&literal), start);
        self.blanks();
        if self.cursor.peek() == Some('"') && !self.string_is_name() {
            let before = self.cursor.at;
            self.selector_string();
            self.token(TokenKind::Text, before);
            let span = self.span(before);
            self.report(
                Diagnostic::error("two-values", span, "a condition compares with one value")
                    .labelled("a second value")
                    .helped("remove it, or write `in (...)` to accept several values"),
            );
        }
        Some(literal)
    }

    /// Whether the string here is the name of the next condition, not a second value of the last one.
    pub(super) fn string_is_name(&mut self) -> bool {
        let (cursor, diagnostics) = (self.cursor, self.diagnostics.len());
        self.selector_string();
        self.diagnostics.truncate(diagnostics);
        self.blanks();
        let is_name =
            self.cursor.peek().is_some_and(|c| matches!(c, '=' | '!' | '<' | '>') || is_identifier_start(c));
        self.cursor = cursor;
        is_name
    }

    pub(super) fn bare_word(&mut self, name: &Name) -> Option<Literal> {
        let start = self.cursor.at;
        let word = self.cursor.take_while(is_identifier_part);
        match word {
            "true" => return Some(Literal::Bool(true)),
            "false" => return Some(Literal::Bool(false)),
            _ => {}
        }
        let span = self.span(start);
        let words: &[&str] = match name.text.as_str() {
            "kind" | "span.kind" if !name.quoted => &vocabulary::KINDS,
            "status" | "span.status" if !name.quoted => &vocabulary::STATUSES,
            _ => {
                self.report(
                    Diagnostic::error("unquoted-text", span, format!("the text `{word}` is not in quotes"))
                        .labelled("text needs quotes")
                        .helped(format!("write \"{word}\"")),
                );
                return None;
            }
        };
        if words.contains(&word) {
            self.beyond(start);
            return Some(Literal::Word(word.to_owned()));
        }
        let known = words.join(", ");
        let mut diagnostic =
            Diagnostic::error("unknown-word", span, format!("`{word}` is not a {}", name.text))
                .labelled(format!("one of {known}"));
        if let Some(near) = nearest(word, words.iter().copied()) {
            diagnostic = diagnostic.helped(format!("did you mean `{near}`?"));
        }
        self.report(diagnostic);
        None
    }

    /// Reads a number or a duration; a sign may precede it.
    pub(super) fn number(&mut self, start: usize) -> Option<Literal> {
        let digits = self.cursor.at;
        if let Some(radix) = self.radix() {
            let text = self.cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
            let sign = if start < digits { "-" } else { "" };
            let span = self.span(start);
            return if let Ok(number) = i64::from_str_radix(&format!("{sign}{text}"), radix) {
                Some(Literal::Number(number.to_string()))
            } else {
                self.report(
                    Diagnostic::error("invalid-number", span, "this is not a number")
                        .labelled("not a number"),
                );
                None
            };
        }
        self.cursor.take_while(|c| c.is_ascii_digit());
        if self.cursor.starts_with("_") {
            self.cursor.take_while(|c| c.is_ascii_digit() || c == '_');
            let span = self.span(start);
            self.report(
                Diagnostic::error("invalid-number", span, "numbers are written without `_`")
                    .labelled("digits are separated")
                    .helped("remove the `_`"),
            );
            return None;
        }
        let mut is_integer = true;
        if self.cursor.eat(".") {
            is_integer = false;
            self.cursor.take_while(|c| c.is_ascii_digit());
        }
        is_integer &= !self.exponent();
        let span = self.span(start);
        let text = self.cursor.since(start);
        if self.cursor.since(digits) == "." {
            self.report(
                Diagnostic::error("invalid-number", span, "this is not a number").labelled("not a number"),
            );
            return None;
        }
        if let Some(unit) = self.unit() {
            self.beyond(start);
            return self.duration(start, format!("{text}{unit}")).map(Literal::Duration);
        }
        if is_integer && text.parse::<i64>().is_err() {
            self.report(
                Diagnostic::error("number-too-large", span, "this number does not fit 64 bits")
                    .labelled("too large")
                    .helped("put it in quotes to compare it as text"),
            );
            return None;
        }
        Some(Literal::Number(text.to_owned()))
    }

    /// Returns the duration that was read; reports one that does not fit 64 bits.
    pub(super) fn duration(&mut self, start: usize, written: String) -> Option<String> {
        if !time::is_too_long(&written) {
            return Some(written);
        }
        let span = self.span(start);
        self.report(
            Diagnostic::error("duration-too-large", span, "this duration does not fit 64 bits")
                .labelled("too long")
                .helped("the longest duration is about 292 years, `106751d`"),
        );
        None
    }

    pub(super) fn radix(&mut self) -> Option<u32> {
        let rest = self.cursor.rest().as_bytes();
        let radix = match (rest.first()?, rest.get(1)?) {
            (b'0', b'x' | b'X') => 16,
            (b'0', b'o' | b'O') => 8,
            (b'0', b'b' | b'B') => 2,
            _ => return None,
        };
        self.cursor.at += 2;
        Some(radix)
    }

    pub(super) fn exponent(&mut self) -> bool {
        let mut ahead = self.cursor;
        if !(ahead.eat("e") || ahead.eat("E")) {
            return false;
        }
        let _ = ahead.eat("+") || ahead.eat("-");
        if ahead.take_while(|c| c.is_ascii_digit()).is_empty() {
            return false;
        }
        self.cursor = ahead;
        true
    }

    /// Reads a unit right after a number, unless it is the name of the next condition.
    pub(super) fn unit(&mut self) -> Option<&'s str> {
        let mut ahead = self.cursor;
        let word = ahead.take_while(is_identifier_part);
        if word.is_empty() || time::parse_duration(&format!("1{word}")).is_none() {
            return None;
        }
        let before = std::mem::replace(&mut self.cursor, ahead);
        self.blanks();
        let is_name =
            self.cursor.starts_with("=") || self.cursor.starts_with(".") || self.at_word("contains");
        if is_name {
            self.cursor = before;
            return None;
        }
        self.cursor = ahead;
        Some(word)
    }

    /// Reads a text in the curly quotes that word processors make of straight ones.
    fn curly_string(&mut self) -> Option<String> {
        let start = self.cursor.at;
        self.cursor.bump();
        let text = self.cursor.take_while(|c| !matches!(c, '“' | '”')).to_owned();
        if self.cursor.bump().is_none() {
            self.unexpected("unclosed-string", "the closing `”`");
            return None;
        }
        self.beyond(start);
        let span = self.span(start);
        self.report(
            Diagnostic::warning("curly-quotes", span, "these quotes are read as straight ones")
                .helped(format!("write \"{text}\"")),
        );
        Some(text)
    }

    /// Reads the string that begins here, with Go's escapes.
    pub(super) fn selector_string(&mut self) -> Option<String> {
        let start = self.cursor.at;
        self.cursor.bump();
        let mut bytes = Vec::new();
        loop {
            let at = self.cursor.at;
            match self.cursor.bump() {
                Some('"') => break,
                Some('\\') => {
                    if !self.escape(&mut bytes) {
                        let span = self.base + at..self.base + self.cursor.at;
                        self.report(
                            Diagnostic::error("unknown-escape", span, "this escape is unknown")
                                .labelled("unknown escape")
                                .helped("write `\\\\` for a backslash"),
                        );
                    }
                }
                Some('\n') | None => {
                    self.ends_too_early();
                    self.cursor.at = at;
                    let span = self.span(start);
                    self.report(
                        Diagnostic::error("unclosed-string", span, "this text is never closed")
                            .labelled("never closed")
                            .helped("add the closing `\"`"),
                    );
                    self.cursor.at = self.cursor.text.len();
                    return None;
                }
                Some(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn escape(&mut self, bytes: &mut Vec<u8>) -> bool {
        let Some(c) = self.cursor.peek() else { return false };
        let simple = match c {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' => b'\\',
            '"' => b'"',
            _ => 0,
        };
        if simple != 0 {
            self.cursor.bump();
            bytes.push(simple);
            return true;
        }
        let (skip, digits, radix) = match c {
            'x' => (1, 2, 16),
            'u' => (1, 4, 16),
            'U' => (1, 8, 16),
            '0'..='7' => (0, 3, 8),
            _ => return false,
        };
        self.cursor.at += skip;
        let Some(code) = self
            .cursor
            .rest()
            .get(..digits)
            .filter(|code| code.chars().all(|c| c.is_digit(radix)))
            .and_then(|code| u32::from_str_radix(code, radix).ok())
        else {
            return false;
        };
        self.cursor.at += digits;
        if matches!(c, 'u' | 'U') {
            let Some(c) = char::from_u32(code) else {
                return false;
            };
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return true;
        }
        u8::try_from(code).is_ok_and(|byte| {
            bytes.push(byte);
            true
        })
    }
}

fn token_of(literal: &Literal) -> TokenKind {
    match literal {
        Literal::Text(_) => TokenKind::Text,
        Literal::Number(_) => TokenKind::Number,
        Literal::Bool(_) => TokenKind::Bool,
        Literal::Duration(_) => TokenKind::Duration,
        Literal::Word(_) => TokenKind::Word,
    }
}
