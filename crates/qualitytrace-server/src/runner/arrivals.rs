//! The spans of one run as they arrive, until the wait is over.

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Span, Trace};
use qualitytrace_core::wait::{Begin, Ended, History, Policy, Progress, Standing, Wait, skipped, wait};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument;

use super::Error;
use super::control::wished;
use super::log::Log;
use super::memory::Memory;
use super::patience::Patience;
use super::queue::Announced;
use super::spans::{self, Poll};
use crate::budget::{Budget, Lease, NoRoom};
use crate::clock;
use crate::compute;
use crate::follow::Following;
use crate::mask::Mask;
use crate::source::{Cursor, Source};
use crate::store::Wish;
use crate::wire::What;

/// How often it is looked at the least whether what arrived of other traces has decided something.
const EVIDENCE_INTERVAL: Duration = Duration::from_secs(1);
/// A timer that fires later than this tells that the server stood still.
const STALL: Duration = Duration::from_millis(250);

/// How long room for the spans of a run is waited for before that is said.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// What there is of the spans that were read.
enum Held {
    All,
    /// They were let go of, and there is room for them now.
    Nothing,
}

/// What has arrived of a run's trace.
#[derive(Debug)]
pub(super) struct Arrivals {
    pub(super) progress: Progress,
    source: Source,
    announced: Announced,
    trace: TraceId,
    changes: Following,
    cursor: Cursor,
    spans: Vec<Span>,
    /// Bytes that the spans take.
    bytes: u64,
    /// What all runs share for their spans, and what this one has of it.
    budget: Budget,
    lease: Option<Lease>,
}

/// How a wait came to its end.
#[derive(Debug)]
pub(super) enum Waited {
    /// By what arrived, or did not.
    Ended(Ended),
    /// It never began.
    Skipped,
}

/// What the specs said last, which holds until spans come, and for good once nothing can change it.
#[derive(Debug, Default)]
struct Kept(Option<(usize, Standing)>);

impl Kept {
    /// What the specs are known to say about so many spans.
    fn known(&self, spans: usize) -> Option<&Standing> {
        let known = self.0.as_ref().filter(|(known, standing)| *known == spans || standing.is_final);
        known.map(|(_, standing)| standing)
    }

    /// What the specs say about so many spans.
    fn of(&mut self, spans: usize, ask: impl FnOnce() -> Standing) -> Standing {
        match self.known(spans) {
            Some(standing) => standing.clone(),
            None => self.0.insert((spans, ask())).1.clone(),
        }
    }
}

impl Arrivals {
    /// Follows the trace. This must begin before the trigger is sent, so that no span is missed.
    pub(super) fn follow(
        source: Source,
        announced: Announced,
        trace: TraceId,
        begin: Begin,
        history: Arc<History>,
        budget: Budget,
    ) -> Self {
        Self {
            progress: Progress::new(begin, history),
            changes: source.follow(trace),
            source,
            announced,
            trace,
            cursor: Cursor::default(),
            spans: Vec::new(),
            bytes: 0,
            budget,
            lease: None,
        }
    }

    /// Waits until the trace is complete, or will not become so, or the user does not want to wait.
    pub(super) async fn wait(
        &mut self,
        policy: &Policy,
        memory: &Memory,
        log: &mut Log,
        standing: impl Fn(&Trace) -> Standing,
        poll: Poll<'_>,
        mut skip: watch::Receiver<Option<Wish>>,
    ) -> Result<Waited, Error> {
        let mut kept = Kept::default();
        let mut policy = *policy;
        loop {
            self.changes.mark_unchanged();
            // Taken before reading: silence that nobody listened to is none.
            let cluster = self.announced.cluster();
            let now = cluster.horizon(self.source.horizon(clock::now()));
            let longest = cluster.safety_poll();
            let new = self.look(memory, log.mask(), poll).await?;
            if new > 0 {
                log.note(&What::Arrived { new, spans: self.progress.spans() });
            }
            compute::give_way().await;
            let span = poll.evaluate();
            spans::note_spans(&span, self.progress.spans());
            let next = span.in_scope(|| {
                // Judging may take long, and the register is not for one run alone: what the specs say is found without it.
                self.decide(&policy, memory, kept.known(self.spans.len()), now).unwrap_or_else(|| {
                    let specs = kept.of(self.spans.len(), || standing(&self.trace(poll.root)));
                    wait(&policy, &self.progress, &memory.services(), || specs, now)
                })
            });
            match &next {
                Wait::Ready(ended) | Wait::GaveUp(ended) => spans::note_wait(&span, Some(ended)),
                Wait::Until(..) => spans::note_wait(&span, None),
            }
            drop(span);
            match next {
                Wait::Ready(ended) | Wait::GaveUp(ended) => {
                    log.note(&What::wait_ended(&ended, &self.progress));
                    return Ok(Waited::Ended(ended));
                }
                // What arrives at another server is told, and looked for now and then in case that was not heard.
                Wait::Until(then, _) => {
                    log.write().await?;
                    // What arrives of other traces may prove that nothing more comes of this one.
                    let wake_at = Instant::now() + then.since(now).min(longest).min(EVIDENCE_INTERVAL);
                    tokio::select! {
                        () = tokio::time::sleep_until(wake_at) => {
                            let stalled = Instant::now() - wake_at;
                            if stalled > STALL {
                                policy.timeout += stalled;
                                // What the sockets hold is read first.
                                tokio::time::sleep(STALL).await;
                                self.progress.resumed(clock::now());
                                tracing::debug!(?stalled, "the server stood still; the wait is longer by that");
                            }
                        }
                        // The ingest outlives every run.
                        _ = self.changes.changed() => {}
                        () = wished(&mut skip, Wish::Skip) => {
                            let specs = kept.of(self.spans.len(), || standing(&self.trace(poll.root)));
                            let ended = skipped(&policy, &self.progress, &memory.services(), specs, clock::now());
                            let debts = ended.debts.iter().map(ToString::to_string).collect();
                            log.note(&What::WaitSkipped { debts });
                            return Ok(Waited::Ended(ended));
                        }
                    }
                }
            }
        }
    }

    /// Whether the wait is over; `None` when that depends on what the specs say, and nobody knows it yet.
    fn decide(
        &self,
        policy: &Policy,
        memory: &Memory,
        specs: Option<&Standing>,
        now: Timestamp,
    ) -> Option<Wait> {
        let mut is_asked = false;
        let answer = || {
            is_asked = specs.is_none();
            specs.cloned().unwrap_or_default()
        };
        let next = wait(policy, &self.progress, &memory.services(), answer, now);
        (!is_asked).then_some(next)
    }

    /// Takes in what arrived since the last look, in a span of its own.
    async fn look(&mut self, memory: &Memory, mask: &Mask, poll: Poll<'_>) -> Result<usize, Error> {
        let span = poll.fetch();
        let new = self.read(memory, mask).instrument(span.clone()).await;
        match &new {
            Ok(_) => spans::note_spans(&span, self.progress.spans()),
            Err(error) => spans::note_failure(&span, error),
        }
        new
    }

    /// Waits for the trace to change. `false` when nothing has changed by the deadline.
    pub(super) async fn change_before(&mut self, deadline: Instant) -> bool {
        tokio::time::timeout_at(deadline, self.changes.changed()).await.is_ok_and(|changed| changed.is_ok())
    }

    /// Lets go of the spans: most runs get no late ones, and those that do find everything in the store.
    pub(super) fn forget(&mut self) {
        self.spans = Vec::new();
        self.cursor = Cursor::default();
        (self.bytes, self.lease) = (0, None);
    }

    /// Counts what the spans take. When others have the memory, it is waited for with empty hands: two runs that wait for
    /// what the other one holds would wait for ever.
    async fn hold(&mut self) -> Result<Held, Error> {
        let missing = |lease: &Lease| self.bytes.saturating_sub(lease.bytes());
        let held = match &mut self.lease {
            Some(lease) => lease.grow(missing(lease)),
            None => self.budget.lease().and_then(|lease| self.lease.insert(lease).grow(self.bytes)),
        };
        match held {
            Ok(()) => return Ok(Held::All),
            Err(NoRoom::Ever { limit }) => return Err(Error::TraceTooLarge { limit }),
            Err(NoRoom::Now) => {}
        }
        let all = self.bytes;
        self.forget();
        loop {
            let mut lease = self.budget.lease().map_err(|_| Error::Lost)?;
            match lease.grow_within(all, ROOM_PATIENCE).await {
                Ok(()) => {
                    self.lease = Some(lease);
                    return Ok(Held::Nothing);
                }
                Err(NoRoom::Ever { limit }) => return Err(Error::TraceTooLarge { limit }),
                Err(NoRoom::Now) => {
                    tracing::debug!(trace = %self.trace, "waits for memory that other runs have");
                }
            }
        }
    }

    /// The tree of what is here, below the trigger.
    pub(super) fn trace(&self, root: &Span) -> Trace {
        Trace::assemble(self.trace, self.spans.iter().cloned()).with_trigger(root.clone())
    }

    /// Takes in what arrived since the last look and says how many spans are new. Waits for a database that is away.
    pub(super) async fn read(&mut self, memory: &Memory, mask: &Mask) -> Result<usize, Error> {
        let mut new = 0;
        loop {
            new += self.read_once(memory, mask).await?;
            match self.hold().await? {
                Held::All => return Ok(new),
                // All of it is read again.
                Held::Nothing => {}
            }
        }
    }

    async fn read_once(&mut self, memory: &Memory, mask: &Mask) -> Result<usize, Error> {
        let mut new = 0;
        let patience = Patience::new();
        let (arrivals, is_all) = loop {
            match self.source.news(self.trace, &mut self.cursor).await.map_err(Error::from) {
                Err(error) if patience.lasts(&error).await => {}
                news => break news?,
            }
        };
        if is_all {
            self.spans.clear();
            self.bytes = 0;
        }
        for arrival in arrivals {
            self.bytes += arrival.size().in_memory();
            for span in arrival.spans {
                // What is learned of a run is kept for others, and in files.
                let named = (!mask.is_empty()).then(|| Span { name: mask.word(&span.name), ..span.clone() });
                if self.progress.arrived(named.as_ref().unwrap_or(&span), arrival.at) {
                    memory.arrived(&span, arrival.at);
                    new += 1;
                }
                self.spans.push(span);
            }
        }
        memory.answered(self.progress.take_answers(), mask);
        Ok(new)
    }
}
