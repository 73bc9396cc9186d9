//! Rate-limited log messages of a sink: each kind at once, and then at most once a minute.

use std::time::{Duration, Instant};

use crate::{
    config::{Level, Signal},
    ledger::{Ledger, Loss},
    queue::Queue,
    spool::SpoolStatus,
};

/// The shortest time between two lines of a kind.
const LOG_EVERY: Duration = Duration::from_mins(1);

/// The kind of a line; each kind has its own limit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// A request that is retried.
    Failure,
    /// A response that forbids a retry, or a part that was rejected.
    Refusal,
    Loss,
    Spool,
    /// Bytes on disk that cannot be read.
    Damage,
}

pub(crate) struct Complaints {
    sink: String,
    /// The least severe line that is logged.
    level: Level,
    said: [Option<Instant>; 5],
    /// Lost items at the time of the last line about them.
    lost: [u64; 8],
    spool: Option<String>,
    /// Damaged bytes and places that were logged.
    damaged: (u64, usize),
}

impl Complaints {
    /// Losses and damage from before a reload count as logged: the earlier delivery logged them.
    pub(crate) fn new(sink: &str, level: Level, queue: &Queue) -> Self {
        let spool = queue.spool_status();
        let damaged = spool.map_or((0, 0), |spool| (spool.damaged_bytes, spool.damage.len()));
        let lost = lost(&queue.ledger);
        Self { sink: sink.to_owned(), level, said: [None; 5], lost, spool: None, damaged }
    }

    fn may_say(&mut self, kind: Kind, now: Instant) -> bool {
        let said = &mut self.said[kind as usize];
        let may = self.level <= Level::Warn && said.is_none_or(|at| now.duration_since(at) >= LOG_EVERY);
        if may {
            *said = Some(now);
        }
        may
    }

    /// Logs a request that failed.
    pub(crate) fn problem(&mut self, kind: Kind, problem: &str, now: Instant) {
        if self.may_say(kind, now) {
            tracing::warn!(sink = %self.sink, %problem, "telemetry sink has a problem");
        }
    }

    /// Logs what was lost since the last line about it.
    pub(crate) fn losses(&mut self, ledger: &Ledger, now: Instant) {
        let lost = lost(ledger);
        if lost == self.lost || !self.may_say(Kind::Loss, now) {
            return;
        }
        let reasons: Vec<String> = Loss::ALL
            .into_iter()
            .zip(lost.iter().zip(self.lost))
            .filter(|(_, (now, before))| *now > before)
            .map(|(loss, (now, before))| format!("{} {}", loss.name(), now - before))
            .collect();
        let items: u64 = lost.iter().sum::<u64>() - self.lost.iter().sum::<u64>();
        self.lost = lost;
        tracing::warn!(sink = %self.sink, items, reasons = reasons.join(", "), "telemetry items were lost");
    }

    /// Logs a change of the disk queue's state.
    pub(crate) fn spool(&mut self, status: Option<&SpoolStatus>, now: Instant) {
        if let Some(spool) = status {
            self.damage(spool, now);
        }
        match (status.and_then(|spool| spool.problem.clone()), &self.spool) {
            (None, None) => {}
            (None, Some(_)) => {
                self.spool = None;
                if self.level <= Level::Info {
                    tracing::info!(sink = %self.sink, "telemetry spool can be written again");
                }
            }
            (Some(problem), _) => {
                if self.may_say(Kind::Spool, now) {
                    tracing::warn!(sink = %self.sink, %problem, "telemetry spool has a problem; items stay in memory");
                    self.spool = Some(problem);
                }
            }
        }
    }
}

impl Complaints {
    /// Logs damage of the disk queue that was not logged yet.
    fn damage(&mut self, spool: &SpoolStatus, now: Instant) {
        let (bytes, places) = self.damaged;
        if spool.damaged_bytes <= bytes || !self.may_say(Kind::Damage, now) {
            return;
        }
        self.damaged = (spool.damaged_bytes, spool.damage.len());
        let place = spool.damage.get(places).or(spool.damage.last()).map(ToString::to_string);
        tracing::warn!(
            sink = %self.sink,
            bytes = spool.damaged_bytes - bytes,
            place = place.unwrap_or_default(),
            places = spool.damage.len().saturating_sub(places).max(1),
            "telemetry spool is damaged; the items in these bytes are lost"
        );
    }
}

fn lost(ledger: &Ledger) -> [u64; 8] {
    let mut sums = [0; 8];
    for signal in Signal::ALL {
        for (sum, (_, n)) in sums.iter_mut().zip(ledger.balance(signal).dropped.by_reason()) {
            *sum += n;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_kind_are_limited_to_one_a_minute() {
        let mut complaints = Complaints {
            sink: "one".to_owned(),
            level: Level::Info,
            said: [None; 5],
            lost: [0; 8],
            spool: None,
            damaged: (0, 0),
        };
        let now = Instant::now();
        assert!(complaints.may_say(Kind::Loss, now));
        assert!(!complaints.may_say(Kind::Loss, now + LOG_EVERY / 2));
        assert!(complaints.may_say(Kind::Refusal, now), "another kind has its own limit");
        assert!(complaints.may_say(Kind::Loss, now + LOG_EVERY));
    }
}
