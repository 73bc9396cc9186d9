//! Secrets in definitions: where they stand, what is shown in their place, and what a shown one stands for.
//!
//! Variables of `type: secret`, and the passwords, tokens and keys of a data store. A text keeps everything else,
//! comments included.

use std::borrow::Cow;
use std::ops::Range;

use super::node::{Node, Shape, Style};
use super::reader::Reader;
use super::{Format, Kind, parse};

/// What is shown in place of a secret. Sent back, it means the secret that is stored.
pub const MASK: &str = "********";

/// The fields of data stores that are secret, wherever they stand and however they are spelled: what is mistyped means
/// nothing, and is a secret all the same.
const FIELDS: [&str; 6] =
    ["password", "token", "secretaccesskey", "sessiontoken", "accesstoken", "accesskey"];
/// Words that make a header secret.
const HEADER_WORDS: [&str; 7] = ["auth", "cookie", "token", "secret", "key", "password", "credential"];
/// Shorter words are too likely to be words of the file's own.
const LONG_WORD: usize = 8;
/// The same for words that are not made of letters alone.
const SHORT_WORD: usize = 4;

/// A secret in a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// What names it: the key of a variable, the field of a data store, or `headers.` and the header.
    pub name: String,
    /// What must not be shown.
    pub value: String,
}

/// A mask that stands for nothing, because no such secret is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// What names the secret.
    pub name: String,
}

/// The secrets of a definition, in the order of the text.
pub fn secrets(source: &str, format: Format, kind: Kind) -> Vec<Secret> {
    places(source, format, kind).into_iter().map(|place| place.secret).collect()
}

/// The text with a mask in place of every secret.
pub fn masked(source: &str, format: Format, kind: Kind) -> Cow<'_, str> {
    let places = places(source, format, kind);
    if places.is_empty() {
        return Cow::Borrowed(source);
    }
    Cow::Owned(rewritten(source, format, &places, |_| Some(MASK.to_owned())))
}

/// The same for a text as its user wrote it: a secret can stand in a comment too, or behind an alias.
pub fn masked_throughout(source: &str, format: Format, kind: Kind) -> Cow<'_, str> {
    let mut text = masked(source, format, kind);
    for secret in secrets(source, format, kind) {
        let secret = secret.value.trim();
        let is_word = secret.chars().all(char::is_alphabetic);
        if secret.len() >= if is_word { LONG_WORD } else { SHORT_WORD } && text.contains(secret) {
            text = Cow::Owned(text.replace(secret, MASK));
        }
    }
    text
}

/// The text with the stored secrets in place of the masks.
pub fn unmasked<'s>(
    source: &'s str,
    format: Format,
    kind: Kind,
    stored: &[Secret],
) -> Result<Cow<'s, str>, Unknown> {
    let mut places = places(source, format, kind);
    places.retain(|place| place.secret.value.trim() == MASK);
    if places.is_empty() {
        return Ok(Cow::Borrowed(source));
    }
    let known = |name: &str| stored.iter().find(|secret| secret.name == name);
    if let Some(place) = places.iter().find(|place| known(&place.secret.name).is_none()) {
        return Err(Unknown { name: place.secret.name.clone() });
    }
    let value = |name: &str| known(name).map(|secret| secret.value.clone());
    Ok(Cow::Owned(rewritten(source, format, &places, value)))
}

/// A secret with its place in the text.
struct Place {
    secret: Secret,
    span: Range<usize>,
    style: Style,
}

fn places(source: &str, format: Format, kind: Kind) -> Vec<Place> {
    let mut found = Vec::new();
    match kind {
        Kind::VariableSet => {
            for document in parse(&Reader::new(source, format)) {
                let values = document.get("spec").and_then(|spec| spec.get("values"));
                values.map_or(&[][..], items).iter().for_each(|node| variable(node, &mut found));
            }
        }
        Kind::DataStore => {
            for document in parse(&Reader::new(source, format)) {
                fields(&document, &mut found);
            }
        }
        Kind::Test
        | Kind::TestSuite
        | Kind::PollingProfile
        | Kind::Analyzer
        | Kind::TestRunner
        | Kind::Config
        | Kind::Demo => {}
    }
    // What an alias refers to is met more than once.
    found.sort_by_key(|place| place.span.start);
    found.dedup_by_key(|place| place.span.start);
    found
}

fn variable(node: &Node, found: &mut Vec<Place>) {
    let text = |key: &str| node.get(key).and_then(text);
    if text("type") != Some("secret") {
        return;
    }
    if let (Some(name), Some(value)) = (text("key"), node.get("value")) {
        keep(name.to_owned(), value, found);
    }
}

fn fields(node: &Node, found: &mut Vec<Place>) {
    match &node.shape {
        Shape::Map(entries) => {
            for entry in entries {
                // Some files name a file, others hold the key itself.
                let is_key = || {
                    let text = text(&entry.value).unwrap_or_default();
                    text.contains("PRIVATE KEY") || text.trim() == MASK
                };
                let letters: String = entry.key.chars().filter(|letter| letter.is_alphanumeric()).collect();
                let field = letters.to_lowercase();
                if FIELDS.contains(&field.as_str()) || field == "keyfile" && is_key() {
                    keep(entry.key.clone(), &entry.value, found);
                } else if field == "headers" {
                    headers(&entry.value, found);
                } else {
                    fields(&entry.value, found);
                }
            }
        }
        Shape::List(items) => items.iter().for_each(|item| fields(item, found)),
        Shape::Null | Shape::Scalar(_) => {}
    }
}

fn headers(node: &Node, found: &mut Vec<Place>) {
    let mut header = |name: &str, value: &Node| {
        let lower = name.to_lowercase();
        if HEADER_WORDS.iter().any(|word| lower.contains(word)) {
            keep(format!("headers.{name}"), value, found);
        }
    };
    match &node.shape {
        Shape::Map(entries) => entries.iter().for_each(|entry| header(&entry.key, &entry.value)),
        Shape::List(items) => {
            for item in items {
                if let (Some(name), Some(value)) = (item.get("key").and_then(text), item.get("value")) {
                    header(name, value);
                }
            }
        }
        Shape::Null | Shape::Scalar(_) => {}
    }
}

/// An empty secret is none.
fn keep(name: String, node: &Node, found: &mut Vec<Place>) {
    if let Shape::Scalar(scalar) = &node.shape
        && !scalar.text.is_empty()
    {
        let secret = Secret { name, value: scalar.text.clone() };
        found.push(Place { secret, span: node.span.clone(), style: scalar.style });
    }
}

fn text(node: &Node) -> Option<&str> {
    match &node.shape {
        Shape::Scalar(scalar) => Some(&scalar.text),
        Shape::Null | Shape::List(_) | Shape::Map(_) => None,
    }
}

fn items(node: &Node) -> &[Node] {
    match &node.shape {
        Shape::List(items) => items,
        Shape::Null | Shape::Scalar(_) | Shape::Map(_) => &[],
    }
}

/// The text with other values in these places.
fn rewritten(
    source: &str,
    format: Format,
    places: &[Place],
    value: impl Fn(&str) -> Option<String>,
) -> String {
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    for place in places {
        let (Some(value), Some(before), Some(old)) =
            (value(&place.secret.name), source.get(at..place.span.start), source.get(place.span.clone()))
        else {
            continue;
        };
        out.push_str(before);
        if format == Format::Yaml && place.style == Style::Block {
            let line = source[..place.span.start].rfind('\n').map_or(0, |at| at + 1);
            let indent = " ".repeat(place.span.start - line);
            let lines: Vec<&str> = value.trim_end_matches('\n').split('\n').collect();
            out.push_str(&lines.join(&format!("\n{indent}")));
            out.push_str(&old[old.trim_end().len()..]);
        } else {
            out.push_str(&serde_json::Value::from(value).to_string());
        }
        at = place.span.end;
    }
    out.push_str(&source[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "# about hunter2\ntype: VariableSet\nspec:\n  name: s\n  values:\n    - key: A # first\n      \
                       value: 'hunter2' # hidden\n      type: secret\n    - key: B\n      value: seen\n";

    fn secret(name: &str, value: &str) -> Secret {
        Secret { name: name.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn a_secret_is_masked_wherever_it_stands_and_the_rest_stays() {
        assert_eq!(secrets(SET, Format::Yaml, Kind::VariableSet), [secret("A", "hunter2")]);
        let shown = masked(SET, Format::Yaml, Kind::VariableSet);
        assert_eq!(shown, SET.replace("'hunter2'", "\"********\""));
        assert_eq!(
            masked_throughout(SET, Format::Yaml, Kind::VariableSet),
            SET.replace("'hunter2'", "\"********\"").replace("hunter2", "********")
        );
        assert_eq!(masked(SET, Format::Yaml, Kind::Test), SET);
    }

    #[test]
    fn a_mask_stands_for_the_stored_secret() {
        let sent = SET.replace("hunter2", MASK);
        let stored = [secret("A", "a \"new\" one")];
        let filled = unmasked(&sent, Format::Yaml, Kind::VariableSet, &stored).unwrap();
        assert_eq!(secrets(&filled, Format::Yaml, Kind::VariableSet), stored);
        let unknown = unmasked(&sent, Format::Yaml, Kind::VariableSet, &[]).unwrap_err();
        assert_eq!(unknown.name, "A");
    }

    #[test]
    fn data_stores_hide_passwords_tokens_keys_and_telling_headers() {
        let store = r#"{"spec": {"name": "x", "type": "tempo", "tempo": {"grpc": {"headers": {"x-api-key": "k",
            "accept": "a"}, "tls": {"settings": {"keyFile": "-----BEGIN PRIVATE KEY-----", "certFile": "c"}}}},
            "elasticapm": {"username": "u", "password": "p"}, "signalfx": {"token": ""}}}"#;
        let names: Vec<String> =
            secrets(store, Format::Json, Kind::DataStore).into_iter().map(|secret| secret.name).collect();
        assert_eq!(names, ["headers.x-api-key", "keyFile", "password"]);
        let shown = masked(store, Format::Json, Kind::DataStore);
        assert!(serde_json::from_str::<serde_json::Value>(&shown).is_ok());
        assert!(!shown.contains("PRIVATE"));
    }

    #[test]
    fn a_mistyped_field_is_secret_all_the_same() {
        let text =
            "spec:\n  opensearch:\n    Password: a\n    pass_word: b\n    ACCESS-KEY: c\n    index: d\n";
        let shown = masked(text, Format::Yaml, Kind::DataStore);
        assert_eq!(shown.matches(MASK).count(), 3, "{shown}");
        assert!(shown.ends_with("index: d\n"), "{shown}");
    }

    #[test]
    fn a_key_in_a_block_is_masked_and_filled_in_again() {
        let key = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n";
        let text = "spec:\n  type: jaeger\n  jaeger:\n    tls:\n      settings:\n        keyFile: |\n          \
                    -----BEGIN PRIVATE KEY-----\n          abc\n          -----END PRIVATE KEY-----\n    endpoint: j:1\n";
        assert_eq!(secrets(text, Format::Yaml, Kind::DataStore), [secret("keyFile", key)]);
        let shown = masked(text, Format::Yaml, Kind::DataStore);
        assert!(!shown.contains("abc"), "{shown}");
        assert!(shown.ends_with("|\n          ********\n    endpoint: j:1\n"), "{shown}");
        let filled = unmasked(&shown, Format::Yaml, Kind::DataStore, &[secret("keyFile", key)]).unwrap();
        assert_eq!(filled, text);
    }
}
