//! The JSON parser: builds the tree shared with YAML.

use std::ops::Range;

use qualitytrace_config::tree::{Entry, Node, Scalar, Shape, Style};

use super::reader::Reader;
use crate::lang::limits::{MAX_DEFINITION_DEPTH, MAX_DEFINITION_NODES};

/// Maximum length of the message about a number that is too large.
const LONGEST_NUMBER: usize = 80;

/// Parses the one document of a JSON text; reports an error and returns `None` when it is not JSON.
pub(super) fn parse(reader: &Reader<'_>) -> Option<Node> {
    let mut scan = Scan { text: reader.source, at: 0, depth: 0, nodes: 0 };
    let parsed = scan.value().and_then(|node| {
        scan.blanks();
        match scan.peek() {
            None => Ok(node),
            Some(_) => Err(scan.refuse("the JSON value ends before this")),
        }
    });
    parsed
        .map_err(|JsonSyntaxError { code, message, at }| {
            reader.error(code, reader.letter_at(at), message);
        })
        .ok()
}

struct JsonSyntaxError {
    code: &'static str,
    message: String,
    at: usize,
}

struct Scan<'s> {
    text: &'s str,
    at: usize,
    depth: usize,
    nodes: usize,
}

impl Scan<'_> {
    fn value(&mut self) -> Result<Node, JsonSyntaxError> {
        self.blanks();
        let start = self.at;
        self.nodes += 1;
        if self.nodes > MAX_DEFINITION_NODES {
            return Err(self
                .refuse_as("too-large", format!("the file holds more than {MAX_DEFINITION_NODES} values")));
        }
        let shape = match self.peek() {
            None => return Err(self.refuse("it ends where a value should stand")),
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::list)?,
            Some(b'"') => Shape::Scalar(Scalar { text: self.string()?, style: Style::Double, is_text: true }),
            Some(_) => self.literal()?,
        };
        Ok(Node { shape, span: start..self.at })
    }

    fn nested(
        &mut self,
        read: fn(&mut Self) -> Result<Shape, JsonSyntaxError>,
    ) -> Result<Shape, JsonSyntaxError> {
        if self.depth == MAX_DEFINITION_DEPTH {
            let message = format!("lists and objects nest deeper than {MAX_DEFINITION_DEPTH} levels");
            return Err(self.refuse_as("too-deep", message));
        }
        self.depth += 1;
        let shape = read(self);
        self.depth -= 1;
        shape
    }

    fn object(&mut self) -> Result<Shape, JsonSyntaxError> {
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
            let value = self.value()?;
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

    fn list(&mut self) -> Result<Shape, JsonSyntaxError> {
        self.at += 1;
        let mut items = Vec::new();
        self.blanks();
        if self.take(b']') {
            return Ok(Shape::List(items));
        }
        loop {
            items.push(self.value()?);
            self.blanks();
            if self.take(b']') {
                return Ok(Shape::List(items));
            }
            if !self.take(b',') {
                return Err(self.refuse("a comma or a closing bracket should stand here"));
            }
        }
    }

    /// Reads a string in double quotes; `serde_json` decodes the escapes.
    fn string(&mut self) -> Result<String, JsonSyntaxError> {
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
        serde_json::from_str(self.slice(start..self.at)).map_err(|_| {
            self.at = start;
            self.refuse("this text holds a control character or an unknown escape")
        })
    }

    /// Reads a number, `true`, `false` or `null`.
    fn literal(&mut self) -> Result<Shape, JsonSyntaxError> {
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
            Err(error) => {
                let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
                let too_large = format!("the number {text} is too large");
                self.at = start;
                // Only short messages are used: a number may be refused for its length alone.
                let is_short = too_large.len() <= LONGEST_NUMBER;
                let is_large = is_number && is_short && error.to_string().starts_with("number out of range");
                Err(self.refuse(if is_large { &too_large } else { "a value should stand here" }))
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

    fn refuse(&self, message: &str) -> JsonSyntaxError {
        self.refuse_as("json-syntax", format!("this is not valid JSON: {message}"))
    }

    fn refuse_as(&self, code: &'static str, message: String) -> JsonSyntaxError {
        JsonSyntaxError { code, message, at: self.at }
    }
}
