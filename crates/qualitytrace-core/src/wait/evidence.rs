//! Evidence that a process has delivered everything that it ended by some time.
//!
//! | grade | when |
//! |---|---|
//! | proven | it delivered a span that ended later |
//! | likely | it is known how late it delivers, and that time is over |
//! | unknown | all else: it was replaced, is silent for longer than ever, is frozen, or was never heard |
//!
//! Exporters send spans in the order in which they end, so a later span proves that everything before it was sent.
//! Where that order is known to be disturbed, the later span must have ended later by that much more.

use std::time::Duration;

use super::register::{Address, Instance, Register, Service};
use crate::time::Timestamp;

/// Added to the known overtaking before a later span proves anything.
const SLACK: Duration = Duration::from_millis(50);
/// Added to the time after which a process should have delivered.
const MARGIN: Duration = Duration::from_millis(100);
/// A shorter lag than this is not counted on.
const SHORTEST_LAG: Duration = Duration::from_millis(20);
/// A process that was silent for this long is taken to be gone.
const GONE_AFTER: Duration = Duration::from_mins(10);
/// Deliveries after which an entry without a name is taken to show all processes behind it.
const ENOUGH_UNNAMED: u32 = 20;
/// The accepted risk that the next delivery is later than the bound.
const RISK: f64 = 0.001;
/// The bound is at least this many times the largest lag.
const SMALLEST_FACTOR: f64 = 1.25;
/// What the deliveries of a whole service count for one of its processes: one for each five, up to four.
const PER_PRIOR: u32 = 5;
const MAX_PRIOR: u32 = 4;
/// Deliveries to be known before a pause counts as longer than ever.
const ENOUGH_PAUSES: u32 = 5;
/// Processes of a service that lived shorter than this before another took their place, after which it is taken to crash
/// again and again.
const CRASHES: usize = 2;
const SHORT_LIFE: Duration = Duration::from_secs(30);
/// Added to the longest pause.
const PAUSE_MARGIN: Duration = Duration::from_secs(1);

/// The evidence about spans that would have ended by some time; the worse the smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grade {
    /// They do not exist.
    Proven,
    /// They do not exist, unless the process is slower this time than it ever was.
    Likely,
    /// Decided at that time, unless a span arrives or its absence is proven before.
    Later(Timestamp),
    /// Not known, and waiting for the known lag does not help.
    Unknown(Silence),
}

impl Grade {
    /// Whether the spans are taken to be absent.
    pub(super) fn is_absent(self) -> bool {
        matches!(self, Self::Proven | Self::Likely)
    }
}

/// Why the absence of a span cannot be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// It has sent nothing since this server listens, or since the trigger was answered.
    Silent,
    /// No delivery is known that tells how late it is.
    Few,
    /// Another process of the service has taken its place: what it had not sent is lost.
    Replaced,
    /// It is silent for longer than ever, so it is not idle but gone, or its exporter is.
    Paused,
    /// Its processes die again and again, so one that is silent may have died with what it had not sent.
    Crashing,
    /// It is stopped until its next call.
    Frozen,
}

/// By what the largest of `deliveries` lags is multiplied, so that the next one is larger with the accepted risk only:
/// of n lags of a timer, the next exceeds c times the largest with a probability of c⁻ⁿ / (n + 1).
pub(super) fn lag_factor(deliveries: u32) -> Option<f64> {
    let n = f64::from(deliveries);
    (deliveries > 0).then(|| ((n + 1.0) * RISK).powf(-1.0 / n).max(SMALLEST_FACTOR))
}

fn scaled(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

impl Register {
    /// Grades the evidence that this process has delivered every span that it ended by `by`.
    pub(super) fn grade(
        &self,
        service: &Service,
        process: &Instance,
        by: Timestamp,
        now: Timestamp,
    ) -> Grade {
        let held_up = self.held_up(service);
        if process.has_passed(by) {
            // Spans that were held up on their way may arrive as late as any before.
            return if now >= by + held_up { Grade::Proven } else { Grade::Later(by + held_up) };
        }
        if process.watermark.is_none() {
            return Grade::Unknown(Silence::Silent);
        }
        if service.is_replaced(process) && process.last_arrival < by {
            return Grade::Unknown(Silence::Replaced);
        }
        if process.can_freeze {
            return Grade::Unknown(Silence::Frozen);
        }
        let Some(within) = service.lag_bound(process) else { return Grade::Unknown(Silence::Few) };
        let delivered_by = by + within.saturating_add(held_up);
        if now < delivered_by {
            return Grade::Later(delivered_by);
        }
        let stopped = process.last_heard() < by && process.stopped_signalling(now);
        if stopped || process.is_paused(now) {
            return Grade::Unknown(Silence::Paused);
        }
        if process.last_heard() < by && service.crashes(now) >= CRASHES {
            return Grade::Unknown(Silence::Crashing);
        }
        Grade::Likely
    }

    /// Whether every process that may answer at this address has delivered what it had at a time.
    pub(super) fn has_everyone_passed(&self, address: &Address, at: Timestamp) -> bool {
        let now = self.all().map(|(_, service)| service.last_arrival).max().unwrap_or_default();
        let services = address.services.iter().filter_map(|service| self.get(service));
        let mut live = services.flat_map(|service| service.live(at, now)).peekable();
        live.peek().is_some() && live.all(|process| process.has_passed(at))
    }

    /// By how much more than any span of this service spans of other services were held up on the way, which it
    /// shares.
    fn held_up(&self, service: &Service) -> Duration {
        self.disorder_of_anyone().saturating_sub(service.disorder.get())
    }

    /// How long after its end a span of this service arrives at the latest: a quarter later than ever before, or later by
    /// more while few of its deliveries were seen. `None` when it was never heard.
    pub fn delivers_within(&self, service: &str) -> Option<Duration> {
        self.get(service).filter(|known| known.deliveries > 0).map(Service::delivers_within)
    }

    /// How long any service that has sent spans may take to deliver; `None` while that is not known of all of
    /// them.
    pub(super) fn anyone_delivers_within(&self) -> Option<Duration> {
        let mut heard = self.all().filter(|(_, service)| service.first_heard.is_some()).peekable();
        heard.peek()?;
        heard.try_fold(Duration::ZERO, |longest, (_, service)| {
            let enough = service.deliveries >= super::register::ENOUGH_DELIVERIES;
            enough.then(|| longest.max(service.delivers_within()))
        })
    }
}

impl Service {
    fn delivers_within(&self) -> Duration {
        let largest = self.largest_lag();
        let expected = if self.deliveries >= super::register::ENOUGH_DELIVERIES {
            largest + largest / 4
        } else {
            largest.saturating_mul(2)
        };
        expected.saturating_add(MARGIN)
    }

    /// How late a process delivers, as far as its deliveries and those of its service tell.
    pub(super) fn lag_bound(&self, process: &Instance) -> Option<Duration> {
        let few = process.deliveries < PER_PRIOR;
        let others = self.deliveries.saturating_sub(process.deliveries) / PER_PRIOR;
        let others = if few && self.is_slower_than_others(process) { 0 } else { others.min(MAX_PRIOR) };
        let factor = lag_factor(process.deliveries.saturating_add(others))?;
        let live = self.instances.values().filter(|other| other.last_arrival >= process.first_arrival);
        let siblings = live.map(Instance::largest_lag).max().unwrap_or_default();
        let prior = if few { self.largest_lag() } else { Duration::ZERO };
        let largest = process.largest_lag().max(siblings).max(prior).max(SHORTEST_LAG);
        let unordered = process.overtaking.get().saturating_add(process.clock.margin());
        Some(scaled(largest, factor).saturating_add(MARGIN).saturating_add(unordered))
    }

    /// Whether the other processes of the service say nothing about this one, which is slower already than they ever were:
    /// it may have other settings.
    fn is_slower_than_others(&self, process: &Instance) -> bool {
        let others = self.instances.values().filter(|other| !std::ptr::eq(*other, process));
        let slowest = others.map(Instance::largest_lag).max();
        slowest.is_some_and(|slowest| {
            process.largest_lag() > scaled(slowest, SMALLEST_FACTOR).saturating_add(MARGIN)
        })
    }

    /// How many of its processes died lately after a short life, and were replaced.
    fn crashes(&self, now: Timestamp) -> usize {
        let is_crashed = |process: &&Instance| {
            let is_late = now.since(process.last_heard()) < GONE_AFTER;
            is_late
                && process.last_arrival.since(process.first_arrival) < SHORT_LIFE
                && self.is_replaced(process)
        };
        self.instances.values().filter(is_crashed).count()
    }

    /// Whether another process of the service was first heard after this one was last.
    pub(super) fn is_replaced(&self, process: &Instance) -> bool {
        self.is_replaced_before(process, Timestamp::from_nanos(u64::MAX))
    }

    /// The same, if that was before some time.
    fn is_replaced_before(&self, process: &Instance, time: Timestamp) -> bool {
        let is_successor = |other: &Instance| {
            let is_heard = other.is_named && other.watermark.is_some();
            is_heard && other.first_span > process.last_arrival && other.first_span < time
        };
        process.is_named && self.instances.values().any(is_successor)
    }

    /// The processes that may have served a request that was answered at `since`: heard lately, and not both replaced before
    /// and silent for longer than ever.
    pub(super) fn live(&self, since: Timestamp, now: Timestamp) -> impl Iterator<Item = &Instance> {
        let is_live = move |process: &&Instance| {
            process.watermark.is_some()
                && now.since(process.last_heard()) < GONE_AFTER
                && !(self.is_replaced_before(process, since) && process.is_paused(now))
        };
        self.instances.values().filter(is_live)
    }
}

impl Instance {
    /// Whether it delivered a span that ended later than `by`.
    pub(super) fn has_passed(&self, by: Timestamp) -> bool {
        let doubled = if self.is_named { 2 } else { 4 };
        let slack = self.overtaking.get().saturating_mul(doubled).saturating_add(SLACK);
        let passed_by = by + slack.saturating_add(self.clock.margin());
        let shows_all = self.is_named || self.deliveries >= ENOUGH_UNNAMED;
        shows_all && self.delivered_until() > Some(passed_by)
    }

    /// Whether it is silent for longer than it ever was.
    fn is_paused(&self, now: Timestamp) -> bool {
        let factor = lag_factor(self.deliveries).unwrap_or(f64::MAX);
        let longest = scaled(self.longest_pause, factor).saturating_add(PAUSE_MARGIN);
        self.deliveries >= ENOUGH_PAUSES && now.since(self.last_heard()) > longest
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::Identity;
    use super::*;

    #[test]
    fn the_bound_has_no_cliff() {
        let factors = [1, 2, 3, 5, 7, 10, 18, 20, 200].map(|n| {
            let factor = lag_factor(n).unwrap_or_default();
            (n, (factor * 100.0).round() / 100.0)
        });
        let expected = [
            (1, 500.0),
            (2, 18.26),
            (3, 6.3),
            (5, 2.78),
            (7, 1.99),
            (10, 1.57),
            (18, 1.25),
            (20, 1.25),
            (200, 1.25),
        ];
        assert_eq!(factors, expected);
        assert_eq!(lag_factor(0), None);
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    /// Lets a process of `stock` deliver a span every second, each this late.
    fn deliver(register: &mut Register, process: &str, millis: std::ops::Range<u64>, late: u64) {
        let identity = Identity { id: process.into(), is_named: true, can_freeze: false };
        for end in millis.step_by(1_000) {
            register.delivered("stock", &identity, at(end), at(end + late));
        }
    }

    fn grade_of(register: &Register, process: &str, by: u64, now: u64) -> Grade {
        let service = register.get("stock").expect("it is known");
        register.grade(service, &service.instances[process], at(by), at(now))
    }

    #[test]
    fn siblings_say_nothing_about_a_process_that_is_slower() {
        let mut register = Register::default();
        deliver(&mut register, "old", 0..60_000, 200);
        deliver(&mut register, "like", 60_000..61_000, 150);
        assert_eq!(grade_of(&register, "like", 61_000, 62_500), Grade::Likely);
        deliver(&mut register, "slow", 60_000..61_000, 900);
        let grade = grade_of(&register, "slow", 61_000, 65_000);
        assert!(matches!(grade, Grade::Later(_)), "one delivery says nothing: {grade:?}");
    }

    #[test]
    fn a_silent_process_of_a_service_that_crashes_is_not_called_idle() {
        let mut register = Register::default();
        deliver(&mut register, "first", 0..10_000, 100);
        deliver(&mut register, "second", 15_000..25_000, 100);
        assert_eq!(
            grade_of(&register, "second", 24_500, 25_300),
            Grade::Likely,
            "one crash may be an accident"
        );
        deliver(&mut register, "third", 30_000..38_000, 100);
        let grade = grade_of(&register, "third", 37_500, 38_300);
        assert_eq!(grade, Grade::Unknown(Silence::Crashing));
        assert_eq!(grade_of(&register, "third", 36_500, 38_300), Grade::Proven);
    }
}
