//! Runs whose server is gone between the reply and the verdict: the wait for the trace goes on where it was.
//!
//! The reply is in the events of the run, and its spans are stored. Nothing is sent again.

use qualitytrace_core::definition::secrets::MASK;
use qualitytrace_core::lang::Generator;
use qualitytrace_core::run::{Reply, State};
use qualitytrace_core::wait::Begin;
use tokio::sync::watch;

use super::Execution;
use super::execute::{AnsweredRun, resolved};
use super::judged::JudgedRun;
use super::log::Log;
use crate::base::clock;
use crate::runner::Error;
use crate::runner::retry::retry_while_unavailable;
use crate::runner::spans;
use crate::storage::store::{RunCommand, StoredRun};
use crate::storage::variables::Variables;
use crate::wire::fold::RunState;
use crate::wire::request::RunRequest;
use crate::wire::{Event, RunEventKind};

impl Execution {
    /// Goes on with a run that waited for its trace when its server ended.
    pub(super) async fn resume(
        &self,
        log: &mut Log,
        run: &StoredRun,
        skip: watch::Receiver<Option<RunCommand>>,
        run_span: &tracing::Span,
    ) -> Result<Option<JudgedRun>, Error> {
        let Some(mut answered) = self.answered(log, run, run_span).await? else {
            return log.fail(State::Failed, &RunEventKind::Interrupted).await;
        };
        let mut waiting = self.prepare_wait(&mut answered).await?;
        let now = clock::now();
        answered.arrivals.resume(now, &waiting.policy);
        // The time without a server does not count.
        waiting.policy.timeout += now.since(answered.sent.end);
        log.append(&RunEventKind::Resumed).await?;
        Box::pin(self.conclude(log, answered, waiting, skip, run_span)).await
    }

    /// Rebuilds a run whose trigger was answered from its events. `None` if they do not have what was answered.
    async fn answered(
        &self,
        log: &mut Log,
        run: &StoredRun,
        run_span: &tracing::Span,
    ) -> Result<Option<AnsweredRun>, Error> {
        let (stored, test) = self.test_of(run).await?;
        spans::note_test(run_span, &test);
        let variables = Variables::open(&self.store, &run.test, &run.variables)?;
        log.set_redactor(variables.redactor());
        let events =
            retry_while_unavailable(|| async { Ok(self.store.events(&run.test, run.number, 0).await?) })
                .await?;
        let events: Vec<Event> = events.iter().filter_map(Event::read).collect();
        let state = RunState::of(&events);
        let mut generator = Generator::in_utc(clock::now(), rand::random());
        // What is generated differs from what was sent: the trigger is only needed to explain a missing trace.
        let trigger = resolved(run_span, log.redactor(), &test, &variables, &mut generator).await;
        let (Some(sent), Some(reply), Ok((trigger, attached))) =
            (state.sent(run.trace), self.reply(log, &state).await?, trigger)
        else {
            return Ok(None);
        };
        if attached.is_some() {
            self.attach(log, run_span, run.trace).await?;
        }
        let begin = if attached.is_some() { Begin::Attached } else { Begin::Triggered(sent.id) };
        let history = retry_while_unavailable(|| async { self.learning.history(&stored.id).await }).await?;
        let mut arrivals = self.arrivals(run.trace, begin, history);
        let request = RunRequest::of(run);
        arrivals.tells_settling = request.suite.is_some();
        Ok(Some(AnsweredRun {
            arrivals,
            settings: request.settings,
            is_attached: attached.is_some(),
            stored,
            test,
            variables,
            trigger,
            generator,
            sent,
            reply,
        }))
    }

    /// The reply as it was received. `None` if only its redacted form is known.
    async fn reply(&self, log: &Log, state: &RunState) -> Result<Option<Reply>, Error> {
        if let Some(RunEventKind::Triggered { reply, .. }) = log.unredacted().await? {
            return Ok(Some(reply.into()));
        }
        let is_redacted = |reply: &crate::wire::event::Reply| {
            !log.redactor().is_empty() && serde_json::to_string(reply).is_ok_and(|text| text.contains(MASK))
        };
        Ok(state.reply.clone().filter(|reply| !is_redacted(reply)).map(Reply::from))
    }
}
