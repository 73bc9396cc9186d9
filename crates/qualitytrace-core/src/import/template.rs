//! Texts of triggers under construction: literal parts, and expressions.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::collection::Collection;
use super::name::{shortened, variable_name};

/// What RFC 3986 calls unreserved is not encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A text with expressions in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Expression(String),
}

impl Template {
    pub(super) fn literal(text: &str) -> Self {
        let mut template = Self::default();
        template.push_str(text);
        template
    }

    pub(super) fn expression(expression: impl Into<String>) -> Self {
        Self(vec![Piece::Expression(expression.into())])
    }

    /// A variable of a test.
    pub(super) fn variable(name: &str) -> Self {
        Self::expression(format!("var:{}", variable_name(name)))
    }

    /// Reads a text in which `{{name}}` is a variable, as Postman and hurl have it.
    pub(super) fn braces(text: &str, found: &mut Collection<'_>) -> Self {
        let mut template = Self::default();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((name, after)) = after.split_once("}}") else { break };
            template.push_str(before);
            template.append(braced(name.trim(), found));
            rest = after;
        }
        template.push_str(rest);
        template
    }

    pub(super) fn push_str(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Piece::Literal(last)) => last.push_str(text),
            _ if text.is_empty() => {}
            _ => self.0.push(Piece::Literal(text.to_owned())),
        }
    }

    pub(super) fn push(&mut self, letter: char) {
        self.push_str(letter.encode_utf8(&mut [0; 4]));
    }

    pub(super) fn append(&mut self, other: Self) {
        for piece in other.0 {
            match piece {
                Piece::Literal(text) => self.push_str(&text),
                expression @ Piece::Expression(_) => self.0.push(expression),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text, if there is no expression in it.
    pub(super) fn plain(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the literal text that it begins with.
    pub(super) fn head(&self) -> &str {
        match self.0.first() {
            Some(Piece::Literal(text)) => text,
            Some(Piece::Expression(_)) | None => "",
        }
    }

    /// Drops this many bytes of the literal text that it begins with.
    pub(super) fn without_head(mut self, bytes: usize) -> Self {
        if let Some(Piece::Literal(text)) = self.0.first_mut() {
            text.replace_range(..bytes.min(text.len()), "");
            if text.is_empty() {
                self.0.remove(0);
            }
        }
        self
    }

    /// Splits at the first of these characters that is literal.
    pub(super) fn split_once(&self, letters: &[char]) -> Option<(Self, char, Self)> {
        let mut before = Self::default();
        for (number, piece) in self.0.iter().enumerate() {
            if let Piece::Literal(text) = piece
                && let Some(at) = text.find(letters)
            {
                let letter = text[at..].chars().next()?;
                before.push_str(&text[..at]);
                let mut after = Self::literal(&text[at + letter.len_utf8()..]);
                after.append(Self(self.0[number + 1..].to_vec()));
                return Some((before, letter, after));
            }
            before.append(Self(vec![piece.clone()]));
        }
        None
    }

    /// Splits at every literal character of this kind.
    pub(super) fn split(&self, letter: char) -> Vec<Self> {
        let mut parts = vec![Self::default()];
        for piece in &self.0 {
            match piece {
                Piece::Literal(text) => {
                    for (at, part) in text.split(letter).enumerate() {
                        if at > 0 {
                            parts.push(Self::default());
                        }
                        parts.last_mut().into_iter().for_each(|last| last.push_str(part));
                    }
                }
                Piece::Expression(expression) => {
                    parts.last_mut().into_iter().for_each(|last| last.append(Self::expression(expression)));
                }
            }
        }
        parts
    }

    /// Encodes the literal parts for a query or a form.
    pub(super) fn encoded(&self) -> Self {
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Literal(text) => Piece::Literal(utf8_percent_encode(text, ENCODED).to_string()),
            expression @ Piece::Expression(_) => expression.clone(),
        });
        Self(pieces.collect())
    }

    /// Returns the text without blanks around it.
    pub(super) fn trimmed(mut self) -> Self {
        if let Some(Piece::Literal(text)) = self.0.first_mut() {
            *text = text.trim_start().to_owned();
        }
        if let Some(Piece::Literal(text)) = self.0.last_mut() {
            *text = text.trim_end().to_owned();
        }
        self.0.retain(|piece| !matches!(piece, Piece::Literal(text) if text.is_empty()));
        self
    }

    /// Writes it as a definition has it.
    pub(super) fn written(&self) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Literal(text) => out.push_str(&text.replace("${", "\\${")),
                Piece::Expression(expression) => {
                    // A backslash right before it would escape it.
                    if out.ends_with('\\') {
                        out.pop();
                        out.push_str("${'\\\\'}");
                    }
                    out.push_str("${");
                    out.push_str(expression);
                    out.push('}');
                }
            }
        }
        out
    }

    /// Describes it in a warning or a name: expressions by their names, and not longer than needed.
    pub(super) fn shown(&self) -> String {
        shortened(&self.written())
    }
}

/// What `{{name}}` means: a variable, or a generated value.
fn braced(name: &str, found: &mut Collection<'_>) -> Template {
    let call = match name.strip_prefix('$') {
        Some("guid" | "randomUUID") => "uuid()",
        Some("randomInt") => "randomInt(0, 1000)",
        Some("randomFirstName") => "firstName()",
        Some("randomLastName") => "lastName()",
        Some("randomFullName") => "fullName()",
        Some("randomEmail") => "email()",
        Some("randomPhoneNumber") => "phone()",
        Some(_) => {
            let name = shortened(name);
            found.warn(format!(
                "`{{{{{name}}}}}` generates a value that has no counterpart: it is a variable now"
            ));
            return Template::variable(name.trim_start_matches('$'));
        }
        None => {
            let known = variable_name(name);
            if known != name {
                let name = shortened(name);
                found.warn(format!(
                    "the variable `{name}` is called `{known}` now: names have letters, digits, `_` and `.`"
                ));
            }
            return Template::variable(&known);
        }
    };
    Template::expression(call)
}
