//! The events of a run. A run is the list of its events; everything shown of it is a fold of that list.

use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::{run, wait};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::verdict::{Outcome, Verdict};
use crate::outbound::trigger;
use crate::storage::store::StoredEvent;

/// An event of a run, of a test or of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{W}Event")]
pub struct Event<W = RunEventKind> {
    /// Its number within the run, counted from 1.
    pub seq: u64,
    /// Nanoseconds since the epoch.
    pub at: u64,
    /// The event itself.
    #[serde(flatten)]
    pub what: W,
}

impl<W: DeserializeOwned> Event<W> {
    /// Reads a stored event. One that cannot be read is left out and logged.
    pub fn read(stored: &StoredEvent) -> Option<Self> {
        match serde_json::from_str(&stored.body) {
            Ok(what) => Some(Self { seq: stored.seq, at: stored.at.as_nanos(), what }),
            Err(error) => {
                tracing::error!(%error, "a stored event cannot be read and is left out");
                None
            }
        }
    }
}

impl Event {
    /// Returns when it happened.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_nanos(self.at)
    }
}

/// The kinds of events of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RunEventKind {
    /// The run was created.
    Created,
    /// The run judges the trace of an earlier run again.
    Again {
        /// The earlier run.
        of: u64,
        /// The events of that run until it was judged.
        events: Vec<Event>,
    },
    /// The run was imported from another server.
    Imported {
        /// The run as that server showed it.
        run: Box<super::run::Run>,
    },
    /// The server that executed the run stopped before the trigger was sent: the run is queued again.
    Requeued,
    /// The variables of the trigger are being resolved.
    Resolving,
    /// The trigger is resolved.
    Resolved {
        /// The trigger with its values, in the form of a definition.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trigger: Option<serde_json::Value>,
        /// A warning about its security.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warning: Option<String>,
    },
    /// The trigger's texts cannot be resolved.
    NotResolved {
        /// The error message.
        message: String,
    },
    /// The trigger is being sent.
    Triggering {
        /// The span of the trigger.
        span_id: String,
    },
    /// The trigger got a response.
    Triggered {
        /// The response.
        reply: Reply,
        /// When the trigger was sent, in nanoseconds since the epoch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent: Option<u64>,
        /// When it was answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered: Option<u64>,
    },
    /// The trigger got no response.
    TriggerFailed {
        /// The class of the failure.
        reason: String,
        /// The error message.
        message: String,
        /// Whether no connection was established.
        connection: bool,
        /// Whether the address is on the server's own machine.
        targets_localhost: bool,
        /// Whether the server runs in a container, where localhost is the container.
        #[serde(default)]
        running_on_container: bool,
    },
    /// The wait for the trace begins.
    Waiting {
        /// Milliseconds without new spans that end the wait when nothing is pending.
        quiet: u64,
        /// Milliseconds without new spans that end the wait although something is pending.
        settle: u64,
        /// Milliseconds after which the wait ends in any case.
        timeout: u64,
        /// Milliseconds for which a failure by absence is checked again before it is reported, if the profile says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm: Option<u64>,
    },
    /// The server that waited for the trace is gone; the next one goes on.
    Resumed,
    /// Spans arrived.
    Arrived {
        /// The number of new spans.
        new: usize,
        /// The number of spans so far.
        spans: usize,
    },
    /// All that the trace owes is here, and a step of a suite only waits for the window of its first run.
    Settling,
    /// Every span that a failure may have missed is known to be absent.
    Confirmed,
    /// The wait has ended.
    WaitEnded {
        /// The reason, as a sentence.
        reason: String,
        /// Whether the trace counts as complete.
        complete: bool,
        /// The number of spans.
        spans: usize,
        /// The arrival of the last one, in nanoseconds since the epoch.
        last_arrival: Option<u64>,
        /// What was still pending, a sentence each.
        debts: Vec<String>,
        /// The positions in `debts` of spans that a call or an earlier run leads to expect.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        expected: Vec<usize>,
        /// What the specs still lacked, a sentence each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        undecided: Vec<String>,
        /// Whether no earlier run had learned what to expect.
        #[serde(default)]
        first: bool,
        /// The quiet window, in milliseconds.
        #[serde(default)]
        quiet: u64,
        /// The settle window, in milliseconds.
        settle: u64,
    },
    /// The wait for the trace is skipped, by the test or by the user.
    WaitSkipped {
        /// What was pending when the user ended the wait, a sentence each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        debts: Vec<String>,
        /// The positions in `debts` of spans that a call or an earlier run leads to expect.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        expected: Vec<usize>,
    },
    /// The analyzer is disabled.
    AnalysisSkipped,
    /// No trace arrived.
    NoTrace {
        /// The message, with advice.
        message: String,
    },
    /// The analyzer has checked the trace.
    Analyzed {
        /// Its report, as clients read it.
        analysis: super::run::Linter,
        /// Why it may not hold for the whole trace, if spans are missing that are not known to be absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        open: Option<String>,
    },
    /// The specs are being judged.
    Judging,
    /// The specs were judged.
    Judged {
        /// The verdict.
        verdict: Verdict,
    },
    /// Spans arrived after the verdict, and the trace was judged again.
    Late {
        /// The number of late spans.
        spans: usize,
        /// The outcome before.
        before: Outcome,
        /// The verdict with them.
        verdict: Verdict,
    },
    /// The user stopped the run.
    Stopped,
    /// The server stopped during the run, which cannot be resumed.
    Interrupted,
    /// The server failed to execute the run.
    Broken {
        /// The error message.
        message: String,
    },
}

/// Why an interrupted run has no verdict, and what to do.
pub const INTERRUPTED: &str = "the server was restarted during the run, before the answer to the trigger was stored: what \
                               the trigger did is not known, and it is not sent twice; run the test again";

/// The name of the field that names the kind of an event; it comes first.
pub(super) const KIND: &str = "what";

/// The response to a trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Reply {
    /// An HTTP response.
    Http {
        /// The status code, for example `200`.
        status_code: u16,
        /// The status line, for example `200 OK`.
        status: String,
        /// The headers in order.
        headers: Vec<Header>,
        /// The body as text.
        body: String,
        /// Whether the body was truncated.
        #[serde(default)]
        truncated: bool,
        /// Whether the body is not UTF-8; invalid bytes were replaced.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        binary: bool,
    },
    /// A gRPC response.
    Grpc {
        /// The status code as a number.
        status_code: i32,
        /// The name of the status code.
        status: String,
        /// The message of the status.
        #[serde(default)]
        message: String,
        /// The details of the status, a JSON text each.
        #[serde(default)]
        details: Vec<String>,
        /// The metadata in order.
        metadata: Vec<Header>,
        /// The last message as JSON.
        body: String,
        /// Every message as JSON, if the method returns a stream.
        #[serde(default)]
        messages: Option<Vec<String>>,
        /// Whether there were more messages than are kept.
        #[serde(default)]
        truncated: bool,
    },
    /// A message that a broker has acknowledged.
    Kafka {
        /// Its partition.
        partition: i32,
        /// Its offset there.
        offset: i64,
    },
    /// A command that has ended.
    Exec {
        /// Its exit code.
        exit_code: i32,
        /// Its standard output.
        stdout: String,
        /// Its standard error.
        stderr: String,
        /// Whether the output was truncated.
        #[serde(default)]
        truncated: bool,
    },
    /// Nothing was sent: the test has a trace id.
    TraceId {
        /// The trace, as the test gave it.
        id: String,
    },
}

impl Reply {
    /// Whether it was truncated.
    pub const fn is_truncated(&self) -> bool {
        match self {
            Self::Http { truncated, .. } | Self::Grpc { truncated, .. } | Self::Exec { truncated, .. } => {
                *truncated
            }
            Self::Kafka { .. } | Self::TraceId { .. } => false,
        }
    }

    /// Whether it is not UTF-8, so that some bytes were replaced.
    pub const fn is_binary(&self) -> bool {
        match self {
            Self::Http { binary, .. } => *binary,
            Self::Grpc { .. } | Self::Exec { .. } | Self::Kafka { .. } | Self::TraceId { .. } => false,
        }
    }
}

/// A header of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: String,
}

impl Header {
    fn of((key, value): &(String, String)) -> Self {
        Self { key: key.clone(), value: value.clone() }
    }

    fn pair(self) -> (String, String) {
        (self.key, self.value)
    }
}

impl From<&run::Reply> for Reply {
    fn from(reply: &run::Reply) -> Self {
        match reply {
            run::Reply::Http { status, reason, headers, body, truncated, binary } => Self::Http {
                status_code: *status,
                status: reason.clone(),
                headers: headers.iter().map(Header::of).collect(),
                body: body.clone(),
                truncated: *truncated,
                binary: *binary,
            },
            run::Reply::Grpc(reply) => Self::Grpc {
                status_code: reply.code,
                status: reply.status.clone(),
                message: reply.message.clone(),
                details: reply.details.clone(),
                metadata: reply.metadata.iter().map(Header::of).collect(),
                body: reply.body.clone(),
                messages: reply.messages.clone(),
                truncated: reply.truncated,
            },
            run::Reply::Kafka { partition, offset } => Self::Kafka { partition: *partition, offset: *offset },
            run::Reply::Exec { code, stdout, stderr, truncated } => Self::Exec {
                exit_code: *code,
                stdout: stdout.clone(),
                stderr: stderr.clone(),
                truncated: *truncated,
            },
            run::Reply::TraceId { id } => Self::TraceId { id: id.clone() },
        }
    }
}

impl From<Reply> for run::Reply {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Http { status_code, status, headers, body, truncated, binary } => Self::Http {
                status: status_code,
                reason: status,
                headers: headers.into_iter().map(Header::pair).collect(),
                body,
                truncated,
                binary,
            },
            Reply::Grpc { status_code, status, message, details, metadata, body, messages, truncated } => {
                Self::Grpc(Box::new(run::GrpcReply {
                    code: status_code,
                    status,
                    message,
                    details,
                    metadata: metadata.into_iter().map(Header::pair).collect(),
                    body,
                    messages,
                    truncated,
                }))
            }
            Reply::Kafka { partition, offset } => Self::Kafka { partition, offset },
            Reply::Exec { exit_code, stdout, stderr, truncated } => {
                Self::Exec { code: exit_code, stdout, stderr, truncated }
            }
            Reply::TraceId { id } => Self::TraceId { id },
        }
    }
}

impl From<&trigger::TriggerError> for RunEventKind {
    fn from(failure: &trigger::TriggerError) -> Self {
        Self::TriggerFailed {
            reason: failure.reason.as_str().to_owned(),
            message: failure.message.clone(),
            connection: failure.reason.is_connection(),
            targets_localhost: failure.targets_localhost,
            running_on_container: failure.running_on_container,
        }
    }
}

impl RunEventKind {
    /// The response to a trigger that was sent and answered at these times.
    pub fn triggered(reply: &run::Reply, sent: &run::TriggerSpan) -> Self {
        let (start, end) = (sent.start.as_nanos(), sent.end.as_nanos());
        Self::Triggered { reply: reply.into(), sent: Some(start), answered: Some(end) }
    }

    /// The start of a wait with this policy.
    pub fn waiting(policy: &wait::Policy, confirm: Option<Duration>) -> Self {
        Self::Waiting {
            quiet: millis(policy.quiet),
            settle: millis(policy.settle),
            timeout: millis(policy.timeout),
            confirm: confirm.map(millis),
        }
    }

    /// Returns why there is no verdict, if this event says so.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::NotResolved { message }
            | Self::TriggerFailed { message, .. }
            | Self::NoTrace { message }
            | Self::Broken { message } => Some(message),
            Self::Interrupted => Some(INTERRUPTED),
            Self::Created
            | Self::Again { .. }
            | Self::Imported { .. }
            | Self::Requeued
            | Self::Resolving
            | Self::Resolved { .. }
            | Self::Triggering { .. }
            | Self::Triggered { .. }
            | Self::Waiting { .. }
            | Self::Resumed
            | Self::Arrived { .. }
            | Self::Settling
            | Self::Confirmed
            | Self::WaitEnded { .. }
            | Self::WaitSkipped { .. }
            | Self::AnalysisSkipped
            | Self::Analyzed { .. }
            | Self::Judging
            | Self::Judged { .. }
            | Self::Late { .. }
            | Self::Stopped => None,
        }
    }

    /// The report of the analyzer, if it is enabled, and why that may not hold for the whole trace.
    pub fn analyzed(analysis: Option<&super::run::Linter>, open: Option<String>) -> Self {
        match analysis.cloned() {
            Some(analysis) => Self::Analyzed { analysis, open },
            None => Self::AnalysisSkipped,
        }
    }

    /// A wait that the user ended.
    pub fn wait_skipped(ended: &wait::WaitEnd) -> Self {
        let debts = ended.debts.iter();
        Self::WaitSkipped {
            expected: expected(debts.clone()),
            debts: debts.map(ToString::to_string).collect(),
        }
    }

    /// The end of a wait.
    pub fn wait_ended(ended: &wait::WaitEnd, progress: &wait::Progress) -> Self {
        let unnamed = (ended.unnamed_debts > 0).then(|| format!("and {} more", ended.unnamed_debts));
        let told = |is_told: fn(&wait::Pending) -> bool| ended.debts.iter().filter(move |debt| is_told(debt));
        let debts = told(|debt| !matches!(debt, wait::Pending::First | wait::Pending::Spec { .. }));
        let undecided = told(|debt| matches!(debt, wait::Pending::Spec { .. }));
        Self::WaitEnded {
            reason: ended.reason.to_string(),
            complete: ended.meaning() == wait::Meaning::Judge,
            spans: progress.spans(),
            last_arrival: progress.last_arrival().map(Timestamp::as_nanos),
            expected: expected(debts.clone()),
            debts: debts.map(ToString::to_string).chain(unnamed).collect(),
            undecided: undecided.map(ToString::to_string).collect(),
            first: ended.debts.contains(&wait::Pending::First),
            quiet: millis(ended.quiet),
            settle: millis(ended.settle),
        }
    }
}

/// The positions of the spans that a call or an earlier run leads to expect.
fn expected<'a>(debts: impl Iterator<Item = &'a wait::Pending>) -> Vec<usize> {
    debts.enumerate().filter(|(_, debt)| debt.is_expected()).map(|(at, _)| at).collect()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
