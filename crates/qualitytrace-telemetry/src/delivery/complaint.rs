//! What a sink says in the log about its troubles: each kind at once, and then at most once a minute.

use std::time::{Duration, Instant};

use crate::{
    config::{Level, Signal},
    ledger::{Ledger, Loss},
};

/// How often a sink says the same in the log.
const LOG_EVERY: Duration = Duration::from_mins(1);

/// What a line is about; each kind has its own minute.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// A request that is made again.
    Failure,
    /// An answer that forbids that, or a part that was rejected.
    Refusal,
    Loss,
    Spool,
}

pub(crate) struct Complaints {
    sink: String,
    /// The least severe line that the embedding server wants to see.
    level: Level,
    said: [Option<Instant>; 4],
    /// What was given up when it was last said.
    lost: [u64; 8],
    spool: Option<String>,
}

impl Complaints {
    pub(crate) fn new(sink: &str, level: Level, ledger: &Ledger) -> Self {
        // What the ledger brings from before a reload was told by the delivery before.
        Self { sink: sink.to_owned(), level, said: [None; 4], lost: lost(ledger), spool: None }
    }

    fn may_say(&mut self, kind: Kind, now: Instant) -> bool {
        let said = &mut self.said[kind as usize];
        let may = self.level <= Level::Warn && said.is_none_or(|at| now.duration_since(at) >= LOG_EVERY);
        if may {
            *said = Some(now);
        }
        may
    }

    /// A request went wrong.
    pub(crate) fn problem(&mut self, kind: Kind, problem: &str, now: Instant) {
        if self.may_say(kind, now) {
            tracing::warn!(sink = %self.sink, %problem, "telemetry sink has a problem");
        }
    }

    /// Says what was lost since it was last said.
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

    /// The disk queue has this problem, or none.
    pub(crate) fn spool(&mut self, problem: Option<String>, now: Instant) {
        match (problem, &self.spool) {
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

fn lost(ledger: &Ledger) -> [u64; 8] {
    let mut sums = [0; 8];
    for signal in Signal::ALL {
        for (sum, (_, n)) in sums.iter_mut().zip(ledger.balance(signal).dropped.by_reason()) {
            *sum += n;
        }
    }
    sums
}
