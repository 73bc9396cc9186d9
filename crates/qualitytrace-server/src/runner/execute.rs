//! One run, read from top to bottom.
//!
//! Its two hard choices, is the trace complete and did it pass, are calls to pure functions.

use std::sync::Arc;

use qualitytrace_core::definition::{self, Format, Resource, Test, Trigger};
use qualitytrace_core::id::TraceId;
use qualitytrace_core::lang::Generator;
use qualitytrace_core::run::{Reply, State, TriggerSpan};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Span;
use qualitytrace_core::wait::{Begin, Debt, Ended, Meaning, Reason};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tracing::Instrument;

use super::arrivals::{Arrivals, Waited};
use super::judging::Judge;
use super::log::Log;
use super::patience::patiently;
use super::queue::Announced;
use super::spans::Poll;
use super::{Error, Runner, random_span_id, resolving, settings, spans};
use crate::clock;
use crate::compute;
use crate::mask::Mask;
use crate::store::{StoredRun, StoredTest, Wish};
use crate::trigger::{Context, Failure};
use crate::variables::{Variables, mask_of_trace};
use crate::wire::run::{Asked, RunSettings};
use crate::wire::{Outcome, Verdict, What, run};

/// Services that are named when nothing came of a trace.
const NAMED_SERVICES: usize = 5;

/// A run that came to a verdict, with what is needed to judge it again.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) judge: Judge,
    pub(super) root: Span,
    pub(super) arrivals: Arrivals,
    pub(super) outcome: Outcome,
    /// Whether spans that come now matter.
    pub(super) has_trace: bool,
    /// Whether it ended without a verdict, because nothing had come.
    pub(super) has_no_verdict: bool,
    /// Whether the wait ended by itself: only then late spans say that it was too short.
    pub(super) was_awaited: bool,
    /// What the judge must not see, because what is known of the trigger does not have it either.
    pub(super) mask: Mask,
    /// Spans that the verdict rests on and that are still to be read.
    pub(super) already_counted: usize,
    /// What the run brings along in place of the server's settings.
    pub(super) settings: RunSettings,
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
            settings: RunSettings::default(),
            has_trace: true,
            has_no_verdict: false,
            was_awaited,
            mask: Mask::default(),
            already_counted: 0,
        }
    }

    /// The same, with what the analyzer said and by which settings.
    fn with(self, has_trace: bool, analysis: Option<run::Linter>, settings: RunSettings) -> Self {
        Self { has_trace, settings, analysis, ..self }
    }
}

impl Runner {
    /// Carries out a run. `None` when it ended without a verdict. Its turn is given back when its trigger was answered:
    /// a run that waits for spans keeps no other from sending a trigger.
    pub(super) async fn execute(
        &self,
        log: &mut Log,
        run: &StoredRun,
        skip: watch::Receiver<Option<Wish>>,
        run_span: &tracing::Span,
        turn: OwnedSemaphorePermit,
    ) -> Result<Option<Judged>, Error> {
        let (stored, test) = self.test_of(run).await?;
        spans::note_test(run_span, &test);
        let settings = Asked::of(run).settings;
        let variables = &Variables::open(&self.store, &run.test, &run.variables)?;
        log.hide(variables.mask());
        let mut generator = Generator::in_utc(clock::now(), rand::random());
        log.note(&What::Resolving);
        let resolved = resolved(run_span, log.mask(), &test, variables, &mut generator).await;
        let (trigger, attached) = match resolved {
            Ok(resolved) => resolved,
            Err(message) => {
                return log.fail(State::TriggerFailed, &What::NotResolved { message }).await;
            }
        };
        log.note(&self.noted(log, &test, &trigger));

        let context =
            Context { trace: attached.unwrap_or(run.trace), span: random_span_id(), baggage: String::new() };
        if attached.is_some() {
            log.set_trace(context.trace).await?;
            spans::note_trace(run_span, context.trace);
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
        let sent = self.send(log.mask(), run_span, &stored.id, &trigger, &context).await;
        let end = clock::now();
        let reply = match sent {
            Ok(reply) => reply,
            Err(failure) => {
                return log.fail(State::TriggerFailed, &What::from(&failure)).await;
            }
        };
        let taken_in = async {
            log.note(&What::Triggered { reply: (&reply).into() });
            log.change_state(State::Executing, State::AwaitingTrace).await
        };
        taken_in.instrument(spans::response(run_span)).await?;
        drop(turn);

        let judge = Judge::compile(&test, variables, generator);
        let root = TriggerSpan { id: context.span, trace: context.trace, start, end }.to_span(&reply);
        let policy = self.policy(&stored.id, &test, &settings).await?;
        let waited = if let Some((policy, uninstrumented)) = policy {
            arrivals.progress.know_uninstrumented(uninstrumented);
            log.append(&What::waiting(&policy)).await?;
            arrivals.progress.answered(end);
            let specs = |trace: &_| judge.standing(trace);
            let (trace, span) = (context.trace, context.span);
            let poll = Poll { run: run_span, test: &stored.id, trace, span, root: &root };
            let wait_span = poll.start();
            let wait = arrivals.wait(&policy, &self.memory, log, specs, poll, skip);
            let waited = wait.instrument(wait_span.clone()).await?;
            self.watch.phase("wait", clock::now().since(end));
            if let Some(message) = waited.no_trace() {
                spans::note_no_trace(&wait_span, &log.mask().text(&message));
            }
            waited
        } else {
            log.note(&What::WaitSkipped { debts: Vec::new() });
            Waited::Skipped
        };
        let absences = match &waited {
            Waited::Skipped => Vec::new(),
            Waited::Ended(ended) => match ended.meaning() {
                Meaning::Judge => Vec::new(),
                Meaning::Inconclusive => ended.absences.clone(),
                Meaning::NoTrace => {
                    log.end(State::TraceFailed, &self.no_trace(&waited, start)).await?;
                    // What comes after all is judged.
                    let judged = Judged::just_now(judge, root, arrivals, Outcome::Inconclusive, &waited)
                        .with(true, None, settings);
                    return Ok(Some(Judged { has_no_verdict: true, ..judged }));
                }
            },
        };
        let refused = if test.skip_trace_collection { None } else { self.source.refused(context.trace) };
        let tree = arrivals.trace(&root);
        let analysis = self.analysis(&stored.id, &tree, &settings).await?;
        log.note(&What::analyzed(analysis.as_ref()));
        log.note(&What::Judging);
        let waited_until = clock::now();
        let verdict = recorded(run_span, log.mask(), || judge.verdict(&tree, absences, refused)).await;
        let outcome = verdict.outcome;
        self.watch.phase("judge", clock::now().since(waited_until));
        if let Waited::Ended(ended) = &waited {
            let learn = || async {
                self.memory.learn(&stored.id, &arrivals.progress, ended, outcome == Outcome::Passed).await
            };
            patiently(learn).await?;
        }
        log.end(State::Finished, &What::Judged { verdict }).await?;
        let judged = Judged::just_now(judge, root, arrivals, outcome, &waited);
        Ok(Some(judged.with(!test.skip_trace_collection, analysis, settings)))
    }
}

impl Runner {
    /// Sends the trigger, in a span of its own.
    async fn send(
        &self,
        mask: &Mask,
        run_span: &tracing::Span,
        test: &str,
        trigger: &Trigger,
        context: &Context,
    ) -> Result<Reply, Failure> {
        let start = clock::now();
        let span = spans::trigger(run_span, test, trigger, context);
        let record = self.watch.trigger_span(trigger.kind(), context);
        let sent = self.triggers.send(trigger, context).instrument(span.clone()).await;
        let sent = sent.map_err(|failure| failure.hiding(mask));
        record.end(&sent);
        spans::note_reply(&span, &sent);
        self.watch.phase("trigger", clock::now().since(start));
        sent
    }

    /// What is written down of a complete trigger. A secret that is sent to somebody unverified is warned of.
    fn noted(&self, log: &Log, test: &Test, trigger: &Trigger) -> What {
        let shown = settings::shown_trigger(test, trigger);
        let warning = self.triggers.warning(trigger, log.mask().hides_in(&shown));
        if let Some(warning) = warning.as_ref().map(|warning| log.mask().text(warning)) {
            tracing::warn!(test = log.run().test, run = log.run().number, "{warning}");
        }
        What::Resolved { trigger: Some(shown), warning }
    }

    /// What is written down when nothing came of a trace, and why that may be.
    fn no_trace(&self, waited: &Waited, since: Timestamp) -> What {
        let message = waited.no_trace().into_iter().chain(self.why_nothing_came(since));
        What::NoTrace { message: message.collect::<Vec<_>>().join("; ") }
    }

    /// Which services were heard while nothing came of a trace, in a sentence.
    fn why_nothing_came(&self, since: Timestamp) -> Option<String> {
        let services = self.memory.services().views();
        let heard = services.iter().filter(|service| service.last_heard >= Some(since));
        let heard: Vec<&str> = heard.take(NAMED_SERVICES).map(|service| &*service.name).collect();
        if !heard.is_empty() {
            let heard = heard.join(", ");
            return Some(format!(
                "meanwhile other traces came from {heard}: if they were caused by this request, the system under test \
                 does not take over its `traceparent` header"
            ));
        }
        let ever = services.iter().any(|service| service.last_heard.is_some());
        (!ever).then(|| {
            "nothing at all has arrived since this server started: check the address and port that \
             OTEL_EXPORTER_OTLP_ENDPOINT names, and OTEL_TRACES_EXPORTER"
                .to_owned()
        })
    }

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
pub(super) async fn recorded(run: &tracing::Span, mask: &Mask, judge: impl FnOnce() -> Verdict) -> Verdict {
    compute::give_way().await;
    let (outputs, assertions) = (spans::outputs(run), spans::judge(run));
    let verdict = assertions.in_scope(judge);
    compute::wait_if_stopped().await;
    spans::note_outputs(&outputs, &verdict.outputs, mask);
    spans::note_verdict(&assertions, verdict.outcome == Outcome::Passed);
    verdict
}

/// Puts the variables into the trigger, in a span of its own. Also says which trace the trigger names.
async fn resolved(
    run: &tracing::Span,
    mask: &Mask,
    test: &Test,
    variables: &Variables,
    generator: &mut Generator,
) -> Result<(Trigger, Option<TraceId>), String> {
    compute::give_way().await;
    let span = spans::resolve(run);
    let resolved = span.in_scope(|| {
        let trigger = resolving::resolve(test, variables, generator)?;
        let attached = attached(&trigger, variables)?;
        Ok((trigger, attached))
    });
    compute::wait_if_stopped().await;
    resolved.inspect_err(|message: &String| spans::note_unresolved(&span, &mask.text(message)))
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

impl Waited {
    /// What to look at when no trace came.
    fn no_trace(&self) -> Option<String> {
        match self {
            Self::Ended(ended) if ended.meaning() == Meaning::NoTrace => Some(debts(ended).join("; ")),
            Self::Ended(_) | Self::Skipped => None,
        }
    }
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
