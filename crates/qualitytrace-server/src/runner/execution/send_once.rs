//! A trigger that is sent once, without a run: nothing is stored of it.
//!
//! It passes through the same steps as the trigger of a run, and its events are redacted like those of a run.

use std::time::Duration;

use qualitytrace_core::definition::{Test, Trigger};
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::lang::Generator;
use qualitytrace_core::run::TriggerSpan;
use qualitytrace_core::time::Timestamp;

use super::execute::resolved;
use super::log::redacted;
use super::resolve::resolve;
use super::{Execution, random_span_id, random_trace_id};
use crate::base::clock;
use crate::base::redact::Redactor;
use crate::outbound::trigger::{Context, Methods, Reason, TriggerError};
use crate::storage::store::StoredEvent;
use crate::storage::variables::Variables;
use crate::wire::{Event, RunEventKind};

/// A trigger that was sent, with or without a response.
#[derive(Debug)]
pub(crate) struct SentOnce {
    /// The trace that the trigger causes, or that it names.
    pub(crate) trace: TraceId,
    /// The span of the trigger.
    pub(crate) span: SpanId,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    /// What happened, as events of a run, with secrets redacted.
    pub(crate) events: Vec<Event>,
}

/// Why a trigger was not sent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SendError {
    #[error("as many triggers as may be in progress at one time (runs.concurrency) are; try again later")]
    Busy,
    #[error("{0}")]
    NotResolved(String),
    #[error("{0}")]
    NotListed(String),
    #[error("the secret variables are too large to be redacted in the trace; send smaller ones")]
    SecretsTooLarge,
}

impl Execution {
    /// Lists what the server of a trigger offers, within this time whatever the trigger says. Also returns the redactor
    /// of the variables' secrets.
    pub(in crate::runner) async fn methods(
        &self,
        trigger: Trigger,
        variables: &Variables,
        longest: Duration,
    ) -> Result<(Methods, Redactor), SendError> {
        let variables = &variables.clone().with_credentials_of(Some(&trigger));
        let redactor = variables.redactor();
        let test = Test { trigger: Some(trigger), ..Test::default() };
        let mut generator = Generator::in_utc(clock::now(), rand::random());
        let trigger = resolve(&test, variables, &mut generator)
            .map_err(|message| SendError::NotResolved(redactor.text(&message).into_owned()))?;
        let asking = self.triggers.methods(&trigger);
        let found = tokio::time::timeout(longest, asking).await.unwrap_or_else(|_| Err(late(longest)));
        let found = found.map_err(|failure| SendError::NotListed(failure.hiding(&redactor).message))?;
        Ok((found, redactor))
    }

    /// Sends a trigger and waits for its response, within this time whatever the trigger says: no user can stop it.
    pub(in crate::runner) async fn send_once(
        &self,
        trigger: Trigger,
        variables: &Variables,
        longest: Duration,
    ) -> Result<SentOnce, SendError> {
        let variables = &variables.clone().with_credentials_of(Some(&trigger));
        let redactor = &variables.redactor();
        let span = &tracing::Span::current();
        let test = Test { trigger: Some(trigger), ..Test::default() };
        let mut generator = Generator::in_utc(clock::now(), rand::random());
        let (trigger, attached) = resolved(span, redactor, &test, variables, &mut generator)
            .await
            .map_err(|message| SendError::NotResolved(redactor.text(&message).into_owned()))?;
        let context = Context {
            trace: attached.unwrap_or_else(random_trace_id),
            span: random_span_id(),
            baggage: String::new(),
        };
        let secrets = variables.secrets().map(ToOwned::to_owned).collect();
        if attached.is_none() && !self.store.withhold(context.trace, secrets) {
            return Err(SendError::SecretsTooLarge);
        }
        let resolved = self.resolved_event(redactor, &test, &trigger);
        let triggering = RunEventKind::Triggering { span_id: context.span.to_string() };
        let start = clock::now();
        let sending = self.send(redactor, span, "", &trigger, &context);
        let sent = tokio::time::timeout(longest, sending).await.unwrap_or_else(|_| Err(late(longest)));
        let end = clock::now();
        let span = TriggerSpan { id: context.span, trace: context.trace, start, end };
        let ended = match &sent {
            Ok(reply) => RunEventKind::triggered(reply, &span),
            Err(failure) => RunEventKind::from(failure),
        };
        let events = [(start, resolved), (start, triggering), (end, ended)];
        let events = (1..).zip(events).filter_map(|(seq, (at, what))| event(seq, at, &what, redactor));
        Ok(SentOnce { trace: context.trace, span: context.span, start, end, events: events.collect() })
    }
}

/// An event as a client would read it from the store.
fn event(seq: u64, at: Timestamp, what: &RunEventKind, redactor: &Redactor) -> Option<Event> {
    Event::read(&StoredEvent { seq, at, body: redacted(what, redactor) })
}

fn late(longest: Duration) -> TriggerError {
    TriggerError {
        reason: Reason::Timeout,
        message: format!(
            "there was no answer within {} seconds; raise `limits.requestTimeout`, or store a test and run it",
            longest.as_secs_f64()
        ),
        targets_localhost: false,
        running_on_container: false,
    }
}
