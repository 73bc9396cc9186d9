//! Access control: bearer tokens, kept as hashes, each with a scope.

pub mod host;
pub(crate) mod throttle;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use http::HeaderMap;
use http::header::{AUTHORIZATION, COOKIE as COOKIES};
use percent_encoding::percent_decode_str;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

/// The prefix of a token that is given as its hash.
const HASHED: &str = "sha256:";
/// Bytes of a hash that are shown.
const SHOWN: usize = 4;
/// Minimum length: a shorter token can be guessed.
const SHORTEST: usize = 16;

/// The scope of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    Full,
    /// Reading only.
    Read,
    /// Delivering traces, logs and metrics only.
    Ingest,
}

impl Scope {
    const ALL: [Self; 3] = [Self::Full, Self::Read, Self::Ingest];

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Read => "read",
            Self::Ingest => "ingest",
        }
    }
}

/// A configured token: its scope and its hash.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    scope: Scope,
    hash: Fingerprint,
}

/// The SHA-256 hash of a token.
#[derive(Clone, Copy)]
pub(crate) struct Fingerprint([u8; SHA256_OUTPUT_LEN]);

impl Fingerprint {
    pub(crate) fn of(token: &str) -> Self {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(hash)
    }
}

/// Compares in constant time.
impl PartialEq for Fingerprint {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
    }
}

impl Eq for Fingerprint {}

/// A fingerprint is not secret, but it does not belong into logs either.
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint")
    }
}

/// Shows the beginning of the hash: enough to tell tokens apart, and no help in guessing one.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{HASHED}", self.scope.as_str())?;
        write!(f, "{}...", const_hex::encode(&self.hash.0[..SHOWN]))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.scope.as_str())
    }
}

impl FromStr for Token {
    type Err = String;

    /// Parses `SCOPE:sha256:HEX` or `SCOPE:TOKEN`.
    fn from_str(text: &str) -> Result<Self, String> {
        let help =
            "write full:, read: or ingest: and then sha256: with 64 hexadecimal digits, or the token itself";
        let (scope, token) = text.trim().split_once(':').ok_or(help)?;
        let scope = Scope::ALL.into_iter().find(|known| known.as_str() == scope).ok_or(help)?;
        let hash = match token.strip_prefix(HASHED) {
            Some(digits) => Fingerprint(const_hex::decode_to_array(digits).map_err(|_| help)?),
            None if token.len() < SHORTEST => {
                return Err(format!(
                    "a token has at least {SHORTEST} letters; make one with `openssl rand -hex 32`"
                ));
            }
            None => Fingerprint::of(token),
        };
        Ok(Self { scope, hash })
    }
}

/// The permission that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredAccess {
    /// Health checks.
    Health,
    /// Reading.
    Look,
    /// Receiving events over a stream or a web socket that stays open.
    Stream,
    /// Changing something, or executing something.
    Change,
    /// Delivering traces, logs or metrics.
    Deliver,
    /// Beginning or ending the session of a page: no token is needed, but a page of ours.
    Session,
}

impl RequiredAccess {
    /// Returns the smallest scope that grants it; `None` if no token is needed.
    pub const fn scope(self) -> Option<Scope> {
        match self {
            Self::Health | Self::Session => None,
            Self::Look | Self::Stream => Some(Scope::Read),
            Self::Change => Some(Scope::Full),
            Self::Deliver => Some(Scope::Ingest),
        }
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessError {
    /// It has no token.
    NoToken,
    /// Its token is unknown.
    Unknown,
    /// The scope of its token does not allow this.
    Scope(Scope),
    /// Its client has sent too many wrong tokens; it may retry after so many seconds.
    Throttled(u64),
}

impl AccessError {
    /// Returns the error message.
    pub fn message(self) -> String {
        match self {
            Self::NoToken => "this server requires a token; send `Authorization: Bearer TOKEN`".to_owned(),
            Self::Unknown => "the token is not known to this server".to_owned(),
            Self::Throttled(seconds) => {
                format!("too many wrong tokens came from this address; try again in {seconds} s")
            }
            Self::Scope(scope) => format!("a token of scope `{}` does not allow this", scope.as_str()),
        }
    }
}

/// Returns the bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The cookie with the token of a page: neither an event stream, a web socket nor a download can carry a header.
pub(crate) const COOKIE: &str = "qualitytrace";

/// Returns the token of a request: of its `Authorization` header, else of the cookie.
pub(crate) fn token(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    if let Some(token) = bearer(headers) {
        return Some(Cow::Borrowed(token));
    }
    let cookies = headers.get_all(COOKIES).iter().filter_map(|cookies| cookies.to_str().ok());
    let own = |cookie: &'_ str| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('=').map(str::to_owned);
    let value = cookies.flat_map(|cookies| cookies.split(';')).find_map(own)?;
    Some(Cow::Owned(percent_decode_str(&value).decode_utf8().ok()?.into_owned()))
}

/// The access rules. Without tokens, every request is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// `auth.tokens`: the tokens.
    pub tokens: Vec<Token>,
    /// `auth.otlp`: whether delivering over OTLP needs a token too.
    pub otlp: bool,
}

impl Access {
    /// Returns the configured token that matches, if any.
    pub(crate) fn holder(&self, token: &str) -> Option<&Token> {
        let hash = Fingerprint::of(token);
        self.tokens.iter().find(|known| known.hash == hash)
    }

    /// Returns the scope of a token; everything is allowed where there are no tokens.
    pub(crate) fn scope_of(&self, token: Option<&str>) -> Option<Scope> {
        if self.tokens.is_empty() {
            return Some(Scope::Full);
        }
        self.holder(token?).map(|holder| holder.scope)
    }

    /// Checks whether a token grants the permission.
    pub fn check(&self, wanted: RequiredAccess, token: Option<&str>) -> Result<(), AccessError> {
        self.check_fingerprint(wanted, token.map(Fingerprint::of).as_ref())
    }

    /// Whether the permission needs no token.
    pub(crate) fn is_open(&self, wanted: RequiredAccess) -> bool {
        self.tokens.is_empty() || wanted.scope().is_none() || wanted == RequiredAccess::Deliver && !self.otlp
    }

    /// Like [`Access::check`], for a token of which only the fingerprint is kept.
    pub(crate) fn check_fingerprint(
        &self,
        wanted: RequiredAccess,
        token: Option<&Fingerprint>,
    ) -> Result<(), AccessError> {
        if self.is_open(wanted) {
            return Ok(());
        }
        let hash = token.ok_or(AccessError::NoToken)?;
        let mut known = self.tokens.iter().filter(|token| token.hash == *hash).peekable();
        let first = known.peek().ok_or(AccessError::Unknown)?.scope;
        let allows = |scope: Scope| match (scope, wanted) {
            (Scope::Full, _)
            | (Scope::Read, RequiredAccess::Look | RequiredAccess::Stream)
            | (Scope::Ingest, RequiredAccess::Deliver) => true,
            (Scope::Read | Scope::Ingest, _) => false,
        };
        if known.any(|token| allows(token.scope)) { Ok(()) } else { Err(AccessError::Scope(first)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(otlp: bool) -> Access {
        let tokens =
            ["full:full-token-0123456789", "read:read-token-0123456789", "ingest:send-token-0123456789"];
        Access { tokens: tokens.map(|token| token.parse().unwrap()).to_vec(), otlp }
    }

    #[test]
    fn a_token_allows_what_its_scope_says() {
        let (full, read, send) = ("full-token-0123456789", "read-token-0123456789", "send-token-0123456789");
        for (wanted, token, expected) in [
            (RequiredAccess::Change, Some(full), Ok(())),
            (RequiredAccess::Deliver, Some(full), Ok(())),
            (RequiredAccess::Look, Some(read), Ok(())),
            (RequiredAccess::Stream, Some(read), Ok(())),
            (RequiredAccess::Stream, Some(send), Err(AccessError::Scope(Scope::Ingest))),
            (RequiredAccess::Change, Some(read), Err(AccessError::Scope(Scope::Read))),
            (RequiredAccess::Deliver, Some(read), Err(AccessError::Scope(Scope::Read))),
            (RequiredAccess::Deliver, Some(send), Ok(())),
            (RequiredAccess::Look, Some(send), Err(AccessError::Scope(Scope::Ingest))),
            (RequiredAccess::Look, Some("something-else-entirely"), Err(AccessError::Unknown)),
            (RequiredAccess::Look, None, Err(AccessError::NoToken)),
            (RequiredAccess::Health, None, Ok(())),
        ] {
            assert_eq!(access(true).check(wanted, token), expected, "{wanted:?} {token:?}");
        }
        assert_eq!(access(false).check(RequiredAccess::Deliver, None), Ok(()));
        assert_eq!(Access::default().check(RequiredAccess::Change, None), Ok(()));
    }

    #[test]
    fn a_token_comes_in_a_header_or_in_the_cookie() {
        let check = |given: &[(http::HeaderName, &str)], expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.append(name, value.parse().unwrap());
            }
            assert_eq!(token(&headers).as_deref(), expected, "{given:?}");
        };
        check(&[(AUTHORIZATION, "Bearer a"), (COOKIES, "qualitytrace=b")], Some("a"));
        check(&[(COOKIES, "other=1; qualitytrace=b%3Bc; x=2")], Some("b;c"));
        check(&[(COOKIES, "other=1"), (COOKIES, "qualitytrace=b")], Some("b"));
        check(&[(COOKIES, "qualitytraces=1; notqualitytrace=2; qualitytrace")], None);
        check(&[], None);
    }

    #[test]
    fn a_token_can_be_given_as_its_hash() {
        let hashed = "full:sha256:03ac674216f3e15c761ee1a5e255f067953623c8b388b4459e13f978d7c846f4";
        assert_eq!(hashed.parse::<Token>().unwrap().hash, Fingerprint::of("1234"));
        for wrong in ["", "full", "some:0123456789abcdef", "full:sha256:12", "full:short"] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong}");
        }
        assert_eq!(format!("{:?}", hashed.parse::<Token>().unwrap()), "Token(full)");
    }
}
