//! A run: how far it has come, what its trigger brought, and the span that stands for the trigger.

use std::sync::Arc;

use crate::id::{SpanId, TraceId};
use crate::names;
use crate::time::Timestamp;
use crate::trace::{Attributes, Dropped, Resource, Scope, Span, SpanKind};
use crate::value::Value;

/// How far a run has come. The words are the ones that clients watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Asked for, not begun.
    Created,
    /// The trigger is under way.
    Executing,
    /// Spans are arriving.
    AwaitingTrace,
    /// The analyzer is at work.
    AnalyzingTrace,
    /// The specs are being judged.
    AwaitingTestResults,
    /// Judged, with whatever verdict.
    Finished,
    /// The trigger could not be sent or got no answer.
    TriggerFailed,
    /// No trace came.
    TraceFailed,
    /// The analyzer could not do its work.
    AnalyzingError,
    /// The specs could not be judged.
    AssertionFailed,
    /// Ended by the user.
    Stopped,
    /// The server went away while the run was under way.
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

    /// The word on the wire.
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

    /// The state of this word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether nothing follows any more.
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

/// What came back from a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// An HTTP answer.
    Http {
        /// `200`.
        status: u16,
        /// `200 OK`.
        reason: String,
        /// Headers in order, one entry a value.
        headers: Vec<(String, String)>,
        /// The body as text.
        body: String,
        /// Whether the body was longer than what is kept.
        truncated: bool,
        /// Whether the body is no text: what is not UTF-8 was replaced.
        binary: bool,
    },
    /// A gRPC answer.
    Grpc(Box<GrpcReply>),
    /// A message that a broker has taken.
    Kafka {
        /// The partition that it went to.
        partition: i32,
        /// Its place there.
        offset: i64,
    },
    /// A command that has ended.
    Exec {
        /// Its exit code; 128 and the signal's number when a signal ended it.
        code: i32,
        /// What it wrote.
        stdout: String,
        /// What it complained about.
        stderr: String,
        /// Whether it wrote more than what is kept.
        truncated: bool,
    },
    /// Nothing was sent: the trace exists already.
    TraceId {
        /// The trace, as the test gave it.
        id: String,
    },
}

/// A gRPC answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrpcReply {
    /// The status code as a number; 0 is good.
    pub code: i32,
    /// The status code's name, like `NOT_FOUND`.
    pub status: String,
    /// What the server says beside its status code.
    pub message: String,
    /// Further details of the status, a JSON text each.
    pub details: Vec<String>,
    /// Metadata that came before the answer, one entry a value.
    pub metadata: Vec<(String, String)>,
    /// The last message as JSON; empty when there was none.
    pub body: String,
    /// Every message as JSON, when the method answers with a stream.
    pub messages: Option<Vec<String>>,
    /// Whether there were more messages than are kept.
    pub truncated: bool,
}

/// The trigger's own span: the root that the run puts above everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TriggerSpan {
    /// Names it; the system under test saw it as the caller.
    pub id: SpanId,
    /// The trace.
    pub trace: TraceId,
    /// When the trigger was sent.
    pub start: Timestamp,
    /// When the answer was there.
    pub end: Timestamp,
}

impl TriggerSpan {
    /// The span as the language sees it, with what the answer says.
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

/// What the answer says, as attributes.
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

/// A list of texts that are JSON already.
fn json_list(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

fn headers_json(headers: &[(String, String)]) -> String {
    let pairs = headers.iter().map(|(key, value)| serde_json::json!({ "key": key, "value": value }));
    serde_json::Value::Array(pairs.collect()).to_string()
}
