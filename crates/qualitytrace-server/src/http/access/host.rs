//! Host names of requests: parsing of `Host` and `Origin`, and the setting `server.hosts`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A host with an optional port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authority {
    host: Host,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    /// IPv4-mapped IPv6 addresses are stored as IPv4.
    Ip(IpAddr),
    /// In lower case, without a trailing dot.
    Name(String),
}

impl Authority {
    /// Parses `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Some(Self { host: Host::Ip(IpAddr::V6(address).to_canonical()), port: None });
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                // The zone id names the network interface; it is ignored.
                let address: Ipv6Addr = address.split('%').next()?.parse().ok()?;
                let port = if port.is_empty() { port } else { port.strip_prefix(':')? };
                (Host::Ip(IpAddr::V6(address).to_canonical()), port)
            }
            None => {
                let (host, port) = text.split_once(':').unwrap_or((text, ""));
                (Host::parse(host)?, port)
            }
        };
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = if port.is_empty() { None } else { Some(port.parse().ok().filter(|_| is_number)?) };
        Some(Self { host, port })
    }

    /// Whether it is a loopback name or address.
    pub(crate) fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Ip(address) => address.is_loopback(),
            // Resolvers must not look this domain up elsewhere (RFC 6761).
            Host::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        }
    }

    /// Whether it is this address.
    pub(crate) fn is_address(&self, address: IpAddr) -> bool {
        self.host == Host::Ip(address.to_canonical())
    }
}

impl Host {
    fn parse(text: &str) -> Option<Self> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if let Ok(address) = name.parse::<IpAddr>() {
            return Some(Self::Ip(address));
        }
        let is_name = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        name.split('.').all(is_name).then_some(Self::Name(name))
    }
}

/// The origin of a web page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    host: Host,
    /// The port; where none is written, the default of the scheme.
    port: u16,
    implied: u16,
}

impl Origin {
    /// Parses `SCHEME://HOST[:PORT]`; `None` for everything else, also for `null`, the opaque origin.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let Authority { host, port } = Authority::parse(authority)?;
        let implied = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        Some(Self { host, port: port.unwrap_or(implied), implied })
    }

    /// Whether the page has the same host and port as this request. The scheme is ignored: a proxy may terminate TLS.
    pub(crate) fn is_same(&self, asked: &Authority) -> bool {
        self.host == asked.host && self.port == asked.port.unwrap_or(self.implied)
    }
}

/// A host that requests may name: `NAME`, `ADDRESS`, `*.DOMAIN`, each with `:PORT` or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHost {
    host: Allowed,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Allowed {
    One(Host),
    /// All names with this suffix, which starts with a dot.
    Below(String),
}

impl AllowedHost {
    /// Whether a request may name this host and port.
    pub(crate) fn allows(&self, asked: &Authority) -> bool {
        self.fits(&asked.host) && self.port.is_none_or(|port| asked.port == Some(port))
    }

    /// Whether pages of this origin are the server's own, behind a proxy that uses another host name. Without a port,
    /// only the default one of the scheme matches: other ports may belong to other services.
    pub(crate) fn is_origin(&self, origin: &Origin) -> bool {
        self.fits(&origin.host) && origin.port == self.port.unwrap_or(origin.implied)
    }

    fn fits(&self, host: &Host) -> bool {
        match (&self.host, host) {
            (Allowed::One(allowed), host) => allowed == host,
            (Allowed::Below(domain), Host::Name(name)) => name.ends_with(domain),
            (Allowed::Below(_), Host::Ip(_)) => false,
        }
    }
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write a host name, an address or `*.DOMAIN`, with `:PORT` or without";
        let (text, is_below) = match text.trim().strip_prefix("*.") {
            Some(domain) => (domain, true),
            None => (text.trim(), false),
        };
        let Authority { host, port } = Authority::parse(text).ok_or(help)?;
        let host = match (host, is_below) {
            (host, false) => Allowed::One(host),
            (Host::Name(domain), true) => Allowed::Below(format!(".{domain}")),
            (Host::Ip(_), true) => return Err(help.to_owned()),
        };
        Ok(Self { host, port })
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Allowed::One(Host::Ip(IpAddr::V6(address))) => write!(f, "[{address}]")?,
            Allowed::One(Host::Ip(IpAddr::V4(address))) => write!(f, "{address}")?,
            Allowed::One(Host::Name(name)) => f.write_str(name)?,
            Allowed::Below(domain) => write!(f, "*{domain}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_many_names_and_no_others() {
        for name in [
            "localhost",
            "LOCALHOST.",
            "localhost:8080",
            "shop.localhost",
            "127.0.0.1",
            "127.0.0.1.:80",
            "127.9.9.9",
            "[::1]:11633",
            "[::ffff:127.0.0.1]",
            "[::1%25lo]:1",
        ] {
            assert!(Authority::parse(name).unwrap().is_loopback(), "{name}");
        }
        for name in
            ["localhost.evil", "127.0.0.1.evil", "evillocalhost", "0.0.0.0", "[::]", "2130706433", "0x7f.1"]
        {
            assert!(!Authority::parse(name).unwrap().is_loopback(), "{name}");
        }
        for wrong in [
            "",
            ":80",
            ".",
            "localhost..",
            "a@localhost",
            "localhost:x",
            "localhost:99999",
            "[::1",
            "[::1]x",
            "a b",
            "localhost:+1",
            "a/b",
        ] {
            assert_eq!(Authority::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_page_is_our_own_when_host_and_port_are_the_same() {
        for (origin, asked, expected) in [
            ("http://localhost:11633", "localhost:11633", true),
            ("http://LOCALHOST:11633", "localhost.:11633", true),
            ("http://[::1]:11633", "[::1]:11633", true),
            ("https://q.example", "q.example", true),
            ("https://q.example", "q.example:443", true),
            ("https://q.example:443", "q.example", true),
            ("http://q.example", "q.example:80", true),
            ("https://q.example", "q.example:80", false),
            ("http://localhost:3000", "localhost:11633", false),
            ("http://127.0.0.1:11633", "localhost:11633", false),
            ("https://q.example.evil", "q.example", false),
        ] {
            let (origin, asked) = (Origin::parse(origin).unwrap(), Authority::parse(asked).unwrap());
            assert_eq!(origin.is_same(&asked), expected, "{origin:?} {asked:?}");
        }
        for nowhere in ["null", "", "q.example", "app://q.example", "http://", "http://a/b", "http://a@b"] {
            assert_eq!(Origin::parse(nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn a_listed_host_is_answered_to() {
        for (listed, asked, expected) in [
            ("q.example", "Q.example.:11633", true),
            ("q.example:443", "q.example", false),
            ("q.example:443", "q.example:443", true),
            ("*.example", "a.b.example", true),
            ("*.example", "example", false),
            ("*.example", "evilexample", false),
            ("10.0.0.1", "10.0.0.1:80", true),
            ("fe80::1", "[fe80::1]:80", true),
        ] {
            let rule: AllowedHost = listed.parse().unwrap();
            assert_eq!(rule.allows(&Authority::parse(asked).unwrap()), expected, "{listed} {asked}");
            assert_eq!(rule.to_string().parse(), Ok(rule), "{listed}");
        }
        for wrong in ["", "*", "*.", "a b", "*.10.0.0.1", "http://a"] {
            assert!(wrong.parse::<AllowedHost>().is_err(), "{wrong}");
        }
        let origin = |listed: &str, origin: &str| {
            listed.parse::<AllowedHost>().unwrap().is_origin(&Origin::parse(origin).unwrap())
        };
        assert!(
            origin("q.example", "https://q.example") && origin("q.example:8443", "https://q.example:8443")
        );
        assert!(!origin("q.example", "https://q.example:8443"));
    }
}
