//! Hiding secrets in texts that are about to be kept or shown.
//!
//! A secret is hidden as it is and in the disguises that it takes on the way: with letters escaped for JSON, a URL or
//! HTML, and in base64, alone or behind a user name.

mod disguise;
mod finder;
mod span;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use finder::Finder;
use qualitytrace_core::definition::secrets::MASK;
use serde_json::Value;

/// Shorter secrets are hidden where they stand alone: as part of other texts they would make those illegible.
const SHORTEST_PART: usize = 4;
/// Shorter pieces of base64 could be anything.
const SHORTEST_ENCODED: usize = 8;
/// Fields whose values are words of ours: they say nothing of anybody's, and without them nothing can be read.
const OURS: [&str; 4] = ["what", "outcome", "before", "type"];

/// Texts that must not be shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Mask {
    /// Hidden wherever they occur.
    parts: Finder,
    /// Hidden where they are the whole text.
    wholes: Vec<String>,
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mask").field("secrets", &(self.parts.count() + self.wholes.len())).finish()
    }
}

impl Mask {
    /// Hides these.
    pub fn of<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let mut mask = Self::default();
        let mut parts = Vec::new();
        for secret in secrets.into_iter().filter(|secret| !secret.is_empty() && *secret != MASK) {
            if secret.len() < SHORTEST_PART {
                mask.wholes.push(secret.to_owned());
                continue;
            }
            parts.push(secret.to_owned());
            // Names of hosts are written in lower case, and headers are read byte by byte.
            parts.push(secret.to_lowercase());
            parts.push(secret.bytes().map(char::from).collect());
            // A key in several lines may travel line by line.
            parts.extend(secret.lines().filter(|line| line.len() >= SHORTEST_ENCODED).map(str::to_owned));
            parts.extend((0..3).flat_map(|offset| encoded(secret, offset)));
        }
        parts.sort_unstable();
        parts.dedup();
        mask.parts = Finder::of(parts);
        mask
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.parts.count() == 0 && self.wholes.is_empty()
    }

    /// The text with the mask in place of every secret.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.wholes.iter().any(|secret| secret == text) {
            return Cow::Borrowed(MASK);
        }
        if self.parts.count() == 0 {
            return Cow::Borrowed(text);
        }
        let places = self.parts.places(text);
        if places.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::new();
        let mut at = 0;
        for place in places {
            out.push_str(&text[at..place.start]);
            out.push_str(MASK);
            at = place.end;
        }
        out.push_str(&text[at..]);
        Cow::Owned(out)
    }

    /// The same in every text of a document. Names of fields are ours and stay.
    pub fn json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                let shown = self.text(text);
                if shown != *text {
                    *text = shown.into_owned();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            Value::Object(fields) => {
                let texts = fields.iter_mut().filter(|(name, _)| !OURS.contains(&name.as_str()));
                texts.for_each(|(_, value)| self.json(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// What base64 makes of a secret that stands `offset` bytes after a multiple of three: the letters that depend on
/// nothing else.
fn encoded(secret: &str, offset: usize) -> Vec<String> {
    let bytes = [&vec![0; offset], secret.as_bytes()].concat();
    let skip = (offset * 8).div_ceil(6);
    let whole = bytes.len() * 8 / 6;
    let mut found: Vec<String> = [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)]
        .into_iter()
        .filter_map(|text| text.get(skip..whole).map(ToOwned::to_owned))
        .collect();
    if offset == 0 {
        found.push(STANDARD.encode(&bytes));
    }
    found.retain(|text| text.len() >= SHORTEST_ENCODED);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(Mask::of(["pass \"word\"/é"]).text(text), expected, "{text}");
    }

    #[test]
    fn a_secret_is_hidden_in_all_its_disguises() {
        check("a pass \"word\"/é b", "a ******** b");
        check(r#"{"a":"pass \"word\"/é"}"#, r#"{"a":"********"}"#);
        check("http://x/?a=pass%20%22word%22%2F%C3%A9&b", "http://x/?a=********&b");
        check(&STANDARD.encode("pass \"word\"/é"), MASK);
        check("nothing here", "nothing here");
    }

    #[test]
    fn a_secret_behind_a_user_name_is_hidden_in_base64() {
        for user in ["", "u", "us", "use", "user"] {
            let header = format!("Basic {}", STANDARD.encode(format!("{user}:hunter2-hunter2")));
            let shown = Mask::of(["hunter2-hunter2"]).text(&header).into_owned();
            assert!(shown.contains(MASK), "{shown}");
            assert!(header.len() - shown.replace(MASK, "").len() > 16, "{shown}");
        }
    }

    #[test]
    fn a_short_secret_is_hidden_where_it_stands_alone() {
        let mut value =
            serde_json::json!({ "a": "42", "b": "142", "c": ["42"], "hunter2": 1, "what": "hunter2" });
        Mask::of(["42", "hunter2"]).json(&mut value);
        let expected =
            serde_json::json!({ "a": MASK, "b": "142", "c": [MASK], "hunter2": 1, "what": "hunter2" });
        assert_eq!(value, expected);
    }
}
