//! Lines of a file of hurl, and the bodies in them.

use crate::definition::trigger::Body;
use crate::import::collection::Collection;
use crate::import::http::{path_of, text_body, warn_of_file};
use crate::import::template::Template;

/// The lines of a file, read one after the other.
pub(super) struct Lines<'t> {
    text: &'t str,
    at: usize,
    number: usize,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0, number: 0 }
    }

    /// Returns the number of the line that was read last, from 1.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Returns the next line that is neither blank nor a comment, and goes behind it.
    pub(super) fn next_solid(&mut self) -> Option<&'t str> {
        let line = self.peek_solid()?;
        self.skip_line();
        Some(line)
    }

    /// Returns the next line that is neither blank nor a comment, and goes before it.
    pub(super) fn peek_solid(&mut self) -> Option<&'t str> {
        while let Some(line) = self.line() {
            let solid = line.trim();
            if !solid.is_empty() && !solid.starts_with('#') {
                return Some(solid);
            }
            self.skip_line();
        }
        None
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the line that begins here.
    fn line(&self) -> Option<&'t str> {
        self.rest().split_inclusive('\n').next()
    }

    fn skip_line(&mut self) {
        self.skip(self.line().map_or(0, str::len));
    }

    /// Goes this many bytes ahead.
    fn skip(&mut self, bytes: usize) {
        self.number += self.rest().get(..bytes).map_or(0, |passed| passed.matches('\n').count());
        self.at = (self.at + bytes).min(self.text.len());
    }
}

/// A body that was read.
pub(super) struct ParsedBody {
    pub(super) body: Option<Body>,
    /// The type that its layout implies.
    pub(super) content_type: Option<&'static str>,
}

/// Whether a line begins a body. Sections begin with a bracket too, and are recognized before.
pub(super) fn begins(line: &str) -> bool {
    line.starts_with(['{', '[', '`', '<'])
        || ["file,", "base64,", "hex,"].iter().any(|word| line.starts_with(word))
}

/// Reads the body that begins with the next line that is neither blank nor a comment.
pub(super) fn read(lines: &mut Lines<'_>, found: &mut Collection<'_>) -> ParsedBody {
    let first = lines.peek_solid().unwrap_or_default();
    let indent = lines.line().map_or(0, |line| line.len() - line.trim_start().len());
    lines.skip(indent);
    let rest = lines.rest();
    if let Some(inner) = rest.strip_prefix("```") {
        let (body, length) = inner.find("```").map_or((inner, rest.len()), |end| (&inner[..end], end + 6));
        lines.skip(length);
        lines.skip_line();
        return multiline(body, found);
    }
    if first.starts_with(['{', '[']) {
        let length = json_length(rest);
        let body = text_body(&Template::braces(&rest[..length], found), found);
        lines.skip(length);
        lines.skip_line();
        return ParsedBody { body: Some(body), content_type: Some("application/json") };
    }
    if first.starts_with('<') {
        // XML ends with a blank line, or with the answer.
        let mut length = 0;
        for line in rest.split_inclusive('\n') {
            if line.trim().is_empty() || super::response_status(line).is_some() || super::is_request(line) {
                break;
            }
            length += line.len();
        }
        let body = text_body(&Template::braces(rest[..length].trim_end(), found), found);
        lines.skip(length.max(1));
        return ParsedBody { body: Some(body), content_type: Some("application/xml") };
    }
    lines.skip_line();
    let oneline = first.strip_prefix('`').and_then(|inner| inner.split_once('`'));
    if let Some((inner, _)) = oneline {
        let body = text_body(&Template::braces(inner, found), found);
        return ParsedBody { body: Some(body), content_type: None };
    }
    if let Some(path) = first.strip_prefix("file,") {
        let path = path.trim_end_matches(';').trim();
        warn_of_file(path, found);
        return ParsedBody { body: Some(Body::File(path_of(path).into())), content_type: None };
    }
    let encoding = first.split(',').next().unwrap_or_default();
    found.warn(format!("line {}: a body in {encoding} is not carried over", lines.number()));
    ParsedBody { body: None, content_type: None }
}

/// A text between three backticks; the first line may name its language.
fn multiline(body: &str, found: &mut Collection<'_>) -> ParsedBody {
    let (language, text) = body.split_once('\n').unwrap_or(("", body));
    let content_type = match language.trim() {
        "json" => Some("application/json"),
        "xml" => Some("application/xml"),
        "graphql" => {
            let query = text.split("\nvariables").next().unwrap_or(text);
            if query.len() < text.len() {
                found.warn("the variables of a GraphQL query are not carried over");
            }
            let whole = serde_json::json!({ "query": query }).to_string();
            let body = text_body(&Template::braces(&whole, found), found);
            return ParsedBody { body: Some(body), content_type: Some("application/json") };
        }
        _ => None,
    };
    let body = text_body(&Template::braces(text, found), found);
    ParsedBody { body: Some(body), content_type }
}

/// Returns the length of the JSON value that the text begins with; all of it if the value does not end.
fn json_length(text: &str) -> usize {
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}
