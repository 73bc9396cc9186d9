//! Rules about addresses: hosts by name, calls encrypted.

use std::net::IpAddr;

use super::{Fault, Subject};
use crate::trace::SpanKind;

/// The attributes that hold addresses; those in `PEERS` are checked in client spans only.
const URLS: [&str; 2] = ["http.url", "url.full"];
const CONNECTION: &str = "db.connection_string";
const PEERS: [&str; 2] = ["net.peer.name", "server.address"];

/// Finds hosts that are addressed by IP address.
pub(super) fn numeric(subject: &Subject) -> Vec<Fault> {
    let mut names: Vec<&str> = URLS.to_vec();
    names.push(CONNECTION);
    if subject.kind == SpanKind::Client {
        names.extend(PEERS);
    }
    names
        .into_iter()
        .filter_map(|name| subject.first(&[name]))
        .filter(|(_, text)| has_address(text))
        .map(|(name, text)| Fault {
            value: name.to_owned(),
            description: format!(
                "Usage of a IP endpoint instead of DNS found for attribute: {name}. Value: {text}"
            ),
            suggestions: vec!["Call the host by a name that DNS knows.".to_owned()],
            ..Fault::default()
        })
        .collect()
}

/// Whether a host in `text` is an IP address: the host of a URL, or a word of a connection string.
fn has_address(text: &str) -> bool {
    if let Some((_, rest)) = text.split_once("://") {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
        return hosts.split(',').any(is_address);
    }
    text.split(|letter: char| letter.is_whitespace() || ";,=@/()'\"".contains(letter)).any(is_address)
}

/// Whether `host` is an IP address, with or without brackets and a port.
fn is_address(host: &str) -> bool {
    if let Some(inside) = host.strip_prefix('[') {
        return inside.split_once(']').is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok());
    }
    let without_port = match host.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => host,
    };
    without_port.parse::<IpAddr>().is_ok()
}

/// Whether a scheme, or the scheme of an address, is `https`.
fn is_https(text: &str) -> bool {
    let scheme = text.split_once(':').map_or(text, |(scheme, _)| scheme);
    scheme.trim().eq_ignore_ascii_case("https")
}

/// Finds unencrypted calls in HTTP spans; `None` for spans of another type.
pub(super) fn insecure(subject: &Subject) -> Option<Vec<Fault>> {
    if subject.family != "http" {
        return None;
    }
    let shown = [&["http.scheme", "url.scheme"], &URLS];
    let faults =
        shown.into_iter().filter_map(|names| subject.first(names)).filter(|(_, text)| !is_https(text)).map(
            |(name, text)| Fault {
                value: name.to_owned(),
                description: format!("Insecure http schema found for attribute: {name}. Value: {text}"),
                suggestions: vec!["Use https.".to_owned()],
                ..Fault::default()
            },
        );
    Some(faults.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_https() {
        for (text, expected) in [
            ("https", true),
            ("HTTPS", true),
            (" https ", true),
            ("https://shop.test/x", true),
            ("HTTPS://shop.test", true),
            ("httpsx", false),
            ("httpsx://shop.test", false),
            ("xhttps://shop.test", false),
            ("http", false),
            ("http://https", false),
            ("", false),
        ] {
            assert_eq!(is_https(text), expected, "{text}");
        }
    }
}
