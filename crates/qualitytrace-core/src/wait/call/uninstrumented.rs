//! The user's list of peers that send no spans.

use std::collections::HashSet;

use super::{PEERS, address, text};
use crate::trace::Span;

/// Peers that send no spans, by address, host, `*.domain` or any other name that a span has for its other side. A look-up
/// takes the same time for any number of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UninstrumentedPeers {
    names: HashSet<String>,
    /// What follows the `*` of a name.
    endings: HashSet<String>,
}

impl FromIterator<String> for UninstrumentedPeers {
    fn from_iter<I: IntoIterator<Item = String>>(listed: I) -> Self {
        let mut peers = Self::default();
        for name in listed {
            let folded = name.to_ascii_lowercase();
            match folded.strip_prefix('*') {
                Some(ending) => peers.endings.insert(ending.to_owned()),
                None => peers.names.insert(folded),
            };
        }
        peers
    }
}

impl UninstrumentedPeers {
    /// Whether the list names the other side of this span.
    pub(in crate::wait) fn names_peer_of(&self, span: &Span) -> bool {
        if self.names.is_empty() && self.endings.is_empty() {
            return false;
        }
        let address = address(span);
        let host =
            address.as_deref().map(|address| address.rsplit_once(':').map_or(address, |(host, _)| host));
        address.as_deref().is_some_and(|address| self.has(address))
            || host.is_some_and(|host| self.has(host))
            || PEERS.iter().filter_map(|name| text(span, name)).any(|peer| self.has(&peer))
    }

    fn has(&self, peer: &str) -> bool {
        let folded = peer.to_ascii_lowercase();
        // An ending fits only what has something before it.
        let mut ends = folded.char_indices().skip(1).map(|(at, _)| &folded[at..]).chain([""]);
        self.names.contains(&folded)
            || (!self.endings.is_empty() && !folded.is_empty() && ends.any(|end| self.endings.contains(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_endings_are_found_in_any_case() {
        let peers =
            |listed: &[&str]| listed.iter().map(|&name| name.to_owned()).collect::<UninstrumentedPeers>();
        for (listed, peer, expected) in [
            ("mail:25", "Mail:25", true),
            ("mail", "mail:25", false),
            ("*.bank.example", "api.Bank.example", true),
            ("*.bank.example", ".bank.example", false),
            ("*.bank.example", "bank.example", false),
            ("*é", "café", true),
            ("*", "anything", true),
            ("*", "", false),
        ] {
            assert_eq!(peers(&["other", listed]).has(peer), expected, "{listed} {peer}");
        }
    }
}
