//! What is said about services of which it is not known whether they have sent everything: each sentence ends with what to
//! do.

use std::time::Duration;

use super::evidence::Silence;
use super::register::Register;
use crate::time::Timestamp;

/// Fewer deliveries than this do not say how often a service delivers.
const FEW: u32 = 5;

impl Register {
    /// Explains why it is not known whether a service has sent everything, and what to do.
    pub(super) fn excuse(&self, service: &str, silence: Silence, now: Timestamp) -> String {
        let name = named(service);
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
            Silence::Silent => format!(
                "{name} has sent nothing for {last}, so it is not known whether it got this request: run once more, or let \
                 `--ready` ask it during the run"
            ),
            Silence::Few => format!(
                "{name} was heard {} so far, up to {} late (last seen {last} ago): that does not say yet when it has \
                 sent everything; run once more, or let `--ready` ask it during the run",
                times(known.deliveries),
                rounded(known.largest_lag()),
            ),
            Silence::Replaced => format!(
                "a process of {name} was replaced by another one (last seen {last} ago); what it had not sent is lost: run \
                 once more, or let it flush its spans when it is stopped"
            ),
            Silence::Paused => format!(
                "{name} has been silent for {last}, longer than ever: it is down, or its exporter is; restart it and run once more"
            ),
            Silence::Crashing => format!(
                "the processes of {name} die again and again (last seen {last} ago), and what one had not sent is lost: keep it \
                 up and run once more, or let it flush its spans when it is stopped"
            ),
            Silence::Frozen => format!(
                "{name} is a function that stops between two calls, and its spans come with the next one: call it again, or \
                 flush before it answers"
            ),
        }
    }

    /// Describes a service whose lag is known and not over.
    pub(super) fn still_waiting(&self, service: &str, now: Timestamp) -> String {
        let Some(known) = self.get(service) else { return String::new() };
        if known.deliveries < FEW {
            return self.excuse(service, Silence::Few, now);
        }
        let (lag, last) = (rounded(known.largest_lag()), rounded(now.since(known.last_arrival)));
        format!(
            "{} delivers every {lag} (last seen {last} ago): wait longer (`timeout`), or let it export sooner \
             (OTEL_BSP_SCHEDULE_DELAY)",
            named(service)
        )
    }

    /// Says when a service was last heard.
    pub(super) fn last_seen(&self, service: &str, now: Timestamp) -> String {
        match self.get(service).filter(|known| known.first_heard.is_some()) {
            Some(known) => format!("last seen {} ago", rounded(now.since(known.last_arrival))),
            None => "never heard".to_owned(),
        }
    }
}

fn named(service: &str) -> &str {
    if service.is_empty() { "a service without a name" } else { service }
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
