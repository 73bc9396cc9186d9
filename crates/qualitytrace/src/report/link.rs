//! Addresses in reports. Readers click on them, and formats put them between brackets and quotes.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// What ends an address in Markdown, HTML, XML or a line of text, although URLs may have it.
const ENDING: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'\'')
    .add(b'(')
    .add(b')')
    .add(b'<')
    .add(b'>')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// An address of a page: `http` or `https`, without anything that a format gives a meaning to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link(String);

impl Link {
    /// The address in a text; `None` if it is none of a page.
    pub(crate) fn of(text: &str) -> Option<Self> {
        let url = reqwest::Url::parse(text).ok()?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return None;
        }
        // A login is for nobody who reads a report. Only the host may have brackets, those of IPv6.
        let part =
            |mark: char, part: Option<&str>| part.map(|part| format!("{mark}{part}")).unwrap_or_default();
        let rest = format!("{}{}{}", url.path(), part('?', url.query()), part('#', url.fragment()));
        Some(Self(format!("{}{}", url.origin().ascii_serialization(), utf8_percent_encode(&rest, ENDING))))
    }

    /// The address.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Link;

    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(Link::of(text).as_ref().map(Link::as_str), expected, "{text}");
    }

    #[test]
    fn only_addresses_of_pages_are_links() {
        let usual = "http://127.0.0.1:11633/test/a%20b/run/1";
        check(usual, Some(usual));
        check("http://[::1]:11633/test/a/run/1", Some("http://[::1]:11633/test/a/run/1"));
        for text in
            ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//evil", "/test/a", "x"]
        {
            check(text, None);
        }
        check(
            "http://a/x) ![pixel](http://evil/p.png",
            Some("http://a/x%29%20![pixel%5D%28http://evil/p.png".replace('[', "%5B").as_str()),
        );
        check("https://a/'\"><script>", Some("https://a/%27%22%3E%3Cscript%3E"));
        check("java\nscript:alert(1)", None);
    }
}
