//! A run: its state, the response to its trigger, and the trigger's span.

use std::sync::Arc;

use crate::id::{SpanId, TraceId};
use crate::names;
use crate::time::Timestamp;
use crate::trace::{Attributes, Dropped, Resource, Scope, Span, SpanKind};
use crate::value::Value;

/// The state of a run. Clients rely on these words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Requested, not started.
    Created,
    /// The trigger is being sent.
    Executing,
    /// Spans are arriving.
    AwaitingTrace,
    /// The analyzer is running.
    AnalyzingTrace,
    /// The specs are being judged.
    AwaitingTestResults,
    /// Judged, with any verdict.
    Finished,
    /// The trigger could not be sent or got no response.
    TriggerFailed,
    /// No trace arrived.
    TraceFailed,
    /// The analyzer failed.
    AnalyzingError,
    /// The specs could not be judged.
    AssertionFailed,
    /// Stopped by the user.
    Stopped,
    /// The server ended while the run was in progress.
    Failed,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 12] = [
        Self::Created,
        Self::Executing,
        Self::AwaitingTrace,
        Self::AnalyzingTrace,
        Self::AwaitingTestResults,
        Self::Finished,
        Self::TriggerFailed,
        Self::TraceFailed,
        Self::AnalyzingError,
        Self::AssertionFailed,
        Self::Stopped,
        Self::Failed,
    ];

    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Executing => "EXECUTING",
            Self::AwaitingTrace => "AWAITING_TRACE",
            Self::AnalyzingTrace => "ANALYZING_TRACE",
            Self::AwaitingTestResults => "AWAITING_TEST_RESULTS",
            Self::Finished => "FINISHED",
            Self::TriggerFailed => "TRIGGER_FAILED",
            Self::TraceFailed => "TRACE_FAILED",
            Self::AnalyzingError => "ANALYZING_ERROR",
            Self::AssertionFailed => "ASSERTION_FAILED",
            Self::Stopped => "STOPPED",
            Self::Failed => "FAILED",
        }
    }

    /// Finds the state with this name.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether no other state follows.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Created
            | Self::Executing
            | Self::AwaitingTrace
            | Self::AnalyzingTrace
            | Self::AwaitingTestResults => false,
            Self::Finished
            | Self::TriggerFailed
            | Self::TraceFailed
            | Self::AnalyzingError
            | Self::AssertionFailed
            | Self::Stopped
            | Self::Failed => true,
        }
    }
}

/// The response to a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// An HTTP response.
    Http {
        /// The status code, like 200.
        status: u16,
        /// The status line, like `200 OK`.
        reason: String,
        /// Headers in order, one entry per value.
        headers: Vec<(String, String)>,
        /// The body as text.
        body: String,
        /// Whether the body was longer than the limit and was cut.
        truncated: bool,
        /// Whether the body is not text: bytes that are not UTF-8 were replaced.
        binary: bool,
    },
    /// A gRPC response.
    Grpc(Box<GrpcReply>),
    /// A message that a broker has accepted.
    Kafka {
        /// The partition that it was written to.
        partition: i32,
        /// Its offset there.
        offset: i64,
    },
    /// A command that has ended.
    Exec {
        /// Its exit code; 128 plus the signal's number when a signal ended it.
        code: i32,
        /// Its standard output.
        stdout: String,
        /// Its standard error.
        stderr: String,
        /// Whether it wrote more than the limit.
        truncated: bool,
    },
    /// Nothing was sent: the trace exists already.
    TraceId {
        /// The trace, as the test gave it.
        id: String,
    },
}

/// A gRPC response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrpcReply {
    /// The status code as a number; 0 is OK.
    pub code: i32,
    /// The status code's name, like `NOT_FOUND`.
    pub status: String,
    /// The message of the status.
    pub message: String,
    /// Further details of the status, one JSON text each.
    pub details: Vec<String>,
    /// Metadata that came before the response, one entry per value.
    pub metadata: Vec<(String, String)>,
    /// The last message as JSON; empty when there was none.
    pub body: String,
    /// Every message as JSON, when the method returns a stream.
    pub messages: Option<Vec<String>>,
    /// Whether there were more messages than the limit.
    pub truncated: bool,
}

/// The trigger's own span: the root that the run puts above all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TriggerSpan {
    /// Its id, which the system under test received as the caller's.
    pub id: SpanId,
    /// The trace.
    pub trace: TraceId,
    /// When the trigger was sent.
    pub start: Timestamp,
    /// When the response was complete.
    pub end: Timestamp,
}

impl TriggerSpan {
    /// Converts it to a span, with the response as attributes.
    pub fn to_span(self, reply: &Reply) -> Span {
        let mut attributes = Attributes::default();
        attributes.set("service.name", names::TRIGGER_SERVICE);
        describe(reply, &mut attributes);
        let resource = Resource {
            attributes: [("service.name", Value::from(names::TRIGGER_SERVICE))].into_iter().collect(),
            ..Resource::default()
        };
        Span {
            id: Some(self.id),
            parent: None,
            name: names::TRIGGER_SPAN.into(),
            kind: SpanKind::Unspecified,
            start: self.start,
            end: Some(self.end),
            status: None,
            attributes,
            events: Vec::new(),
            links: Vec::new(),
            resource: Arc::new(resource),
            scope: Arc::new(Scope::default()),
            trace_state: "".into(),
            flags: 0,
            dropped: Dropped::default(),
        }
    }
}

/// Adds the response as attributes.
fn describe(reply: &Reply, attributes: &mut Attributes) {
    match reply {
        Reply::Http { status, headers, body, .. } => {
            attributes.set(names::RESPONSE_STATUS, status.to_string());
            attributes.set(names::RESPONSE_BODY, body.as_str());
            attributes.set(names::RESPONSE_HEADERS, headers_json(headers));
        }
        Reply::Grpc(reply) => {
            attributes.set(names::RESPONSE_STATUS, reply.code.to_string());
            attributes.set(names::RESPONSE_BODY, reply.body.as_str());
            attributes.set(names::RESPONSE_HEADERS, headers_json(&reply.metadata));
            if !reply.message.is_empty() {
                attributes.set(names::RESPONSE_MESSAGE, reply.message.as_str());
            }
            if !reply.details.is_empty() {
                attributes.set(names::RESPONSE_DETAILS, json_list(&reply.details));
            }
            if let Some(messages) = &reply.messages {
                attributes.set(names::RESPONSE_MESSAGES, json_list(messages));
            }
        }
        Reply::Exec { code, stdout, stderr, .. } => {
            attributes.set(names::RESPONSE_STATUS, code.to_string());
            attributes.set(names::RESPONSE_BODY, stdout.as_str());
            attributes.set(names::RESPONSE_STDERR, stderr.as_str());
        }
        Reply::Kafka { .. } | Reply::TraceId { .. } => {}
    }
}

/// Joins JSON texts to a JSON list.
fn json_list(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

fn headers_json(headers: &[(String, String)]) -> String {
    let pairs = headers.iter().map(|(key, value)| serde_json::json!({ "key": key, "value": value }));
    serde_json::Value::Array(pairs.collect()).to_string()
}
