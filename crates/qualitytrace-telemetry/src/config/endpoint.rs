//! Resolves the endpoint that a user wrote to the address of each signal.

use super::{Signal, Transport};
use crate::redact;

/// A resolved address, and what to report about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) url: String,
    /// The path that gRPC ignores, for display.
    pub(crate) ignored_path: Option<String>,
    /// Whether it has an HTTP path of its own, which is used as it is: no other signal can go there.
    pub(crate) own_path: bool,
}

/// The default endpoint of OTLP.
pub(crate) fn default(transport: Transport) -> &'static str {
    match transport {
        Transport::Grpc => "http://localhost:4317",
        Transport::Http => "http://localhost:4318",
    }
}

/// The address of one signal; the error completes a sentence.
pub(crate) fn resolve(transport: Transport, text: &str, signal: Signal) -> Result<Resolved, String> {
    let address = split(text)?;
    match transport {
        Transport::Grpc => Ok(address.without_path()),
        Transport::Http => {
            let Address { base, path, query } = address;
            let trimmed = path.trim_end_matches('/');
            let known = Signal::ALL.iter().find_map(|other| trimmed.strip_suffix(&tail(*other)));
            let own_path = known.is_none() && !trimmed.is_empty();
            let url = match known {
                Some(prefix) => format!("{base}{prefix}{}{query}", tail(signal)),
                None if own_path => format!("{base}{path}{query}"),
                None => format!("{base}{}{query}", tail(signal)),
            };
            Ok(Resolved { url, ignored_path: None, own_path })
        }
    }
}

/// The address exactly as it is written (the rule for `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` and the declarative format).
pub(crate) fn verbatim(transport: Transport, text: &str) -> Result<Resolved, String> {
    let address = split(text)?;
    Ok(match transport {
        Transport::Grpc => address.without_path(),
        Transport::Http => {
            let Address { base, path, query } = address;
            let path = if path.is_empty() { "/" } else { path };
            Resolved { url: format!("{base}{path}{query}"), ignored_path: None, own_path: true }
        }
    })
}

/// The base with `/v1/...` appended whatever its path is (the rule for `OTEL_EXPORTER_OTLP_ENDPOINT`).
pub(crate) fn appended(transport: Transport, text: &str, signal: Signal) -> Result<Resolved, String> {
    let address = split(text)?;
    Ok(match transport {
        Transport::Grpc => address.without_path(),
        Transport::Http => {
            let Address { base, path, query } = address;
            let url = format!("{base}{}{}{query}", path.trim_end_matches('/'), tail(signal));
            Resolved { url, ignored_path: None, own_path: false }
        }
    })
}

/// The address for display: without user name and password, and without the values of its query.
pub(crate) fn shown(text: &str) -> String {
    let text = redact::query(text, |_| true);
    let Some((login, place)) = text.rsplit_once('@') else { return text.into_owned() };
    let scheme = login.split_once("://").map(|(scheme, _)| format!("{scheme}://")).unwrap_or_default();
    format!("{scheme}***@{place}")
}

fn tail(signal: Signal) -> String {
    format!("/v1/{}", signal.name())
}

/// An address in parts.
struct Address<'a> {
    /// The scheme and the host.
    base: String,
    path: &'a str,
    /// The query with its `?`; it often contains a secret.
    query: &'a str,
}

impl Address<'_> {
    /// The address for gRPC, which has no path.
    fn without_path(self) -> Resolved {
        let ignored = format!("{}{}", self.path, self.query);
        let is_empty = ignored.is_empty() || ignored == "/";
        let ignored_path = (!is_empty).then(|| redact::query(&ignored, |_| true).into_owned());
        Resolved { url: self.base, ignored_path, own_path: false }
    }
}

/// Splits an address. Without a scheme the connection is plain.
fn split(text: &str) -> Result<Address<'_>, String> {
    let text = text.trim();
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None => ("http".to_owned(), text),
    };
    if scheme != "http" && scheme != "https" {
        return Err(format!("its scheme is `{scheme}`, expected `http` or `https`"));
    }
    let at = |text: &str, ends: &[char]| text.find(ends).unwrap_or(text.len());
    let (authority, rest) = rest.split_at(at(rest, &['/', '?', '#']));
    let (path, query) = rest.split_at(at(rest, &['?', '#']));
    if authority.is_empty() {
        return Err("it has no host".to_owned());
    }
    let base = format!("{scheme}://{authority}");
    let uri =
        http::Uri::try_from(format!("{base}{rest}")).map_err(|error| format!("it is not a URL: {error}"))?;
    match uri.authority() {
        Some(found) if found.host().is_empty() => Err("it has no host".to_owned()),
        Some(found) if found.as_str().ends_with(':') => Err("its port is missing".to_owned()),
        Some(found) if found.as_str().contains('@') => {
            Err("it holds a user name; use `headers` instead".to_owned())
        }
        Some(found) => {
            // The parser treats an invalid port as no port.
            let behind = found.as_str().rsplit_once(']').map_or(found.as_str(), |(_, rest)| rest);
            match behind.rsplit_once(':').map(|(_, port)| port) {
                Some(port) if !matches!(port.parse::<u16>(), Ok(1..)) => {
                    Err(format!("its port is `{port}`, expected a number from 1 to 65535"))
                }
                Some(_) | None => Ok(Address { base, path, query }),
            }
        }
        None => Err("it has no host".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Signal, Transport, appended, resolve};

    fn check(transport: Transport, text: &str, signal: Signal, url: &str, own_path: bool) {
        let resolved = resolve(transport, text, signal).unwrap();
        assert_eq!((resolved.url.as_str(), resolved.own_path), (url, own_path), "{text}");
    }

    #[test]
    fn http_gets_the_path_of_each_signal() {
        use Signal::{Logs, Metrics, Traces};
        use Transport::Http;
        check(Http, "https://c.example", Traces, "https://c.example/v1/traces", false);
        check(Http, "http://c:4318/", Logs, "http://c:4318/v1/logs", false);
        check(Http, "http://c:4318/v1/metrics", Traces, "http://c:4318/v1/traces", false);
        check(Http, "http://c/otlp/v1/traces", Logs, "http://c/otlp/v1/logs", false);
        check(
            Http,
            "https://tracing.mydomain.test/v1/otel",
            Traces,
            "https://tracing.mydomain.test/v1/otel",
            true,
        );
        check(Http, "c:4318", Metrics, "http://c:4318/v1/metrics", false);
    }

    #[test]
    fn a_query_stays_behind_the_path() {
        use Signal::{Logs, Traces};
        use Transport::Http;
        check(Http, "https://c?k=v", Traces, "https://c/v1/traces?k=v", false);
        check(Http, "https://c/v1/traces?k=a/b", Logs, "https://c/v1/logs?k=a/b", false);
        check(Http, "https://c/own?k=v", Traces, "https://c/own?k=v", true);
        let appended = appended(Http, "https://c/base/?k=v", Logs).unwrap();
        assert_eq!(appended.url, "https://c/base/v1/logs?k=v");
    }

    #[test]
    fn grpc_has_no_path() {
        let resolved = resolve(Transport::Grpc, "https://127.0.0.1/otel", Signal::Traces).unwrap();
        assert_eq!(resolved.url, "https://127.0.0.1");
        assert_eq!(resolved.ignored_path.as_deref(), Some("/otel"));
        for (text, ignored) in
            [("https://c/otlp?api-key=s3cret", "/otlp?api-key=***"), ("c:1?k=s3cret", "?k=***")]
        {
            let resolved = resolve(Transport::Grpc, text, Signal::Traces).unwrap();
            assert_eq!(resolved.ignored_path.as_deref(), Some(ignored));
            assert!(!resolved.url.contains("s3cret"), "{}", resolved.url);
        }
        check(Transport::Grpc, "otel-collector:4317", Signal::Traces, "http://otel-collector:4317", false);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "http://",
            "ftp://x",
            "http://a b",
            "host:",
            "http://u:p@h:1",
            "host:99999",
            "host:0",
            "http://[::1]:70000/v1/traces",
        ] {
            assert!(resolve(Transport::Http, text, Signal::Traces).is_err(), "{text}");
        }
    }
}
