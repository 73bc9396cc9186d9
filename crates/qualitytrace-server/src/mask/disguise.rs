//! Finding a secret in a text although some of its letters are escaped there: for a URL, for JSON, for HTML.

use std::ops::Range;

/// The first place from `from` on where `text` says `secret`, escaped or not.
pub(super) fn find(text: &str, secret: &str, from: usize) -> Option<Range<usize>> {
    let first = secret.chars().next()?;
    let plain = u8::try_from(first).ok().filter(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        // Most letters are never escaped, so that most places need no closer look.
        if plain.is_none_or(|plain| bytes[at] == plain || matches!(bytes[at], b'%' | b'\\'))
            && text.is_char_boundary(at)
            && let Some(end) = ends(bytes, at, secret)
        {
            return Some(at..end);
        }
        at += 1;
    }
    None
}

/// Where the secret ends that begins at `at`; `None` when it does not.
fn ends(text: &[u8], at: usize, secret: &str) -> Option<usize> {
    secret.chars().try_fold(at, |at, letter| said(text, at, letter).map(|length| at + length))
}

/// How many bytes say a letter at `at`.
fn said(text: &[u8], at: usize, letter: char) -> Option<usize> {
    let rest = text.get(at..)?;
    let mut buffer = [0; 4];
    let raw = letter.encode_utf8(&mut buffer).as_bytes();
    let plain = rest.starts_with(raw).then_some(raw.len());
    let escaped = match rest.first()? {
        b'%' => in_url(rest, raw),
        b'+' => (letter == ' ').then_some(1),
        b'&' => in_html(rest, letter),
        b'\\' => in_json(rest, letter),
        _ => None,
    };
    escaped.or(plain)
}

fn in_url(rest: &[u8], raw: &[u8]) -> Option<usize> {
    let is_said = |(triple, byte): (&[u8], &u8)| {
        let digits = triple.strip_prefix(b"%").and_then(|digits| std::str::from_utf8(digits).ok());
        digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) == Some(*byte)
    };
    let length = raw.len() * 3;
    (rest.len() >= length && rest.chunks_exact(3).zip(raw).all(is_said)).then_some(length)
}

fn in_html(rest: &[u8], letter: char) -> Option<usize> {
    let names: &[&str] = match letter {
        '"' => &["&quot;", "&#34;"],
        '\'' => &["&apos;", "&#39;"],
        '&' => &["&amp;"],
        '<' => &["&lt;"],
        '>' => &["&gt;"],
        _ => return None,
    };
    names.iter().find(|name| rest.starts_with(name.as_bytes())).map(|name| name.len())
}

/// JSON can stand in a text of JSON, so that any number of backslashes comes before a letter.
fn in_json(rest: &[u8], letter: char) -> Option<usize> {
    let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
    let escaped = rest.get(slashes..)?;
    let short = match letter {
        '\\' => return Some(slashes.min(2)),
        '"' | '/' => Some(u8::try_from(letter).ok()?),
        '\n' => Some(b'n'),
        '\r' => Some(b'r'),
        '\t' => Some(b't'),
        _ => None,
    };
    if short.is_some() && escaped.first() == short.as_ref() {
        return Some(slashes + 1);
    }
    let mut units = [0; 2];
    let mut length = slashes;
    for (at, unit) in letter.encode_utf16(&mut units).iter().enumerate() {
        let code = rest.get(length..)?;
        let code = if at == 0 { code } else { code.strip_prefix(b"\\")? };
        let digits = std::str::from_utf8(code.strip_prefix(b"u")?.get(..4)?).ok()?;
        if u16::from_str_radix(digits, 16).ok()? != *unit {
            return None;
        }
        length += 5 + usize::from(at > 0);
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, secret: &str, expected: Option<&str>) {
        assert_eq!(find(text, secret, 0).map(|range| &text[range]), expected, "{secret} in {text}");
    }

    #[test]
    fn a_letter_can_be_escaped_or_not() {
        check("x a/b y", "a/b", Some("a/b"));
        check("x a%2fb%2Fc y", "a/b/c", Some("a%2fb%2Fc"));
        check("x%61/b", "a/b", Some("%61/b"));
        check("?q=a+b%20c", "a b c", Some("a+b%20c"));
        check(r#"{"a": "say \"é\""}"#, "say \"é\"", Some(r#"say \"é\""#));
        check(r#""{\"a\": \"say \\\"x\\\"\"}""#, "say \"x\"", Some(r#"say \\\"x\\\""#));
        check(r"\u0061\u00e9\ud83e\udd80", "aé🦀", Some(r"\u0061\u00e9\ud83e\udd80"));
        check("<b>a&amp;b&quot;</b>", "a&b\"", Some("a&amp;b&quot;"));
        check(r"C:\\dir", r"C:\dir", Some(r"C:\\dir"));
        check(r"C:\dir", r"C:\dir", Some(r"C:\dir"));
        check("line\\nnext", "line\nnext", Some("line\\nnext"));
        check("a%2", "a/b", None);
        check("ééé", "éa", None);
    }
}
