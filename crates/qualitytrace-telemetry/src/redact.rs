//! Redaction of secrets in the query of an address.

use std::borrow::Cow;

use crate::pattern;

/// The replacement of a secret.
const REDACTED: &str = "***";

/// Replaces the values of an address's query by `***` where `is_secret` says so for their names, and bearer tokens.
/// Names are compared in lower case, percent-decoded, and with `-` for `_`.
pub fn query(address: &str, is_secret: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let Some((before, query)) = address.split_once('?') else { return Cow::Borrowed(address) };
    let (query, fragment) = match query.find('#') {
        Some(at) => query.split_at(at),
        None => (query, ""),
    };
    let is_redacted = |pair: &str| match pair.split_once('=') {
        Some((name, value)) => !value.is_empty() && (is_secret(&canonical(name)) || is_bearer(value)),
        None => false,
    };
    if !query.split(['&', ';']).any(is_redacted) {
        return Cow::Borrowed(address);
    }
    let mut shown = format!("{before}?");
    for pair in query.split_inclusive(['&', ';']) {
        let end = pair.len() - usize::from(pair.ends_with(['&', ';']));
        let (pair, separator) = pair.split_at(end);
        match pair.split_once('=').filter(|_| is_redacted(pair)) {
            Some((name, _)) => shown.extend([name, "=", REDACTED, separator]),
            None => shown.extend([pair, separator]),
        }
    }
    shown.push_str(fragment);
    Cow::Owned(shown)
}

/// Whether a value begins with `bearer` and is thus a token, percent-encoded or not, whatever its name is.
pub fn is_bearer(value: &str) -> bool {
    // Nine characters, each percent-encoded or not, are enough to tell.
    let end = value.char_indices().nth(27).map_or(value.len(), |(at, _)| at);
    let value = canonical(&value[..end]);
    value.trim_start().strip_prefix("bearer").is_some_and(|rest| rest.starts_with([' ', '+']))
}

/// Patterns of names whose values are secrets.
const SECRET: [&str; 14] = [
    "*auth*",
    "*key*",
    "*pass*",
    "*sig*",
    "*session*",
    "*jwt*",
    "code",
    "pw",
    "pwd",
    "*assertion*",
    "*token*",
    "*secret*",
    "*credential*",
    "*cookie*",
];

/// Whether a value of a query is most likely a secret, by its name in lower case.
pub fn is_secret(name: &str) -> bool {
    SECRET.iter().any(|pattern| matches(pattern, name))
}

/// Whether a name matches a pattern; `*` matches any text.
pub fn matches(pattern: &str, name: &str) -> bool {
    pattern::matches(pattern.as_bytes(), name.as_bytes(), |p, c| p == c)
}

/// Normalises a name for comparison.
fn canonical(name: &str) -> String {
    percent_encoding::percent_decode_str(name).decode_utf8_lossy().to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expected: &str) {
        assert_eq!(query(address, |name| name.contains("token") || name == "api-key"), expected);
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, fits) in [
            ("cookie", "cookie", true),
            ("cookie", "cookies", false),
            ("*token*", "x-token", true),
            ("*token*", "token", true),
            ("x-*-key", "x-api-key", true),
            ("x-*-key", "x-key", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
        assert!(is_secret("access-token") && is_secret("code") && !is_secret("zipcode"));
    }

    #[test]
    fn secret_values_are_left_out() {
        check("/ws?token=abc", "/ws?token=***");
        check("/x?a=1&access_token=abc=d&b=2#f?token=x", "/x?a=1&access_token=***&b=2#f?token=x");
        check("/x?Api_Key=abc;b=2", "/x?Api_Key=***;b=2");
        check("/x?%74oken=abc", "/x?%74oken=***");
        check("/x?token=&token", "/x?token=&token");
        check("/x?a=1&b=token", "/x?a=1&b=token");
        check("/x?%=token&%4=1&é%", "/x?%=token&%4=1&é%");
        check("/x?q=Bearer%20abc&r=%42earer+abc&s=bearers&t=1", "/x?q=***&r=***&s=bearers&t=1");
        check("/x", "/x");
    }
}
