//! Rules about attributes: required ones must be present, and none may be empty.

use super::{Fault, Subject};
use crate::trace::SpanKind;

/// The names of one attribute: the old one, then the current ones.
type Names = &'static [&'static str];

/// The attributes that spans of a type need: always, as a client, as a server.
type Needs = (&'static str, &'static [Names], &'static [Names], &'static [Names]);

const REQUIRED: [Needs; 5] = [
    (
        "http",
        &[&["http.method", "http.request.method"]],
        &[&["http.url", "url.full"], &["net.peer.name", "server.address"]],
        &[&["http.scheme", "url.scheme"], &["http.target", "url.path"], &["net.host.name", "server.address"]],
    ),
    ("database", &[&["db.system", "db.system.name"]], &[], &[]),
    ("rpc", &[&["net.peer.name", "server.address"], &["rpc.system", "rpc.system.name"]], &[], &[]),
    (
        "messaging",
        &[
            &["messaging.operation", "messaging.operation.name", "messaging.operation.type"],
            &["messaging.system"],
        ],
        &[],
        &[],
    ),
    ("faas", &[], &[&["faas.invoked_name"], &["faas.invoked_provider"]], &[&["faas.trigger"]]),
];

/// Finds missing attributes that the span's type requires; an empty one counts as present.
pub(super) fn required(subject: &Subject) -> Vec<Fault> {
    let Some((family, always, client, server)) =
        REQUIRED.iter().find(|(family, ..)| *family == subject.family)
    else {
        return Vec::new();
    };
    let by_kind: &[Names] = match subject.kind {
        SpanKind::Client => client,
        SpanKind::Server => server,
        SpanKind::Unspecified | SpanKind::Internal | SpanKind::Producer | SpanKind::Consumer => &[],
    };
    always
        .iter()
        .chain(by_kind)
        .filter(|names| subject.first(names).is_none())
        .map(|names| missing(family, names))
        .collect()
}

fn missing(family: &str, names: Names) -> Fault {
    let current = names[1..].iter().map(|name| format!("\"{name}\""));
    let suggestion = match current.collect::<Vec<_>>().join(" or ") {
        current if current.is_empty() => format!("Set \"{}\" where the span begins.", names[0]),
        current => {
            format!("Set \"{}\" or, by the current conventions, {current} where the span begins.", names[0])
        }
    };
    Fault {
        value: names[0].to_owned(),
        description: format!("Attribute \"{}\" is missing from span of type \"{family}\"", names[0]),
        suggestions: vec![suggestion],
        ..Fault::default()
    }
}

/// Finds attributes without a value.
pub(super) fn empty(subject: &Subject) -> Vec<Fault> {
    subject
        .attributes
        .iter()
        .filter(|(_, text)| text.is_empty())
        .map(|(name, _)| Fault {
            value: name.clone(),
            description: format!("The attribute \"{name}\" is empty."),
            suggestions: vec![format!("Leave out \"{name}\" when there is nothing to say.")],
            ..Fault::default()
        })
        .collect()
}
