//! What is being written at a place of a definition file: a key, or a value.
//!
//! A file is broken while it is typed, so this looks at lines and their indentation instead of the tree.

mod scalar;

use std::ops::Range;

use crate::definition::Kind;
use crate::lang::Form;

/// A step from the top of a document to a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Into the value of a key.
    Key(String),
    /// Into an item of a list.
    Item,
}

/// What is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The kind of the document.
    pub kind: Option<Kind>,
    /// The path to the mapping, list or value.
    pub path: Vec<Step>,
    /// The key or the value.
    pub what: Writing,
}

/// A key or a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Writing {
    /// A key of the mapping at the path; the bytes of the word so far.
    Key(Range<usize>),
    /// The value at the path, without quotes.
    Value {
        /// Its bytes.
        bytes: Range<usize>,
        /// The quote that it stands in.
        quote: Option<char>,
    },
}

impl Cursor {
    /// Looks at the line of `at` and the lines above it; in a text of several lines, at the line that begins it.
    pub fn of(text: &str, at: usize) -> Self {
        let at = text.floor_char_boundary(at.min(text.len()));
        match scalar::around(text, at) {
            Some(scalar) => {
                let line_end =
                    text[scalar.line..].find(['\r', '\n']).map_or(text.len(), |end| scalar.line + end);
                let what = Writing::Value { bytes: scalar.bytes, quote: scalar.quote };
                Self { what, ..Self::on_line(text, line_end) }
            }
            None => Self::on_line(text, at),
        }
    }

    fn on_line(text: &str, at: usize) -> Self {
        let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
        let end = text[at..].find(['\r', '\n']).map_or(text.len(), |end| at + end);
        let line = Line::of(&text[start..end]);
        let above: Vec<Line<'_>> =
            text[..start].lines().rev().take_while(|line| *line != "---").map(Line::of).collect();
        let below = text[end..].lines().take_while(|line| *line != "---");
        let kind = above.iter().map(|line| line.text).chain([line.text]).chain(below).find_map(kind_named);
        let mut path = Vec::new();
        let content = start + line.column;
        let key_end = line.key.map(|key| content + key.len() + 1);
        let what = match key_end {
            Some(colon) if at >= colon => {
                path.extend(line.key.map(|key| Step::Key(unquoted(key).to_owned())));
                value(text, colon, end)
            }
            _ if line.is_value(at - start) => value(text, content, end),
            _ => Writing::Key(content..at.max(content)),
        };
        let mut column = line.column;
        for dash in line.dashes.iter().rev() {
            path.push(Step::Item);
            column = dash + 1;
        }
        for other in &above {
            other.climb(&mut column, &mut path);
        }
        path.reverse();
        let cursor = Self { kind, path, what };
        match (&cursor.what, cursor.form()) {
            // A text of the language has no keys: it may begin on the line below its own.
            (Writing::Key(_), Some(Form::Selector | Form::Assertion | Form::Expression)) => {
                Self { what: value(text, content, end), ..cursor }
            }
            _ => cursor,
        }
    }

    /// The names of the keys on the path, items left out.
    pub fn keys(&self) -> Vec<&str> {
        let keys = self.path.iter().filter_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Item => None,
        });
        keys.collect()
    }

    /// The language that the value is written in, if it is one of the language's texts.
    pub fn form(&self) -> Option<Form> {
        match self.keys().as_slice() {
            ["spec", "specs" | "outputs", "selector"] => Some(Form::Selector),
            ["spec", "specs", "assertions"] => Some(Form::Assertion),
            ["spec", "outputs", "value"] => Some(Form::Expression),
            ["spec", "trigger", _, ..] => Some(Form::Template),
            _ => None,
        }
    }
}

/// A line: its dashes, the column of what follows them, and its key.
#[derive(Debug)]
struct Line<'t> {
    text: &'t str,
    dashes: Vec<usize>,
    column: usize,
    key: Option<&'t str>,
}

impl<'t> Line<'t> {
    fn of(text: &'t str) -> Self {
        let mut column = text.len() - text.trim_start_matches(' ').len();
        let mut dashes = Vec::new();
        while text[column..].starts_with("- ") || &text[column..] == "-" {
            dashes.push(column);
            let rest = &text[column + 1..];
            column += 1 + rest.len() - rest.trim_start_matches(' ').len();
        }
        let content = &text[column..];
        let is_key = |key: &&str| {
            !key.is_empty()
                && !key.starts_with('#')
                && key.chars().all(|c| c.is_alphanumeric() || "_-.\"'".contains(c))
        };
        let colon = content.find(": ").or_else(|| content.ends_with(':').then(|| content.len() - 1));
        let key = colon.map(|colon| &content[..colon]).filter(is_key);
        Self { text, dashes, column, key }
    }

    /// Whether what is written at this column is the text of an item, and no key.
    fn is_value(&self, at: usize) -> bool {
        let written = self.text.get(self.column..at.max(self.column)).unwrap_or_default();
        let is_word = written.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        !self.dashes.is_empty() && !is_word
    }

    /// Adds the steps of a line above, if it holds what was found so far.
    fn climb(&self, column: &mut usize, path: &mut Vec<Step>) {
        if self.text.trim().is_empty() || self.text.trim_start().starts_with('#') {
            return;
        }
        match self.key {
            Some(key) if self.column < *column => {
                path.push(Step::Key(unquoted(key).to_owned()));
                *column = self.column;
            }
            // A key of the same item.
            Some(_) if self.column == *column && !self.dashes.is_empty() => {}
            _ => return,
        }
        for dash in self.dashes.iter().rev() {
            path.push(Step::Item);
            *column = dash + 1;
        }
    }
}

fn kind_named(line: &str) -> Option<Kind> {
    Kind::named(unquoted(line.strip_prefix("type:")?.split(" #").next()?.trim()))
}

/// The value that begins behind `from`.
fn value(text: &str, from: usize, end: usize) -> Writing {
    let rest = text.get(from..end).unwrap_or_default();
    let solid = rest.trim_start();
    let mut start = end - solid.len();
    let mut stop = start + solid.trim_end().len();
    let quote = solid.chars().next().filter(|c| matches!(c, '"' | '\''));
    if let Some(quote) = quote {
        start += 1;
        if stop > start && text[..stop].ends_with(quote) {
            stop -= 1;
        }
    } else if let Some(comment) = solid.find(" #") {
        stop = start + solid[..comment].trim_end().len();
    }
    Writing::Value { bytes: start..stop.max(start), quote }
}

fn unquoted(text: &str) -> &str {
    text.trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks the place of `|` in a text.
    fn check(marked: &str, path: &str, what: &str) {
        let at = marked.find('|').unwrap();
        let text = marked.replacen('|', "", 1);
        let cursor = Cursor::of(&text, at);
        let steps: Vec<&str> = cursor
            .path
            .iter()
            .map(|step| match step {
                Step::Key(key) => key.as_str(),
                Step::Item => "-",
            })
            .collect();
        assert_eq!(steps.join(" "), path, "{marked}");
        let shown = match &cursor.what {
            Writing::Key(bytes) => format!("key {}", &text[bytes.clone()]),
            Writing::Value { bytes, .. } => format!("value {}", &text[bytes.clone()]),
        };
        assert_eq!(shown, what, "{marked}");
    }

    #[test]
    fn the_path_follows_the_indentation() {
        let test = "type: Test\nspec:\n  name: a\n  trigger:\n    type: http\n    httpRequest:\n      url: x\n  specs:\n    - selector: span[]\n      assertions:\n        - attr:a = 1\n";
        check("ty|", "", "key ty");
        check("type: Te|", "type", "value Te");
        check(&format!("{test}  out|"), "spec", "key out");
        check(&format!("{test}      na|"), "spec specs -", "key na");
        check(&format!("{test}        - attr:b| = 1"), "spec specs - assertions -", "value attr:b = 1");
        check(
            &format!("{test}    - selector: 'span[na|me=\"x\"]'"),
            "spec specs - selector",
            "value span[name=\"x\"]",
        );
        check(&format!("{test}    - na|"), "spec specs -", "key na");
        check(
            "type: Test\nspec:\n  trigger:\n    httpRequest:\n      me|",
            "spec trigger httpRequest",
            "key me",
        );
        check("type: Test\nspec:\n  specs:\n  - name: x\n    sel|", "spec specs -", "key sel");
        check("spec:\n  specs:\n  - selector:\n      span[na|", "spec specs - selector", "value span[na");
        check("spec:\n  specs:\n  - assertions:\n    - att|", "spec specs - assertions -", "value att");
        check("type: Test\nspec:\n  name: x # y|", "spec name", "value x");
        check("a: 1\n---\n|", "", "key ");
    }

    #[test]
    fn a_text_of_several_lines_has_the_path_of_its_first() {
        let test = "type: Test\nspec:\n  specs:\n";
        check(
            &format!("{test}  - selector: >\n      span[\n        na|\n      ]\n    name: x\n"),
            "spec specs - selector",
            "value       span[\n        na\n      ]",
        );
        check(
            &format!("{test}  - assertions:\n    - attr:a = 1\n    - attr:b\n      = |\n"),
            "spec specs - assertions -",
            "value attr:b\n      = ",
        );
    }

    #[test]
    fn kinds_and_forms_are_known() {
        let text = "spec:\n  specs:\n    - selector: s\ntype: Test\n";
        let cursor = Cursor::of(text, text.find("s\ntype").unwrap() + 1);
        assert_eq!((cursor.kind, cursor.form()), (Some(Kind::Test), Some(Form::Selector)));
    }

    proptest! {
        #[test]
        fn any_place_of_any_text_has_a_cursor(text in "[a:\\-# \n\"'ü]{0,60}", at in 0..80_usize) {
            let cursor = Cursor::of(&text, at);
            let (Writing::Key(bytes) | Writing::Value { bytes, .. }) = cursor.what;
            prop_assert!(text.get(bytes).is_some());
        }
    }
}
