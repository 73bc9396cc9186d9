//! Cross-origin and host checks of requests that a foreign web page may have made a browser send.
//!
//! A browser says where the page came from (`Origin`, `Sec-Fetch-Site`) and which name it resolved (`Host`). A page
//! of another origin gets only what following a link shows. The host name is checked where there are no tokens: a
//! page whose own name suddenly resolves to our address (DNS rebinding) has the same origin as we have, but not the
//! same name.

use std::net::IpAddr;

use http::header::{CONTENT_SECURITY_POLICY, HOST, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Version};

use crate::config::Config;
use crate::http::access::RequiredAccess;
use crate::http::access::host::{AllowedHost, Authority, Origin};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Headers of responses that pages of other origins must not use as a script, a style sheet or an image, nor show in a frame.
/// Browsers send `Sec-Fetch-Site` only over TLS and to their own machine, and `Origin` not with every request.
pub(super) const KEPT_FROM_OTHERS: [(HeaderName, &str); 3] = [
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (CONTENT_SECURITY_POLICY, "frame-ancestors 'self'"),
];

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OriginError {
    /// The page that sent it has another origin.
    Origin,
    /// It is addressed to another host.
    Host,
}

impl OriginError {
    /// The error message.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::Origin => {
                "a web page of another origin may not ask for this; behind a proxy, let it pass the Host header on, or \
                 list the page's host in `server.hosts`"
            }
            Self::Host => {
                "this server does not answer to the host of this request; list it in `server.hosts`, or protect the \
                 server with `auth.tokens`"
            }
        }
    }
}

/// Refuses cross-origin requests and, without tokens, requests for a host name that is not ours.
pub(super) fn check(
    parts: &Parts,
    wanted: RequiredAccess,
    config: &Config,
    local: Option<IpAddr>,
) -> Result<(), OriginError> {
    if wanted == RequiredAccess::Health {
        return Ok(());
    }
    let asked = Intent::of(parts);
    let hosts = &config.safety.hosts;
    if config.safety.access.tokens.is_empty() && !asked.is_ours(config, local) {
        return Err(OriginError::Host);
    }
    if is_foreign(&parts.headers, &asked, hosts) && !follows_link(parts, wanted) {
        return Err(OriginError::Origin);
    }
    Ok(())
}

/// The host names of a request: proxies and later hops may each look at another one.
enum Intent {
    Names(Vec<Authority>),
    /// No host name, which only HTTP/1.0 clients may omit.
    Nameless,
    /// An invalid host name.
    Unreadable,
}

impl Intent {
    fn of(parts: &Parts) -> Self {
        let in_headers = parts.headers.get_all(HOST).iter().map(HeaderValue::to_str);
        let in_uri = parts.uri.authority().map(|authority| Ok(authority.as_str()));
        let names = in_headers.chain(in_uri).map(|name| name.ok().and_then(Authority::parse));
        match names.collect::<Option<Vec<_>>>() {
            Some(names) if names.is_empty() && parts.version <= Version::HTTP_10 => Self::Nameless,
            Some(names) if names.is_empty() => Self::Unreadable,
            Some(names) => Self::Names(names),
            None => Self::Unreadable,
        }
    }

    fn is_ours(&self, config: &Config, local: Option<IpAddr>) -> bool {
        let own = [Some(config.http.ip()), local];
        match self {
            Self::Names(names) => names.iter().all(|name| {
                name.is_loopback()
                    || own.iter().flatten().any(|own| !own.is_unspecified() && name.is_address(*own))
                    || config.safety.hosts.iter().any(|allowed| allowed.allows(name))
            }),
            Self::Nameless => true,
            Self::Unreadable => false,
        }
    }

    fn is_origin_of(&self, origin: &Origin) -> bool {
        match self {
            Self::Names(names) => names.iter().all(|name| origin.is_same(name)),
            Self::Nameless | Self::Unreadable => false,
        }
    }
}

/// Whether a page of another origin sent it. Clients other than browsers send none of these headers.
fn is_foreign(headers: &HeaderMap, asked: &Intent, hosts: &[AllowedHost]) -> bool {
    let is_own_site = |value: &HeaderValue| [&b"same-origin"[..], b"none"].contains(&value.as_bytes());
    let is_own_origin = |value: &HeaderValue| {
        let origin = value.to_str().ok().and_then(Origin::parse);
        origin.is_some_and(|origin| {
            asked.is_origin_of(&origin) || hosts.iter().any(|allowed| allowed.is_origin(&origin))
        })
    };
    !headers.get_all(SEC_FETCH_SITE).iter().all(is_own_site)
        || !headers.get_all(ORIGIN).iter().all(is_own_origin)
}

/// Whether a user followed a link to this server, so that the response is shown as a page of its own.
fn follows_link(parts: &Parts, wanted: RequiredAccess) -> bool {
    let is = |name: &HeaderName, expected: &str| {
        parts.headers.get(name).is_some_and(|value| value.as_bytes() == expected.as_bytes())
    };
    wanted == RequiredAccess::Look
        && parts.method.is_safe()
        && !parts.headers.contains_key(ORIGIN)
        && is(&SEC_FETCH_MODE, "navigate")
        && is(&SEC_FETCH_DEST, "document")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    /// Checks a request with these headers on a server without tokens at 10.0.0.1, `q.example` and
    /// `q.example:8443`.
    fn checked(wanted: RequiredAccess, request: &[(&str, &str)]) -> Result<(), OriginError> {
        let mut config = Config { http: ([0, 0, 0, 0], 11633).into(), ..Config::default() };
        config.safety.hosts = ["q.example", "q.example:8443"].map(|host| host.parse().unwrap()).to_vec();
        let request =
            request.iter().fold(Request::get("/"), |request, (name, value)| request.header(*name, *value));
        let (parts, ()) = request.body(()).unwrap().into_parts();
        check(&parts, wanted, &config, Some([10, 0, 0, 1].into()))
    }

    #[test]
    fn a_server_without_tokens_answers_to_its_own_names_only() {
        for (host, expected) in [
            ("localhost:1", Ok(())),
            ("127.0.0.1", Ok(())),
            ("10.0.0.1:11633", Ok(())),
            ("[::ffff:10.0.0.1]:11633", Ok(())),
            ("Q.EXAMPLE.", Ok(())),
            ("10.0.0.2:11633", Err(OriginError::Host)),
            ("0.0.0.0:11633", Err(OriginError::Host)),
            ("evil.example", Err(OriginError::Host)),
            ("localhost@evil", Err(OriginError::Host)),
            ("", Err(OriginError::Host)),
        ] {
            assert_eq!(checked(RequiredAccess::Look, &[("host", host)]), expected, "{host}");
        }
        assert_eq!(
            checked(RequiredAccess::Look, &[("host", "localhost"), ("host", "evil")]),
            Err(OriginError::Host)
        );
        assert_eq!(checked(RequiredAccess::Look, &[]), Err(OriginError::Host), "HTTP/1.1 has a Host");
        assert_eq!(checked(RequiredAccess::Health, &[("host", "evil")]), Ok(()));
    }

    #[test]
    fn pages_of_other_origins_get_what_a_link_shows() {
        let refused = Err(OriginError::Origin);
        let own = ("host", "localhost:11633");
        let (site, navigate, document) = (
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        );
        for (wanted, headers, expected) in [
            (RequiredAccess::Change, vec![own], Ok(())),
            (RequiredAccess::Change, vec![own, ("origin", "http://localhost:11633")], Ok(())),
            (RequiredAccess::Change, vec![own, ("origin", "http://localhost:3000")], refused),
            (RequiredAccess::Change, vec![own, ("origin", "null")], refused),
            (RequiredAccess::Change, vec![own, ("origin", "")], refused),
            (
                RequiredAccess::Change,
                vec![own, ("origin", "http://localhost:11633"), ("origin", "http://evil")],
                refused,
            ),
            (RequiredAccess::Change, vec![own, ("sec-fetch-site", "same-origin")], Ok(())),
            (RequiredAccess::Change, vec![own, ("sec-fetch-site", "none")], Ok(())),
            (RequiredAccess::Change, vec![own, ("sec-fetch-site", "same-site")], refused),
            (RequiredAccess::Change, vec![own, site, navigate, document], refused),
            (RequiredAccess::Stream, vec![own, ("origin", "http://evil")], refused),
            (RequiredAccess::Stream, vec![own, site, navigate, document], refused),
            (RequiredAccess::Look, vec![own, site], refused),
            (RequiredAccess::Look, vec![own, site, navigate, document], Ok(())),
            (RequiredAccess::Look, vec![own, site, navigate, ("sec-fetch-dest", "iframe")], refused),
            (RequiredAccess::Change, vec![("host", "q.example"), ("origin", "https://q.example")], Ok(())),
            (RequiredAccess::Change, vec![own, ("origin", "https://q.example")], Ok(())),
            (RequiredAccess::Change, vec![own, ("origin", "https://q.example:8443")], Ok(())),
            (RequiredAccess::Change, vec![own, ("origin", "https://q.example:9443")], refused),
        ] {
            assert_eq!(checked(wanted, &headers), expected, "{wanted:?} {headers:?}");
        }
    }
}
