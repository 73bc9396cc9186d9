//! The spans of one run as they arrive, until the wait is over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Span, Trace};
use qualitytrace_core::wait::{
    Begin, History, Pending, PendingCounts, Policy, Progress, Reason, Register, SpecStatus, Wait, WaitEnd,
    skipped, wait,
};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::Instrument;

use super::commands::received;
use super::judging::Judge;
use super::log::Log;
use super::missing_trace::Request;
use super::report::Report;
use crate::base::budget::{Budget, Lease, MemoryBudgetError};
use crate::base::clock;
use crate::base::compute;
use crate::base::follow::Following;
use crate::base::redact::Redactor;
use crate::outbound::data_store::Polled;
use crate::receive::source::{Cursor, Source};
use crate::runner::Error;
use crate::runner::learning::Learning;
use crate::runner::relays::Announced;
use crate::runner::retry::RetryDeadline;
use crate::runner::spans::{self, WaitSpans};
use crate::storage::store::RunCommand;
use crate::wire::RunEventKind;

/// The longest pause between two evaluations: arrivals of other traces can decide the wait.
const EVIDENCE_INTERVAL: Duration = Duration::from_secs(1);
/// A timer that fires later than this shows that the server was stalled.
const STALL: Duration = Duration::from_millis(250);

/// A service delivers promptly if it delivered so often, and no span later than that. Of five lags of a timer, the next
/// one is in 999 of 1,000 cases below 2.8 times the largest: with a margin of 100 ms, below the prompt window of 800 ms.
const PROMPT_DELIVERIES: u32 = 5;
const PROMPT_LAG: Duration = Duration::from_millis(250);

/// How long to wait for memory before that is logged.
const MEMORY_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What is in memory of the spans that were read.
enum SpansInMemory {
    All,
    /// The spans were released, and memory is reserved for reading them again.
    Nothing,
}

/// The arrived spans of a run's trace.
#[derive(Debug)]
pub(super) struct Arrivals {
    pub(super) progress: Progress,
    source: Source,
    announced: Announced,
    trace: TraceId,
    changes: Following,
    cursor: Cursor,
    spans: Vec<Span>,
    /// Bytes that the spans take in memory.
    bytes: u64,
    /// The memory budget shared by all runs, and the lease of this one.
    budget: Budget,
    lease: Option<Lease>,
    /// What arrived until then was learned before.
    learned_until: Timestamp,
    /// The polls of the data store that has the trace.
    pub(super) polled: Option<Polled>,
    /// When this server took the run over, and until when it waits for services to be heard again.
    resumed: Option<(Timestamp, Timestamp)>,
    /// The settle window of a first run whose services have proven to deliver promptly.
    pub(super) prompt_settle: Option<Duration>,
    /// The request whose trace it is, if this server sent it.
    pub(super) request: Option<Request>,
    /// Whether to tell when only the window of a first run is left: the next step of a suite waits for that.
    pub(super) tells_settling: bool,
}

/// How a wait ended.
#[derive(Debug)]
pub(super) enum WaitOutcome {
    /// By the arrived spans, or by their absence.
    Ended(WaitEnd),
    /// It never began.
    Skipped,
    /// The data store cannot be read, for this reason.
    Unreadable(String),
}

/// A decision that is to be confirmed by a poll of the data store.
#[derive(Debug)]
struct Decided {
    at: Timestamp,
    /// The spans that it is based on.
    spans: usize,
    next: Wait,
}

/// A cache of the last standing of the specs, valid until spans arrive, and for good once it is final.
#[derive(Debug, Default)]
struct StandingCache(Option<(usize, SpecStatus)>);

impl StandingCache {
    /// The cached standing for this number of spans.
    fn known(&self, spans: usize) -> Option<&SpecStatus> {
        let known = self.0.as_ref().filter(|(known, standing)| *known == spans || standing.is_final);
        known.map(|(_, standing)| standing)
    }

    /// The standing for this number of spans; computed if not cached.
    fn of(&mut self, spans: usize, compute: impl FnOnce() -> SpecStatus) -> SpecStatus {
        match self.known(spans) {
            Some(standing) => standing.clone(),
            None => self.0.insert((spans, compute())).1.clone(),
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
            changes: source.ingest().follow(trace),
            source,
            announced,
            trace,
            cursor: Cursor::default(),
            spans: Vec::new(),
            bytes: 0,
            budget,
            lease: None,
            learned_until: Timestamp::default(),
            polled: None,
            resumed: None,
            prompt_settle: None,
            request: None,
            tells_settling: false,
        }
    }

    /// The trace that is followed, and the source of its spans.
    pub(super) fn followed(&self) -> (TraceId, &Source) {
        (self.trace, &self.source)
    }

    /// Learns nothing from what arrived until then: that was done before the run was parked.
    pub(super) fn learn_after(&mut self, last_arrival: Timestamp) {
        self.learned_until = last_arrival;
    }

    /// Goes on with a wait that another server began. No span could arrive while there was no server, and exporters that
    /// found none try again later: that time does not count as silence. What arrived before shows nothing about who is
    /// heard now.
    pub(super) fn resume(&mut self, now: Timestamp, policy: &Policy) {
        self.progress.resumed(now);
        self.learn_after(now);
        self.resumed = Some((now, now + policy.timeout));
    }

    /// Whether another server began the wait, and spans may be lost that were sent meanwhile. A data store keeps them.
    pub(super) fn is_resumed(&self) -> bool {
        self.resumed.is_some() && self.polled.is_none()
    }

    /// The arrival of the last span.
    pub(super) fn last_read(&self) -> Timestamp {
        self.progress.last_arrival().unwrap_or_default()
    }

    /// Releases everything but the subscription to the trace.
    pub(super) fn into_subscription(self) -> (TraceId, Following, Announced) {
        (self.trace, self.changes, self.announced)
    }

    /// Waits until the trace is complete, or will not become so, or the user skips the wait. Where no span comes, spans of
    /// other traces may show that the system does not continue this one.
    pub(super) async fn wait(
        &mut self,
        policy: &Policy,
        learning: &Learning,
        log: &mut Log,
        judge: &Judge,
        poll: WaitSpans<'_>,
        mut skip: watch::Receiver<Option<RunCommand>>,
    ) -> Result<WaitOutcome, Error> {
        let mut cache = StandingCache::default();
        let mut report = Report::default();
        let mut policy = *policy;
        let (mut decided, began) = (None, clock::now());
        let mut look_elsewhere = began + policy.settle;
        loop {
            self.changes.mark_unchanged();
            // Taken before reading: time that was not observed does not count as silence.
            let cluster = self.announced.cluster();
            let now = cluster.horizon(self.source.ingest().horizon(clock::now()));
            // What a data store has is known as of its last poll.
            let now = self.polled.as_mut().map_or(now, |polled| now.min(polled.observed()));
            let longest = cluster.safety_poll();
            let new = self.fetch(learning, log.redactor(), poll).await?;
            if new > 0 {
                log.buffer(&RunEventKind::Arrived { new, spans: self.progress.spans() });
            }
            compute::give_way().await;
            let span = poll.evaluate();
            spans::note_spans(&span, self.progress.spans());
            let next = span.in_scope(|| {
                // Judging may take long, and all runs share the register: the specs are evaluated without holding
                // its lock.
                self.decide(&policy, learning, cache.known(self.spans.len()), now).unwrap_or_else(|| {
                    let specs = cache.of(self.spans.len(), || judge.standing(&self.trace(poll.root)));
                    wait(&policy, &self.progress, &learning.services(), || specs, now)
                })
            });
            let next = self.heard_again(learning, next, now);
            let next = self.sooner(&policy, learning, cache.known(self.spans.len()), next, now);
            let next = self.confirmed(next, &mut decided, now, began + policy.timeout);
            match &next {
                Wait::Ready(ended) | Wait::GaveUp(ended) => spans::note_wait(&span, Some(ended)),
                Wait::Until(..) => spans::note_wait(&span, None),
            }
            drop(span);
            match next {
                Wait::Ready(ended) | Wait::GaveUp(ended) => {
                    log.buffer(&RunEventKind::wait_ended(&ended, &self.progress));
                    return Ok(WaitOutcome::Ended(ended));
                }
                // Arrivals at another server are published, and polled in case a notification was lost.
                Wait::Until(then, owed) => {
                    // The specs are evaluated when nothing came for a quiet window.
                    let is_settling = is_settling(&owed) && cache.known(self.spans.len()).is_some();
                    if is_settling && std::mem::take(&mut self.tells_settling) {
                        log.buffer(&RunEventKind::Settling);
                    }
                    if let Some(polled) = &self.polled {
                        polled.want(decided.as_ref().map_or(then, |decided| decided.at));
                    }
                    log.flush().await?;
                    if self.progress.spans() == 0 && now >= look_elsewhere {
                        // Each look reads the latest arrivals, so it is taken less and less often.
                        look_elsewhere = now + now.since(began).saturating_mul(2);
                        if let Some(request) = &self.request
                            && let Some(service) = request.answered_elsewhere(&self.source).await
                        {
                            self.progress.answered_elsewhere(&service);
                            continue;
                        }
                    }
                    // Arrivals of other traces may prove that this one is complete.
                    let wake_at = Instant::now() + then.since(now).min(longest).min(EVIDENCE_INTERVAL);
                    let early = || judge.early(&self.trace(poll.root));
                    let told = log
                        .is_watched()
                        .then(|| report.tell(&policy, &self.progress, learning, log, early, now));
                    let wake_at = told.flatten().map_or(wake_at, |at| at.min(wake_at));
                    tokio::select! {
                        () = tokio::time::sleep_until(wake_at) => {
                            let stalled = Instant::now() - wake_at;
                            if stalled > STALL {
                                policy.timeout += stalled;
                                // Read what the sockets have buffered first.
                                tokio::time::sleep(STALL).await;
                                self.progress.resumed(clock::now());
                                tracing::debug!(?stalled, "the server stood still; the wait is longer by that");
                            }
                        }
                        // The ingest outlives every run.
                        _ = self.changes.changed() => {}
                        () = polled(&mut self.polled) => {}
                        () = received(&mut skip, RunCommand::Skip) => {
                            let specs = cache.of(self.spans.len(), || judge.standing(&self.trace(poll.root)));
                            let ended = skipped(&policy, &self.progress, &learning.services(), specs, clock::now());
                            log.buffer(&RunEventKind::wait_skipped(&ended));
                            return Ok(WaitOutcome::Ended(ended));
                        }
                    }
                }
            }
        }
    }

    /// Puts off the end of a first run that was resumed until each service in its trace was heard again: what an exporter
    /// could not deliver while there was no server comes before that, or not at all.
    fn heard_again(&self, learning: &Learning, next: Wait, now: Timestamp) -> Wait {
        let resumed = self.resumed.filter(|(_, until)| now < *until && self.is_resumed());
        let Some((since, until)) = resumed else { return next };
        match &next {
            Wait::Ready(ended) | Wait::GaveUp(ended)
                if !ended.is_final && ended.debts.contains(&Pending::First) => {}
            Wait::Ready(_) | Wait::GaveUp(_) | Wait::Until(..) => return next,
        }
        let known = learning.services();
        if self.services().iter().all(|service| known.last_heard(service) > Some(since)) {
            return next;
        }
        Wait::Until(until.min(now + EVIDENCE_INTERVAL), PendingCounts::default())
    }

    /// Ends the window of a first run sooner where every service in its trace has proven to deliver promptly: the window
    /// is for spans that are still in an exporter. What is owed, and specs that lack spans, are waited for as ever.
    fn sooner(
        &self,
        policy: &Policy,
        learning: &Learning,
        specs: Option<&SpecStatus>,
        next: Wait,
        now: Timestamp,
    ) -> Wait {
        let (Wait::Until(then, owed), Some(settle), Some(specs)) = (&next, self.prompt_settle, specs) else {
            return next;
        };
        if settle >= policy.settle || !is_settling(owed) || !self.is_prompt(&learning.services()) {
            return next;
        }
        let policy = Policy { settle, ..*policy };
        match wait(&policy, &self.progress, &learning.services(), || specs.clone(), now) {
            Wait::Until(sooner, owed) => Wait::Until(sooner.min(*then), owed),
            ended @ (Wait::Ready(_) | Wait::GaveUp(_)) => ended,
        }
    }

    /// Whether each service in the trace has delivered often enough, and never late.
    fn is_prompt(&self, register: &Register) -> bool {
        let services = self.services();
        let is_prompt = |service: &&str| register.is_prompt(service, PROMPT_DELIVERIES, PROMPT_LAG);
        !services.is_empty() && services.iter().all(is_prompt)
    }

    /// The services that have sent spans of this trace.
    fn services(&self) -> BTreeSet<&str> {
        self.spans.iter().map(Span::service).collect()
    }

    /// Returns the decision if a poll of the data store that began after it brought nothing new. Arrivals of other
    /// traces may prove that nothing is missing here, but they do not show what this trace's last poll could not see.
    fn confirmed(
        &mut self,
        next: Wait,
        decided: &mut Option<Decided>,
        now: Timestamp,
        deadline: Timestamp,
    ) -> Wait {
        if self.polled.is_none() {
            return next;
        }
        let ended = match &next {
            Wait::Ready(ended) | Wait::GaveUp(ended) => ended,
            Wait::Until(..) => {
                *decided = None;
                return next;
            }
        };
        let (spans, reason) = (self.progress.spans(), ended.reason);
        match decided.take().filter(|before| before.spans == spans) {
            Some(before) if now >= before.at || now >= deadline => return before.next,
            Some(before) => *decided = Some(before),
            // That no service was heard means nothing here: a store may take long until a trace can be read.
            None if reason == Reason::NoTrace && now < deadline => {
                return Wait::Until(deadline, PendingCounts::default());
            }
            None if reason == Reason::TimedOut || reason == Reason::NoTrace => return next,
            None => *decided = Some(Decided { at: clock::now(), spans, next }),
        }
        Wait::Until(now + EVIDENCE_INTERVAL, PendingCounts::default())
    }

    /// Decides whether the wait is over; `None` when that depends on the specs, which are not evaluated yet.
    fn decide(
        &self,
        policy: &Policy,
        learning: &Learning,
        specs: Option<&SpecStatus>,
        now: Timestamp,
    ) -> Option<Wait> {
        let mut is_asked = false;
        let answer = || {
            is_asked = specs.is_none();
            specs.cloned().unwrap_or_default()
        };
        let next = wait(policy, &self.progress, &learning.services(), answer, now);
        (!is_asked).then_some(next)
    }

    /// Reads what arrived since the last read, in a span of its own.
    async fn fetch(
        &mut self,
        learning: &Learning,
        redactor: &Redactor,
        poll: WaitSpans<'_>,
    ) -> Result<usize, Error> {
        let span = poll.fetch();
        let new = self.read(learning, redactor).instrument(span.clone()).await;
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

    /// Releases the spans: most runs get no late ones, and those that do reload everything from the store.
    pub(super) fn forget(&mut self) {
        self.spans = Vec::new();
        self.cursor = Cursor::default();
        (self.bytes, self.lease) = (0, None);
    }

    /// Accounts for the memory of the spans. When other runs hold it, the spans are released before waiting: two
    /// runs that each hold what the other needs would deadlock.
    async fn hold(&mut self) -> Result<SpansInMemory, Error> {
        let missing = |lease: &Lease| self.bytes.saturating_sub(lease.bytes());
        let held = match &mut self.lease {
            Some(lease) => lease.grow(missing(lease)),
            None => self.budget.lease().and_then(|lease| self.lease.insert(lease).grow(self.bytes)),
        };
        match held {
            Ok(()) => return Ok(SpansInMemory::All),
            Err(MemoryBudgetError::Ever { limit }) => return Err(Error::TraceTooLarge { limit }),
            Err(MemoryBudgetError::Now) => {}
        }
        let all = self.bytes;
        self.forget();
        loop {
            let mut lease = self.budget.lease().map_err(|_| Error::Lost)?;
            match lease.grow_within(all, MEMORY_LOG_INTERVAL).await {
                Ok(()) => {
                    self.lease = Some(lease);
                    return Ok(SpansInMemory::Nothing);
                }
                Err(MemoryBudgetError::Ever { limit }) => return Err(Error::TraceTooLarge { limit }),
                Err(MemoryBudgetError::Now) => {
                    tracing::debug!(trace = %self.trace, "waits for memory that other runs have");
                }
            }
        }
    }

    /// The tree of the arrived spans, below the trigger.
    pub(super) fn trace(&self, root: &Span) -> Trace {
        Trace::assemble(self.trace, self.spans.iter().cloned()).with_trigger(root.clone())
    }

    /// The same, without a copy of the spans: they are read again when they are needed again.
    pub(super) fn take_trace(&mut self, root: &Span) -> Trace {
        let spans = std::mem::take(&mut self.spans);
        self.cursor = Cursor::default();
        Trace::assemble(self.trace, spans).with_trigger(root.clone())
    }

    /// Reads what arrived since the last read and returns the number of new spans. Retries while the database is
    /// unavailable.
    pub(super) async fn read(&mut self, learning: &Learning, redactor: &Redactor) -> Result<usize, Error> {
        let mut new = 0;
        loop {
            new += self.read_once(learning, redactor).await?;
            match self.hold().await? {
                SpansInMemory::All => return Ok(new),
                // Everything is read again.
                SpansInMemory::Nothing => {}
            }
        }
    }

    async fn read_once(&mut self, learning: &Learning, redactor: &Redactor) -> Result<usize, Error> {
        let mut new = 0;
        let deadline = RetryDeadline::new();
        let limit = self.budget.size().saturating_sub(self.bytes);
        let (arrivals, is_all) = loop {
            match self.source.news(self.trace, &mut self.cursor, limit).await.map_err(Error::from) {
                Err(error) if deadline.allows_retry(&error).await => {}
                news => break news?,
            }
        };
        if is_all {
            self.spans.clear();
            self.bytes = 0;
        }
        for arrival in arrivals {
            let Some(spans) = arrival.spans else {
                return Err(Error::TraceTooLarge { limit: self.budget.size() });
            };
            self.bytes += arrival.size.decoded();
            for span in spans {
                // What is learned from a run is stored for other runs, and in files: without secrets.
                let named =
                    (!redactor.is_empty()).then(|| Span { name: redactor.word(&span.name), ..span.clone() });
                if self.progress.arrived(named.as_ref().unwrap_or(&span), arrival.at) {
                    // The ingest has recorded what this server has pulled.
                    if arrival.at > self.learned_until && self.polled.is_none() {
                        learning.arrived(&span, arrival.at);
                    }
                    new += 1;
                }
                self.spans.push(span);
            }
        }
        learning.observed(self.progress.take_observations(), redactor);
        self.progress.consult(&learning.services());
        Ok(new)
    }
}

/// Whether nothing is owed but the window of a first run.
fn is_settling(owed: &PendingCounts) -> bool {
    owed.first && *owed == PendingCounts { first: true, ..PendingCounts::default() }
}

/// Waits until a poll of the data store is completed; forever if there is none.
async fn polled(polled: &mut Option<Polled>) {
    match polled {
        Some(polled) => polled.changed().await,
        None => std::future::pending().await,
    }
}
