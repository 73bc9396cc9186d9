//! The state of a run, folded from its events.

use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::run::{self, TriggerSpan};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Span;
use serde_json::Value;

use crate::wire::event::{Event, INTERRUPTED, Reply, RunEventKind};
use crate::wire::run::{Linter, Run};
use crate::wire::verdict::Verdict;

/// The state of a run after its events so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunState {
    /// The span of the trigger.
    pub span_id: Option<String>,
    /// The trigger with its values, in the form of a definition.
    pub trigger: Option<Value>,
    /// When the trigger was sent.
    pub triggered: Option<Timestamp>,
    /// When the response arrived, or the trigger failed.
    pub answered: Option<Timestamp>,
    /// When the trigger was sent and answered, without the time that it took to store these events.
    pub exchanged: Option<(Timestamp, Timestamp)>,
    /// Whether the run waited for spans.
    pub waited: bool,
    /// When the wait for the trace ended.
    pub obtained: Option<Timestamp>,
    /// When it ended.
    pub completed: Option<Timestamp>,
    /// The response to the trigger.
    pub reply: Option<Reply>,
    /// Why there is no response.
    pub failure: Option<TriggerFailure>,
    /// The report of the analyzer.
    pub analysis: Option<Linter>,
    /// Why that may not hold for the whole trace.
    pub analysis_open: Option<String>,
    /// The latest verdict.
    pub verdict: Option<Verdict>,
    /// The run as imported from another server.
    pub imported: Option<Box<Run>>,
    /// The run of another server whose trace is judged here.
    pub earlier: Option<Box<Run>>,
    /// Why there is no verdict.
    pub error: Option<String>,
}

/// Why a trigger got no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerFailure {
    /// The error message.
    pub message: String,
    /// Whether no connection was established.
    pub connection: bool,
    /// Whether the address is on the server's own machine.
    pub targets_localhost: bool,
    /// Whether this server runs in a container.
    pub running_on_container: bool,
}

impl RunState {
    /// Folds events, in their order.
    pub fn of(events: &[Event]) -> Self {
        let mut facts = Self::default();
        for event in events {
            facts.add(event.at(), &event.what);
        }
        facts
    }

    fn add(&mut self, at: Timestamp, what: &RunEventKind) {
        match what {
            RunEventKind::Imported { run } => self.imported = Some(run.clone()),
            RunEventKind::Again { events, .. } => {
                for event in events {
                    self.add(event.at(), &event.what);
                }
                (self.completed, self.error) = (None, None);
                self.earlier = self.imported.take().or(self.earlier.take());
            }
            RunEventKind::Resolved { trigger, .. } => self.trigger.clone_from(trigger),
            RunEventKind::Triggering { span_id } => {
                self.span_id = Some(span_id.clone());
                self.triggered = Some(at);
            }
            RunEventKind::Triggered { reply, sent, answered } => {
                self.reply = Some(reply.clone());
                self.answered = Some(at);
                let exchanged = sent.zip(*answered);
                self.exchanged = exchanged
                    .map(|(sent, answered)| (Timestamp::from_nanos(sent), Timestamp::from_nanos(answered)));
            }
            RunEventKind::TriggerFailed {
                message,
                connection,
                targets_localhost,
                running_on_container,
                ..
            } => {
                self.answered = Some(at);
                self.failure = Some(TriggerFailure {
                    message: message.clone(),
                    connection: *connection,
                    targets_localhost: *targets_localhost,
                    running_on_container: *running_on_container,
                });
                self.ends(at, Some(message));
            }
            RunEventKind::NotResolved { message }
            | RunEventKind::NoTrace { message }
            | RunEventKind::Broken { message } => {
                self.ends(at, Some(message));
                if matches!(what, RunEventKind::NoTrace { .. }) {
                    self.obtained = None;
                }
            }
            RunEventKind::WaitEnded { .. } | RunEventKind::WaitSkipped { .. } => self.obtained = Some(at),
            RunEventKind::Analyzed { analysis, open } => {
                self.analysis = Some(analysis.clone());
                self.analysis_open.clone_from(open);
            }
            RunEventKind::Judged { verdict } => {
                self.verdict = Some(verdict.clone());
                self.ends(at, None);
            }
            RunEventKind::Late { verdict, .. } => {
                self.verdict = Some(verdict.clone());
                // Late spans count even if the run did not wait for spans.
                self.waited = true;
            }
            RunEventKind::Stopped => {
                self.obtained = None;
                self.ends(at, None);
            }
            RunEventKind::Interrupted => {
                self.ends(at, Some(&INTERRUPTED.to_owned()));
            }
            RunEventKind::Waiting { .. } => self.waited = true,
            RunEventKind::Created
            | RunEventKind::Requeued
            | RunEventKind::Resumed
            | RunEventKind::Settling
            | RunEventKind::Resolving
            | RunEventKind::Arrived { .. }
            | RunEventKind::AnalysisSkipped
            | RunEventKind::Confirmed
            | RunEventKind::Judging => {}
        }
    }

    fn ends(&mut self, at: Timestamp, error: Option<&String>) {
        self.completed = Some(at);
        self.error = error.cloned();
    }

    /// Builds the span of the trigger, once there is a response.
    pub fn root(&self, trace: TraceId) -> Option<Span> {
        Some(self.sent(trace)?.to_span(&run::Reply::from(self.reply.clone()?)))
    }

    /// How the trigger was sent, once there is a response.
    pub fn sent(&self, trace: TraceId) -> Option<TriggerSpan> {
        let id: SpanId = self.span_id.as_ref()?.parse().ok()?;
        let (start, end) = self.exchanged.or(self.triggered.zip(self.answered))?;
        Some(TriggerSpan { id, trace, start, end })
    }
}
