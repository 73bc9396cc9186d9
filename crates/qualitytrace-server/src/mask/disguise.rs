//! Finding a secret in a text although some of its letters are escaped there, for a URL, for JSON, for HTML, or are of
//! another case, and although what encodes it is broken into lines.

/// How often a text may have been escaped for a URL, or for HTML, on top of each other.
const LAYERS: usize = 4;
/// Letters between `&#` and `;` at most.
const LONGEST_NUMBER: usize = 10;

/// Bytes between two letters of an encoded text at most: the end of a line, escaped or not, and what the next line is
/// indented by.
const LONGEST_BREAK: usize = 64;

/// What may stand between the letters of a text without belonging to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Breaks {
    /// Nothing.
    None,
    /// White space: base64 is wrapped.
    Lines,
    /// White space, and what separates bytes: hexadecimal digits come in pairs.
    Bytes,
}

/// How many more letters may be compared. A text that needs more is hostile.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Budget {
    pub(super) const fn new(letters: usize) -> Self {
        Self(letters)
    }

    /// Whether it is used up.
    pub(super) const fn is_spent(&self) -> bool {
        self.0 == 0
    }

    fn spend(&mut self, letters: usize) {
        self.0 = self.0.saturating_sub(letters);
    }
}

/// Whether an escape may begin with this byte.
pub(super) const fn may_begin(byte: u8) -> bool {
    matches!(byte, b'%' | b'\\' | b'&' | b'+')
}

/// Whether a letter is said at the beginning of `rest`.
pub(super) fn is_said(rest: &[u8], letter: char) -> bool {
    said(rest, letter).next().is_some()
}

/// Where the secret ends that begins at `at`; `None` when it does not.
///
/// `%2525` is a `%` that was escaped twice, or one that was escaped once before `25`: both are gone after.
pub(super) fn ends(
    text: &[u8],
    at: usize,
    secret: &str,
    breaks: Breaks,
    budget: &mut Budget,
) -> Option<usize> {
    let mut places = vec![at];
    for (count, letter) in secret.chars().enumerate() {
        budget.spend(places.len());
        if budget.is_spent() {
            return None;
        }
        let said = |at: usize| {
            let at = if count == 0 { at } else { at + break_at(text.get(at..).unwrap_or_default(), breaks) };
            said(text.get(at..).unwrap_or_default(), letter).map(move |length| at + length)
        };
        places = places.into_iter().flat_map(said).collect();
        places.sort_unstable();
        places.dedup();
        if places.is_empty() {
            return None;
        }
    }
    places.last().copied()
}

/// How many bytes at the beginning of `rest` only break an encoded text.
pub(super) fn break_at(rest: &[u8], breaks: Breaks) -> usize {
    if breaks == Breaks::None {
        return 0;
    }
    let mut at = 0;
    while let Some(length) = one_break(&rest[at..], breaks).filter(|length| at + length <= LONGEST_BREAK) {
        at += length;
    }
    at
}

fn one_break(rest: &[u8], breaks: Breaks) -> Option<usize> {
    match rest {
        [b' ' | b'\t' | b'\r' | b'\n', ..] => Some(1),
        [b':' | b'-' | b',', ..] if breaks == Breaks::Bytes => Some(1),
        [b'%', b'0', b'a' | b'A' | b'd' | b'D', ..] | [b'%', b'2', b'0', ..] => Some(3),
        [b'&', b'#', b'1', b'0' | b'3', b';', ..] => Some(5),
        [b'\\', ..] => {
            let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
            matches!(rest.get(slashes), Some(b'n' | b'r' | b't')).then_some(slashes + 1)
        }
        _ => None,
    }
}

/// How many bytes say a letter, in either case, at the beginning of `rest`: every way to read them.
fn said(rest: &[u8], letter: char) -> impl Iterator<Item = usize> {
    let other = other_case(letter).into_iter().flat_map(|other| said_so(rest, other));
    said_so(rest, letter).chain(other)
}

/// The letter in lower case, where that is one letter.
pub(super) fn folded(letter: char) -> char {
    let mut lower = letter.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => lower,
        _ => letter,
    }
}

/// The letter in upper case, where that is another letter, and one.
fn other_case(letter: char) -> Option<char> {
    let mut upper = letter.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) if upper != letter => Some(upper),
        _ => None,
    }
}

fn said_so(rest: &[u8], letter: char) -> impl Iterator<Item = usize> {
    let mut buffer = [0; 4];
    let raw = letter.encode_utf8(&mut buffer).as_bytes();
    let mut lengths = [None; LAYERS + 2];
    lengths[0] = rest.starts_with(raw).then_some(raw.len());
    let of_layers = lengths[2..].iter_mut().enumerate();
    match rest.first() {
        Some(b'%') => of_layers.for_each(|(layers, length)| {
            let as_space = || if letter == ' ' { in_url(rest, b"+", layers) } else { None };
            *length = in_url(rest, raw, layers).or_else(as_space);
        }),
        Some(b'&') => of_layers.for_each(|(layers, length)| *length = in_html(rest, letter, layers)),
        Some(b'\\') => lengths[1] = in_json(rest, letter),
        Some(b'+') => lengths[1] = (letter == ' ').then_some(1),
        _ => {}
    }
    lengths.into_iter().flatten()
}

/// Bytes as `%HH`, in which the `%` was escaped so many times more.
fn in_url(rest: &[u8], raw: &[u8], layers: usize) -> Option<usize> {
    let is_said = |at: usize, byte: u8| {
        let digits =
            (0..layers).try_fold(rest.get(at..)?.strip_prefix(b"%")?, |rest, _| rest.strip_prefix(b"25"));
        let digits = std::str::from_utf8(digits?.get(..2)?).ok()?;
        (u8::from_str_radix(digits, 16).ok()? == byte).then_some(at + 3 + 2 * layers)
    };
    raw.iter().try_fold(0, |at, byte| is_said(at, *byte))
}

/// A letter by its name or number, in which the `&` was escaped so many times more.
fn in_html(rest: &[u8], letter: char, layers: usize) -> Option<usize> {
    let said = (0..layers).try_fold(rest.strip_prefix(b"&")?, |rest, _| rest.strip_prefix(b"amp;"))?;
    let length = said.iter().take(LONGEST_NUMBER + 1).position(|byte| *byte == b';')?;
    let word = std::str::from_utf8(&said[..length]).ok()?;
    let is_said = match word.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            code.ok() == Some(u32::from(letter))
        }
        None => matches!(
            (word, letter),
            ("quot", '"') | ("apos", '\'') | ("amp", '&') | ("lt", '<') | ("gt", '>')
        ),
    };
    is_said.then_some(rest.len() - said.len() + length + 1)
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
        let mut places = (0..text.len()).filter(|at| text.is_char_boundary(*at));
        let budget = &mut Budget::new(10_000);
        let found =
            places.find_map(|at| Some(&text[at..ends(text.as_bytes(), at, secret, Breaks::None, budget)?]));
        assert_eq!(found, expected, "{secret} in {text}");
    }

    #[test]
    fn what_is_encoded_can_be_broken_into_lines() {
        let check = |text: &str, breaks: Breaks, expected: Option<usize>| {
            let ended = ends(text.as_bytes(), 0, "abcd", breaks, &mut Budget::new(100));
            assert_eq!(ended, expected, "{text:?}");
        };
        check("ab\r\n  cd", Breaks::Lines, Some(8));
        check("ab\\ncd", Breaks::Lines, Some(6));
        check("a%0D%0Abcd", Breaks::Lines, Some(10));
        check("ab:cd", Breaks::Lines, None);
        check("ab:CD", Breaks::Bytes, Some(5));
        check("ab\ncd", Breaks::None, None);
        check(&format!("ab{}cd", " ".repeat(100)), Breaks::Lines, None);
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
        check("a&#60;b&#x3C;&#x3c;c&#0039;", "a<b<<c'", Some("a&#60;b&#x3C;&#x3c;c&#0039;"));
        check("&#x73;3&#99;ret", "s3cret", Some("&#x73;3&#99;ret"));
        check(r"C:\\dir", r"C:\dir", Some(r"C:\\dir"));
        check(r"C:\dir", r"C:\dir", Some(r"C:\dir"));
        check("line\\nnext", "line\nnext", Some("line\\nnext"));
        check("a%2", "a/b", None);
        check("a&#", "a<b", None);
        check("a&#60", "a<b", None);
        check("ééé", "éa", None);
    }

    #[test]
    fn a_text_can_be_escaped_again_and_again() {
        check("a%252Fb%25252fc", "a/b/c", Some("a%252Fb%25252fc"));
        check("%25C3%25A9%2B%252B", "é  ", Some("%25C3%25A9%2B%252B"));
        check("a&amp;lt;b&amp;amp;#60;", "a<b<", Some("a&amp;lt;b&amp;amp;#60;"));
        check("a&amp;amp;b", "a&b", Some("a&amp;amp;b"));
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_found_in_either() {
        check("%2525x", "%25x", Some("%2525x"));
        check("%2525x", "%x", Some("%2525x"));
        check("100%25 sure", "100%25", Some("100%25"));
        check("&amp;amp;x", "&amp;x", Some("&amp;amp;x"));
    }
}
