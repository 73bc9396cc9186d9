//! Evidence for the absence of a span, derived from the register.
//!
//! | grade | when |
//! |---|---|
//! | proven | every live instance of the service delivered a span that ended later |
//! | likely | the service delivers, it is known how late, and that time is over |
//! | unknown | all else |
//!
//! Exporters send spans in the order in which they end, so a later span proves that everything before it was sent.
//! Where that order is known to be disturbed, the later span must have ended later by that much more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::register::{ENOUGH_DELIVERIES, Instance, Register, Service};
use crate::time::Timestamp;

/// Added to the known overtaking before a later span proves anything.
const SLACK: Duration = Duration::from_millis(50);
/// Added to the time after which a service should have delivered.
const MARGIN: Duration = Duration::from_millis(100);
/// An instance that was silent for this long is taken to be gone.
const GONE_AFTER: Duration = Duration::from_mins(10);

/// The evidence about a span that a service would have ended by some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grade {
    /// It does not exist.
    Proven,
    /// It does not exist, unless the service is slower this time than it ever was.
    Likely,
    /// Decided at that time, unless the span arrives or its absence is proven before.
    Later(Timestamp),
    /// Not known, and waiting for the known lag does not help.
    Unknown(Silence),
}

impl Grade {
    /// Whether the span is taken to be absent.
    pub(super) fn is_absent(self) -> bool {
        matches!(self, Self::Proven | Self::Likely)
    }
}

/// Why the absence of a span cannot be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// The service has sent nothing since this server listens.
    Silent,
    /// Too few of its deliveries are known.
    Few,
    /// The service answered a call, so it should have recorded a span.
    Answered,
}

impl Register {
    /// Grades the evidence about a span that `service` would have ended by `by`.
    ///
    /// With `answered`, the service is known to have worked: then silence alone proves nothing.
    pub(super) fn grade(&self, service: &str, by: Timestamp, answered: bool, now: Timestamp) -> Grade {
        let Some(known) = self.get(service) else { return Grade::Unknown(Silence::Silent) };
        let held_up = self.held_up(known);
        let delivered_by = by + known.ahead.get() + known.delivers_within() + held_up;
        let is_over = now >= delivered_by;
        let enough = known.deliveries >= ENOUGH_DELIVERIES;
        if known.passed(by, now) {
            // A service that answered has recorded a span. While few deliveries are known, the span may be of an
            // instance that has not delivered yet.
            if answered && !enough {
                return Grade::Unknown(Silence::Few);
            }
            // An instance that is not known yet may deliver as late as the others, and spans that were held up on
            // their way may arrive as late as any before.
            return if is_over || (enough && known.instances.len() == 1 && now >= by + held_up) {
                Grade::Proven
            } else {
                Grade::Later(delivered_by)
            };
        }
        if known.first_heard.is_none() {
            return Grade::Unknown(Silence::Silent);
        }
        let is_alive = || known.signalled_since(by, delivered_by, now);
        match (enough, is_over) {
            (false, _) => Grade::Unknown(Silence::Few),
            (true, false) => Grade::Later(delivered_by),
            (true, true) if answered && !is_alive() => Grade::Unknown(Silence::Answered),
            // A service that used to send other signals and stopped is not merely idle.
            (true, true) if known.stopped_signalling(by, now) => Grade::Unknown(Silence::Silent),
            (true, true) => Grade::Likely,
        }
    }

    /// How long after its end a span of this service arrives at the latest: a quarter later than ever before, or twice as
    /// late while few of its deliveries were seen. `None` when it was never heard.
    pub fn delivers_within(&self, service: &str) -> Option<Duration> {
        self.get(service).filter(|known| known.deliveries > 0).map(Service::delivers_within)
    }

    /// By how much more than any span of this service spans of other services were held up on the way, which it
    /// shares.
    fn held_up(&self, service: &Service) -> Duration {
        self.disorder_of_anyone().saturating_sub(service.disorder.get())
    }

    /// The same for a service that has sent spans since this server listens.
    pub(super) fn heard_within(&self, service: &str) -> Option<Duration> {
        self.get(service).filter(|known| known.first_heard.is_some()).map(Service::delivers_within)
    }

    /// The services whose known lag is not over yet for spans that ended by `by`.
    pub(super) fn still_delivering(&self, by: Timestamp, now: Timestamp) -> BTreeSet<Arc<str>> {
        let open = self.all().filter(|(_, service)| {
            service.first_heard.is_some()
                && now < by + service.ahead.get() + service.delivers_within() + self.held_up(service)
                && !service.passed(by, now)
        });
        open.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// How long any service that has sent spans may take to deliver; `None` while that is not known of all of
    /// them.
    pub(super) fn anyone_delivers_within(&self) -> Option<Duration> {
        let mut heard = self.all().filter(|(_, service)| service.first_heard.is_some()).peekable();
        heard.peek()?;
        heard.try_fold(Duration::ZERO, |longest, (_, service)| {
            let enough = service.deliveries >= ENOUGH_DELIVERIES;
            enough.then(|| longest.max(service.ahead.get() + service.delivers_within()))
        })
    }

    /// Explains why nothing is known about a service, and what to do.
    pub(super) fn excuse(&self, service: &str, silence: Silence, now: Timestamp) -> String {
        let name = if service.is_empty() { "a service without a name" } else { service };
        let known = self.get(service).filter(|known| known.first_heard.is_some());
        let Some(known) = known else {
            let since = match self.listening_since() {
                Some(since) => format!("started {} ago", rounded(now.since(since))),
                None => "started".to_owned(),
            };
            if self.get(service).is_some_and(|known| known.has_signalled) {
                return format!(
                    "{name} sends metrics or logs, but has sent no span since this server {since}: check its trace \
                     exporter (OTEL_TRACES_EXPORTER) and its sampler"
                );
            }
            return format!(
                "{name} has sent nothing since this server {since}; exporters that found the port closed try again \
                 after up to 2 min: wait, restart it, or use a server that stays"
            );
        };
        let last = rounded(now.since(known.last_arrival));
        match silence {
            Silence::Silent => format!("{name} has sent nothing for {last}, not even metrics or logs"),
            Silence::Answered => format!(
                "{name} answered a call and has sent no span for it (last seen {last} ago); if it sends none for such \
                 calls, list it under `uninstrumented`"
            ),
            Silence::Few => format!(
                "{name} was heard {} so far, up to {} late (last seen {last} ago): that does not say yet when it has \
                 sent everything",
                times(known.deliveries),
                rounded(known.largest_lag()),
            ),
        }
    }

    /// Describes a service whose lag is known and not over.
    pub(super) fn still_waiting(&self, service: &str, now: Timestamp) -> String {
        let name = if service.is_empty() { "a service without a name" } else { service };
        self.get(service).map_or_else(String::new, |known| {
            let (lag, last) = (rounded(known.largest_lag()), rounded(now.since(known.last_arrival)));
            format!("{name} delivers every {lag} (last seen {last} ago)")
        })
    }
}

impl Service {
    fn delivers_within(&self) -> Duration {
        let largest = self.largest_lag();
        let expected = if self.deliveries >= ENOUGH_DELIVERIES {
            largest + largest / 4
        } else {
            largest.saturating_mul(2)
        };
        expected.saturating_add(MARGIN)
    }

    /// Whether every live instance delivered a span that ended later.
    fn passed(&self, by: Timestamp, now: Timestamp) -> bool {
        let passed_by = self.passed_by(by);
        let mut live = self.live(now).peekable();
        live.peek().is_some() && live.all(|instance| instance.watermark > Some(passed_by))
    }

    /// Whether every live instance delivered a later span, or sent any signal once the span was due: whichever of
    /// them answered would have sent it by then.
    fn signalled_since(&self, by: Timestamp, due: Timestamp, now: Timestamp) -> bool {
        let passed_by = self.passed_by(by);
        let mut live = self.live(now).peekable();
        live.peek().is_some()
            && live.all(|instance| instance.watermark > Some(passed_by) || instance.last_signal >= Some(due))
    }

    fn passed_by(&self, by: Timestamp) -> Timestamp {
        by + self.overtaking.get().saturating_mul(2).saturating_add(SLACK) + self.ahead.get()
    }

    fn live(&self, now: Timestamp) -> impl Iterator<Item = &Instance> {
        self.instances.values().filter(move |instance| now.since(instance.last_heard()) < GONE_AFTER)
    }

    /// Whether an instance used to send metrics, has sent nothing since `by`, and its metrics are overdue.
    fn stopped_signalling(&self, by: Timestamp, now: Timestamp) -> bool {
        self.live(now).any(|instance| instance.last_heard() < by && instance.stopped_signalling(now))
    }
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// Formats a duration for the user: whole seconds from one second on.
fn rounded(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        return format!("{} ms", duration.as_millis());
    }
    let seconds = (duration + Duration::from_millis(500)).as_secs();
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds / 60) }
}
