//! From JSON to the common tree.

use std::ops::Range;

use super::node::{Entry, Node, Scalar, Shape, Style};
use super::reader::Reader;
use super::yaml::MAX_DEPTH;

/// The one document of a JSON text; `None` when it is not JSON.
pub(super) fn parse(reader: &Reader<'_>) -> Option<Node> {
    let mut scan = Scan { text: reader.source, at: 0 };
    let parsed = scan.value(0).and_then(|node| {
        scan.blanks();
        match scan.peek() {
            None => Ok(node),
            Some(_) => Err(scan.refuse("the JSON value ends before this")),
        }
    });
    parsed
        .map_err(|Refused { message, at }| {
            reader.error("json-syntax", reader.letter_at(at), format!("this is not valid JSON: {message}"));
        })
        .ok()
}

struct Refused {
    message: &'static str,
    at: usize,
}

struct Scan<'s> {
    text: &'s str,
    at: usize,
}

impl Scan<'_> {
    fn value(&mut self, depth: usize) -> Result<Node, Refused> {
        self.blanks();
        let start = self.at;
        if depth > MAX_DEPTH {
            return Err(self.refuse("lists and objects nest too deep"));
        }
        let shape = match self.peek() {
            None => return Err(self.refuse("it ends where a value should stand")),
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Shape::Scalar(Scalar { text: self.string()?, style: Style::Double, is_text: true }),
            Some(_) => self.literal()?,
        };
        Ok(Node { shape, span: start..self.at })
    }

    fn object(&mut self, depth: usize) -> Result<Shape, Refused> {
        self.at += 1;
        let mut entries = Vec::new();
        self.blanks();
        if self.take(b'}') {
            return Ok(Shape::Map(entries));
        }
        loop {
            self.blanks();
            let key_start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.refuse("a key in double quotes should stand here"));
            }
            let key = self.string()?;
            let key_span = key_start..self.at;
            self.blanks();
            if !self.take(b':') {
                return Err(self.refuse("a colon should stand here"));
            }
            let value = self.value(depth + 1)?;
            entries.push(Entry { key, key_span, value });
            self.blanks();
            if self.take(b'}') {
                return Ok(Shape::Map(entries));
            }
            if !self.take(b',') {
                return Err(self.refuse("a comma or a closing brace should stand here"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Shape, Refused> {
        self.at += 1;
        let mut items = Vec::new();
        self.blanks();
        if self.take(b']') {
            return Ok(Shape::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blanks();
            if self.take(b']') {
                return Ok(Shape::List(items));
            }
            if !self.take(b',') {
                return Err(self.refuse("a comma or a closing bracket should stand here"));
            }
        }
    }

    /// A string in double quotes; `serde_json` knows the escapes.
    fn string(&mut self) -> Result<String, Refused> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                None => {
                    self.at = start;
                    return Err(self.refuse("this text has no closing quote"));
                }
                Some(b'\\') => self.at += 2,
                Some(b'"') => {
                    self.at += 1;
                    break;
                }
                Some(_) => self.at += 1,
            }
        }
        serde_json::from_str(self.slice(start..self.at)).map_err(|_| Refused {
            message: "this text holds a control character or an unknown escape",
            at: start,
        })
    }

    /// A number, `true`, `false` or `null`.
    fn literal(&mut self) -> Result<Shape, Refused> {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.'))
        {
            self.at += 1;
        }
        let text = self.slice(start..self.at);
        match serde_json::from_str(text) {
            Ok(serde_json::Value::Null) => Ok(Shape::Null),
            Ok(_) => Ok(Shape::Scalar(Scalar { text: text.to_owned(), style: Style::Plain, is_text: false })),
            Err(_) => {
                self.at = start;
                Err(self.refuse("a value should stand here"))
            }
        }
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn slice(&self, span: Range<usize>) -> &str {
        self.text.get(span).unwrap_or_default()
    }

    fn refuse(&self, message: &'static str) -> Refused {
        Refused { message, at: self.at }
    }
}
