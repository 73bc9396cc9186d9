//! The status of every sink, for the status API and for display.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

use crate::{
    config::{self, Role, Signal, Transport},
    delivery::Health,
    ledger::Balance,
    sinks::Handle,
    spool::{Orphan, SpoolStatus},
};

/// All sinks at one moment.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Records that wait for the recorder thread; they are in no sink's balance yet.
    pub intake: usize,
    /// The sinks in use.
    pub sinks: Vec<SinkStatus>,
    /// Sinks that a reload removed, which still deliver or have a ledger to show.
    pub retired: Vec<SinkStatus>,
    /// Orphaned spools, which no sink writes to.
    pub orphans: Vec<Orphan>,
}

/// One sink.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SinkStatus {
    /// Its name.
    pub id: String,
    /// The source of its records.
    pub role: Role,
    /// The OTLP transport.
    pub transport: Transport,
    /// Where each signal goes.
    pub endpoints: BTreeMap<Signal, String>,
    /// Whether new items are dropped when the memory is full.
    pub lossy: bool,
    /// The health of its delivery.
    pub health: Health,
    /// Items in the memory queue.
    pub memory_items: usize,
    /// Bytes in the memory queue.
    pub memory_bytes: usize,
    /// The disk queue; `None` when the sink has none.
    pub spool: Option<SpoolStatus>,
    /// The ledger of each signal that the sink carries.
    pub ledger: BTreeMap<Signal, Balance>,
    /// Its problems as sentences; empty when there are none.
    pub problems: Vec<String>,
}

impl SinkStatus {
    pub(crate) fn of(handle: &Handle) -> Self {
        let depth = handle.queue.depth();
        let balance = |signal: &Signal| {
            let balance = handle.queue.ledger.balance(*signal);
            (handle.carries(*signal) || balance != Balance::default()).then_some((*signal, balance))
        };
        let health = handle.health.read();
        let spool = handle.queue.spool_status();
        let ledger: BTreeMap<Signal, Balance> = Signal::ALL.iter().filter_map(balance).collect();
        Self {
            problems: problems(&health, spool.as_ref(), &ledger),
            id: handle.sink.id.clone(),
            role: handle.sink.role,
            transport: handle.sink.transport,
            endpoints: shown(&handle.sink.endpoints),
            lossy: handle.sink.lossy,
            health,
            memory_items: depth.memory_items,
            memory_bytes: depth.memory_bytes,
            spool,
            ledger,
        }
    }
}

/// The problems of a sink: current failures and refusals, an unusable disk queue, and all losses.
fn problems(health: &Health, spool: Option<&SpoolStatus>, ledger: &BTreeMap<Signal, Balance>) -> Vec<String> {
    let mut problems = Vec::new();
    if health.failures > 0 {
        let why = health.last_problem.as_deref().unwrap_or("no answer");
        problems.push(format!("the last {} requests failed: {why}", health.failures));
    }
    if let Some(spool) = spool {
        problems.extend(spool.problem.clone());
        problems.extend(damaged(spool));
    }
    for (signal, balance) in ledger {
        let lost = balance.dropped.total() + balance.rejected;
        if lost > 0 {
            problems.push(format!("{lost} {} were lost", signal.items()));
        }
    }
    problems
}

/// Summarises the damage of the disk queue in one line that names the first place.
fn damaged(spool: &SpoolStatus) -> Option<String> {
    let first = spool.damage.first()?;
    let more = match spool.damage.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} further places"),
    };
    Some(format!("{} bytes of the spool are damaged: {first}{more}", spool.damaged_bytes))
}

/// The addresses for display, without secrets.
fn shown(endpoints: &BTreeMap<Signal, String>) -> BTreeMap<Signal, String> {
    endpoints.iter().map(|(signal, url)| (*signal, config::shown(url))).collect()
}

impl Status {
    /// The sink of this name.
    pub fn sink(&self, id: &str) -> Option<&SinkStatus> {
        self.sinks.iter().chain(&self.retired).find(|sink| sink.id == id)
    }

    /// Whether the invariant of the ledger holds for every sink and signal.
    pub fn holds(&self) -> bool {
        self.sinks.iter().chain(&self.retired).all(|sink| sink.ledger.values().all(Balance::holds))
    }

    /// Renders a table for display.
    pub fn render(&self) -> String {
        let mut out = String::new();
        if self.sinks.is_empty() {
            out.push_str("no sinks\n");
        }
        for sink in self.sinks.iter().chain(&self.retired) {
            let circuit = match sink.health.circuit {
                crate::CircuitState::Closed => "closed",
                crate::CircuitState::Open => "open",
                crate::CircuitState::Probing => "probing",
            };
            let _ = writeln!(out, "sink {} (circuit {circuit}, {} requests)", sink.id, sink.health.requests);
            if let Some(problem) = &sink.health.last_problem {
                let _ = writeln!(out, "  last problem: {problem}");
            }
            if let Some(spool) = &sink.spool {
                let _ =
                    writeln!(out, "  spool: {} of {} bytes in {}", spool.bytes, spool.capacity, spool.path);
                if let Some(problem) = &spool.problem {
                    let _ = writeln!(out, "  spool problem: {problem}");
                }
                for damage in &spool.damage {
                    let _ = writeln!(out, "  damaged: {damage}");
                }
            }
            for problem in &sink.problems {
                let _ = writeln!(out, "  problem: {problem}");
            }
            for (signal, b) in &sink.ledger {
                let _ = writeln!(
                    out,
                    "  {:<8} created {} recovered {} = sampled out {} + exported {} + rejected {} + dropped {} + queued {} + in flight {}",
                    signal.name(),
                    b.created,
                    b.recovered,
                    b.sampled_out,
                    b.exported,
                    b.rejected,
                    b.dropped.total(),
                    b.queued,
                    b.in_flight,
                );
                for (loss, n) in b.dropped.by_reason().into_iter().filter(|(_, n)| *n > 0) {
                    let _ = writeln!(out, "    dropped {}: {n}", loss.name());
                }
            }
        }
        for orphan in &self.orphans {
            let _ = writeln!(out, "spool without a sink: {} bytes in {}", orphan.bytes, orphan.path);
        }
        out
    }
}

/// The response of a receiver to a probe of [`Telemetry::test`](crate::Telemetry::test).
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Probe {
    /// The sink.
    pub sink: String,
    /// The signal that was sent.
    pub signal: Signal,
    /// Where it was sent.
    pub endpoint: String,
    /// Whether it was accepted.
    pub ok: bool,
    /// The response in words.
    pub answer: String,
    /// How long it took, in milliseconds.
    pub millis: u64,
}
