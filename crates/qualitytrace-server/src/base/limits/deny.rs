//! Addresses that no trigger may connect to: `trigger.deny`.
//!
//! A name is compared as written, an address when the connection is made: whatever a name resolves to, and wherever a
//! redirect leads.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;

/// The deny list. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deny(Arc<[Rule]>);

/// One entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    written: String,
    kind: Kind,
}

/// Prefixes of 96 bits for IPv6 addresses that embed an IPv4 address: IPv4-mapped, IPv4-compatible, and NAT64 (RFC
/// 6052, RFC 8215).
const EMBEDDING: [u128; 4] = [0xffff << 32, 0, 0x0064_ff9b << 96, (0x0064_ff9b << 96) | (0x0001 << 80)];
/// The length of these prefixes.
const EMBEDDING_BITS: u8 = 96;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// The addresses of this network.
    Network(IpNet),
    /// This name.
    Name(String),
    /// Every name with this suffix, which starts with a dot.
    Below(String),
}

impl FromStr for Rule {
    type Err = String;

    /// Parses `10.0.0.0/8`, `::1`, `metadata.internal` or `*.internal`.
    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write a network like 10.0.0.0/8, an address, a host name, or *.DOMAIN";
        let written = text.trim().to_lowercase();
        let (address, bits) = match written.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| help)?)),
            None => (written.as_str(), None),
        };
        let kind = match address.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => Kind::Network(match bits {
                Some(bits) => IpNet::new(address, bits).map_err(|_| help)?,
                None => address.into(),
            }),
            Err(_) if bits.is_some() || written.is_empty() || written.contains([' ', ':']) => {
                return Err(help.to_owned());
            }
            Err(_) => match (written.strip_prefix("*."), url::Host::parse(&written)) {
                (Some(domain), _) => Kind::Below(format!(".{}", canonical(domain))),
                // `127.1` and `0x7f000001` are addresses, too.
                (None, Ok(url::Host::Ipv4(address))) => Kind::Network(IpAddr::from(address).into()),
                (None, _) => Kind::Name(canonical(&written)),
            },
        };
        Ok(Self { written, kind })
    }
}

/// A host that is on the list, and the rule that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenyListError {
    host: String,
    rule: String,
}

impl fmt::Display for DenyListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, rule } = self;
        write!(f, "triggers must not connect to `{host}`: this server's trigger.deny lists `{rule}`")
    }
}

impl std::error::Error for DenyListError {}

impl Deny {
    /// Creates a list of these rules.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self(rules.into_iter().collect())
    }

    /// Returns the entries as written.
    pub fn written(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|rule| rule.written.as_str())
    }

    /// Refuses a host by its spelling: a name, or an address.
    pub(crate) fn host(&self, host: &str) -> Result<(), DenyListError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let name = canonical(host.trim_matches(['[', ']']));
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

    /// Removes addresses of a host that are on the list; refuses the host if none is left.
    pub(crate) fn addresses(
        &self,
        host: &str,
        found: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, DenyListError> {
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

    fn address(&self, host: &str, address: IpAddr) -> Result<(), DenyListError> {
        let meant = meanings(address);
        let is_listed = |rule: &&Rule| match &rule.kind {
            // A rule for a whole embedding prefix matches only addresses in that form, not all of IPv4.
            Kind::Network(network @ IpNet::V6(_)) if network.prefix_len() <= EMBEDDING_BITS => {
                meant.iter().any(|meant| !meant.is_derived && network.contains(&meant.address))
            }
            Kind::Network(network) => meant.iter().any(|meant| network.contains(&meant.address)),
            Kind::Name(_) | Kind::Below(_) => false,
        };
        self.0.iter().find(is_listed).map_or(Ok(()), |rule| Err(denied(host, rule)))
    }
}

/// One of the addresses that an address is equivalent to.
#[derive(Debug, Clone, Copy)]
struct Meaning {
    address: IpAddr,
    /// Whether it is a derived IPv6 form of the address: rules may be written in it.
    is_derived: bool,
}

/// Returns all equivalents of an address: itself, the IPv4 address that it embeds, and the other forms of that.
fn meanings(address: IpAddr) -> Vec<Meaning> {
    let as_is = |address: IpAddr| Meaning { address, is_derived: false };
    let mut meant = vec![as_is(address)];
    let carried = match address {
        IpAddr::V4(address) => vec![address],
        IpAddr::V6(address) => carried(address),
    };
    meant.extend(carried.iter().map(|address| as_is((*address).into())));
    // A connection to the unspecified address reaches the local machine.
    if meant.iter().any(|meant| meant.address.is_unspecified()) {
        meant.extend([as_is(Ipv4Addr::LOCALHOST.into()), as_is(Ipv6Addr::LOCALHOST.into())]);
    }
    let v4 = meant.iter().filter_map(|meant| match meant.address {
        IpAddr::V4(address) => Some(u128::from(address.to_bits())),
        IpAddr::V6(_) => None,
    });
    let forms = v4.flat_map(|bits| EMBEDDING.map(|prefix| Ipv6Addr::from_bits(prefix | bits)));
    let forms: Vec<Meaning> = forms.map(|form| Meaning { address: form.into(), is_derived: true }).collect();
    meant.extend(forms);
    meant
}

/// Returns the IPv4 addresses that packets to an IPv6 address may reach: by mapping, NAT64, 6to4 or Teredo.
fn carried(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    if address == Ipv6Addr::LOCALHOST {
        return Vec::new();
    }
    let bits = address.to_bits();
    let part = |shift: u32| Ipv4Addr::from_bits(u32::try_from((bits >> shift) & 0xffff_ffff).unwrap_or(0));
    let mut carried = Vec::new();
    if EMBEDDING.iter().any(|prefix| bits >> 32 == prefix >> 32) {
        carried.push(part(0));
    }
    match address.segments() {
        [0x0064, 0xff9b, 0x0001, ..] if carried.is_empty() => carried.push(part(0)),
        [0x2002, ..] => carried.push(part(80)),
        [0x2001, 0, ..] => carried.push(Ipv4Addr::from_bits(!part(0).to_bits())),
        _ => {}
    }
    carried
}

/// Normalizes a name for comparison: lower case, punycode, without a trailing dot.
fn canonical(name: &str) -> String {
    let name = name.trim_end_matches('.').to_lowercase();
    match url::Host::parse(&name) {
        Ok(url::Host::Domain(ascii)) => ascii,
        _ => name,
    }
}

fn denied(host: &str, rule: &Rule) -> DenyListError {
    DenyListError { host: host.to_owned(), rule: rule.written.clone() }
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
            ("a.b.corp.", true),
            ("corp", false),
            ("[::10.1.2.3]", true),
            ("[64:ff9b::10.1.2.3]", true),
            ("[64:ff9b:1::a01:203]", true),
            ("[64:ff9b::11.1.2.3]", false),
            ("[2002:a01:203::1]", true),
            ("[2001:0:4136:e378:8000:63bf:f5fe:fdfc]", true),
            ("[2001:db8::a01:203]", false),
        ] {
            assert_eq!(deny().host(host).is_err(), is_listed, "{host}");
            assert!(Deny::default().host(host).is_ok());
        }
    }

    #[test]
    fn rules_may_be_written_in_every_form_of_an_address() {
        for (rule, host, is_listed) in [
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "11.1.2.3", false),
            ("::ffff:10.0.0.0/104", "[64:ff9b::10.1.2.3]", true),
            ("::ffff:127.0.0.1", "127.0.0.1", true),
            ("::ffff:127.0.0.1", "0.0.0.0", true),
            ("::10.0.0.0/104", "10.1.2.3", true),
            ("64:ff9b::10.0.0.0/104", "10.1.2.3", true),
            ("64:ff9b::10.0.0.0/104", "[::ffff:10.1.2.3]", true),
            ("10.0.0.0/8", "[::ffff:10.1.2.3]", true),
            ("0x7f000001", "127.0.0.1", true),
            ("127.1", "127.0.0.1", true),
            ("::ffff:0:0/96", "[::ffff:1.2.3.4]", true),
            ("::ffff:0:0/96", "1.2.3.4", false),
            ("::/0", "1.2.3.4", false),
            ("::/0", "[2001:db8::1]", true),
            ("0.0.0.0/0", "[::ffff:1.2.3.4]", true),
            ("0.0.0.0/0", "[2001:db8::1]", false),
            ("0.0.0.0/0", "[::1]", false),
            ("metadata.internal.", "metadata.internal", true),
            ("*.internal.", "metadata.internal", true),
            ("b\u{fc}cher.test", "xn--bcher-kva.test", true),
        ] {
            let deny = Deny::new([rule.parse().unwrap()]);
            assert_eq!(deny.host(host).is_err(), is_listed, "{rule} and {host}");
        }
    }

    #[test]
    fn a_name_is_refused_by_what_it_turns_out_to_mean() {
        let found =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let denied = deny().addresses("shop", found(&["10.0.0.7:80"])).unwrap_err();
        assert_eq!(
            denied.to_string(),
            "triggers must not connect to `shop`: this server's trigger.deny lists `10.0.0.0/8`"
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
