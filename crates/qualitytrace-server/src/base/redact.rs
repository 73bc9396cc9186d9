//! Redaction of secrets in texts that are about to be stored or shown.
//!
//! A secret is found as it is and in the encodings that it may have taken: in other letter case, escaped for JSON, a
//! URL, HTML, a program or mail, in UTF-16, and in base64, base32, hexadecimal digits and lists of numbers, nested,
//! wrapped or not, alone or after a user name. Parts of a text that may be encoded are decoded and searched like the
//! text itself; the cost is bounded.

mod decode;
mod encodings;
mod finder;
mod span;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use encodings::Breaks;
use finder::{Finder, Pattern};
use qualitytrace_core::definition::secrets::MASK;
use serde_json::Value;

/// Shorter secrets are redacted only where they are the whole text: as part of other texts they would make those
/// illegible.
const SHORTEST_PART: usize = 4;
/// Shorter pieces of base64 would match by chance.
const SHORTEST_ENCODED: usize = 8;
/// Fields of an event whose values are keywords of ours: they contain no user data, and must stay readable.
const KEYWORDS: [&str; 4] = ["what", "outcome", "before", "type"];
/// The field of an event below which users choose the names.
const TRIGGER: &str = "trigger";

/// Redacts secrets in texts.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Redactor {
    /// Redacted wherever they occur.
    parts: Finder,
    /// Redacted only where they are the whole text.
    wholes: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("secrets", &(self.parts.count() + self.wholes.len())).finish()
    }
}

impl Redactor {
    /// Creates a redactor of these secrets.
    pub fn of<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Self {
        let mut redactor = Self::default();
        let mut parts = Vec::new();
        for secret in secrets.into_iter().filter(|secret| !secret.is_empty() && *secret != MASK) {
            if secret.len() < SHORTEST_PART {
                redactor.wholes.push(secret.to_owned());
                continue;
            }
            parts.push(Pattern::new(secret, Breaks::None));
            // Header values may have been decoded byte by byte, as Latin-1.
            let bytes: String = secret.bytes().map(char::from).collect();
            parts.push(Pattern::new(&bytes, Breaks::None));
            // A key of several lines may be sent line by line.
            let lines = secret.lines().filter(|line| line.len() >= SHORTEST_ENCODED);
            parts.extend(lines.map(|line| Pattern::new(line, Breaks::None)));
            // Base64 that was converted to one case cannot be decoded: it is searched for literally.
            let base64 = (0..3).flat_map(|offset| encoded(secret, offset));
            let long = base64.filter(|text| text.len() >= SHORTEST_ENCODED);
            parts.extend(long.map(|text| Pattern::new(&text, Breaks::Lines)));
        }
        parts.sort_unstable();
        parts.dedup();
        redactor.parts = Finder::of(parts);
        redactor
    }

    /// Whether there are no secrets.
    pub fn is_empty(&self) -> bool {
        self.parts.count() == 0 && self.wholes.is_empty()
    }

    /// Redacts every secret in a text.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.wholes.iter().any(|secret| secret == text) {
            return Cow::Borrowed(MASK);
        }
        if self.parts.count() == 0 {
            return Cow::Borrowed(text);
        }
        let matches = self.parts.matches(text);
        if matches.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::new();
        let mut at = 0;
        for found in matches {
            out.push_str(&text[at..found.start]);
            out.push_str(MASK);
            at = found.end;
        }
        out.push_str(&text[at..]);
        Cow::Owned(out)
    }

    /// Whether a JSON document contains a secret.
    pub fn hides_in(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.text(text) != *text,
            Value::Array(items) => items.iter().any(|item| self.hides_in(item)),
            Value::Object(fields) => fields.values().any(|value| self.hides_in(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Redacts every string of a JSON document. Names of fields stay.
    pub fn json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                let shown = self.text(text);
                if shown != *text {
                    *text = shown.into_owned();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            Value::Object(fields) => fields.values_mut().for_each(|value| self.json(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Redacts every string of an event, except its keywords.
    pub fn run_event(&self, event: &mut Value) {
        match event {
            Value::Array(items) => items.iter_mut().for_each(|item| self.run_event(item)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    match name.as_str() {
                        TRIGGER => self.trigger(value),
                        name if KEYWORDS.contains(&name) => {}
                        _ => self.run_event(value),
                    }
                }
            }
            text => self.json(text),
        }
    }

    /// Redacts every string of a trigger, except the name of its kind.
    fn trigger(&self, trigger: &mut Value) {
        match trigger {
            Value::Object(fields) => {
                fields.iter_mut().filter(|(name, _)| *name != "type").for_each(|(_, value)| self.json(value));
            }
            other => self.json(other),
        }
    }
}

/// Returns the base64 forms of a secret at `offset` bytes after a multiple of three: the characters that depend on the
/// secret alone, and those that end it where nothing follows.
fn encoded(secret: &str, offset: usize) -> Vec<String> {
    let bytes = [&vec![0; offset], secret.as_bytes()].concat();
    let skip = (offset * 8).div_ceil(6);
    let whole = bytes.len() * 8 / 6;
    let mut found: Vec<String> = [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)]
        .into_iter()
        .flat_map(|text| [text.get(skip..whole), text.get(skip..)].map(|part| part.map(ToOwned::to_owned)))
        .flatten()
        .collect();
    if offset == 0 {
        found.push(STANDARD.encode(&bytes));
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(Redactor::of(["pass \"word\"/é"]).text(text), expected, "{text}");
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
            let shown = Redactor::of(["hunter2-hunter2"]).text(&header).into_owned();
            assert!(shown.contains(MASK), "{shown}");
            assert!(header.len() - shown.replace(MASK, "").len() > 16, "{shown}");
        }
    }

    #[test]
    fn a_secret_is_hidden_however_it_is_encoded() {
        const SECRET: &str = "Hunter2-hunter2";
        let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let each = |format: fn(u8) -> String, between: &str| {
            SECRET.bytes().map(format).collect::<Vec<_>>().join(between)
        };
        let wide: Vec<u8> = SECRET.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let twice = STANDARD.encode(format!("u:{}", STANDARD.encode(format!("me:{SECRET}"))));
        let wrapped = STANDARD.encode(format!("{}{SECRET} and more", "x".repeat(50)));
        let wrapped: Vec<&str> =
            wrapped.as_bytes().chunks(19).map(|l| std::str::from_utf8(l).unwrap()).collect();
        for (text, rest) in [
            (SECRET.to_uppercase(), ""),
            (SECRET.to_lowercase(), ""),
            (hex(SECRET), ""),
            (hex(SECRET).to_uppercase(), ""),
            (each(|byte| format!("{byte:02x}"), ":"), ""),
            (each(|byte| format!("0x{byte:02X}"), ", "), "0x"),
            (each(|byte| format!("\\x{byte:02x}"), ""), ""),
            (each(|byte| format!("={byte:02X}"), ""), ""),
            (each(|byte| format!("%{byte:02X}"), ""), ""),
            (each(|byte| format!("\\{byte:03o}"), ""), ""),
            (each(|byte| format!("\\U{byte:08x}"), ""), ""),
            (each(|byte| format!("\\u{{{byte:x}}}"), ""), ""),
            (each(|byte| byte.to_string(), ", "), ""),
            (each(|byte| byte.to_string(), " "), ""),
            (each(|byte| format!("{byte}, 0"), ", "), ", 0"),
            (STANDARD.encode(&wide), "A"),
            (STANDARD.encode(STANDARD.encode(STANDARD.encode(SECRET))), ""),
            (STANDARD.encode(each(|byte| format!("%{byte:02X}"), "")), ""),
            (STANDARD.encode(each(|byte| format!("\\u{byte:04x}"), "")), ""),
            (STANDARD.encode(SECRET.to_uppercase()), ""),
            (hex(&SECRET.to_uppercase()), ""),
            (STANDARD.encode(SECRET).to_lowercase(), ""),
            ("JB2W45DFOIZC22DVNZ2GK4RS".to_owned(), ""),
            ("jb2w45dfoizc22dvnz2gk4rs".to_owned(), ""),
            (STANDARD.encode(STANDARD.encode(SECRET)), ""),
            (STANDARD.encode(hex(SECRET)), ""),
            (hex(&STANDARD.encode(SECRET)), ""),
            (URL_SAFE_NO_PAD.encode(URL_SAFE_NO_PAD.encode(SECRET)), ""),
            (STANDARD.encode(SECRET).replace('=', "%3D").replace('S', "%53"), ""),
        ] {
            assert_eq!(Redactor::of([SECRET]).text(&text).replace(MASK, ""), rest, "{text}");
        }
        for text in [twice, wrapped.join("\r\n"), wrapped.join("\\n"), wrapped.join("%0A")] {
            let shown = Redactor::of([SECRET]).text(&text).into_owned();
            assert!(shown.contains(MASK), "{text}: {shown}");
            assert!(text.len() - shown.replace(MASK, "").len() >= SECRET.len(), "{text}: {shown}");
        }
    }

    #[test]
    fn a_secret_in_hexadecimal_digits_is_hidden() {
        let digits: Vec<String> = "Hunter2-hunter2".bytes().map(|byte| format!("{byte:02x}")).collect();
        let shown = Redactor::of(["Hunter2-hunter2"]).text(&digits.concat()).into_owned();
        assert_eq!(shown.replace(MASK, ""), "");
    }

    #[test]
    fn a_secret_in_double_base64_is_hidden() {
        let twice = STANDARD.encode(STANDARD.encode("Hunter2-hunter2"));
        let shown = Redactor::of(["Hunter2-hunter2"]).text(&twice).into_owned();
        assert_eq!(shown.replace(MASK, ""), "");
    }

    #[test]
    fn a_short_secret_is_hidden_where_it_stands_alone() {
        let mut value = serde_json::json!({ "a": "42", "b": "142", "c": ["42"], "hunter2": 1 });
        Redactor::of(["42", "hunter2"]).json(&mut value);
        assert_eq!(value, serde_json::json!({ "a": MASK, "b": "142", "c": [MASK], "hunter2": 1 }));
    }

    #[test]
    fn keywords_of_an_event_stay_and_names_that_users_choose_protect_nothing() {
        let event = |text: &str| {
            let chosen = serde_json::json!({ "type": text, "before": text, "auth": { "outcome": text } });
            serde_json::json!({
                "what": "http", "before": "http", "reply": { "type": "http", "body": text },
                "trigger": { "type": "http", "graphql": { "variables": chosen } },
            })
        };
        let mut redacted = event("http");
        Redactor::of(["http"]).run_event(&mut redacted);
        assert_eq!(redacted, event(MASK));
    }
}
