//! JSON as values, with numbers as written: doubles would lose digits.

use std::cmp::Ordering;
use std::fmt::Write;

use super::number;

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

/// Values inside values beyond this are refused.
const MAX_DEPTH: usize = 128;

/// Reads strict JSON; the error says what is wrong at which byte.
pub(crate) fn parse(text: &str) -> Result<Json, String> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    reader.blanks();
    let value = reader.value()?;
    reader.blanks();
    if reader.at < text.len() {
        return Err(reader.wrong("more text"));
    }
    Ok(value)
}

impl Json {
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Equal as JSON: members in any order, numbers by value.
    pub(crate) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(left), Self::Number(right)) => {
                number::compare(left, right) == Some(Ordering::Equal)
            }
            (Self::Array(left), Self::Array(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(left, right)| left.same(right))
            }
            (Self::Object(left), Self::Object(right)) => {
                left.len() == right.len()
                    && left.iter().all(|(name, value)| other.get(name).is_some_and(|other| value.same(other)))
            }
            (left, right) => left == right,
        }
    }

    /// The value as compact JSON.
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

struct Reader<'s> {
    text: &'s str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: &str) -> String {
        match self.text[self.at..].chars().next() {
            Some(c) => format!("unexpected {what} at byte {}: `{c}`", self.at),
            None => "it ends too early".to_owned(),
        }
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

    fn value(&mut self) -> Result<Json, String> {
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

    fn nested(&mut self, read: fn(&mut Self) -> Result<Json, String>) -> Result<Json, String> {
        if self.depth == MAX_DEPTH {
            return Err(format!("it is nested more than {MAX_DEPTH} levels deep"));
        }
        self.depth += 1;
        self.at += 1;
        self.blanks();
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Result<Json, String> {
        let mut items = Vec::new();
        if self.eat("]") {
            return Ok(Json::Array(items));
        }
        loop {
            self.blanks();
            items.push(self.value()?);
            self.blanks();
            if self.eat("]") {
                return Ok(Json::Array(items));
            }
            if !self.eat(",") {
                return Err(self.wrong("character in a list"));
            }
        }
    }

    fn object(&mut self) -> Result<Json, String> {
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
            members.push((name, value));
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

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c: char| c == '"' || c == '\\' || u32::from(c) < 0x20);
            let Some(plain) = plain else {
                self.at = self.text.len();
                return Err(self.wrong("end"));
            };
            text.push_str(&rest[..plain]);
            self.at += plain;
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push(self.escape()?);
                }
                _ => return Err(self.wrong("control character")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let wrong = self.wrong("escape");
        let Some(kind) = self.byte() else {
            return Err(wrong);
        };
        self.at += self.text[self.at..].chars().next().map_or(1, char::len_utf8);
        Ok(match kind {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex().ok_or(wrong)?;
                if (0xd800..0xdc00).contains(&first) && self.eat("\\u") {
                    let second = self.hex().unwrap_or(0);
                    let code = 0x10000 + ((first - 0xd800) << 10) + (second.wrapping_sub(0xdc00) & 0x3ff);
                    return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return Err(wrong),
        })
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let all_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        self.at += 4;
        all_hex.then(|| u32::from_str_radix(digits, 16).ok())?
    }

    fn number(&mut self) -> Result<Json, String> {
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
            Ok(Json::Number(self.text[start..self.at].to_owned()))
        } else {
            Err(self.wrong("character in a number"))
        }
    }
}

fn last_of_each(members: Vec<(String, Json)>) -> Vec<(String, Json)> {
    let mut places = std::collections::HashMap::new();
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
