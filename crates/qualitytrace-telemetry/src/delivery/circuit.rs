//! The circuit breaker of a receiver of one signal: when it may be tried again. Pure: the time and the jitter are arguments.

use std::time::{Duration, Instant};

use serde::Serialize;

/// Whether a sink is believed to be reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CircuitState {
    /// Requests flow.
    Closed,
    /// Nothing is sent until a pause is over.
    Open,
    /// One request probes whether the receiver is back.
    Probing,
}

/// The longest `Retry-After` hint of a receiver that is followed.
const MAX_HINT: Duration = Duration::from_hours(1);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Circuit {
    failures: u32,
    wait_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    pub(crate) initial: Duration,
    pub(crate) max: Duration,
    /// Failures in a row that open the circuit.
    pub(crate) threshold: u32,
}

impl Circuit {
    pub(crate) fn new() -> Self {
        Self { failures: 0, wait_until: None }
    }

    pub(crate) fn state(&self, policy: Policy, now: Instant) -> CircuitState {
        if self.failures < policy.threshold {
            CircuitState::Closed
        } else if self.wait_until.is_some_and(|until| until > now) {
            CircuitState::Open
        } else {
            CircuitState::Probing
        }
    }

    /// When the next request may be sent, beside those in flight; `None`: not before one of them has its response.
    pub(crate) fn next_attempt(
        &self,
        policy: Policy,
        in_flight: usize,
        max: usize,
        now: Instant,
    ) -> Option<Instant> {
        let slots = match self.state(policy, now) {
            CircuitState::Closed => max,
            CircuitState::Open | CircuitState::Probing => 1,
        };
        (in_flight < slots).then(|| self.wait_until.map_or(now, |until| until.max(now)))
    }

    /// Ends the pause; the failures still count.
    pub(crate) fn resume(&mut self) {
        self.wait_until = None;
    }

    pub(crate) fn wait_until(&self) -> Option<Instant> {
        self.wait_until
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    pub(crate) fn success(&mut self) {
        *self = Self::new();
    }

    /// Counts a failure and sets the backoff. `jitter` is the jitter in 0..1. Requests that fail together count once.
    pub(crate) fn failure(&mut self, policy: Policy, now: Instant, hint: Option<Duration>, jitter: f64) {
        if self.wait_until.is_none_or(|until| until <= now) {
            self.failures = self.failures.saturating_add(1);
            let doubled = policy.initial.saturating_mul(1_u32 << (self.failures - 1).min(20));
            let pause = doubled.min(policy.max).mul_f64(0.5 + jitter / 2.0);
            self.wait_until = Some(now + pause);
        }
        let hinted = hint.map(|hint| now + hint.min(MAX_HINT));
        self.wait_until = self.wait_until.max(hinted);
    }
}

#[cfg(test)]
mod tests {
    use super::{Circuit, CircuitState, Duration, Instant, Policy};

    const POLICY: Policy =
        Policy { initial: Duration::from_secs(1), max: Duration::from_secs(30), threshold: 3 };

    #[test]
    fn pauses_double_up_to_the_limit_and_one_success_ends_them() {
        let mut now = Instant::now();
        let mut circuit = Circuit::new();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            circuit.failure(POLICY, now, None, 1.0);
            let until = circuit.wait_until().unwrap();
            pauses.push((until - now).as_secs());
            assert_eq!(circuit.next_attempt(POLICY, 0, 4, now), Some(until));
            now = until;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(circuit.state(POLICY, now), CircuitState::Probing);
        assert_eq!(circuit.next_attempt(POLICY, 0, 4, now), Some(now));
        circuit.success();
        assert_eq!(circuit.next_attempt(POLICY, 3, 4, now), Some(now));
        assert_eq!(circuit.next_attempt(POLICY, 4, 4, now), None);
    }

    #[test]
    fn beside_an_unanswered_probe_nothing_is_due_at_any_time() {
        let now = Instant::now();
        let mut circuit = Circuit::new();
        for _ in 0..3 {
            circuit.failure(POLICY, now, None, 1.0);
            circuit.resume();
        }
        assert_eq!(circuit.state(POLICY, now), CircuitState::Probing);
        for later in [now, now + Duration::from_hours(1)] {
            assert_eq!(circuit.next_attempt(POLICY, 1, 4, later), None);
        }
    }

    #[test]
    fn a_hint_beats_the_pause_and_a_volley_counts_once() {
        let now = Instant::now();
        let mut circuit = Circuit::new();
        for _ in 0..4 {
            circuit.failure(POLICY, now, Some(Duration::from_secs(7)), 0.0);
        }
        assert_eq!(circuit.failures(), 1);
        assert_eq!(circuit.wait_until(), Some(now + Duration::from_secs(7)));
    }
}
