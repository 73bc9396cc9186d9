//! The options of curl and their arguments.

use crate::import::collection::Collection;
use crate::import::template::Template;

/// What an option means for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Url,
    Method,
    Header,
    Data,
    DataRaw,
    DataUrlencode,
    Query,
    Json,
    Form,
    FormString,
    User,
    Bearer,
    Cookie,
    UserAgent,
    Referer,
    Range,
    Insecure,
    Location,
    MaxRedirects,
    Get,
    Head,
    Upload,
    HttpOne,
    HttpTwo,
    Proxy,
    Ca,
    Certificate,
    Key,
    Timeout,
    /// Nothing: it is about what curl shows and stores.
    Output,
    /// The next request begins.
    Next,
    /// Something that cannot be carried over.
    Unknown,
}

/// An option with its argument, which is empty if it takes none.
pub(super) struct Argument {
    pub(super) meaning: Meaning,
    pub(super) name: String,
    pub(super) value: Template,
}

/// An option: its letter, its name, whether it takes an argument, and what it means.
type Known = (char, &'static str, bool, Meaning);

/// No letter.
const NONE: char = '\0';

/// Maximum number of flags in one word.
const MAX_FLAGS: usize = 40;

/// The options that a request depends on, and those that take an argument; all others are flags.
const OPTIONS: &[Known] = &[
    (NONE, "url", true, Meaning::Url),
    ('X', "request", true, Meaning::Method),
    ('H', "header", true, Meaning::Header),
    ('d', "data", true, Meaning::Data),
    (NONE, "data-ascii", true, Meaning::Data),
    (NONE, "data-binary", true, Meaning::Data),
    (NONE, "data-raw", true, Meaning::DataRaw),
    (NONE, "data-urlencode", true, Meaning::DataUrlencode),
    (NONE, "url-query", true, Meaning::Query),
    (NONE, "json", true, Meaning::Json),
    ('F', "form", true, Meaning::Form),
    (NONE, "form-string", true, Meaning::FormString),
    ('u', "user", true, Meaning::User),
    (NONE, "oauth2-bearer", true, Meaning::Bearer),
    ('b', "cookie", true, Meaning::Cookie),
    ('A', "user-agent", true, Meaning::UserAgent),
    ('e', "referer", true, Meaning::Referer),
    ('r', "range", true, Meaning::Range),
    ('k', "insecure", false, Meaning::Insecure),
    ('L', "location", false, Meaning::Location),
    (NONE, "location-trusted", false, Meaning::Location),
    (NONE, "max-redirs", true, Meaning::MaxRedirects),
    ('G', "get", false, Meaning::Get),
    ('I', "head", false, Meaning::Head),
    ('T', "upload-file", true, Meaning::Upload),
    ('0', "http1.0", false, Meaning::Unknown),
    (NONE, "http1.1", false, Meaning::HttpOne),
    (NONE, "http2", false, Meaning::HttpTwo),
    (NONE, "http2-prior-knowledge", false, Meaning::HttpTwo),
    ('x', "proxy", true, Meaning::Proxy),
    (NONE, "cacert", true, Meaning::Ca),
    ('E', "cert", true, Meaning::Certificate),
    (NONE, "key", true, Meaning::Key),
    ('m', "max-time", true, Meaning::Timeout),
    (':', "next", false, Meaning::Next),
    // What curl shows and stores.
    ('s', "silent", false, Meaning::Output),
    ('S', "show-error", false, Meaning::Output),
    ('v', "verbose", false, Meaning::Output),
    ('i', "include", false, Meaning::Output),
    (NONE, "show-headers", false, Meaning::Output),
    ('f', "fail", false, Meaning::Output),
    (NONE, "fail-with-body", false, Meaning::Output),
    ('#', "progress-bar", false, Meaning::Output),
    (NONE, "no-progress-meter", false, Meaning::Output),
    ('N', "no-buffer", false, Meaning::Output),
    ('O', "remote-name", false, Meaning::Output),
    ('J', "remote-header-name", false, Meaning::Output),
    ('o', "output", true, Meaning::Output),
    (NONE, "output-dir", true, Meaning::Output),
    (NONE, "create-dirs", false, Meaning::Output),
    ('w', "write-out", true, Meaning::Output),
    ('D', "dump-header", true, Meaning::Output),
    ('c', "cookie-jar", true, Meaning::Output),
    (NONE, "stderr", true, Meaning::Output),
    (NONE, "trace", true, Meaning::Output),
    (NONE, "trace-ascii", true, Meaning::Output),
    ('q', "disable", false, Meaning::Output),
    // Others with an argument.
    ('K', "config", true, Meaning::Unknown),
    ('C', "continue-at", true, Meaning::Unknown),
    ('U', "proxy-user", true, Meaning::Unknown),
    ('P', "ftp-port", true, Meaning::Unknown),
    ('Q', "quote", true, Meaning::Unknown),
    ('t', "telnet-option", true, Meaning::Unknown),
    ('y', "speed-time", true, Meaning::Unknown),
    ('Y', "speed-limit", true, Meaning::Unknown),
    ('z', "time-cond", true, Meaning::Unknown),
    (NONE, "aws-sigv4", true, Meaning::Unknown),
    (NONE, "capath", true, Meaning::Unknown),
    (NONE, "cert-type", true, Meaning::Unknown),
    (NONE, "ciphers", true, Meaning::Unknown),
    (NONE, "connect-timeout", true, Meaning::Unknown),
    (NONE, "connect-to", true, Meaning::Unknown),
    (NONE, "dns-servers", true, Meaning::Unknown),
    (NONE, "doh-url", true, Meaning::Unknown),
    (NONE, "interface", true, Meaning::Unknown),
    (NONE, "key-type", true, Meaning::Unknown),
    (NONE, "keepalive-time", true, Meaning::Unknown),
    (NONE, "limit-rate", true, Meaning::Unknown),
    (NONE, "local-port", true, Meaning::Unknown),
    (NONE, "max-filesize", true, Meaning::Unknown),
    (NONE, "netrc-file", true, Meaning::Unknown),
    (NONE, "noproxy", true, Meaning::Unknown),
    (NONE, "pass", true, Meaning::Unknown),
    (NONE, "pinnedpubkey", true, Meaning::Unknown),
    (NONE, "preproxy", true, Meaning::Unknown),
    (NONE, "proto", true, Meaning::Unknown),
    (NONE, "proto-default", true, Meaning::Unknown),
    (NONE, "proxy-header", true, Meaning::Unknown),
    (NONE, "rate", true, Meaning::Unknown),
    (NONE, "request-target", true, Meaning::Unknown),
    (NONE, "resolve", true, Meaning::Unknown),
    (NONE, "retry", true, Meaning::Unknown),
    (NONE, "retry-delay", true, Meaning::Unknown),
    (NONE, "retry-max-time", true, Meaning::Unknown),
    (NONE, "socks4", true, Meaning::Unknown),
    (NONE, "socks5", true, Meaning::Unknown),
    (NONE, "socks5-hostname", true, Meaning::Unknown),
    (NONE, "tls-max", true, Meaning::Unknown),
    (NONE, "unix-socket", true, Meaning::Unknown),
    (NONE, "variable", true, Meaning::Unknown),
];

/// Returns the arguments of a command; URLs are among them.
pub(super) fn arguments(words: &[Template], found: &mut Collection<'_>) -> Vec<Argument> {
    let mut arguments = Vec::new();
    let mut words = words.iter();
    let mut are_options = true;
    while let Some(word) = words.next() {
        let head = word.head();
        match head.strip_prefix('-') {
            Some(rest) if are_options && !rest.is_empty() => match rest.strip_prefix('-') {
                Some("") if word.plain().is_some() => are_options = false,
                Some(name) => arguments.push(long(word, name, &mut words, found)),
                None => short(word, &mut words, &mut arguments, found),
            },
            _ => arguments.push(Argument { meaning: Meaning::Url, name: String::new(), value: word.clone() }),
        }
    }
    arguments
}

/// A long option; curl takes its argument from the next word.
fn long<'w>(
    word: &Template,
    name: &str,
    words: &mut impl Iterator<Item = &'w Template>,
    found: &mut Collection<'_>,
) -> Argument {
    let known = OPTIONS.iter().find(|(_, known, ..)| *known == name);
    let (takes, meaning) =
        known.map_or((false, Meaning::Unknown), |(_, _, takes, meaning)| (*takes, *meaning));
    let name = word.shown();
    let value = if takes { argument(&name, words.next(), found) } else { Template::default() };
    Argument { meaning, name, value }
}

/// Short options in one word; the argument of one that takes it is the rest of the word, or the next one.
fn short<'w>(
    word: &Template,
    words: &mut impl Iterator<Item = &'w Template>,
    arguments: &mut Vec<Argument>,
    found: &mut Collection<'_>,
) {
    for (at, letter) in word.head().char_indices().skip(1) {
        let name = format!("-{letter}");
        let known = OPTIONS.iter().find(|(known, ..)| *known == letter);
        let Some((_, _, takes, meaning)) = known.filter(|_| at <= MAX_FLAGS) else {
            arguments.push(Argument {
                meaning: Meaning::Unknown,
                name: word.shown(),
                value: Template::default(),
            });
            return;
        };
        let mut value = Template::default();
        if *takes {
            let rest = word.clone().without_head(at + letter.len_utf8());
            value = if rest.is_empty() { argument(&name, words.next(), found) } else { rest };
        }
        arguments.push(Argument { meaning: *meaning, name, value });
        if *takes {
            return;
        }
    }
}

fn argument(name: &str, word: Option<&Template>, found: &mut Collection<'_>) -> Template {
    if word.is_none() {
        found.warn(format!("the option `{name}` of curl has no argument"));
    }
    word.cloned().unwrap_or_default()
}
