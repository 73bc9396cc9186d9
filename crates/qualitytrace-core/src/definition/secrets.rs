//! Secrets in definitions: finding them, masking them, and restoring masked ones.
//!
//! Secrets are variables of `type: secret`, and the passwords, tokens and keys of a data store. The rest of a text
//! stays as it is, comments included.

mod destination;

use std::borrow::Cow;
use std::ops::Range;

use qualitytrace_config::tree::{Node, Shape, Style};

use super::reader::Reader;
use super::{Format, Kind, parse};

pub use self::destination::Destination;

/// The mask shown in place of a secret. Sent back, it means the stored secret.
pub const MASK: &str = "********";

/// The type of a variable that is secret.
const SECRET: &str = "secret";
/// The secret fields of data stores, at any depth and in any spelling: a mistyped field has no effect, but its
/// value is a secret nevertheless.
const FIELDS: [&str; 6] =
    ["password", "token", "secretaccesskey", "sessiontoken", "accesstoken", "accesskey"];
/// Words in the name of a header that make it secret.
const HEADER_WORDS: [&str; 7] = ["auth", "cookie", "token", "secret", "key", "password", "credential"];
/// Shorter secrets of letters alone are too likely to be ordinary words of the file.
const LONG_WORD: usize = 8;
/// The same for secrets that are not made of letters alone.
const SHORT_WORD: usize = 4;

/// A secret in a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its name: the key of a variable, the field of a data store, or `headers.` and the header.
    pub name: String,
    /// The value to hide.
    pub value: String,
}

/// A mask that cannot be replaced by a stored secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MaskError {
    /// No such secret is stored.
    #[error("`{name}` is masked, and no secret of this name is stored; send the secret itself")]
    NotStored {
        /// The name of the secret.
        name: String,
    },
    /// It would replace a stored secret by a value that is not secret.
    #[error(
        "`{name}` is masked, but not of `type: secret` as the stored one; send it with its type, or send another value"
    )]
    NotSecret {
        /// The name of the secret.
        name: String,
    },
    /// It would send a stored secret elsewhere.
    #[error(
        "`{name}` is masked, and the data store's address or TLS settings are not the stored ones; send the secret itself"
    )]
    Elsewhere {
        /// The name of the secret.
        name: String,
    },
}

impl MaskError {
    /// Returns the name of the secret.
    pub fn name(&self) -> &str {
        match self {
            Self::NotStored { name } | Self::NotSecret { name } | Self::Elsewhere { name } => name,
        }
    }
}

/// What masks stand for: the secrets of a stored definition, on their way to where it sends them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredSecrets {
    secrets: Vec<Secret>,
    destination: Destination,
}

impl StoredSecrets {
    /// Returns the secrets of a stored spec in JSON.
    pub fn of(spec: &str, kind: Kind) -> Self {
        let secrets = secrets(&format!("{{\"spec\":{spec}}}"), Format::Json, kind);
        Self { secrets, destination: Destination::of(spec, kind) }
    }
}

/// Returns the secrets of a definition, in the order of the text.
pub fn secrets(source: &str, format: Format, kind: Kind) -> Vec<Secret> {
    located_secrets(source, format, kind).into_iter().map(|located| located.secret).collect()
}

/// Masks every secret in the text.
pub fn masked(source: &str, format: Format, kind: Kind) -> Cow<'_, str> {
    let secrets = located_secrets(source, format, kind);
    if secrets.is_empty() {
        return Cow::Borrowed(source);
    }
    let masks = vec![MASK.to_owned(); secrets.len()];
    Cow::Owned(rewritten(source, format, &secrets, &masks))
}

/// Masks secrets in a text as its user wrote it: also in comments and behind aliases.
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

/// Replaces the masks in the text by the stored secrets. `destination` is that of the definition's own spec.
pub fn unmasked<'s>(
    source: &'s str,
    format: Format,
    kind: Kind,
    stored: &StoredSecrets,
    destination: &Destination,
) -> Result<Cow<'s, str>, MaskError> {
    // One name may have several secrets, in the order of the text.
    let known = |name: &str, number: usize| {
        let mut named = stored.secrets.iter().filter(|secret| secret.name == name);
        let first = named.clone().next();
        named.nth(number).or(first)
    };
    if kind == Kind::VariableSet {
        let plain = plain_values(source, format);
        let is_lost = |located: &LocatedSecret| located.is_mask() && known(&located.secret.name, 0).is_some();
        if let Some(located) = plain.into_iter().find(is_lost) {
            return Err(MaskError::NotSecret { name: located.secret.name });
        }
    }
    let mut secrets = located_secrets(source, format, kind);
    let numbers: Vec<usize> = (0..secrets.len())
        .map(|at| secrets[..at].iter().filter(|other| other.secret.name == secrets[at].secret.name).count())
        .collect();
    let mut meant = Vec::new();
    for (located, number) in secrets.iter().zip(numbers).filter(|(located, _)| located.is_mask()) {
        let name = || located.secret.name.clone();
        let secret =
            known(&located.secret.name, number).ok_or_else(|| MaskError::NotStored { name: name() })?;
        if !stored.destination.allows(destination) {
            return Err(MaskError::Elsewhere { name: name() });
        }
        meant.push(secret.value.clone());
    }
    secrets.retain(LocatedSecret::is_mask);
    if secrets.is_empty() {
        return Ok(Cow::Borrowed(source));
    }
    Ok(Cow::Owned(rewritten(source, format, &secrets, &meant)))
}

/// A secret with its position in the text.
struct LocatedSecret {
    secret: Secret,
    span: Range<usize>,
    style: Style,
}

impl LocatedSecret {
    fn is_mask(&self) -> bool {
        self.secret.value.trim() == MASK
    }
}

fn located_secrets(source: &str, format: Format, kind: Kind) -> Vec<LocatedSecret> {
    let mut found = Vec::new();
    match kind {
        Kind::VariableSet => {
            for document in parse(&Reader::new(source, format)) {
                secret_values(&document, &mut found);
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
    // The target of an alias is found more than once.
    found.sort_by_key(|located| located.span.start);
    found.dedup_by_key(|located| located.span.start);
    found
}

/// Finds the values of secret variables, at any depth and under any key except `key` and `type`.
fn secret_values(node: &Node, found: &mut Vec<LocatedSecret>) {
    match &node.shape {
        Shape::Map(entries) if node.get("type").and_then(text) == Some(SECRET) => {
            let name = node.get("key").and_then(text);
            for entry in entries.iter().filter(|entry| !["key", "type"].contains(&entry.key.as_str())) {
                keep(name.unwrap_or(&entry.key).to_owned(), &entry.value, found);
            }
        }
        Shape::Map(entries) => entries.iter().for_each(|entry| secret_values(&entry.value, found)),
        Shape::List(items) => items.iter().for_each(|item| secret_values(item, found)),
        Shape::Null | Shape::Scalar(_) => {}
    }
}

/// Finds the values of variables that are not secret.
fn plain_values(source: &str, format: Format) -> Vec<LocatedSecret> {
    let mut found = Vec::new();
    for document in parse(&Reader::new(source, format)) {
        let values = document.get("spec").and_then(|spec| spec.get("values"));
        for node in values.map_or(&[][..], items) {
            let text = |key: &str| node.get(key).and_then(text);
            let is_plain = text("type") != Some(SECRET);
            if let (true, Some(name), Some(value)) = (is_plain, text("key"), node.get("value")) {
                keep(name.to_owned(), value, &mut found);
            }
        }
    }
    found
}

fn fields(node: &Node, found: &mut Vec<LocatedSecret>) {
    match &node.shape {
        Shape::Map(entries) => {
            for entry in entries {
                let field = letters(&entry.key);
                if is_secret_field(&field, text(&entry.value)) {
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

/// The letters and digits of a key, in lower case: a field in any spelling.
fn letters(key: &str) -> String {
    key.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether the value of a field, given by its letters, is a secret.
fn is_secret_field(field: &str, value: Option<&str>) -> bool {
    // Some files have a path there, others the key itself.
    let is_key = || value.is_some_and(|text| text.contains("PRIVATE KEY") || text.trim() == MASK);
    FIELDS.contains(&field) || field == "keyfile" && is_key()
}

/// Whether the value of a header, given in lower case, is a secret.
pub(crate) fn is_secret_header(header: &str) -> bool {
    HEADER_WORDS.iter().any(|word| header.contains(word))
}

fn headers(node: &Node, found: &mut Vec<LocatedSecret>) {
    let mut header = |name: &str, value: &Node| {
        if is_secret_header(&name.to_lowercase()) {
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

/// Adds a secret, unless it is empty.
fn keep(name: String, node: &Node, found: &mut Vec<LocatedSecret>) {
    if let Shape::Scalar(scalar) = &node.shape
        && !scalar.text.is_empty()
    {
        let secret = Secret { name, value: scalar.text.clone() };
        found.push(LocatedSecret { secret, span: node.span.clone(), style: scalar.style });
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

/// Replaces every byte of a secret by a star, so that all other positions stay the same.
pub fn redacted(source: &str, format: Format) -> Cow<'_, str> {
    let mut found = located_secrets(source, format, Kind::VariableSet);
    for document in parse(&Reader::new(source, format)) {
        if document.get("type").and_then(text) == Some(Kind::DataStore.as_str()) {
            fields(&document, &mut found);
        }
    }
    if found.is_empty() {
        return Cow::Borrowed(source);
    }
    let mut bytes = source.as_bytes().to_vec();
    for located in found {
        for byte in
            bytes.get_mut(located.span).into_iter().flatten().filter(|byte| !byte.is_ascii_whitespace())
        {
            *byte = b'*';
        }
    }
    String::from_utf8(bytes).map_or(Cow::Borrowed(source), Cow::Owned)
}

/// Replaces these secrets by the values.
fn rewritten(source: &str, format: Format, secrets: &[LocatedSecret], values: &[String]) -> String {
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    for (located, value) in secrets.iter().zip(values) {
        let (Some(before), Some(old)) =
            (source.get(at..located.span.start), source.get(located.span.clone()))
        else {
            continue;
        };
        out.push_str(before);
        if format == Format::Yaml && located.style == Style::Block {
            let line = source[..located.span.start].rfind('\n').map_or(0, |at| at + 1);
            let indent = " ".repeat(located.span.start - line);
            let lines: Vec<&str> = value.trim_end_matches('\n').split('\n').collect();
            out.push_str(&lines.join(&format!("\n{indent}")));
            out.push_str(&old[old.trim_end().len()..]);
        } else {
            out.push_str(&serde_json::Value::from(value.as_str()).to_string());
        }
        at = located.span.end;
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

    /// Replaces the masks by these secrets, which go nowhere.
    fn filled(source: &str, kind: Kind, stored: &[Secret]) -> Result<String, MaskError> {
        let stored = StoredSecrets { secrets: stored.to_vec(), destination: Destination::default() };
        unmasked(source, Format::Yaml, kind, &stored, &Destination::default()).map(Cow::into_owned)
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
        let whole = filled(&sent, Kind::VariableSet, &stored).unwrap();
        assert_eq!(secrets(&whole, Format::Yaml, Kind::VariableSet), stored);
        let unknown = filled(&sent, Kind::VariableSet, &[]).unwrap_err();
        assert_eq!(unknown, MaskError::NotStored { name: "A".to_owned() });
        for kind in ["", "      type: raw\n"] {
            let plain = sent.replace("      type: secret\n", kind);
            let lost = filled(&plain, Kind::VariableSet, &stored).unwrap_err();
            assert_eq!(lost, MaskError::NotSecret { name: "A".to_owned() });
            assert_eq!(filled(&plain, Kind::VariableSet, &[]).unwrap(), plain);
        }
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
    fn secrets_of_one_name_keep_their_order() {
        let set = |first: &str, second: &str| {
            let variable = |value: &str| format!("{{key: A, value: '{value}', type: secret}}");
            format!("spec: {{values: [{}, {}]}}", variable(first), variable(second))
        };
        let stored = secrets(&set("one", "two"), Format::Yaml, Kind::VariableSet);
        let kept = |first: &str, second: &str| {
            let sent = set(first, second);
            let whole = filled(&sent, Kind::VariableSet, &stored).unwrap();
            secrets(&whole, Format::Yaml, Kind::VariableSet)
        };
        assert_eq!(kept(MASK, MASK), stored);
        assert_eq!(kept("three", MASK), [secret("A", "three"), secret("A", "two")]);
    }

    #[test]
    fn a_mistyped_variable_is_secret_all_the_same() {
        let set = "spec:\n  valuess:\n  - {key: A, Value: one, type: secret}\n  values:\n  - {key: B, value: two}\n";
        assert_eq!(secrets(set, Format::Yaml, Kind::VariableSet), [secret("A", "one")]);
    }

    #[test]
    fn redaction_moves_nothing() {
        let expected = SET.replace("'hunter2'", "*********");
        assert_eq!(redacted(SET, Format::Yaml), expected);
        let store = "type: DataStore\nspec:\n  signalfx: {realm: us, token: \"gehe\u{ef}m\"}\n";
        assert_eq!(redacted(store, Format::Yaml), store.replace("\"gehe\u{ef}m\"", "*********"));
        let test = "type: Test\nspec:\n  token: a\n";
        assert_eq!(redacted(test, Format::Yaml), test);
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
        assert_eq!(filled(&shown, Kind::DataStore, &[secret("keyFile", key)]).unwrap(), text);
    }
}
