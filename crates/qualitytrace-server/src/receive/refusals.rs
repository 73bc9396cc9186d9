//! Refused deliveries of spans. The traces of the spans are unknown, only that they are missing.
//!
//! A refusal that may be retried counts until its sender delivers again. One that cannot be retried counts until it is
//! evicted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use qualitytrace_core::time::Timestamp;

use crate::base::clock;

/// Senders that are tracked; the oldest is evicted first.
const MAX_SENDERS: usize = 1_024;
/// Longer reasons are cut off: they may quote what the sender wrote.
const MAX_REASON_BYTES: usize = 256;
/// A refusal of one sender is logged again after this time.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// The latest refusal of each sender.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<String, Refusal>>);

#[derive(Debug)]
struct Refusal {
    at: Timestamp,
    logged: Timestamp,
    reason: String,
    may_retry: bool,
}

impl Refusals {
    /// Records a refused delivery of spans.
    pub(crate) fn note(&self, sender: &str, mut reason: String, may_retry: bool) {
        reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
        let now = clock::now();
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let logged = refusals.get(sender).map(|known| known.logged);
        let is_due = logged.is_none_or(|logged| now.since(logged) > LOG_INTERVAL);
        if is_due {
            tracing::warn!(sender, reason, may_retry, "a delivery of spans was refused");
        }
        if logged.is_none() && refusals.len() >= MAX_SENDERS {
            let oldest = refusals.iter().min_by_key(|(_, known)| known.at).map(|(sender, _)| sender.clone());
            oldest.and_then(|sender| refusals.remove(&sender));
        }
        let logged = if is_due { now } else { logged.unwrap_or(now) };
        refusals.insert(sender.to_owned(), Refusal { at: now, logged, reason, may_retry });
    }

    /// Records a delivery: a refused request that may be retried counts as sent again.
    pub(crate) fn delivered(&self, sender: &str) {
        let mut refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.get(sender).is_some_and(|known| known.may_retry) {
            refusals.remove(sender);
        }
    }

    /// Describes the latest refusal since then.
    pub(crate) fn since(&self, since: Timestamp) -> Option<String> {
        let refusals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = refusals.iter().filter(|(_, known)| known.at >= since).max_by_key(|(_, known)| known.at);
        latest.map(|(sender, known)| {
            format!("a delivery of spans from {} was refused meanwhile: {}", sender.trim(), known.reason)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_again_is_forgotten_and_what_is_lost_is_not() {
        let (refusals, start) = (Refusals::default(), clock::now());
        refusals.note("10.0.0.1", "busy".to_owned(), true);
        assert_eq!(
            refusals.since(start).unwrap(),
            "a delivery of spans from 10.0.0.1 was refused meanwhile: busy"
        );
        refusals.delivered("10.0.0.1");
        assert_eq!(refusals.since(start), None);
        refusals.note("10.0.0.1", "too large".to_owned(), false);
        refusals.delivered("10.0.0.1");
        assert!(refusals.since(start).is_some_and(|why| why.ends_with("too large")));
        assert_eq!(refusals.since(clock::now() + Duration::from_secs(1)), None);
    }

    #[test]
    fn a_reason_that_quotes_its_sender_is_cut_off() {
        let (refusals, start) = (Refusals::default(), clock::now());
        refusals.note("10.0.0.1", "é".repeat(1_000_000), false);
        assert!(refusals.since(start).is_some_and(|why| why.len() < 2 * MAX_REASON_BYTES));
    }

    #[test]
    fn the_oldest_sender_is_forgotten_first() {
        let (refusals, start) = (Refusals::default(), clock::now());
        for sender in 0..=MAX_SENDERS {
            refusals.note(&sender.to_string(), "busy".to_owned(), true);
        }
        assert_eq!(refusals.0.lock().unwrap().len(), MAX_SENDERS);
        assert!(refusals.since(start).is_some_and(|why| why.contains(&format!(" {MAX_SENDERS} "))));
    }
}
