//! Wildcard matching.

/// Whether a text matches a pattern: `*` matches any text, everything else is compared by `same`.
pub(crate) fn matches<T: Copy + PartialEq + From<u8>>(
    pattern: &[T],
    text: &[T],
    same: impl Fn(T, T) -> bool,
) -> bool {
    let any = T::from(b'*');
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == any {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && same(pattern[p], text[t]) {
            p += 1;
            t += 1;
        } else if let Some((at, from)) = star {
            p = at + 1;
            t = from + 1;
            star = Some((at, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == any)
}

/// Like [`matches`], for texts in which `?` matches any single character.
pub(crate) fn matches_text(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    matches(&pattern, &text, |p, c| p == '?' || p == c)
}

#[cfg(test)]
mod tests {
    use super::matches_text;

    #[test]
    fn wildcards_stand_for_any_text_or_one_character() {
        for (pattern, text, expected) in [
            ("http.*", "http.server.duration", true),
            ("*.duration", "http.server.duration", true),
            ("h?tp.*", "http.", true),
            ("h?tp", "htp", false),
            ("?", "ä", true),
            ("*a*b", "xaxxbxb", true),
            ("*a*b", "xaxxbx", false),
            ("http", "HTTP", false),
            ("", "", true),
        ] {
            assert_eq!(matches_text(pattern, text), expected, "{pattern} {text}");
        }
    }
}
