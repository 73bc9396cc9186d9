//! Help in a definition as a whole: its diagnostics, the keys and values of its schema, and the language in its texts.

mod cursor;

use std::ops::Range;
use std::sync::LazyLock;

use serde_json::Value;

use super::complete::{Completion, Context, complete as complete_language};
use super::offers::CompletionKind;
use crate::definition::{self, Format, Place, file_schema};
use crate::lang::Diagnostic;
use crate::lang::limits::MAX_DIAGNOSTICS;
pub use cursor::{Cursor, Step, Writing};

static SCHEMA: LazyLock<Value> = LazyLock::new(|| file_schema(None));

/// Returns the diagnostics of a YAML text that holds definitions, in the order of the text.
pub fn check(text: &str) -> Vec<Diagnostic> {
    let reading = definition::read(text, Format::Yaml);
    let mut found = reading.diagnostics;
    found.extend(reading.documents.iter().flat_map(|document| definition::check(&document.resource)));
    found.sort_by_key(|diagnostic| diagnostic.span.start);
    found.truncate(MAX_DIAGNOSTICS);
    found
}

/// Returns what can be written at the byte `at` of a YAML text that holds definitions: every key or value of the
/// schema, or what fits the word that is being typed in the language.
pub fn complete(text: &str, at: usize, context: &Context<'_>) -> Vec<Completion> {
    let cursor = Cursor::of(text, at);
    match &cursor.what {
        Writing::Key(word) => {
            let replaces = word.start..key_end(text, word.end);
            place(&cursor)
                .keys()
                .into_iter()
                .map(|key| Completion {
                    label: key.name.to_owned(),
                    insert: if key.is_nested { format!("{}:", key.name) } else { format!("{}: ", key.name) },
                    kind: CompletionKind::Key,
                    detail: key.description.unwrap_or_default().to_owned(),
                    replaces: replaces.clone(),
                })
                .collect()
        }
        Writing::Value { bytes, quote } => match cursor.form() {
            Some(form) if at >= bytes.start => {
                let written = text.get(bytes.clone()).unwrap_or_default();
                complete_language(written, at - bytes.start, form, context)
                    .into_iter()
                    .map(|found| Completion {
                        insert: escaped(&found.insert, *quote),
                        replaces: moved(&found.replaces, bytes.start),
                        ..found
                    })
                    .collect()
            }
            _ => place(&cursor)
                .values()
                .into_iter()
                .map(|value| Completion {
                    label: value.to_owned(),
                    insert: value.to_owned(),
                    kind: CompletionKind::Choice,
                    detail: String::new(),
                    replaces: bytes.clone(),
                })
                .collect(),
        },
    }
}

/// Returns the place of the schema that the path of a cursor leads to.
pub fn place(cursor: &Cursor) -> Place<'static> {
    let mut place = Place::top(&SCHEMA);
    for (depth, step) in cursor.path.iter().enumerate() {
        place = match (step, cursor.kind) {
            (Step::Key(key), Some(kind)) if depth == 0 && key == "spec" => Place::spec(&SCHEMA, kind),
            (Step::Key(key), _) => place.key(key),
            (Step::Item, _) => place.item(),
        };
    }
    place
}

/// Returns a text as it stands inside the quotes of a YAML scalar.
pub fn escaped(text: &str, quote: Option<char>) -> String {
    match quote {
        Some('\'') => text.replace('\'', "''"),
        Some(_) => text.replace('\\', "\\\\").replace('"', "\\\""),
        None => text.to_owned(),
    }
}

fn moved(bytes: &Range<usize>, by: usize) -> Range<usize> {
    bytes.start + by..bytes.end + by
}

/// The end of a key that is being replaced, its colon included.
fn key_end(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let word = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
    match rest[word..].strip_prefix(':') {
        Some(after) if after.starts_with(' ') => at + word + 2,
        Some(_) => at + word + 1,
        None => at + word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    const TEST: &str = "type: Test\nspec:\n  name: ü\n  specs:\n  ";

    /// Accepts each completion at `|` whose label is `label`.
    fn completed(marked: &str, label: &str) -> Vec<String> {
        let at = marked.find('|').unwrap();
        let text = marked.replacen('|', "", 1);
        let context = Context { trace: None, variables: &[], budget: &Budget::default() };
        let accepted = complete(&text, at, &context).into_iter().filter(|found| found.label == label);
        accepted
            .map(|found| {
                format!("{}{}{}", &text[..found.replaces.start], found.insert, &text[found.replaces.end..])
            })
            .collect()
    }

    #[test]
    fn keys_values_and_the_language_are_offered() {
        assert_eq!(completed("ty|", "type"), ["type: "]);
        assert_eq!(completed("ty|pe: Test", "type"), ["type: Test"]);
        assert_eq!(completed("type: Te|", "TestSuite"), ["type: TestSuite"]);
        assert_eq!(completed(&format!("{TEST}- sel|"), "selector"), [format!("{TEST}- selector: ")]);
        assert_eq!(completed(&format!("{TEST}- sel|"), "assertions"), [format!("{TEST}- assertions:")]);
        assert_eq!(
            completed(&format!("{TEST}- selector: span[]:fir|"), ":first"),
            [format!("{TEST}- selector: span[]:first")]
        );
    }

    #[test]
    fn a_quoted_text_stays_quoted() {
        assert_eq!(escaped("a 'b'", Some('\'')), "a ''b''");
        assert_eq!(escaped("a \"b\" \\", Some('"')), "a \\\"b\\\" \\\\");
        assert_eq!(escaped("'", None), "'");
    }

    #[test]
    fn diagnostics_stand_in_the_order_of_the_text() {
        let text = format!("{TEST}- selector: span[\n    assertion: []\n");
        let places: Vec<&str> = check(&text).iter().map(|found| &text[found.span.clone()]).collect();
        assert_eq!(places, ["[", "assertion"]);
        assert_eq!(check("type: Test\nspec: [\n")[0].code.split('-').next(), Some("yaml"));
    }
}
