//! What the events of a run add up to.

use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::run::{self, TriggerSpan};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Span;
use serde_json::Value;

use super::{Linter, Run};
use crate::wire::event::{Event, Reply, What};
use crate::wire::verdict::Verdict;

/// What is known about a run after its events so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The trigger's own span.
    pub span_id: Option<String>,
    /// The trigger with its values put in, in the form of a definition.
    pub trigger: Option<Value>,
    /// When the trigger was sent.
    pub triggered: Option<Timestamp>,
    /// When it was answered, or was known to stay without an answer.
    pub answered: Option<Timestamp>,
    /// Whether spans were waited for.
    pub waited: bool,
    /// When the wait for the trace was over.
    pub obtained: Option<Timestamp>,
    /// When it ended.
    pub completed: Option<Timestamp>,
    /// The answer.
    pub reply: Option<Reply>,
    /// Why there is no answer.
    pub failure: Option<Failure>,
    /// What the analyzer says.
    pub analysis: Option<Linter>,
    /// Why that may not hold for the whole trace.
    pub analysis_open: Option<String>,
    /// The latest verdict.
    pub verdict: Option<Verdict>,
    /// The run as another server showed it.
    pub imported: Option<Box<Run>>,
    /// The run of another server whose trace this one is judged by.
    pub earlier: Option<Box<Run>>,
    /// Why it came to no verdict.
    pub error: Option<String>,
}

/// Why a trigger got no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A sentence.
    pub message: String,
    /// Whether no connection came about.
    pub connection: bool,
    /// Whether the address means the server's own machine.
    pub targets_localhost: bool,
    /// Whether this server runs in a container.
    pub running_on_container: bool,
}

impl Facts {
    /// Adds up events, in their order.
    pub fn of(events: &[Event]) -> Self {
        let mut facts = Self::default();
        for event in events {
            facts.add(event.at(), &event.what);
        }
        facts
    }

    fn add(&mut self, at: Timestamp, what: &What) {
        match what {
            What::Imported { run } => self.imported = Some(run.clone()),
            What::Again { events, .. } => {
                for event in events {
                    self.add(event.at(), &event.what);
                }
                (self.completed, self.error) = (None, None);
                self.earlier = self.imported.take().or(self.earlier.take());
            }
            What::Resolved { trigger, .. } => self.trigger.clone_from(trigger),
            What::Triggering { span_id } => {
                self.span_id = Some(span_id.clone());
                self.triggered = Some(at);
            }
            What::Triggered { reply } => {
                self.reply = Some(reply.clone());
                self.answered = Some(at);
            }
            What::TriggerFailed { message, connection, targets_localhost, running_on_container, .. } => {
                self.answered = Some(at);
                self.failure = Some(Failure {
                    message: message.clone(),
                    connection: *connection,
                    targets_localhost: *targets_localhost,
                    running_on_container: *running_on_container,
                });
                self.ends(at, Some(message));
            }
            What::NotResolved { message } | What::NoTrace { message } | What::Broken { message } => {
                self.ends(at, Some(message));
                if matches!(what, What::NoTrace { .. }) {
                    self.obtained = None;
                }
            }
            What::WaitEnded { .. } | What::WaitSkipped { .. } => self.obtained = Some(at),
            What::Analyzed { analysis, open } => {
                self.analysis = Some(analysis.clone());
                self.analysis_open.clone_from(open);
            }
            What::Judged { verdict } => {
                self.verdict = Some(verdict.clone());
                self.ends(at, None);
            }
            What::Late { verdict, .. } => {
                self.verdict = Some(verdict.clone());
                // Whoever did not wait for spans counts them now.
                self.waited = true;
            }
            What::Stopped => {
                self.obtained = None;
                self.ends(at, None);
            }
            What::Interrupted => {
                self.ends(at, Some(&"the server went away while the run was under way".to_owned()));
            }
            What::Waiting { .. } => self.waited = true,
            What::Created
            | What::Requeued
            | What::Resolving
            | What::Arrived { .. }
            | What::AnalysisSkipped
            | What::Confirmed
            | What::Judging => {}
        }
    }

    fn ends(&mut self, at: Timestamp, error: Option<&String>) {
        self.completed = Some(at);
        self.error = error.cloned();
    }

    /// The span that stands for the trigger, once it was answered.
    pub fn root(&self, trace: TraceId) -> Option<Span> {
        let id: SpanId = self.span_id.as_ref()?.parse().ok()?;
        let span = TriggerSpan { id, trace, start: self.triggered?, end: self.answered? };
        Some(span.to_span(&run::Reply::from(self.reply.clone()?)))
    }
}
