//! The parser of JSONPath.

use super::{Path, Step, Test};
use crate::json::Json;
use crate::lang::cursor::Cursor;
use crate::lang::limits::MAX_DEPTH;
use crate::lang::pattern::Pattern;
use crate::number;

pub(super) struct Parser<'s> {
    pub(super) cursor: Cursor<'s>,
    depth: usize,
}

impl<'s> Parser<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        Self { cursor: Cursor::new(text), depth: 0 }
    }

    pub(super) fn wrong(&self, what: &str) -> String {
        match self.cursor.peek() {
            Some(c) => format!("{what} at byte {}: `{c}`", self.cursor.at),
            None => "it ends too early".to_owned(),
        }
    }

    fn blanks(&mut self) {
        self.cursor.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'));
    }

    /// Reads the steps; with `alone`, the first name needs no sign before it.
    pub(super) fn path(&mut self, alone: bool) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        let _ = self.cursor.eat("$") || self.cursor.eat("@");
        if alone && self.cursor.at == 0 && self.cursor.peek().is_some_and(is_name) {
            steps.push(Step::Name(self.bare_name().to_owned()));
        }
        loop {
            if self.cursor.eat("..") {
                steps.push(Step::Descend);
                if self.cursor.starts_with("[") {
                    continue;
                }
                steps.push(self.name()?);
            } else if self.cursor.eat(".") {
                steps.push(self.name()?);
            } else if self.cursor.eat("[") {
                steps.push(self.bracket()?);
            } else {
                return Ok(steps);
            }
        }
    }

    fn name(&mut self) -> Result<Step, String> {
        if self.cursor.eat("*") {
            return Ok(Step::All);
        }
        match self.bare_name() {
            "" => Err(self.wrong("expected a name")),
            name => Ok(Step::Name(name.to_owned())),
        }
    }

    /// Reads a name without quotes. A dash belongs to it where it cannot be a minus: outside of filters, and
    /// before a letter.
    fn bare_name(&mut self) -> &'s str {
        let start = self.cursor.at;
        loop {
            self.cursor.take_while(is_name);
            let mut ahead = self.cursor;
            let is_dash = self.cursor.at > start && ahead.eat("-");
            let goes_on = |c: char| is_name(c) && (self.depth == 0 || !c.is_ascii_digit());
            if !is_dash || !ahead.peek().is_some_and(goes_on) {
                return self.cursor.since(start);
            }
            self.cursor = ahead;
        }
    }

    fn bracket(&mut self) -> Result<Step, String> {
        self.blanks();
        if self.cursor.eat("*") {
            self.close("]")?;
            return Ok(Step::All);
        }
        if self.cursor.eat("?") {
            self.blanks();
            if !self.cursor.eat("(") {
                return Err(self.wrong("expected `(`"));
            }
            let test = self.test()?;
            if !matches!(test, Test::Chain(..) | Test::Not(_) | Test::Path(..)) {
                return Err("a filter needs an operator or a path".to_owned());
            }
            self.close(")")?;
            self.close("]")?;
            return Ok(Step::Filter(test));
        }
        if self.cursor.peek().is_some_and(|c| matches!(c, '\'' | '"')) {
            let mut names = vec![self.quoted()?];
            while self.comma() {
                names.push(self.quoted()?);
            }
            self.close("]")?;
            return Ok(match names.len() {
                1 => Step::Name(names.remove(0)),
                _ => Step::Names(names),
            });
        }
        let first = self.integer()?;
        self.blanks();
        if self.cursor.starts_with(":") {
            return self.slice(first);
        }
        let Some(first) = first else {
            return Err(self.wrong("expected an index or a name"));
        };
        let mut indexes = vec![first];
        while self.comma() {
            indexes.push(self.integer()?.ok_or_else(|| self.wrong("expected an index"))?);
        }
        self.close("]")?;
        Ok(match indexes.len() {
            1 => Step::Index(first),
            _ => Step::Indexes(indexes),
        })
    }

    fn slice(&mut self, start: Option<i64>) -> Result<Step, String> {
        self.cursor.eat(":");
        self.blanks();
        let end = self.integer()?;
        self.blanks();
        let step = if self.cursor.eat(":") {
            self.blanks();
            self.integer()?.unwrap_or(1)
        } else {
            1
        };
        self.close("]")?;
        Ok(Step::Slice(start, end, step))
    }

    fn comma(&mut self) -> bool {
        self.blanks();
        let found = self.cursor.eat(",");
        self.blanks();
        found
    }

    fn close(&mut self, sign: &str) -> Result<(), String> {
        self.blanks();
        if self.cursor.eat(sign) { Ok(()) } else { Err(self.wrong(&format!("expected `{sign}`"))) }
    }

    fn integer(&mut self) -> Result<Option<i64>, String> {
        let before = self.cursor;
        self.cursor.eat("-");
        if self.cursor.take_while(|c| c.is_ascii_digit()).is_empty() {
            self.cursor = before;
            return Ok(None);
        }
        let written = self.cursor.since(before.at);
        written.parse().map(Some).map_err(|_| format!("the index {written} is too large"))
    }

    /// Reads a name in quotes; the only escape is a backslash before the quote.
    fn quoted(&mut self) -> Result<String, String> {
        let Some(quote) = self.cursor.peek().filter(|c| matches!(c, '\'' | '"')) else {
            return Err(self.wrong("expected a name in quotes"));
        };
        self.cursor.bump();
        let before = self.cursor;
        let mut name = String::new();
        while let Some(c) = self.cursor.bump() {
            match (c, self.cursor.peek()) {
                ('\\', Some(next)) if next == quote => {
                    name.push(next);
                    self.cursor.bump();
                }
                ('\\', Some('\\')) => {
                    name.push_str("\\\\");
                    self.cursor.bump();
                }
                _ if c == quote => return Ok(name),
                _ => name.push(c),
            }
        }
        // A backslash at the end of a name is part of it.
        self.cursor = before;
        let name = self.cursor.take_while(|c| c != quote);
        self.cursor.bump().map(|_| name.to_owned()).ok_or_else(|| "a quote is not closed".to_owned())
    }

    /// Reads one level deeper; fails beyond the maximum depth.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("it is nested more than {MAX_DEPTH} levels deep"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn test(&mut self) -> Result<Test, String> {
        self.deeper(|parser| parser.chain(&[&["&&", "||"], &COMPARISONS, &["+", "-"], &["*", "/"]]))
    }

    fn chain(&mut self, levels: &[&[&'static str]]) -> Result<Test, String> {
        let Some((operators, tighter)) = levels.split_first() else {
            return self.operand();
        };
        let first = self.chain(tighter)?;
        let mut rest = Vec::new();
        loop {
            self.blanks();
            let found = operators.iter().find(|operator| self.cursor.starts_with(operator));
            let Some(operator) = found else { break };
            self.cursor.at += operator.len();
            rest.push((*operator, self.chain(tighter)?));
        }
        Ok(if rest.is_empty() { first } else { Test::Chain(Box::new(first), rest) })
    }

    fn operand(&mut self) -> Result<Test, String> {
        self.blanks();
        match self.cursor.peek() {
            Some('!') => {
                self.cursor.bump();
                self.deeper(Self::operand).map(|inner| Test::Not(Box::new(inner)))
            }
            Some('(') => {
                self.cursor.bump();
                let inner = self.test()?;
                self.close(")")?;
                Ok(inner)
            }
            Some('@' | '$') => {
                let from_root = self.cursor.starts_with("$");
                let steps = self.deeper(|parser| parser.path(false))?;
                Ok(Test::Path(from_root, Path { steps }))
            }
            Some('\'' | '"') => self.quoted().map(|text| Test::Value(Json::String(text))),
            Some('[') => self.deeper(Self::list),
            Some('/') => self.pattern(),
            Some(c) if c.is_ascii_digit() || c == '-' => {
                let text =
                    self.cursor.take_while(|c| c.is_ascii_digit() || matches!(c, '-' | '.' | 'e' | 'E'));
                if number::is_number(text) {
                    Ok(Test::Value(Json::Number(text.to_owned())))
                } else {
                    Err(self.wrong("expected a number before"))
                }
            }
            _ => {
                for (word, value) in
                    [("true", Json::Bool(true)), ("false", Json::Bool(false)), ("null", Json::Null)]
                {
                    if self.cursor.eat(word) {
                        return Ok(Test::Value(value));
                    }
                }
                Err(self.wrong("expected a value"))
            }
        }
    }

    fn list(&mut self) -> Result<Test, String> {
        self.cursor.bump();
        let mut items = Vec::new();
        self.blanks();
        while !self.cursor.starts_with("]") {
            items.push(self.operand()?);
            if !self.comma() {
                break;
            }
        }
        self.close("]")?;
        Ok(Test::List(items))
    }

    fn pattern(&mut self) -> Result<Test, String> {
        self.cursor.bump();
        let start = self.cursor.at;
        loop {
            match self.cursor.bump() {
                Some('\\') => {
                    self.cursor.bump();
                }
                Some('/') => break,
                Some(_) => {}
                None => return Err("a regular expression is not closed".to_owned()),
            }
        }
        let pattern = &self.cursor.text[start..self.cursor.at - 1];
        Pattern::new(pattern).map(|pattern| Test::Regex(Box::new(pattern)))
    }
}

const COMPARISONS: [&str; 9] = ["==", "!=", "=~", "<=", ">=", "<", ">", "in", "empty"];

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, '_' | '#' | '%' | ':' | ';' | '?' | '^' | '{' | '|' | '}' | '~')
        || !c.is_ascii()
}
