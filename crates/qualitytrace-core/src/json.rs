//! JSON values, with numbers as written: doubles would lose digits.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt::Write;

use crate::budget::{Budget, BudgetError};
use crate::number;

/// Maximum nesting of lists and objects in a JSON value.
const MAX_JSON_DEPTH: usize = 128;

/// A JSON value. Members keep their order; of two with the same name the last counts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Size of a value beside its text, in bytes.
const NODE: usize = 64;

/// Why a text could not be parsed as JSON.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// It is not JSON; the message says what is wrong at which byte.
    #[error("{0}")]
    Invalid(String),
    /// It exceeds the budget.
    #[error(transparent)]
    Exceeded(#[from] BudgetError),
}

/// Parses strict JSON.
pub(crate) fn parse(text: &str, budget: &Budget) -> Result<Json, Error> {
    budget.read(text.len())?;
    Reader { text, at: 0, depth: 0, budget: Some(budget), only_objects: true }.whole()
}

/// The kind of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonKind {
    /// An object, or a list of objects only.
    Objects,
    /// Any other list.
    List,
    /// Anything else.
    Scalar,
}

/// Determines the kind of a text without building the value; `None` when it is not JSON.
pub(crate) fn look(text: &str) -> Option<JsonKind> {
    let mut reader = Reader { text, at: 0, depth: 0, budget: None, only_objects: true };
    reader.whole().ok()?;
    Some(match text.trim_start().as_bytes().first() {
        Some(b'{') => JsonKind::Objects,
        Some(b'[') if reader.only_objects => JsonKind::Objects,
        Some(b'[') => JsonKind::List,
        _ => JsonKind::Scalar,
    })
}

impl Json {
    /// Whether both are equal as JSON: members in any order, numbers by value.
    pub(crate) fn same(&self, other: &Self, budget: &Budget) -> Result<bool, BudgetError> {
        budget.work(1)?;
        match (self, other) {
            (Self::Number(left), Self::Number(right)) => {
                Ok(number::compare(left, right) == Some(Ordering::Equal))
            }
            (Self::Array(left), Self::Array(right)) if left.len() == right.len() => {
                all(left.iter().zip(right), |(left, right)| left.same(right, budget))
            }
            (Self::Object(left), Self::Object(right)) if left.len() == right.len() => {
                let right = Members::of(right, left.len(), budget)?;
                all(left, |(name, value)| match right.get(name, budget)? {
                    Some(other) => value.same(other, budget),
                    None => Ok(false),
                })
            }
            (Self::String(left), Self::String(right)) => {
                budget.read(left.len())?;
                Ok(left == right)
            }
            (Self::Bool(left), Self::Bool(right)) => Ok(left == right),
            (left, right) => Ok(matches!((left, right), (Self::Null, Self::Null))),
        }
    }

    /// Returns the value as compact JSON.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Self::Number(number) => out.push_str(number),
            Self::String(text) => write_string(text, out),
            Self::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    write_string(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// Whether the test holds for all items.
pub(crate) fn all<T>(
    items: impl IntoIterator<Item = T>,
    mut test: impl FnMut(T) -> Result<bool, BudgetError>,
) -> Result<bool, BudgetError> {
    for item in items {
        if !test(item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the test holds for any item.
pub(crate) fn any<T>(
    items: impl IntoIterator<Item = T>,
    mut test: impl FnMut(T) -> Result<bool, BudgetError>,
) -> Result<bool, BudgetError> {
    Ok(!all(items, |item| test(item).map(|found| !found))?)
}

/// The members of an object, for the lookup of many names.
pub(crate) enum Members<'j> {
    Few(&'j [(String, Json)]),
    Many(HashMap<&'j str, &'j Json>),
}

impl<'j> Members<'j> {
    /// Prepares members for this many lookups.
    pub(crate) fn of(
        members: &'j [(String, Json)],
        names: usize,
        budget: &Budget,
    ) -> Result<Self, BudgetError> {
        if members.len() < 16 || names < 4 {
            return Ok(Self::Few(members));
        }
        budget.work(members.len())?;
        Ok(Self::Many(members.iter().map(|(name, value)| (name.as_str(), value)).collect()))
    }

    pub(crate) fn get(&self, name: &str, budget: &Budget) -> Result<Option<&'j Json>, BudgetError> {
        Ok(match self {
            Self::Few(members) => {
                budget.work(1 + members.len() / 8)?;
                members.iter().find(|(known, _)| known == name).map(|(_, value)| value)
            }
            Self::Many(members) => members.get(name).copied(),
        })
    }
}

pub(crate) fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() && u32::from(c) < 0x20 => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Reader<'s, 'b> {
    text: &'s str,
    at: usize,
    depth: usize,
    /// Charged for the value that is built; without a budget none is built and the text is only validated.
    budget: Option<&'b Budget>,
    /// Whether the outermost list holds only objects.
    only_objects: bool,
}

impl Reader<'_, '_> {
    fn whole(&mut self) -> Result<Json, Error> {
        self.blanks();
        let value = self.value()?;
        self.blanks();
        if self.at < self.text.len() {
            return Err(self.wrong("more text"));
        }
        Ok(value)
    }

    fn wrong(&self, what: &str) -> Error {
        Error::Invalid(match self.text[self.at..].chars().next() {
            Some(c) => format!("unexpected {what} at byte {}: `{c}`", self.at),
            None => "it ends too early".to_owned(),
        })
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.byte().is_some_and(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, text: &str) -> bool {
        let here = self.text[self.at..].starts_with(text);
        if here {
            self.at += text.len();
        }
        here
    }

    fn value(&mut self) -> Result<Json, Error> {
        if let Some(budget) = self.budget {
            budget.work(1)?;
            budget.hold(NODE)?;
        }
        match self.byte() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.eat("null") => Ok(Json::Null),
            _ if self.eat("true") => Ok(Json::Bool(true)),
            _ if self.eat("false") => Ok(Json::Bool(false)),
            _ => Err(self.wrong("character")),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Json, Error>) -> Result<Json, Error> {
        if self.depth == MAX_JSON_DEPTH {
            return Err(Error::Invalid(format!("it is nested more than {MAX_JSON_DEPTH} levels deep")));
        }
        self.depth += 1;
        self.at += 1;
        self.blanks();
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Result<Json, Error> {
        let mut items = Vec::new();
        if self.eat("]") {
            return Ok(Json::Array(items));
        }
        loop {
            self.blanks();
            self.only_objects &= self.depth > 1 || self.byte() == Some(b'{');
            let item = self.value()?;
            if self.budget.is_some() {
                items.push(item);
            }
            self.blanks();
            if self.eat("]") {
                return Ok(Json::Array(items));
            }
            if !self.eat(",") {
                return Err(self.wrong("character in a list"));
            }
        }
    }

    fn object(&mut self) -> Result<Json, Error> {
        let mut members: Vec<(String, Json)> = Vec::new();
        if self.eat("}") {
            return Ok(Json::Object(members));
        }
        loop {
            self.blanks();
            if self.byte() != Some(b'"') {
                return Err(self.wrong("character in an object"));
            }
            let name = self.string()?;
            self.blanks();
            if !self.eat(":") {
                return Err(self.wrong("character after a name"));
            }
            self.blanks();
            let value = self.value()?;
            if self.budget.is_some() {
                members.push((name, value));
            }
            self.blanks();
            if self.eat("}") {
                break;
            }
            if !self.eat(",") {
                return Err(self.wrong("character in an object"));
            }
        }
        Ok(Json::Object(last_of_each(members)))
    }

    /// Reads the string that begins here; returns an empty one where nothing is built.
    fn string(&mut self) -> Result<String, Error> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c: char| c == '"' || c == '\\' || u32::from(c) < 0x20);
            let Some(plain) = plain else {
                self.at = self.text.len();
                return Err(self.wrong("end"));
            };
            self.keep(&rest[..plain], &mut text)?;
            self.at += plain;
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    let letter = self.escape()?;
                    self.keep(letter.encode_utf8(&mut [0; 4]), &mut text)?;
                }
                _ => return Err(self.wrong("control character")),
            }
        }
    }

    fn keep(&self, piece: &str, text: &mut String) -> Result<(), BudgetError> {
        if let Some(budget) = self.budget {
            budget.hold(piece.len())?;
            text.push_str(piece);
        }
        Ok(())
    }

    fn escape(&mut self) -> Result<char, Error> {
        let start = self.at;
        let letter = self.escaped();
        if letter.is_none() {
            self.at = start;
        }
        letter.ok_or_else(|| self.wrong("escape"))
    }

    fn escaped(&mut self) -> Option<char> {
        let kind = self.byte()?;
        self.at += self.text[self.at..].chars().next().map_or(1, char::len_utf8);
        Some(match kind {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                if (0xd800..0xdc00).contains(&first) && self.eat("\\u") {
                    let second = self.hex().unwrap_or(0);
                    let code = 0x10000 + ((first - 0xd800) << 10) + (second.wrapping_sub(0xdc00) & 0x3ff);
                    return Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return None,
        })
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let all_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        self.at += 4;
        all_hex.then(|| u32::from_str_radix(digits, 16).ok())?
    }

    fn number(&mut self) -> Result<Json, Error> {
        let start = self.at;
        self.eat("-");
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while reader.byte().is_some_and(|b| b.is_ascii_digit()) {
                reader.at += 1;
            }
            reader.at > from
        };
        let leading = self.at;
        let mut good =
            digits(self) && !(self.text[leading..self.at].len() > 1 && self.text[leading..].starts_with('0'));
        if self.eat(".") {
            good &= digits(self);
        }
        if self.eat("e") || self.eat("E") {
            let _ = self.eat("+") || self.eat("-");
            good &= digits(self);
        }
        if good {
            let mut text = String::new();
            self.keep(&self.text[start..self.at], &mut text)?;
            Ok(Json::Number(text))
        } else {
            Err(self.wrong("character in a number"))
        }
    }
}

fn last_of_each(members: Vec<(String, Json)>) -> Vec<(String, Json)> {
    if members.len() < 2 {
        return members;
    }
    let mut places = HashMap::new();
    let mut kept: Vec<(String, Json)> = Vec::with_capacity(members.len());
    for (name, value) in members {
        if let Some(at) = places.get(&name) {
            let slot: &mut (String, Json) = &mut kept[*at];
            slot.1 = value;
        } else {
            places.insert(name.clone(), kept.len());
            kept.push((name, value));
        }
    }
    kept
}
