//! Rate limit for wrong tokens.
//!
//! Each client has a token bucket. While it is empty, wrong tokens are answered with the advice to retry later. A right
//! token is accepted at any time: one program with an old token does not lock out the others behind the same proxy.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Access, AccessError, Fingerprint, RequiredAccess};

/// Wrong tokens that a client may send in a burst.
const BURST: u32 = 20;
/// The interval after which it may send another one.
const REFILL: Duration = Duration::from_secs(1);
/// Clients that are tracked; the one idle for longest is evicted first.
const CLIENTS: usize = 4096;
/// The interval of log lines about wrong tokens of one client.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Checks tokens, and limits the rate of wrong ones for each client.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<Clients>);

impl Throttle {
    /// Checks whether a token grants the permission. Wrong tokens are logged.
    pub(crate) fn check(
        &self,
        access: &Access,
        wanted: RequiredAccess,
        token: Option<&Fingerprint>,
        peer: Option<IpAddr>,
    ) -> Result<(), AccessError> {
        let Some(token) = token.filter(|_| !access.is_open(wanted)) else {
            return access.check_fingerprint(wanted, token);
        };
        let client = client(peer);
        let (checked, wrong) = {
            let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            clients.check(client, Instant::now(), access.check_fingerprint(wanted, Some(token)))
        };
        if let Some(tokens) = wrong {
            tracing::warn!(client = %client, tokens, "refused a wrong token");
        }
        checked
    }
}

/// Returns the key of a client: an IPv4 address, or the /64 network of an IPv6 address.
fn client(peer: Option<IpAddr>) -> IpAddr {
    match peer.map(|peer| peer.to_canonical()) {
        Some(IpAddr::V6(address)) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        Some(address @ IpAddr::V4(_)) => address,
        None => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[derive(Debug, Default)]
struct Clients(HashMap<IpAddr, Client>);

#[derive(Debug)]
struct Client {
    /// Wrong tokens in the bucket, as of `counted`.
    wrong: u32,
    counted: Instant,
    seen: Instant,
    logged: Option<Instant>,
    unlogged: u64,
}

impl Clients {
    /// Applies the rate limit to a client whose token was `checked`. Also returns how many wrong tokens to log now.
    fn check(
        &mut self,
        client: IpAddr,
        now: Instant,
        checked: Result<(), AccessError>,
    ) -> (Result<(), AccessError>, Option<u64>) {
        if checked != Err(AccessError::Unknown) {
            return (checked, None);
        }
        let client = self.client(client, now);
        client.refill(now);
        if client.wrong < BURST {
            client.wrong += 1;
            return (checked, client.log(now));
        }
        let wait = REFILL.saturating_sub(now.saturating_duration_since(client.counted));
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        (Err(AccessError::Throttled(seconds.max(1))), client.log(now))
    }

    fn client(&mut self, client: IpAddr, now: Instant) -> &mut Client {
        if self.0.len() >= CLIENTS && !self.0.contains_key(&client) {
            let silent = self.0.iter().min_by_key(|(_, client)| client.seen).map(|(client, _)| *client);
            silent.and_then(|silent| self.0.remove(&silent));
        }
        let client = self.0.entry(client).or_insert_with(|| Client {
            wrong: 0,
            counted: now,
            seen: now,
            logged: None,
            unlogged: 0,
        });
        client.seen = now;
        client
    }
}

impl Client {
    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.counted).as_secs() / REFILL.as_secs();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        self.wrong = self.wrong.saturating_sub(passed);
        self.counted = if self.wrong == 0 { now } else { self.counted + REFILL * passed };
    }

    /// Returns the number of wrong tokens for a log line; `None` if it is too early for one.
    fn log(&mut self, now: Instant) -> Option<u64> {
        self.unlogged += 1;
        let is_due = self.logged.is_none_or(|logged| now.saturating_duration_since(logged) >= LOG_INTERVAL);
        is_due.then(|| {
            self.logged = Some(now);
            std::mem::take(&mut self.unlogged)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTACKER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn shown(clients: &mut Clients, token: &str, now: Instant) -> (Result<(), AccessError>, Option<u64>) {
        clients.check(ATTACKER, now, if token == "right" { Ok(()) } else { Err(AccessError::Unknown) })
    }

    #[test]
    fn too_many_wrong_tokens_are_throttled_until_time_has_passed_and_right_ones_never() {
        let (mut clients, now) = (Clients::default(), Instant::now());
        for _ in 0..BURST {
            assert_eq!(shown(&mut clients, "wrong", now).0, Err(AccessError::Unknown));
        }
        assert_eq!(shown(&mut clients, "wrong", now).0, Err(AccessError::Throttled(1)));
        assert_eq!(shown(&mut clients, "right", now).0, Ok(()), "its neighbour's mistakes do not count");
        let later = now + REFILL;
        assert_eq!(shown(&mut clients, "wrong", later).0, Err(AccessError::Unknown));
        assert_eq!(shown(&mut clients, "wrong", later).0, Err(AccessError::Throttled(1)));
    }

    #[test]
    fn wrong_tokens_are_logged_at_once_and_then_now_and_again() {
        let (mut clients, now) = (Clients::default(), Instant::now());
        assert_eq!(shown(&mut clients, "wrong", now).1, Some(1));
        for _ in 0..100 {
            assert_eq!(shown(&mut clients, "wrong", now).1, None);
        }
        assert_eq!(shown(&mut clients, "wrong", now + LOG_INTERVAL).1, Some(101));
    }

    #[test]
    fn clients_are_bounded() {
        let (mut clients, now) = (Clients::default(), Instant::now());
        for at in 0..10_000_u32 {
            let client = IpAddr::from(std::net::Ipv4Addr::from_bits(at));
            clients.client(client, now + Duration::from_millis(u64::from(at)));
        }
        assert!(clients.0.len() <= CLIENTS);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let of = |text: &str| client(text.parse().ok());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), ATTACKER);
    }
}
