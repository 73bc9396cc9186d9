//! The names and attributes that SDKs give the spans of a simulated service.

use std::sync::Arc;

use qualitytrace_core::trace::{Attributes, Span, Status, StatusCode};
use qualitytrace_core::value::Value;

const PORT: i64 = 8_080;

/// What is the same in all spans of a service, and of calls to it.
pub(super) struct Texts {
    pub(super) service: Arc<str>,
    /// The names of its spans.
    pub(super) step: Arc<str>,
    pub(super) entry: Arc<str>,
    pub(super) tail: Arc<str>,
    /// The name of calls to it.
    pub(super) called: Arc<str>,
    pub(super) language: Language,
    entered: Attributes,
    calling: Attributes,
    partner: Attributes,
}

/// What a service is written in: errors of calls look different in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Go,
    Java,
    Node,
    Python,
}

impl Language {
    pub(super) const ALL: [Self; 4] = [Self::Go, Self::Java, Self::Node, Self::Python];

    /// The value of `telemetry.sdk.language`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Java => "java",
            Self::Node => "nodejs",
            Self::Python => "python",
        }
    }

    /// The value of `error.type` and the description of the status after a call without an answer.
    fn error(self, reply: Reply) -> Option<(&'static str, &'static str)> {
        match (reply, self) {
            (Reply::Answered, _) => None,
            (Reply::Refused, Self::Go) => {
                Some(("*net.OpError", "dial tcp 10.0.9.9:8080: connect: connection refused"))
            }
            (Reply::Refused, Self::Java) => Some(("java.net.ConnectException", "Connection refused")),
            (Reply::Refused, Self::Node) => Some(("ECONNREFUSED", "connect ECONNREFUSED 10.0.9.9:8080")),
            (Reply::Refused, Self::Python) => {
                Some(("ConnectionRefusedError", "[Errno 111] Connection refused"))
            }
            (Reply::DeadlineExceeded, Self::Go) => {
                Some(("context.deadlineExceededError", "context deadline exceeded"))
            }
            (Reply::DeadlineExceeded, Self::Java) => {
                Some(("java.net.SocketTimeoutException", "Read timed out"))
            }
            (Reply::DeadlineExceeded, Self::Node) => {
                Some(("UND_ERR_HEADERS_TIMEOUT", "Headers Timeout Error"))
            }
            (Reply::DeadlineExceeded, Self::Python) => Some(("ReadTimeout", "Read timed out.")),
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// With an answer, which any process of the peer may have given.
    Answered,
    /// The connection was refused.
    Refused,
    /// The caller has given up waiting.
    DeadlineExceeded,
}

impl Texts {
    pub(super) fn new(name: &str, is_queue: bool, language: Language) -> Self {
        let route = format!("/{name}");
        let (entered, calling, entry, called) = if is_queue {
            (
                messaging(name, "process"),
                messaging(name, "send"),
                format!("process {name}"),
                format!("send {name}"),
            )
        } else {
            let mut entered = request(name);
            entered.set("http.route", route.as_str());
            entered.set("url.path", route.as_str());
            entered.set("url.scheme", "http");
            (entered, request(name), format!("GET {route}"), "GET".to_owned())
        };
        Self {
            service: name.into(),
            step: format!("check {name}").into(),
            entry: entry.into(),
            tail: format!("settle {name}").into(),
            called: called.into(),
            language,
            entered,
            calling,
            partner: request(&format!("{name}-partner")),
        }
    }

    /// The attributes of its entry. `local` is the address at which it was reached, where SDKs record that.
    pub(super) fn entered(&self, local: Option<&Arc<str>>) -> Attributes {
        let mut attributes = self.entered.clone();
        if attributes.get("http.route").is_some() {
            attributes.set("http.response.status_code", 200);
            if let Some(local) = local {
                attributes.set("network.local.address", Value::String(Arc::clone(local)));
                attributes.set("network.local.port", PORT);
            }
        }
        attributes
    }

    /// Makes a span a call of this service to `callee`. `peer` is the address that was reached, where SDKs record that.
    pub(super) fn calls(&self, callee: &Self, span: &mut Span, reply: Reply, peer: Option<&Arc<str>>) {
        span.attributes = callee.calling.clone();
        if let Some(peer) = peer {
            span.attributes.set("network.peer.address", Value::String(Arc::clone(peer)));
            span.attributes.set("network.peer.port", PORT);
        }
        self.end(span, reply);
    }

    /// Makes a span a message to this service.
    pub(super) fn sends(&self, span: &mut Span) {
        span.attributes = self.calling.clone();
    }

    /// Makes a span a call of this service to its partner, which sends no spans.
    pub(super) fn calls_partner(&self, span: &mut Span, reply: Reply) {
        span.attributes = self.partner.clone();
        self.end(span, reply);
    }

    fn end(&self, span: &mut Span, reply: Reply) {
        match self.language.error(reply) {
            None => span.attributes.set("http.response.status_code", 200),
            Some((kind, text)) => {
                span.attributes.set("error.type", kind);
                span.status = Some(error(text));
            }
        }
    }
}

/// The status of a span with an error.
pub(super) fn error(message: &str) -> Status {
    Status { code: StatusCode::Error, message: message.into() }
}

fn request(host: &str) -> Attributes {
    [
        ("http.request.method", Value::from("GET")),
        ("server.address", Value::from(host)),
        ("server.port", Value::Int(PORT)),
    ]
    .into_iter()
    .collect()
}

fn messaging(destination: &str, operation: &str) -> Attributes {
    [
        ("messaging.system", "kafka"),
        ("messaging.destination.name", destination),
        ("messaging.operation.type", operation),
        ("messaging.operation.name", operation),
    ]
    .into_iter()
    .map(|(name, value)| (name, Value::from(value)))
    .collect()
}
