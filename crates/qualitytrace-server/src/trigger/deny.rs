//! Addresses that no trigger may speak to: `trigger.deny`.
//!
//! A name is compared as it is written, an address when the connection is made: whatever a name turns out to mean, and
//! wherever a redirect leads.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

/// What is on the list. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deny(Arc<[Rule]>);

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    written: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Addresses whose first bits are these.
    Network(IpAddr, u8),
    /// This name.
    Name(String),
    /// Every name below this one.
    Below(String),
}

impl FromStr for Rule {
    type Err = String;

    /// `10.0.0.0/8`, `::1`, `metadata.internal` or `*.internal`.
    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write a network like 10.0.0.0/8, an address, a host name, or *.DOMAIN";
        let written = text.trim().to_lowercase();
        let (address, bits) = match written.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| help)?)),
            None => (written.as_str(), None),
        };
        let kind = match address.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => {
                let most = if address.is_ipv4() { 32 } else { 128 };
                Kind::Network(address, bits.unwrap_or(most)).checked(most).ok_or(help)?
            }
            Err(_) if bits.is_some() || written.is_empty() || written.contains([' ', ':']) => {
                return Err(help.to_owned());
            }
            Err(_) => match written.strip_prefix("*.") {
                Some(domain) => Kind::Below(format!(".{domain}")),
                None => Kind::Name(written.clone()),
            },
        };
        Ok(Self { written, kind })
    }
}

impl Kind {
    fn checked(self, most: u8) -> Option<Self> {
        match self {
            Self::Network(_, bits) if bits > most => None,
            other => Some(other),
        }
    }
}

/// A host that is on the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    host: String,
    rule: String,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, rule } = self;
        write!(f, "triggers must not speak to `{host}`: this server's trigger.deny lists `{rule}`")
    }
}

impl std::error::Error for Denied {}

impl Deny {
    /// A list of these.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self(rules.into_iter().collect())
    }

    /// The list as it was written.
    pub fn written(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|rule| rule.written.as_str())
    }

    /// Refuses a host by the way it is written: a name, or an address.
    pub(super) fn host(&self, host: &str) -> Result<(), Denied> {
        if self.0.is_empty() {
            return Ok(());
        }
        let name = host.trim_matches(['[', ']']).trim_end_matches('.').to_lowercase();
        if let Ok(address) = name.parse::<IpAddr>() {
            return self.address(host, address);
        }
        let is_listed = |rule: &&Rule| match &rule.kind {
            Kind::Name(listed) => *listed == name,
            Kind::Below(domain) => name.ends_with(domain.as_str()),
            Kind::Network(..) => false,
        };
        self.0.iter().find(is_listed).map_or(Ok(()), |rule| Err(denied(host, rule)))
    }

    /// Leaves the addresses of a host that are not on the list; refuses the host when none is left.
    pub(super) fn addresses(&self, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Denied> {
        self.host(host)?;
        let mut refused = None;
        let mut left = Vec::with_capacity(found.len());
        for address in found {
            match self.address(host, address.ip()) {
                Ok(()) => left.push(address),
                Err(denied) => refused = Some(denied),
            }
        }
        match refused {
            Some(denied) if left.is_empty() => Err(denied),
            _ => Ok(left),
        }
    }

    fn address(&self, host: &str, address: IpAddr) -> Result<(), Denied> {
        // An IPv4 address can be written as an IPv6 one.
        let address = address.to_canonical();
        // Whoever connects to no address in particular is connected to its own machine.
        let own = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let meant = own.into_iter().filter(|_| address.is_unspecified()).chain([address]);
        let is_listed = |rule: &&Rule| match &rule.kind {
            Kind::Network(network, bits) => {
                meant.clone().any(|address| is_within(address, network.to_canonical(), *bits))
            }
            Kind::Name(_) | Kind::Below(_) => false,
        };
        self.0.iter().find(is_listed).map_or(Ok(()), |rule| Err(denied(host, rule)))
    }
}

fn denied(host: &str, rule: &Rule) -> Denied {
    Denied { host: host.to_owned(), rule: rule.written.clone() }
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |a: u128, b: u128, width: u32| {
        let shift = width.saturating_sub(u32::from(bits));
        a.checked_shr(shift).unwrap_or(0) == b.checked_shr(shift).unwrap_or(0)
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deny() -> Deny {
        let rules = ["10.0.0.0/8", "127.0.0.1", "fd00::/8", "::1", "Metadata.internal", "*.corp"];
        Deny::new(rules.map(|rule| rule.parse().unwrap()))
    }

    #[test]
    fn hosts_are_found_by_name_and_by_address() {
        for (host, is_listed) in [
            ("10.1.2.3", true),
            ("11.1.2.3", false),
            ("127.0.0.1", true),
            ("[::ffff:127.0.0.1]", true),
            ("127.0.0.2", false),
            ("0.0.0.0", true),
            ("[::ffff:0.0.0.0]", true),
            ("[::]", true),
            ("[fd12::1]", true),
            ("fe80::1", false),
            ("metadata.INTERNAL.", true),
            ("other.metadata.internal", false),
            ("a.b.corp", true),
            ("corp", false),
        ] {
            assert_eq!(deny().host(host).is_err(), is_listed, "{host}");
            assert!(Deny::default().host(host).is_ok());
        }
    }

    #[test]
    fn a_name_is_refused_by_what_it_turns_out_to_mean() {
        let found =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let denied = deny().addresses("shop", found(&["10.0.0.7:80"])).unwrap_err();
        assert_eq!(
            denied.to_string(),
            "triggers must not speak to `shop`: this server's trigger.deny lists `10.0.0.0/8`"
        );
        let left = deny().addresses("shop", found(&["10.0.0.7:80", "192.168.0.1:80"])).unwrap();
        assert_eq!(left, found(&["192.168.0.1:80"]));
    }

    #[test]
    fn a_rule_says_what_it_can_be() {
        for wrong in ["", "10.0.0.0/33", "x/8", "a b", "10.0.0.0/x", "host:80"] {
            assert!(wrong.parse::<Rule>().is_err(), "{wrong}");
        }
    }
}
