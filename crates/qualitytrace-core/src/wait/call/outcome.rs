//! How a call ended, as far as the caller's own span tells: was it answered, was anyone reached?

use crate::names;
use crate::trace::{Span, StatusCode};
use crate::value::Value;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::wait) enum CallOutcome {
    /// A service answered, so it has worked, and its span is somewhere.
    Answered,
    /// No service was reached: the caller's own span proves that there is no answering span.
    Refused,
    /// It failed in a way that leaves open whether a service worked on it: no reply came, or a proxy may have replied.
    NoReply,
    /// The caller sent a message and did not wait for anything.
    Message,
}

impl CallOutcome {
    /// Reads the outcome of a call off its span.
    pub(super) fn read(span: &Span, is_message: bool) -> Self {
        if is_message {
            return Self::Message;
        }
        let is_resent = RESENDS.iter().any(|name| number(span, name).is_some_and(|count| count > 0));
        let http = HTTP_STATUS.iter().find_map(|name| number(span, name)).filter(|status| *status > 0);
        if let Some(status) = http
            && !is_grpc(span)
        {
            return if PROXY_STATUS.contains(&status) { Self::NoReply } else { Self::Answered };
        }
        let code = grpc_code(span);
        match code {
            Some(code) if APPLICATION_CODES.contains(&code) => return Self::Answered,
            Some(UNAVAILABLE) | None => {}
            Some(_) => return Self::NoReply,
        }
        let is_error = code.is_some()
            || span.status.as_ref().is_some_and(|status| status.code == StatusCode::Error)
            || text(span, "error.type").is_some();
        // Some libraries record the exception and leave the status of the span as it is.
        let may_be_refused = is_error || span.events.iter().any(|event| &*event.name == "exception");
        if may_be_refused && !is_resent && says_refused(span) {
            return Self::Refused;
        }
        if is_error { Self::NoReply } else { Self::Answered }
    }
}

/// Whether a text of the span says that no connection came about.
fn says_refused(span: &Span) -> bool {
    let status = span.status.as_ref().map(|status| &*status.message);
    let events = span.events.iter().flat_map(|event| {
        ["exception.type", "exception.message"].into_iter().filter_map(|name| {
            match event.attributes.get(name) {
                Some(Value::String(text)) => Some(&**text),
                _ => None,
            }
        })
    });
    let told = text(span, "error.type").into_iter().chain(status).chain(events);
    let mut told = told.map(|text| {
        let end = text.floor_char_boundary(MAX_TEXT_BYTES);
        text[..end].to_ascii_lowercase()
    });
    told.any(|text| REFUSALS.iter().any(|refusal| text.contains(refusal)))
}

/// Longer texts of errors are read up to here.
const MAX_TEXT_BYTES: usize = 2_048;

/// What clients write when no connection came about: names of errors and parts of their messages, in lower case.
const REFUSALS: [&str; 27] = [
    "connection refused",
    "connectionrefused",
    "econnrefused",
    "actively refused",
    "connectexception",
    "connecterror",
    "connectorerror",
    "cannot connect to host",
    "newconnectionerror",
    "failed to connect to all addresses",
    "unknownhost",
    "no such host",
    "enotfound",
    "name or service not known",
    "nameresolution",
    "gaierror",
    "getaddrinfo",
    "no route to host",
    "ehostunreach",
    "enetunreach",
    "network is unreachable",
    "connecttimeout",
    "connect timeout",
    "ssl handshake",
    "sslhandshake",
    "certificate verify failed",
    "callnotpermitted",
];

const RESENDS: [&str; 2] = ["http.request.resend_count", "http.resend_count"];
const HTTP_STATUS: [&str; 2] = ["http.response.status_code", "http.status_code"];
/// Answers that a proxy gives in place of the service.
const PROXY_STATUS: [i64; 5] = [401, 429, 502, 503, 504];
/// Codes that only the application itself answers with: success, and what is wrong with the request or the data.
const APPLICATION_CODES: [i64; 8] = [0, 3, 5, 6, 9, 10, 11, 15];
const UNAVAILABLE: i64 = 14;

fn is_grpc(span: &Span) -> bool {
    ["rpc.system", "rpc.system.name"].iter().any(|name| text(span, name) == Some("grpc"))
}

/// The status of a gRPC call, by number or by name.
fn grpc_code(span: &Span) -> Option<i64> {
    number(span, "rpc.grpc.status_code").or_else(|| {
        let name = text(span, "rpc.response.status_code").filter(|_| is_grpc(span))?;
        names::grpc_number(&name.to_ascii_uppercase())
    })
}

fn number(span: &Span, name: &str) -> Option<i64> {
    match span.attributes.get(name)? {
        Value::Int(number) => Some(*number),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn text<'s>(span: &'s Span, name: &str) -> Option<&'s str> {
    match span.attributes.get(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}
