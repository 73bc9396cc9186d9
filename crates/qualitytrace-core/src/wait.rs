//! Decides when a trace is complete.
//!
//! Ending the wait too early gives wrong verdicts, too late slow ones. Other tools wait for silence; this module
//! waits for what the trace still *owes*. It decides from facts that are passed as arguments, the time included,
//! and knows neither where spans come from nor how the caller sleeps until it asks again.
//!
//! | debt | why it is owed | paid by | when it stays unpaid |
//! |---|---|---|---|
//! | root | the trigger was answered, so a service served it | a span below the trigger | `timeout`, then *no trace* |
//! | parent | a span names a parent that is not here | that span | the longest known delivery, then *inconclusive* |
//! | answer | a call to a service has no child | a child elsewhere, or a linking span | until proven, likely or unknowable |
//! | shape | earlier complete runs had this kind of span | a span of that kind | the same |
//! | spec | a spec cannot be decided yet | spans that it selects | one settle window, then judged as it stands |
//! | first | the test has no complete run yet | - | one settle window |
//!
//! Nothing owed: ready one `quiet` window after the last new span. Windows run from the last new span; copies of spans
//! that are here prolong nothing, because a pulled source delivers the whole trace again with every look.
//!
//! A missing span is a claim about the process that would have sent it. A process can add to a trace only if it is in the
//! trace, or was reached by a call of a process that is (`reach`); what the [`Register`] knows of each of them proves
//! the claim, makes it likely, or leaves it open (`evidence`). A call that was answered and has no answering span is an
//! open end that nothing closes (`progress/open_ends.rs`). What is open when the wait ends is an [`Absence`], and the judge
//! leaves every assertion undecided whose result could change with it.
//!
//! Why it works: exporters send spans in the order in which they *end*, and a service's entry span ends after its
//! synchronous children; when it is here, they are here. Only two parts can be missing: another service's spans,
//! announced by an unanswered call, or work after the answer, announced by history.
//!
//! Further rules, each due to a measurement or a counter-example:
//! - Only runs that passed update the history. An error's short cut, learned as the usual shape, would let the
//!   next run end before its asynchronous tail.
//! - A shorter settle window needs 20 complete runs besides 20 flushes of each service, and covers twice the time that
//!   the longest of them took to arrive. The delivery lag alone does not bound work that goes on after the answer: a
//!   window derived from it alone gave 133 wrong verdicts in 17,628 simulated runs.
//! - The settle window grows when a service of a known shape may deliver later than that: a quarter later than it ever
//!   did, or twice as late (up to twice the policy's window) while few of its flushes were seen. Without it 2 of 127,717
//!   simulated verdicts were wrong, both with 3 s of jitter. With the largest lag itself, and only after 20 flushes, 1 of
//!   222,359 was: the fifth run of a test ended after 6 s, 0.35 s before its last span. With the largest lag from the
//!   first flush on, 4 of 896,000 were.
//! - A child inside the calling service (a name look-up, a handshake) does not answer a call.
//! - The shape is owed by each span: what every span of a kind had below it, the next one owes too, so that three
//!   messages owe three handlers and a loop that runs once more owes one more tail. Where numbers differ from parent to
//!   parent, fewer than usual are excused when the reason is here too ([`Progress`] says how); a cache hit costs no
//!   settle window.
//! - Where numbers differ, the quiet window grows by twice the time by which the services' spans overtake each other.
//! - Spans whose parents are missing make "no span below the trigger" a question of parents, not of the time-out.

mod absence;
mod call;
mod evidence;
mod explanation;
mod forecast;
pub mod history;
mod learning;
mod observation;
mod pending;
mod process;
mod progress;
mod reach;
pub mod register;
pub(crate) mod shape;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use absence::{Absence, AffectedServices};
pub use call::UninstrumentedPeers;
pub use forecast::{Forecast, PendingDeadline, forecast};
pub use history::{History, Learned};
pub use observation::Observations;
pub use pending::{Pending, PendingCounts};
pub use progress::{Begin, Progress};
pub use register::Register;

use progress::Outlook;
use shape::Node;

use crate::time::Timestamp;

/// Maximum number of debts that an ended wait lists; the rest is only counted.
pub const MAX_NAMED_DEBTS: usize = 100;

/// Default time for which a failure by absence is checked again before it is reported.
pub const CONFIRM: Duration = Duration::from_secs(10);

/// The settle window of a first run is shortened by one part in `HEADROOM`: judging takes time too, and the
/// verdict of a test without history is due when the policy's window is over.
const HEADROOM: u32 = 40;

/// How much longer than a spec allows its spans to take a run waits at most: exporters are late.
const WITHIN_MARGIN: Duration = Duration::from_secs(20);

/// The windows and the timeout of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Silence that ends the wait when nothing is owed.
    pub quiet: Duration,
    /// Silence that ends the wait although something is owed.
    pub settle: Duration,
    /// The longest wait after the trigger was answered.
    pub timeout: Duration,
    /// How long after the rest of the trace the spans of a spec may end, where the spec does not say.
    pub within: Option<Duration>,
}

impl Policy {
    /// A little more than the default export delay of five seconds.
    pub const DEFAULT: Self = Self {
        quiet: Duration::from_millis(150),
        settle: Duration::from_secs(6),
        timeout: Duration::from_mins(1),
        within: None,
    };

    /// For systems whose exporters were started with an export delay of at most 100 ms.
    pub const PROMPT: Self = Self { settle: Duration::from_millis(800), ..Self::DEFAULT };
}

impl Default for Policy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The result of evaluating the specs against the spans that are here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpecStatus {
    /// The specs that fail and could pass with more spans.
    pub undecided: Vec<OpenSpec>,
    /// Whether no span that may still come can change the verdict.
    pub is_final: bool,
}

/// A spec that fails, and that more spans could make pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenSpec {
    /// Its name.
    pub name: String,
    /// The services whose spans it selects; empty when it does not say.
    pub services: Vec<Arc<str>>,
    /// Whether it fails because there are too few spans, not because of those that were found.
    pub lacks_spans: bool,
    /// How long after the rest of the trace its spans may end: what the spec says, else the polling profile.
    pub within: Option<Duration>,
}

/// The decision whether to go on waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// Judge: the trace is complete, or as complete as it is going to be.
    Ready(WaitEnd),
    /// Ask again at this time, or when a span arrives.
    Until(Timestamp, PendingCounts),
    /// Stop waiting for a trace that is known to lack something.
    GaveUp(WaitEnd),
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitEnd {
    /// Why it ended.
    pub reason: Reason,
    /// The open debts, up to [`MAX_NAMED_DEBTS`].
    pub debts: Vec<Pending>,
    /// How many more debts there were.
    pub unnamed_debts: usize,
    /// Spans that are neither here nor known to be absent: assertions that rest on them are not decided.
    pub absences: Vec<Absence>,
    /// The kinds of calls that a service may still answer, and of spans that may still come.
    open_kinds: BTreeSet<Node>,
    /// Whether no further span could have changed the verdict.
    pub is_final: bool,
    /// The quiet window that was in force.
    pub quiet: Duration,
    /// The settle window that was in force.
    pub settle: Duration,
    /// The silence between the last new span, or the trigger's answer, and the end of the wait.
    pub silence: Duration,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Nothing was owed, and a quiet window passed.
    Complete,
    /// Something was owed, but nothing came for a settle window.
    Settled,
    /// No further span can change the verdict.
    Decided,
    /// Parents are missing, and nothing came for two settle windows.
    Orphaned,
    /// The time was up.
    TimedOut,
    /// No span had come when the time was up, or after a settle window in which no service sent anything at all.
    NoTrace,
    /// The user skipped the rest of the wait.
    Skipped,
}

/// What an ended wait means for the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The trace is judged as it stands.
    Judge,
    /// Assertions that rest on an absence are inconclusive.
    Inconclusive,
    /// There is nothing to judge.
    NoTrace,
}

impl WaitEnd {
    /// Returns what the end of the wait means for the verdict.
    pub fn meaning(&self) -> Meaning {
        match self.reason {
            _ if self.is_final => Meaning::Judge,
            Reason::NoTrace => Meaning::NoTrace,
            _ if !self.absences.is_empty() => Meaning::Inconclusive,
            Reason::Complete
            | Reason::Settled
            | Reason::Decided
            | Reason::Orphaned
            | Reason::TimedOut
            | Reason::Skipped => Meaning::Judge,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Complete => "the trace owes nothing more",
            Self::Settled => "nothing more came for a settle window",
            Self::Decided => "no further span can change the verdict",
            Self::Orphaned => "parents are missing and nothing more came for two settle windows",
            Self::TimedOut => "the time is up",
            Self::NoTrace => "no span has come in time",
            Self::Skipped => "the user skipped the wait",
        })
    }
}

/// Decides whether the wait for a trace is over.
///
/// `specs` is called only when its answer can end the wait, so it may judge the whole trace. Arrivals up to `now`
/// must already have been passed to `run`. For a source that is polled, `now` is the time of the last poll:
/// silence after it was not observed. Arrivals of other traces may end the wait sooner, so the caller should keep
/// `register` up to date and call `wait` again now and then.
pub fn wait(
    policy: &Policy,
    run: &Progress,
    register: &Register,
    specs: impl FnOnce() -> SpecStatus,
    now: Timestamp,
) -> Wait {
    let Some(answered_at) = run.answered_at() else {
        let owed = PendingCounts { root: true, ..PendingCounts::default() };
        return Wait::Until(now + policy.timeout, owed);
    };
    let windows = Windows::new(policy, run, register, answered_at);
    let owed = PendingCounts {
        root: !run.has_root(),
        parents: run.missing_parents(),
        answers: run.unanswered(),
        shape: run.owes_shape(register),
        specs: 0,
        first: run.history().runs() == 0,
    };
    let first_question = windows.first_question(&owed);
    if now < first_question {
        return Wait::Until(first_question, owed);
    }
    let reach = run.reach(register, &windows, now);
    let facts = run.facts(register, &reach, &windows, now);
    let mut outlook = run.outlook(facts);
    // A final verdict does not wait for spans that only history or the specs ask for, but for these debts of
    // spans.
    let debts_of_spans = PendingCounts { specs: 0, first: false, ..owed };
    let end = windows.end(run, &debts_of_spans, &outlook, true);
    if now < end {
        return Wait::Until(end, owed);
    }
    let mut standing = specs();
    let owed = PendingCounts { specs: standing.undecided.len(), ..owed };
    let windows = windows.allowing(&standing.undecided);
    if !standing.is_final {
        let facts = run.facts(register, &reach, &windows, now);
        standing.is_final = run.asked_for(&mut outlook, &standing.undecided, facts);
    }
    let end = windows.end(run, &owed, &outlook, standing.is_final);
    if now < end {
        return Wait::Until(outlook.decided_at.map_or(end, |at| at.min(end)), owed);
    }
    windows.ended(run, register, &owed, outlook, standing, now)
}

/// Ends a wait that the user skips.
pub fn skipped(
    policy: &Policy,
    run: &Progress,
    register: &Register,
    standing: SpecStatus,
    now: Timestamp,
) -> WaitEnd {
    let windows = Windows::new(policy, run, register, run.answered_at().unwrap_or(now));
    let mut ended = windows.left(run, register, Reason::Skipped, Outlook::default(), standing, now);
    // A user who skips the wait does not wait for silence or for a first run's window either.
    let could_change = |debt: &&Pending| match debt {
        Pending::Parent { .. }
        | Pending::Root { .. }
        | Pending::Answer { .. }
        | Pending::Shape { .. }
        | Pending::Spec { .. } => true,
        Pending::Quiet | Pending::Caller { .. } | Pending::First => false,
    };
    let open = ended.debts.iter().filter(could_change);
    ended.absences = open.map(|debt| Absence::of_anyone(debt.to_string())).collect();
    ended
}

/// Returns the absences of a run that was judged before: assertions that rest on them are not decided.
pub fn absences(
    policy: &Policy,
    run: &Progress,
    register: &Register,
    standing: &SpecStatus,
    now: Timestamp,
) -> Vec<Absence> {
    let windows = Windows::new(policy, run, register, run.answered_at().unwrap_or(now));
    let reach = run.reach(register, &windows, now);
    let facts = run.facts(register, &reach, &windows, now);
    let mut outlook = run.outlook(facts);
    run.asked_for(&mut outlook, &standing.undecided, facts);
    outlook.absences
}

/// Whether every span that a failure may have missed is proven to be absent: each process that the trace reached has
/// delivered past the time by which the owed spans end, or, where nothing announces them, past a settle window. How long the
/// work of a test without a complete run takes is not known: there it is `confirm`, if that is longer.
pub fn is_absence_proven(
    policy: &Policy,
    confirm: Duration,
    run: &Progress,
    register: &Register,
    now: Timestamp,
) -> bool {
    let windows = Windows::new(policy, run, register, run.answered_at().unwrap_or(now));
    let reach = run.reach(register, &windows, now);
    let facts = run.facts(register, &reach, &windows, now);
    let outlook = run.outlook(facts);
    let is_open = outlook.until.is_some_and(|until| until > now)
        || outlook.rests_on_likely
        || !outlook.undelivered.is_empty()
        || outlook.absences.iter().any(Absence::is_open);
    if is_open || !run.has_root() {
        return false;
    }
    let within = if run.history().runs() == 0 { windows.settle.max(confirm) } else { windows.settle };
    run.owes_shape(register) || run.is_proven_to_end_within(within, facts)
}

/// The times at which a wait can end, given the arrivals so far.
struct Windows {
    quiet: Duration,
    settle: Duration,
    answered_at: Timestamp,
    last: Timestamp,
    /// Until when to wait for a peer that never sent anything.
    unheard: Timestamp,
    /// Until when to wait for something that certainly exists while it is not known how late it may be.
    patient: Timestamp,
    deadline: Timestamp,
    /// Until when to wait for the first span.
    rootless: Timestamp,
}

impl Windows {
    fn new(policy: &Policy, run: &Progress, register: &Register, answered_at: Timestamp) -> Self {
        let overtaking = run.disorder(register).saturating_mul(2);
        let settle = run.history().settle(policy, register);
        let settle =
            if run.history().runs() == 0 { settle.saturating_sub(settle / HEADROOM) } else { settle };
        let last = run.silent_since().map_or(answered_at, |last| last.max(answered_at));
        let deadline = answered_at + policy.timeout;
        let patient = answered_at + policy.timeout * 2 / 5;
        let latest = register.largest_lag();
        let delivered = answered_at + settle.max(latest + latest / 4);
        let rootless = deadline.min(match (register.listening_since(), register.has_heard_anyone()) {
            // A data store may have any delay of its own.
            (None, _) => deadline,
            // A server that listens and receives nothing at all has no reason to expect spans of this system.
            (Some(_), false) => delivered,
            (Some(_), true) => delivered.max(patient),
        });
        Self {
            quiet: (run.history().quiet(policy).saturating_add(overtaking))
                .min(policy.settle.max(policy.quiet)),
            settle,
            answered_at,
            last,
            unheard: last + settle.min(policy.settle),
            patient,
            deadline,
            rootless,
        }
    }

    /// The longest wait after the trigger was answered.
    fn timeout(&self) -> Duration {
        self.deadline.since(self.answered_at)
    }

    /// Returns the windows of a wait for what these specs allow for.
    fn allowing(&self, undecided: &[OpenSpec]) -> Self {
        let within = undecided.iter().filter_map(|spec| spec.within).max();
        let deadline = within.map(|within| self.answered_at + within.saturating_add(WITHIN_MARGIN));
        Self { deadline: deadline.map_or(self.deadline, |deadline| deadline.max(self.deadline)), ..*self }
    }

    /// Returns the time before which nothing can end the wait.
    fn first_question(&self, owed: &PendingCounts) -> Timestamp {
        // A final verdict needs no trace, but its report is better with one.
        let silence = if owed.root && owed.parents == 0 { self.settle } else { self.quiet };
        (self.last + silence.max(self.quiet)).min(self.deadline)
    }

    fn end(&self, run: &Progress, owed: &PendingCounts, outlook: &Outlook, is_final: bool) -> Timestamp {
        let unknown_caller = run.silent_caller().is_some() && !run.history().caller_is_silent();
        let (settled, twice) = (self.last + self.settle, self.last + self.settle.saturating_mul(2));
        let mut end = self.last + self.quiet;
        if owed.root && owed.parents == 0 {
            end = end.max(if is_final { settled } else { outlook.root_until.unwrap_or(self.rootless) });
        }
        // What cannot change the verdict improves the report, but is not waited for longer.
        let longest = match (is_final, owed.parents) {
            (true, 0) => settled,
            (true, _) => twice,
            (false, _) => self.deadline,
        };
        end = end.max(outlook.until.unwrap_or_default().min(longest));
        if !is_final {
            end = end.max(outlook.expected_until.unwrap_or_default());
            if owed.specs == 0 {
                end = end.max(outlook.doubted_until.unwrap_or_default());
            }
            if unknown_caller {
                end = end.max(twice);
            }
            if owed.first {
                end = end.max(outlook.first_until.unwrap_or(settled));
            }
            // Runs that passed had the spans that the specs ask for: the shape says when they are absent.
            if outlook.unannounced && !owed.shape {
                end = end.max(settled);
            }
        }
        end.min(self.deadline)
    }

    fn ended(
        &self,
        run: &Progress,
        register: &Register,
        owed: &PendingCounts,
        outlook: Outlook,
        standing: SpecStatus,
        now: Timestamp,
    ) -> Wait {
        let is_final = standing.is_final;
        let never = Timestamp::from_nanos(u64::MAX);
        let rootless = if self.rootless < self.deadline { self.rootless } else { never };
        let unhurried = Self { deadline: never, rootless, ..*self };
        let could_end = unhurried.end(run, owed, &outlook, is_final);
        let undecided_end = unhurried.end(run, owed, &outlook, false);
        let still_waited =
            outlook.until.max(outlook.expected_until).is_some_and(|until| until >= self.deadline);
        let undelivered = outlook.undelivered.clone();
        let mut ended = self.left(run, register, Reason::Complete, outlook, standing, now);
        let timed_out = now < could_end || (now >= self.deadline && still_waited && !is_final);
        ended.reason = if run.spans() == 0 && !is_final {
            Reason::NoTrace
        } else if timed_out {
            Reason::TimedOut
        } else if owed.parents > 0 {
            Reason::Orphaned
        } else if now < undecided_end {
            Reason::Decided
        } else if ended.debts.is_empty() {
            Reason::Complete
        } else {
            Reason::Settled
        };
        if timed_out && ended.debts.contains(&Pending::Quiet) {
            ended.absences.push(Absence::of_anyone(Pending::Quiet.to_string()));
        }
        if timed_out && owed.first {
            ended.absences.extend(undelivered);
        }
        match ended.reason {
            Reason::Complete | Reason::Settled | Reason::Decided => Wait::Ready(ended),
            Reason::Orphaned | Reason::TimedOut | Reason::NoTrace | Reason::Skipped => Wait::GaveUp(ended),
        }
    }

    /// Describes what is left when the wait ends now, for this reason.
    fn left(
        &self,
        run: &Progress,
        register: &Register,
        reason: Reason,
        Outlook { absences, open_kinds, .. }: Outlook,
        SpecStatus { undecided, is_final, .. }: SpecStatus,
        now: Timestamp,
    ) -> WaitEnd {
        let still_arriving = now < self.last + self.quiet;
        let specs = undecided.into_iter().map(|spec| Pending::Spec { name: spec.name });
        let mut debts = run
            .debts(register)
            .chain(specs)
            .chain((run.history().runs() == 0).then_some(Pending::First))
            .chain(still_arriving.then_some(Pending::Quiet));
        WaitEnd {
            reason,
            debts: debts.by_ref().take(MAX_NAMED_DEBTS).collect(),
            unnamed_debts: debts.count(),
            absences,
            open_kinds,
            is_final,
            quiet: self.quiet,
            settle: self.settle,
            silence: now.since(self.last),
        }
    }
}
