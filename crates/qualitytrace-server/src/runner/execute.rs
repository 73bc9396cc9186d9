//! One run, read from top to bottom.
//!
//! Its two hard choices, is the trace complete and did it pass, are calls to pure functions.

use std::sync::Arc;

use qualitytrace_core::definition::{self, Format, Resource, Test, Trigger};
use qualitytrace_core::id::TraceId;
use qualitytrace_core::lang::Generator;
use qualitytrace_core::run::{State, TriggerSpan};
use qualitytrace_core::trace::Span;
use qualitytrace_core::wait::{Begin, Debt, Ended, Meaning, Reason};
use tokio::sync::watch;
use tracing::Instrument;

use super::arrivals::{Arrivals, Waited};
use super::judging::Judge;
use super::log::Log;
use super::patience::patiently;
use super::queue::Announced;
use super::spans::Poll;
use super::{Error, Runner, random_span_id, resolving, settings, spans};
use crate::clock;
use crate::mask::Mask;
use crate::store::{StoredRun, StoredTest, Wish};
use crate::trigger::Context;
use crate::variables::{Variables, mask_of_trace};
use crate::watch::Caller;
use crate::wire::{Outcome, Verdict, What, run};

/// A run that came to a verdict, with what is needed to judge it again.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) judge: Judge,
    pub(super) root: Span,
    pub(super) arrivals: Arrivals,
    pub(super) outcome: Outcome,
    /// Whether spans that come now matter.
    pub(super) has_trace: bool,
    /// Whether the wait ended by itself: only then late spans say that it was too short.
    pub(super) was_awaited: bool,
    /// What the judge must not see, because what is known of the trigger does not have it either.
    pub(super) mask: Mask,
    /// Spans that the verdict rests on and that are still to be read.
    pub(super) already_counted: usize,
    /// What the analyzer said.
    pub(super) analysis: Option<run::Linter>,
}

impl Judged {
    /// A run that was judged here and now, with all that is known of it.
    fn just_now(judge: Judge, root: Span, arrivals: Arrivals, outcome: Outcome, waited: &Waited) -> Self {
        let was_awaited = matches!(waited, Waited::Ended(ended) if ended.reason != Reason::Skipped);
        Self {
            judge,
            root,
            arrivals,
            outcome,
            analysis: None,
            has_trace: true,
            was_awaited,
            mask: Mask::default(),
            already_counted: 0,
        }
    }
}

impl Runner {
    /// Carries out a run. `None` when it ended without a verdict.
    pub(super) async fn execute(
        &self,
        log: &mut Log,
        run: &StoredRun,
        skip: watch::Receiver<Option<Wish>>,
        caller: &Caller,
    ) -> Result<Option<Judged>, Error> {
        let (stored, test) = self.test_of(run).await?;
        let variables = &Variables::open(&self.store, &run.test, &run.variables)?;
        log.hide(variables.mask());
        let mut generator = Generator::in_utc(clock::now(), rand::random());
        log.note(&What::Resolving);
        let resolved = spans::resolve(caller).in_scope(|| {
            let trigger = resolving::resolve(&test, variables, &mut generator)?;
            let attached = attached(&trigger, variables)?;
            Ok((trigger, attached))
        });
        let (trigger, attached) = match resolved {
            Ok(resolved) => resolved,
            Err(message) => {
                return log.fail(State::TriggerFailed, &What::NotResolved { message }).await;
            }
        };
        log.note(&What::Resolved { trigger: Some(settings::shown_trigger(&test, &trigger)) });

        let context =
            Context { trace: attached.unwrap_or(run.trace), span: random_span_id(), baggage: String::new() };
        if attached.is_some() {
            log.set_trace(context.trace).await?;
            // The run that caused the trace may have been given secrets.
            log.hide(patiently(|| async { Ok(mask_of_trace(&self.store, context.trace).await?) }).await?);
        }
        let begin = if attached.is_some() { Begin::Attached } else { Begin::Triggered(context.span) };
        let history = patiently(|| async { self.memory.history(&stored.id).await }).await?;
        let announced = Announced::new(Arc::clone(&self.cluster), context.trace);
        let mut arrivals = Arrivals::follow(self.source.clone(), announced, context.trace, begin, history);
        if let Some(wish) = log.mark_triggered().await? {
            self.control.wish(log.run(), wish);
        }
        log.append(&What::Triggering { span_id: context.span.to_string() }).await?;
        let start = clock::now();
        let span = spans::trigger(caller, &stored.id, &trigger, &context);
        let record = self.watch.trigger_span(trigger.kind(), &context);
        let sent = self.triggers.send(&trigger, &context).instrument(span.clone()).await;
        let sent = sent.map_err(|failure| failure.hiding(log.mask()));
        record.end(&sent);
        spans::note_reply(&span, &sent);
        drop(span);
        let reply = match sent {
            Ok(reply) => reply,
            Err(failure) => {
                return log.fail(State::TriggerFailed, &What::from(&failure)).await;
            }
        };
        let end = clock::now();
        let taken_in = async {
            log.note(&What::Triggered { reply: (&reply).into() });
            log.change_state(State::Executing, State::AwaitingTrace).await
        };
        taken_in.instrument(spans::response(caller)).await?;

        let judge = Judge::compile(&test, variables, generator);
        let root = TriggerSpan { id: context.span, trace: context.trace, start, end }.to_span(&reply);
        let policy = self.policy(&stored.id, &test).await?;
        let waited = if let Some(policy) = policy {
            log.append(&What::waiting(&policy)).await?;
            arrivals.progress.answered(end);
            let specs = |trace: &_| judge.standing(trace);
            let (trace, span) = (context.trace, context.span);
            let poll = Poll { caller, test: &stored.id, trace, span, root: &root };
            let wait = arrivals.wait(&policy, &self.memory, log, specs, poll, skip);
            wait.instrument(poll.start()).await?
        } else {
            log.note(&What::WaitSkipped { debts: Vec::new() });
            Waited::Skipped
        };
        let mut missing = match &waited {
            Waited::Skipped => Vec::new(),
            Waited::Ended(ended) => match ended.meaning() {
                Meaning::Judge => Vec::new(),
                Meaning::Inconclusive => debts(ended),
                Meaning::NoTrace => {
                    let what = What::NoTrace { message: debts(ended).join("; ") };
                    return log.fail(State::TraceFailed, &what).await;
                }
            },
        };
        if !test.skip_trace_collection {
            missing.extend(self.source.refused(context.trace));
        }
        let tree = arrivals.trace(&root);
        let analysis = self.analysis(&stored.id, &tree).await?;
        log.note(&What::analyzed(analysis.as_ref()));
        log.note(&What::Judging);
        let waited_until = clock::now();
        let verdict = recorded(caller, log.mask(), || judge.verdict(&tree, missing));
        let outcome = verdict.outcome;
        let passed = outcome == Outcome::Passed;
        self.watch.phase("trigger", end.since(start));
        self.watch.phase("wait", waited_until.since(end));
        self.watch.phase("judge", clock::now().since(waited_until));
        if let Waited::Ended(ended) = &waited {
            let learn = || async { self.memory.learn(&stored.id, &arrivals.progress, ended, passed).await };
            patiently(learn).await?;
        }
        log.end(State::Finished, &What::Judged { verdict }).await?;
        let judged = Judged::just_now(judge, root, arrivals, outcome, &waited);
        Ok(Some(Judged { has_trace: !test.skip_trace_collection, analysis, ..judged }))
    }
}

impl Runner {
    /// The test in the version that is run.
    async fn test_of(&self, run: &StoredRun) -> Result<(StoredTest, Test), Error> {
        let version = Some(run.test_version);
        let stored = patiently(|| async { Ok(self.store.test(&run.test, version).await?) }).await?;
        let stored = stored.ok_or_else(|| Error::Gone { test: run.test.clone() })?;
        let test = read(&stored)?;
        Ok((stored, test))
    }
}

/// Judges. Outputs and assertions are found in one go; each has its span all the same, as tests of the server expect.
fn recorded(caller: &Caller, mask: &Mask, judge: impl FnOnce() -> Verdict) -> Verdict {
    let (outputs, assertions) = (spans::outputs(caller), spans::judge(caller));
    let verdict = assertions.in_scope(judge);
    spans::note_outputs(&outputs, &verdict.outputs, mask);
    spans::note_verdict(&assertions, verdict.outcome == Outcome::Passed);
    verdict
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

/// What was still owed and could matter, a sentence each.
fn debts(ended: &Ended) -> Vec<String> {
    ended.debts.iter().filter(|debt| **debt != Debt::First).map(ToString::to_string).collect()
}

/// The test that a run is of.
pub(super) fn read(stored: &StoredTest) -> Result<Test, Error> {
    let format = if stored.format == "json" { Format::Json } else { Format::Yaml };
    let reading = definition::read_as(&stored.definition, format, definition::Kind::Test);
    match reading.documents.into_iter().next().map(|document| document.resource) {
        Some(Resource::Test(test)) => Ok(test),
        _ => Err(Error::Definition { test: stored.id.clone() }),
    }
}
