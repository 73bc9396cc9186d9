//! The execution of one run, from top to bottom.
//!
//! Its two hard decisions, whether the trace is complete and whether it passes, are calls to pure functions.

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::definition::{self, Resource, Test, Trigger};
use qualitytrace_core::id::TraceId;
use qualitytrace_core::lang::Generator;
use qualitytrace_core::run::{Reply, State, TriggerSpan};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::{Absence, Begin, CONFIRM, Meaning, Pending, Policy, WaitEnd};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tracing::Instrument;

use super::arrivals::{Arrivals, WaitOutcome};
use super::judged::JudgedRun;
use super::judging::Judge;
use super::log::Log;
use super::missing_trace::Request;
use super::pulling::Pulling;
use super::settings::Waiting;
use super::{Execution, random_span_id, resolve, settings};
use crate::base::clock;
use crate::base::compute;
use crate::base::redact::Redactor;
use crate::outbound::trigger::{Context, TriggerError};
use crate::runner::Error;
use crate::runner::retry::retry_while_unavailable;
use crate::runner::spans::{self, WaitSpans};
use crate::storage::store::{RunCommand, StoredRun, StoredTest};
use crate::storage::variables::{Variables, redactor_of_trace};
use crate::wire::request::{RunRequest, RunSettings};
use crate::wire::{Outcome, RunEventKind, Verdict};

/// The reason for an inconclusive verdict with the strategy `no-polling`.
pub(super) const NOT_WAITED: &str =
    "the trace is not waited for (`strategy: no-polling`): what comes of it is judged when it comes";

/// A run whose trigger was answered.
#[derive(Debug)]
pub(super) struct AnsweredRun {
    pub(super) stored: StoredTest,
    pub(super) test: Test,
    pub(super) settings: RunSettings,
    pub(super) variables: Variables,
    pub(super) trigger: Trigger,
    pub(super) generator: Generator,
    pub(super) arrivals: Arrivals,
    /// Whether the trigger names a trace instead of causing one.
    pub(super) is_attached: bool,
    pub(super) sent: TriggerSpan,
    pub(super) reply: Reply,
}

/// How the trace of a run is waited for.
#[derive(Debug)]
pub(super) struct WaitPlan {
    pub(super) policy: Policy,
    /// How long a failure by absence is rechecked, if the profile says so.
    confirm: Option<Duration>,
    is_awaited: bool,
    pull: Pulling,
    /// The event of its start, if it is awaited.
    event: Option<RunEventKind>,
}

impl Execution {
    /// Executes a run. `None` when it ended without a verdict. The trigger permit is returned when the trigger was
    /// answered: a run that waits for spans blocks no other trigger.
    pub(super) async fn execute(
        &self,
        log: &mut Log,
        run: &StoredRun,
        skip: watch::Receiver<Option<RunCommand>>,
        run_span: &tracing::Span,
        permit: OwnedSemaphorePermit,
    ) -> Result<Option<JudgedRun>, Error> {
        let (stored, test) = self.test_of(run).await?;
        spans::note_test(run_span, &test);
        let request = RunRequest::of(run);
        let variables = Variables::open(&self.store, &run.test, &run.variables)?;
        log.set_redactor(variables.redactor());
        let mut generator = Generator::in_utc(clock::now(), rand::random());
        log.buffer(&RunEventKind::Resolving);
        let resolved = resolved(run_span, log.redactor(), &test, &variables, &mut generator).await;
        let (trigger, attached) = match resolved {
            Ok(resolved) => resolved,
            Err(message) => {
                return log.fail(State::TriggerFailed, &RunEventKind::NotResolved { message }).await;
            }
        };
        let resolved = self.resolved_event(log.redactor(), &test, &trigger);
        if let RunEventKind::Resolved { warning: Some(warning), .. } = &resolved {
            tracing::warn!(test = log.run().test, run = log.run().number, "{warning}");
        }
        log.buffer(&resolved);

        let context =
            Context { trace: attached.unwrap_or(run.trace), span: random_span_id(), baggage: String::new() };
        if attached.is_some() {
            self.attach(log, run_span, context.trace).await?;
        }
        let begin = if attached.is_some() { Begin::Attached } else { Begin::Triggered(context.span) };
        let history = retry_while_unavailable(|| async { self.learning.history(&stored.id).await }).await?;
        let mut arrivals = self.arrivals(context.trace, begin, history);
        arrivals.tells_settling = request.suite.is_some();
        log.buffer(&RunEventKind::Triggering { span_id: context.span.to_string() });
        if let Some(command) = log.mark_triggered().await? {
            self.in_progress.send(log.run(), command);
        }
        let start = clock::now();
        let sent = self.send(log.redactor(), run_span, &stored.id, &trigger, &context).await;
        let end = clock::now();
        let reply = match sent {
            Ok(reply) => reply,
            Err(failure) => {
                return log.fail(State::TriggerFailed, &RunEventKind::from(&failure)).await;
            }
        };
        let mut answered = AnsweredRun {
            stored,
            test,
            settings: request.settings,
            variables,
            trigger,
            generator,
            arrivals,
            is_attached: attached.is_some(),
            sent: TriggerSpan { id: context.span, trace: context.trace, start, end },
            reply,
        };
        let waiting = self.prepare_wait(&mut answered).await?;
        store_reply(log, &answered, waiting.event.as_ref()).instrument(spans::response(run_span)).await?;
        drop(permit);
        Box::pin(self.conclude(log, answered, waiting, skip, run_span)).await
    }

    /// Prepares to wait for the trace of an answered trigger.
    pub(super) async fn prepare_wait(&self, answered: &mut AnsweredRun) -> Result<WaitPlan, Error> {
        let AnsweredRun { stored, test, settings, arrivals, .. } = answered;
        let waiting = self.waiting(&stored.id, test, settings).await?;
        let Some(Waiting { policy, prompt_settle, is_awaited, uninstrumented, confirm }) = waiting else {
            let (policy, pull) = (self.policy, Pulling::Nothing);
            return Ok(WaitPlan { policy, confirm: None, is_awaited: false, pull, event: None });
        };
        let pull = self.pull(&stored.id, arrivals, !answered.is_attached).await?;
        arrivals.progress.know_uninstrumented(uninstrumented);
        arrivals.progress.sent(answered.sent.start, trigger_address(&answered.trigger));
        arrivals.progress.answered(answered.sent.end);
        arrivals.prompt_settle = prompt_settle;
        arrivals.request = Some(Request::new(&answered.trigger, &answered.sent));
        let event = is_awaited.then(|| RunEventKind::waiting(&policy, confirm));
        Ok(WaitPlan { policy, confirm, is_awaited, pull, event })
    }

    /// Waits for the trace of an answered trigger, and judges it.
    pub(super) async fn conclude(
        &self,
        log: &mut Log,
        answered: AnsweredRun,
        waiting: WaitPlan,
        skip: watch::Receiver<Option<RunCommand>>,
        run_span: &tracing::Span,
    ) -> Result<Option<JudgedRun>, Error> {
        let AnsweredRun {
            stored,
            test,
            settings,
            variables,
            trigger,
            generator,
            mut arrivals,
            sent,
            reply,
            ..
        } = answered;
        let WaitPlan { policy, confirm, is_awaited, mut pull, .. } = waiting;
        let TriggerSpan { id, trace, start, end } = sent;
        let judge = Judge::compile(&test, &variables, generator).with_within(policy.within);
        let root = sent.to_span(&reply);
        let waited = if is_awaited {
            let poll = WaitSpans { run: run_span, test: &stored.id, trace, span: id, root: &root };
            let wait_span = poll.start();
            let wait = arrivals.wait(&policy, &self.learning, log, &judge, poll, skip);
            let waited = pull.during(wait.instrument(wait_span.clone()), policy.timeout).await?;
            self.recorder.phase("wait", clock::now().since(end));
            if let Some(message) = waited.no_trace() {
                spans::note_no_trace(&wait_span, &log.redactor().text(&message));
            }
            waited
        } else {
            log.buffer(&RunEventKind::WaitSkipped { debts: Vec::new(), expected: Vec::new() });
            WaitOutcome::Skipped
        };
        if waited.no_trace().is_some() {
            let told = pull.explain(&waited, trace);
            let request = Request::new(&trigger, &sent);
            let judged = JudgedRun::just_now(judge, root, arrivals, Outcome::Inconclusive, &waited, policy);
            self.pull_late(pull, judged.to_confirm());
            return self.end_without_trace(log, &request, told, judged.with(true, None, settings)).await;
        }
        let absences = self.absences(&waited, &test, start);
        let refused = if test.skip_trace_collection { None } else { self.source.refused(trace) };
        let tree = arrivals.take_trace(&root);
        let analysis = self.analysis(&stored.id, &tree, &settings).await?;
        let analysis_open = unproven(&absences, refused.as_ref());
        log.buffer(&RunEventKind::analyzed(analysis.as_ref(), analysis_open.clone()));
        log.buffer(&RunEventKind::Judging);
        let waited_until = clock::now();
        let is_resumed = arrivals.is_resumed();
        let judged = || judge.verdict_after(is_resumed, &tree, absences, refused);
        let mut verdict = recorded(run_span, log.redactor(), judged).await;
        self.look_for_lost_parts(&judge, &tree, &mut verdict).await;
        let outcome = verdict.outcome;
        self.recorder.phase("judge", clock::now().since(waited_until));
        self.learn(&stored.id, &arrivals, &waited, outcome, log.redactor()).await?;
        let mut judged = JudgedRun::just_now(judge, root, arrivals, outcome, &waited, policy);
        (judged.confirm, judged.analysis_open) = (confirm.unwrap_or(CONFIRM), analysis_open);
        self.pull_late(pull, judged.to_confirm());
        self.note_if_proven(log, &mut judged);
        log.end(State::Finished, &RunEventKind::Judged { verdict }).await?;
        Ok(Some(judged.with(!test.skip_trace_collection, analysis, settings)))
    }
}

impl Execution {
    /// Sends the trigger, in a span of its own.
    pub(super) async fn send(
        &self,
        redactor: &Redactor,
        run_span: &tracing::Span,
        test: &str,
        trigger: &Trigger,
        context: &Context,
    ) -> Result<Reply, TriggerError> {
        let start = clock::now();
        let span = spans::trigger(run_span, test, trigger, context);
        let record = self.recorder.trigger_span(trigger.kind(), context);
        let sent = self.triggers.send(trigger, context).instrument(span.clone()).await;
        let sent = sent.map_err(|failure| failure.hiding(redactor));
        record.end(&sent);
        spans::note_reply(&span, &sent);
        self.recorder.phase("trigger", clock::now().since(start));
        sent
    }

    /// The event of a resolved trigger. Warns when it sends a secret to an unverified receiver.
    pub(super) fn resolved_event(&self, redactor: &Redactor, test: &Test, trigger: &Trigger) -> RunEventKind {
        let shown = settings::shown_trigger(test, trigger);
        let warning = self.triggers.warning(trigger, redactor.hides_in(&shown));
        let warning = warning.map(|warning| redactor.text(&warning).into_owned());
        RunEventKind::Resolved { trigger: Some(shown), warning }
    }

    /// Points the run at a trace that another program caused.
    pub(super) async fn attach(
        &self,
        log: &mut Log,
        run_span: &tracing::Span,
        trace: TraceId,
    ) -> Result<(), Error> {
        log.set_trace(trace).await?;
        spans::note_trace(run_span, trace);
        // The run that caused the trace may have had secrets.
        let redactor =
            retry_while_unavailable(|| async { Ok(redactor_of_trace(&self.store, trace).await?) }).await?;
        log.set_redactor(redactor);
        Ok(())
    }

    /// Ends a run without a trace. Spans that arrive later are judged. `told` is what the data store says about it.
    async fn end_without_trace(
        &self,
        log: &mut Log,
        request: &Request,
        told: Option<String>,
        judged: JudgedRun,
    ) -> Result<Option<JudgedRun>, Error> {
        let message = match told {
            Some(told) => told,
            None => {
                let why = self.explain_missing_trace(request).await;
                format!("no span of this trace has arrived: {why}")
            }
        };
        log.end(State::TraceFailed, &RunEventKind::NoTrace { message }).await?;
        Ok(Some(JudgedRun { has_no_verdict: true, ..judged }))
    }

    /// The spans that are neither here nor known to be absent. `sent` is when the trigger was sent.
    fn absences(&self, waited: &WaitOutcome, test: &Test, sent: Timestamp) -> Vec<Absence> {
        let mut absences = match waited {
            WaitOutcome::Skipped if test.skip_trace_collection => return Vec::new(),
            WaitOutcome::Skipped => vec![Absence::of_anyone(NOT_WAITED.to_owned())],
            WaitOutcome::Unreadable(message) => vec![Absence::of_anyone(message.clone())],
            // A final failure leaves the other specs of the test open.
            WaitOutcome::Ended(ended) => ended.absences.clone(),
        };
        absences.extend(self.source.ingest().refusals().since(sent).map(Absence::of_refused));
        absences
    }

    /// Learns from a run that was waited for.
    async fn learn(
        &self,
        test: &str,
        arrivals: &Arrivals,
        waited: &WaitOutcome,
        outcome: Outcome,
        redactor: &Redactor,
    ) -> Result<(), Error> {
        let WaitOutcome::Ended(ended) = waited else { return Ok(()) };
        let passed = outcome == Outcome::Passed;
        self.learning.observed(arrivals.progress.entries(), redactor);
        retry_while_unavailable(|| async {
            self.learning.learn(test, &arrivals.progress, ended, passed).await
        })
        .await
    }

    /// Loads the version of the test that is run.
    pub(super) async fn test_of(&self, run: &StoredRun) -> Result<(StoredTest, Test), Error> {
        let version = Some(run.test_version);
        let stored =
            retry_while_unavailable(|| async { Ok(self.store.test(&run.test, version).await?) }).await?;
        let stored = stored.ok_or_else(|| Error::Gone { test: run.test.clone() })?;
        let test = read(&stored)?;
        Ok((stored, test))
    }
}

/// The address that a trigger calls, as the spans of other callers name it.
fn trigger_address(trigger: &Trigger) -> Option<Arc<str>> {
    match trigger {
        Trigger::Http(request) => authority(&request.url.value),
        Trigger::Graphql(request) => authority(&request.url.value),
        Trigger::Grpc(call) => Some(call.address.value.as_str().into()),
        Trigger::Kafka(_)
        | Trigger::TraceId(_)
        | Trigger::Exec(_)
        | Trigger::PlaywrightEngine(_)
        | Trigger::Integration(_) => None,
    }
}

fn authority(url: &str) -> Option<Arc<str>> {
    let url = url::Url::parse(url).ok()?;
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    Some(format!("{host}:{port}").into())
}

/// Stores the reply to the trigger, and how its trace is waited for, if it is: another server can go on from here.
async fn store_reply(
    log: &mut Log,
    AnsweredRun { reply, sent, .. }: &AnsweredRun,
    awaiting: Option<&RunEventKind>,
) -> Result<(), Error> {
    let triggered = RunEventKind::triggered(reply, sent);
    log.keep_unredacted(&triggered).await?;
    log.buffer(&triggered);
    if let Some(awaiting) = awaiting {
        log.buffer(awaiting);
    }
    log.change_state(State::Executing, State::AwaitingTrace).await
}

/// Judges in the spans of outputs and assertions: both are found in one go, but tests of the server expect a span
/// each.
pub(super) async fn recorded(
    run: &tracing::Span,
    redactor: &Redactor,
    judge: impl FnOnce() -> Verdict,
) -> Verdict {
    compute::give_way().await;
    let (outputs, assertions) = (spans::outputs(run), spans::judge(run));
    let verdict = assertions.in_scope(judge);
    compute::wait_if_stopped().await;
    spans::note_outputs(&outputs, &verdict.outputs, redactor);
    spans::note_verdict(&assertions, verdict.outcome == Outcome::Passed);
    verdict
}

/// Resolves the trigger, in a span of its own. Also returns the trace that the trigger names, if any.
pub(super) async fn resolved(
    run: &tracing::Span,
    redactor: &Redactor,
    test: &Test,
    variables: &Variables,
    generator: &mut Generator,
) -> Result<(Trigger, Option<TraceId>), String> {
    compute::give_way().await;
    let span = spans::resolve(run);
    let resolved = span.in_scope(|| {
        let trigger = resolve::resolve(test, variables, generator)?;
        let attached = attached(&trigger, variables)?;
        Ok((trigger, attached))
    });
    compute::wait_if_stopped().await;
    resolved.inspect_err(|message: &String| spans::note_unresolved(&span, &redactor.text(message)))
}

/// The trace that a trigger names instead of causing one.
fn attached(trigger: &Trigger, variables: &Variables) -> Result<Option<TraceId>, String> {
    let id = match trigger {
        Trigger::TraceId(named) => named.id.value.trim(),
        Trigger::Integration(tool) => {
            let id = variables.get("TRACE_ID").ok_or_else(|| {
                let tool = tool.as_str();
                format!("a test of type `{tool}` judges the trace that {tool} names; start it with the variable TRACE_ID")
            })?;
            id.trim()
        }
        Trigger::Http(_)
        | Trigger::Grpc(_)
        | Trigger::Kafka(_)
        | Trigger::Graphql(_)
        | Trigger::Exec(_)
        | Trigger::PlaywrightEngine(_) => return Ok(None),
    };
    id.parse().map(Some).map_err(|error| format!("the trigger names no trace: {error}"))
}

impl WaitOutcome {
    /// What to check when no trace arrived.
    fn no_trace(&self) -> Option<String> {
        match self {
            Self::Ended(ended) if ended.meaning() == Meaning::NoTrace => Some(debts(ended).join("; ")),
            Self::Unreadable(message) => Some(message.clone()),
            Self::Ended(_) | Self::Skipped => None,
        }
    }
}

/// Why a statement about all spans may not hold: a part of the trace is neither here nor known to be absent.
pub(super) fn unproven(absences: &[Absence], refused: Option<&String>) -> Option<String> {
    let open = absences.iter().find(|absence| absence.is_open()).map(|absence| &absence.reason);
    refused.or(open).cloned()
}

/// What the trace still owed and could matter, one sentence each.
fn debts(ended: &WaitEnd) -> Vec<String> {
    ended.debts.iter().filter(|debt| **debt != Pending::First).map(ToString::to_string).collect()
}

/// Parses the stored definition of a test.
pub(in crate::runner) fn read(stored: &StoredTest) -> Result<Test, Error> {
    match definition::read_stored(&stored.definition, stored.format(), definition::Kind::Test) {
        Some(Resource::Test(test)) => Ok(test),
        _ => Err(Error::Definition { test: stored.id.clone() }),
    }
}
