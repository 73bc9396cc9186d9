//! Search for a secret in a text that may be escaped, for a URL, JSON, HTML, a program or mail, or be in another case,
//! with zero bytes or line breaks in between.

/// Maximum nested escapes for a URL, or for HTML.
const LAYERS: usize = 4;
/// Maximum characters between `&#` and `;`.
const LONGEST_NUMBER: usize = 10;

/// Maximum backslashes before an escape: JSON in JSON doubles them.
const SLASHES: usize = 64;
/// Maximum zero bytes between two characters: UTF-16 has one, UTF-32 three.
const ZEROS: usize = 3;

/// Maximum bytes between two characters of an encoded text: a line break, escaped or not, and the indentation of the
/// next line.
const LONGEST_BREAK: usize = 64;

/// What may separate the characters of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Breaks {
    /// Nothing.
    None,
    /// White space: base64 is often wrapped.
    Lines,
}

/// The number of characters that may still be compared. A text that needs more is hostile.
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

    pub(super) fn spend(&mut self, letters: usize) {
        self.0 = self.0.saturating_sub(letters);
    }
}

/// Whether an escape may begin with this byte.
pub(super) const fn may_begin(byte: u8) -> bool {
    matches!(byte, b'%' | b'\\' | b'&' | b'+' | b'=')
}

/// Returns the byte at a position, unescaped if the escape stands for one byte, and the length of its spelling.
pub(super) fn unescaped(text: &[u8], at: usize) -> (u8, usize) {
    let Some(rest) = text.get(at..).filter(|rest| matches!(rest, [b'%' | b'\\' | b'&', ..])) else {
        return (text.get(at).copied().unwrap_or_default(), 1);
    };
    let escaped = match rest[0] {
        b'%' => {
            let again = rest[1..].chunks(2).take(LAYERS).take_while(|pair| *pair == b"25").count();
            // The last `25` may be the escaped byte itself.
            let of = |layers: usize| Some((number(rest.get(1 + 2 * layers..)?, 2, 16)?, 3 + 2 * layers));
            of(again).or_else(|| of(again.checked_sub(1)?))
        }
        b'&' => numbered(rest),
        _ => {
            return in_program(rest).map_or((b'\\', slashes(rest)), |(code, length)| {
                (u8::try_from(code).unwrap_or(b'\\'), length)
            });
        }
    };
    escaped.and_then(|(code, length)| Some((u8::try_from(code).ok()?, length))).unwrap_or((rest[0], 1))
}

/// Parses `&#NUMBER;`, whose `&` may be escaped several times; returns the code and the length.
fn numbered(rest: &[u8]) -> Option<(u32, usize)> {
    let mut said = rest.strip_prefix(b"&")?;
    for _ in 0..LAYERS {
        said = said.strip_prefix(b"amp;").unwrap_or(said);
    }
    let length = said.iter().take(LONGEST_NUMBER + 1).position(|byte| *byte == b';')?;
    let digits = std::str::from_utf8(said[..length].strip_prefix(b"#")?).ok()?;
    let code = match digits.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    Some((code.ok()?, rest.len() - said.len() + length + 1))
}

/// Parses a character or a byte as programs write it; returns the code and the length: `\n`, `\x74`, `\164`, `\u0074`,
/// `\u{74}`, `\U00000074`.
fn in_program(rest: &[u8]) -> Option<(u32, usize)> {
    let slashes = slashes(rest);
    let escaped = rest.get(slashes..)?;
    let braced = |digits: &[u8]| {
        let length = digits.iter().take(LONGEST_NUMBER).position(|byte| *byte == b'}')?;
        Some((number(digits, length, 16)?, slashes + length + 3))
    };
    let fixed = |skip: usize, length: usize, radix: u32| {
        Some((number(escaped.get(skip..)?, length, radix)?, slashes + skip + length))
    };
    match escaped {
        [b'n', ..] => Some((u32::from(b'\n'), slashes + 1)),
        [b'r', ..] => Some((u32::from(b'\r'), slashes + 1)),
        [b't', ..] => Some((u32::from(b'\t'), slashes + 1)),
        [b'/', ..] => Some((u32::from(b'/'), slashes + 1)),
        [b'u' | b'x', b'{', digits @ ..] => braced(digits),
        [b'u', ..] => fixed(1, 4, 16),
        [b'U', ..] => fixed(1, 8, 16),
        [b'x', ..] => fixed(1, 2, 16),
        [b'0'..=b'7', ..] => fixed(0, 3, 8),
        _ => None,
    }
}

/// Parses a number of so many digits at the beginning of a text.
fn number(text: &[u8], length: usize, radix: u32) -> Option<u32> {
    let digits = text.get(..length).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

fn slashes(rest: &[u8]) -> usize {
    rest.iter().take(SLASHES).take_while(|byte| **byte == b'\\').count()
}

/// Returns the length of zero bytes at the beginning of `rest`, escaped or not.
fn zeros_at(rest: &[u8]) -> usize {
    let mut at = 0;
    for _ in 0..ZEROS {
        match rest.get(at).filter(|byte| matches!(byte, 0 | b'%' | b'\\' | b'&')) {
            Some(_) => match unescaped(rest, at) {
                (0, length) => at += length,
                _ => break,
            },
            None => break,
        }
    }
    at
}

/// Whether `rest` begins with a character, escaped or not.
pub(super) fn is_said(rest: &[u8], letter: char) -> bool {
    said(rest, letter).next().is_some()
}

/// Returns the end of the secret that begins at `at`; `None` if there is none.
///
/// `%2525` is a `%` that was escaped twice, or one that was escaped once before `25`: both are tried.
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
            let between = |rest: &[u8]| break_at(rest, breaks).max(zeros_at(rest));
            let is_inside = count > 0 && letter != '\0';
            let at = if is_inside { at + between(text.get(at..).unwrap_or_default()) } else { at };
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

/// Returns the length of the break in an encoded text at the beginning of `rest`.
pub(super) fn break_at(rest: &[u8], breaks: Breaks) -> usize {
    if breaks == Breaks::None {
        return 0;
    }
    let mut at = 0;
    while let Some(length) = one_break(&rest[at..]).filter(|length| at + length <= LONGEST_BREAK) {
        at += length;
    }
    at
}

fn one_break(rest: &[u8]) -> Option<usize> {
    match rest {
        [b' ' | b'\t' | b'\r' | b'\n', ..] => Some(1),
        [b'%', b'0', b'a' | b'A' | b'd' | b'D', ..] | [b'%', b'2', b'0', ..] => Some(3),
        [b'&', b'#', b'1', b'0' | b'3', b';', ..] => Some(5),
        [b'\\', ..] => {
            let slashes = slashes(rest);
            matches!(rest.get(slashes), Some(b'n' | b'r' | b't')).then_some(slashes + 1)
        }
        _ => None,
    }
}

/// Iterates over the possible lengths of a character, in either case, at the beginning of `rest`.
fn said(rest: &[u8], letter: char) -> impl Iterator<Item = usize> {
    let other = other_case(letter).into_iter().flat_map(|other| said_so(rest, other));
    said_so(rest, letter).chain(other)
}

/// Returns the character in lower case, if that is a single one.
pub(super) fn folded(letter: char) -> char {
    let mut lower = letter.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) => lower,
        _ => letter,
    }
}

/// Returns the character in upper case, if that is a single, different one.
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
        Some(b'\\') => {
            lengths[1] = in_json(rest, letter);
            lengths[2] = in_code(rest, letter, raw);
        }
        Some(b'=') => lengths[1] = in_mail(rest, raw),
        Some(b'+') => lengths[1] = (letter == ' ').then_some(1),
        _ => {}
    }
    lengths.into_iter().flatten()
}

/// Matches bytes as `%HH`, with the `%` escaped so many times more.
fn in_url(rest: &[u8], raw: &[u8], layers: usize) -> Option<usize> {
    let is_said = |at: usize, byte: u8| {
        let digits =
            (0..layers).try_fold(rest.get(at..)?.strip_prefix(b"%")?, |rest, _| rest.strip_prefix(b"25"));
        let digits = std::str::from_utf8(digits?.get(..2)?).ok()?;
        (u8::from_str_radix(digits, 16).ok()? == byte).then_some(at + 3 + 2 * layers)
    };
    raw.iter().try_fold(0, |at, byte| is_said(at, *byte))
}

/// Matches an HTML entity, by name or number, with the `&` escaped so many times more.
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

/// Matches an escape of JSON. JSON can be nested in JSON strings, so any number of backslashes may come first.
fn in_json(rest: &[u8], letter: char) -> Option<usize> {
    let slashes = slashes(rest);
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

/// Matches an escape of a program, of the character or of its bytes.
fn in_code(rest: &[u8], letter: char, raw: &[u8]) -> Option<usize> {
    let (code, length) = in_program(rest)?;
    if code == u32::from(letter) {
        return Some(length);
    }
    raw.iter().try_fold(0, |at, byte| {
        let (code, length) = in_program(rest.get(at..).filter(|rest| rest.starts_with(b"\\"))?)?;
        (code == u32::from(*byte)).then_some(at + length)
    })
}

/// Matches bytes as `=HH`.
fn in_mail(rest: &[u8], raw: &[u8]) -> Option<usize> {
    raw.iter().try_fold(0, |at, byte| {
        let digits = rest.get(at..)?.strip_prefix(b"=")?;
        (number(digits, 2, 16)? == u32::from(*byte)).then_some(at + 3)
    })
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
        check(r"\x74\x6fp", "top", Some(r"\x74\x6fp"));
        check(r"\164\157\160", "top", Some(r"\164\157\160"));
        check(r"\U00000074\u{6f}\x{70}", "top", Some(r"\U00000074\u{6f}\x{70}"));
        check(r"\xc3\xA9 \303\251", "é é", Some(r"\xc3\xA9 \303\251"));
        check("=74=6F=70", "top", Some("=74=6F=70"));
        check("t\0o\0p\0", "top", Some("t\0o\0p"));
        check(r"t\u0000o%00p", "top", Some(r"t\u0000o%00p"));
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
