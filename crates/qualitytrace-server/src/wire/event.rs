//! The events of a run. A run is the list of them; everything shown of it is a fold of that list.

use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::{run, wait};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::verdict::{Outcome, Verdict};
use crate::store::StoredEvent;
use crate::trigger;

/// Something that happened to a run, of a test or of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{W}Event")]
pub struct Event<W = What> {
    /// Counts from 1 within the run.
    pub seq: u64,
    /// Nanoseconds since the epoch.
    pub at: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: W,
}

impl<W: DeserializeOwned> Event<W> {
    /// The event as the store has it. One that cannot be read is left out, which is said.
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
    /// When it happened.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_nanos(self.at)
    }
}

/// What can happen to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum What {
    /// It was asked for.
    Created,
    /// It judges the trace of an earlier run again.
    Again {
        /// The earlier run.
        of: u64,
        /// What happened to it until it was judged.
        events: Vec<Event>,
    },
    /// It came from another server, as it was there.
    Imported {
        /// The run as that server showed it.
        run: Box<super::run::Run>,
    },
    /// The server that had begun it went away before the trigger was sent: it waits for its turn again.
    Requeued,
    /// Variables are being put into the trigger.
    Resolving,
    /// The trigger is complete.
    Resolved {
        /// The trigger with its values put in, in the form of a definition.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trigger: Option<serde_json::Value>,
        /// What is unsafe about it, in a sentence.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warning: Option<String>,
    },
    /// The trigger's texts cannot be resolved.
    NotResolved {
        /// Why.
        message: String,
    },
    /// The trigger is on its way.
    Triggering {
        /// The trigger's own span.
        span_id: String,
    },
    /// The trigger was answered.
    Triggered {
        /// The answer.
        reply: Reply,
    },
    /// The trigger got no answer.
    TriggerFailed {
        /// One word.
        reason: String,
        /// A sentence.
        message: String,
        /// Whether no connection came about.
        connection: bool,
        /// Whether the address means the server's own machine.
        targets_localhost: bool,
        /// Whether the server runs in a container, where that machine is the container.
        #[serde(default)]
        running_on_container: bool,
    },
    /// The wait for the trace begins.
    Waiting {
        /// Milliseconds of silence that end it when nothing is owed.
        quiet: u64,
        /// Milliseconds of silence that end it although something is owed.
        settle: u64,
        /// Milliseconds after which it ends in any case.
        timeout: u64,
        /// Milliseconds for which a failure by absence is looked at again before it is told, where the profile says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm: Option<u64>,
    },
    /// Spans arrived.
    Arrived {
        /// How many of them are new.
        new: usize,
        /// How many there are now.
        spans: usize,
    },
    /// Every span that a failure may have missed is known to be absent.
    Confirmed,
    /// The wait is over.
    WaitEnded {
        /// A sentence.
        reason: String,
        /// Whether the trace is taken as complete.
        complete: bool,
        /// How many spans there are.
        spans: usize,
        /// When the last of them arrived, in nanoseconds since the epoch.
        last_arrival: Option<u64>,
        /// What was still owed, a sentence each.
        debts: Vec<String>,
        /// What the specs still lacked, a sentence each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        undecided: Vec<String>,
        /// Whether no earlier run said what to expect.
        #[serde(default)]
        first: bool,
        /// The quiet window that was in force, in milliseconds.
        #[serde(default)]
        quiet: u64,
        /// The settle window that was in force, in milliseconds.
        settle: u64,
    },
    /// Nobody waits for the trace: the test or the user does not want to.
    WaitSkipped {
        /// What the trace owed when the user ended the wait, a sentence each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        debts: Vec<String>,
    },
    /// The analyzer is switched off.
    AnalysisSkipped,
    /// No trace came.
    NoTrace {
        /// What to look at.
        message: String,
    },
    /// The analyzer looked at the trace.
    Analyzed {
        /// What it says, as clients read it.
        analysis: super::run::Linter,
        /// Why it may not hold for the whole trace, of which a part is neither here nor known to be absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        open: Option<String>,
    },
    /// The specs are being judged.
    Judging,
    /// The specs were judged.
    Judged {
        /// The result.
        verdict: Verdict,
    },
    /// Spans came after the verdict, and the trace was judged again.
    Late {
        /// How many.
        spans: usize,
        /// The verdict before.
        before: Outcome,
        /// The verdict with them.
        verdict: Verdict,
    },
    /// The user ended it.
    Stopped,
    /// The server went away while it was under way.
    Interrupted,
    /// Our own side failed.
    Broken {
        /// What the server says.
        message: String,
    },
}

/// What came back from a trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Reply {
    /// An HTTP answer.
    Http {
        /// `200`.
        status_code: u16,
        /// `200 OK`.
        status: String,
        /// Headers in order.
        headers: Vec<Header>,
        /// The body as text.
        body: String,
        /// Whether the body was longer than what is kept.
        #[serde(default)]
        truncated: bool,
        /// Whether the body is no text: what is not UTF-8 was replaced.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        binary: bool,
    },
    /// A gRPC answer.
    Grpc {
        /// The status code as a number.
        status_code: i32,
        /// The status code's name.
        status: String,
        /// What the server says beside its status code.
        #[serde(default)]
        message: String,
        /// Further details of the status, a JSON text each.
        #[serde(default)]
        details: Vec<String>,
        /// Metadata in order.
        metadata: Vec<Header>,
        /// The last message as JSON.
        body: String,
        /// Every message as JSON, when the method answers with a stream.
        #[serde(default)]
        messages: Option<Vec<String>>,
        /// Whether there were more messages than are kept.
        #[serde(default)]
        truncated: bool,
    },
    /// A message that a broker has taken.
    Kafka {
        /// The partition that it went to.
        partition: i32,
        /// Its place there.
        offset: i64,
    },
    /// A command that has ended.
    Exec {
        /// Its exit code.
        exit_code: i32,
        /// What it wrote.
        stdout: String,
        /// What it complained about.
        stderr: String,
        /// Whether it wrote more than what is kept.
        #[serde(default)]
        truncated: bool,
    },
    /// Nothing was sent.
    TraceId {
        /// The trace, as the test gave it.
        id: String,
    },
}

impl Reply {
    /// Whether there was more of it than is kept.
    pub const fn is_truncated(&self) -> bool {
        match self {
            Self::Http { truncated, .. } | Self::Grpc { truncated, .. } | Self::Exec { truncated, .. } => {
                *truncated
            }
            Self::Kafka { .. } | Self::TraceId { .. } => false,
        }
    }

    /// Whether it is no text, so that some of it was replaced.
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

impl From<&trigger::Failure> for What {
    fn from(failure: &trigger::Failure) -> Self {
        Self::TriggerFailed {
            reason: failure.reason.as_str().to_owned(),
            message: failure.message.clone(),
            connection: failure.reason.is_connection(),
            targets_localhost: failure.targets_localhost,
            running_on_container: failure.running_on_container,
        }
    }
}

impl What {
    /// The wait that begins under this policy.
    pub fn waiting(policy: &wait::Policy, confirm: Option<Duration>) -> Self {
        Self::Waiting {
            quiet: millis(policy.quiet),
            settle: millis(policy.settle),
            timeout: millis(policy.timeout),
            confirm: confirm.map(millis),
        }
    }

    /// Why there is nothing to judge, if this says so.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::NotResolved { message }
            | Self::TriggerFailed { message, .. }
            | Self::NoTrace { message }
            | Self::Broken { message } => Some(message),
            Self::Interrupted => Some("the server went away while the run was under way"),
            Self::Created
            | Self::Again { .. }
            | Self::Imported { .. }
            | Self::Requeued
            | Self::Resolving
            | Self::Resolved { .. }
            | Self::Triggering { .. }
            | Self::Triggered { .. }
            | Self::Waiting { .. }
            | Self::Arrived { .. }
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

    /// What the analyzer says, if it is switched on, and why that may not hold for the whole trace.
    pub fn analyzed(analysis: Option<&super::run::Linter>, open: Option<String>) -> Self {
        match analysis.cloned() {
            Some(analysis) => Self::Analyzed { analysis, open },
            None => Self::AnalysisSkipped,
        }
    }

    /// The wait that ended like this.
    pub fn wait_ended(ended: &wait::Ended, progress: &wait::Progress) -> Self {
        let unnamed = (ended.unnamed_debts > 0).then(|| format!("and {} more", ended.unnamed_debts));
        let told = |is_told: fn(&wait::Debt) -> bool| {
            ended.debts.iter().filter(move |debt| is_told(debt)).map(ToString::to_string)
        };
        Self::WaitEnded {
            reason: ended.reason.to_string(),
            complete: ended.meaning() == wait::Meaning::Judge,
            spans: progress.spans(),
            last_arrival: progress.last_arrival().map(Timestamp::as_nanos),
            debts: told(|debt| !matches!(debt, wait::Debt::First | wait::Debt::Spec { .. }))
                .chain(unnamed)
                .collect(),
            undecided: told(|debt| matches!(debt, wait::Debt::Spec { .. })).collect(),
            first: ended.debts.contains(&wait::Debt::First),
            quiet: millis(ended.quiet),
            settle: millis(ended.settle),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
