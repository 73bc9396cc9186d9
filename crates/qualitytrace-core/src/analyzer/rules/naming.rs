//! Rules about the names of spans and attributes.

use std::collections::BTreeSet;

use super::{Fault, Subject};
use crate::trace::SpanKind;

/// Checks the span's name against the one that its attributes require.
pub(super) fn span(subject: &Subject) -> Vec<Fault> {
    let expected = match subject.family.as_str() {
        "http" => http(subject),
        "database" => database(subject),
        "rpc" => rpc(subject),
        "messaging" => messaging(subject),
        _ => return Vec::new(),
    };
    if expected.is_met_by(&subject.name) {
        return Vec::new();
    }
    let best = expected.best();
    vec![Fault {
        value: "tracetest.span.name".to_owned(),
        description: format!(
            "The span is named \"{}\", but its attributes ask for \"{best}\".",
            subject.name
        ),
        suggestions: vec![format!("Name the span \"{best}\".")],
        expected: best,
    }]
}

/// The accepted names.
enum Expected {
    /// One of these; the first is the one to suggest.
    OneOf(Vec<String>),
    /// The beginning of this statement, in any case.
    BeginningOf(String),
}

impl Expected {
    fn is_met_by(&self, name: &str) -> bool {
        match self {
            Self::OneOf(names) => names.iter().any(|expected| expected == name),
            Self::BeginningOf(statement) => {
                !statement.is_empty() && statement.to_lowercase().starts_with(&name.to_lowercase())
            }
        }
    }

    fn best(&self) -> String {
        match self {
            Self::OneOf(names) => names.first().cloned().unwrap_or_default(),
            Self::BeginningOf(statement) => {
                statement.split_whitespace().next().unwrap_or_default().to_owned()
            }
        }
    }
}

/// Joins the parts that are not empty with blanks.
fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

fn http(subject: &Subject) -> Expected {
    // An unknown method is recorded as `_OTHER`, and the span is named `HTTP`.
    let method = match subject.text(&["http.method", "http.request.method"]) {
        "_OTHER" => "HTTP",
        method => method,
    };
    let low_cardinality = match subject.kind {
        SpanKind::Client => "url.template",
        _ => "http.route",
    };
    let mut names = vec![joined(&[method, subject.text(&[low_cardinality])])];
    if subject.kind == SpanKind::Client {
        names.push(method.to_owned());
    }
    Expected::OneOf(names)
}

fn database(subject: &Subject) -> Expected {
    if subject.text(&["db.system", "db.system.name"]) == "redis" {
        return Expected::BeginningOf(subject.text(&["db.statement", "db.query.text"]).to_owned());
    }
    let operation = subject.text(&["db.operation", "db.operation.name"]);
    let database = subject.text(&["db.name", "db.namespace"]);
    let table = subject.text(&["db.sql.table", "db.collection.name"]);
    let target = match (database, table) {
        (database, "") => database.to_owned(),
        ("", table) => table.to_owned(),
        (database, table) => format!("{database}.{table}"),
    };
    let mut names = vec![joined(&[operation, &target])];
    let current =
        ["db.system.name", "db.operation.name", "db.namespace", "db.collection.name", "db.query.summary"];
    if subject.first(&current).is_some() {
        let summary = subject.text(&["db.query.summary"]);
        if !summary.is_empty() {
            names.insert(0, summary.to_owned());
        }
        names.push(joined(&[operation, table]));
        names.push(joined(&[operation, database]));
        names.retain(|name| !name.is_empty());
        if names.is_empty() {
            names.push(subject.text(&["db.system.name", "db.system"]).to_owned());
        }
    }
    Expected::OneOf(names)
}

fn rpc(subject: &Subject) -> Expected {
    let (service, method) = (subject.text(&["rpc.service"]), subject.text(&["rpc.method"]));
    let mut names = vec![format!("{service}/{method}")];
    // In the current convention `rpc.method` holds the full name.
    if method.contains('/') {
        names.insert(0, method.to_owned());
    }
    Expected::OneOf(names)
}

fn messaging(subject: &Subject) -> Expected {
    let old = joined(&[
        subject.text(&["messaging.destination", "messaging.destination.name"]),
        subject.text(&["messaging.operation", "messaging.operation.name", "messaging.operation.type"]),
    ]);
    let mut names = vec![old];
    let current = ["messaging.destination.name", "messaging.operation.name", "messaging.operation.type"];
    if subject.first(&current).is_some() {
        let destination = subject.text(&["messaging.destination.template", "messaging.destination.name"]);
        for operation in ["messaging.operation.name", "messaging.operation.type"] {
            if let Some((_, operation)) = subject.first(&[operation]) {
                names.insert(0, joined(&[operation, destination]));
            }
        }
    }
    Expected::OneOf(names)
}

/// Checks that attributes are named `namespace.name`, and that none is named like the namespace of another.
pub(super) fn attributes(subject: &Subject) -> Vec<Fault> {
    let mut namespaces = BTreeSet::new();
    for (name, _) in &subject.attributes {
        if follows_convention(name) {
            namespaces.extend(name.match_indices('.').map(|(at, _)| &name[..at]));
        }
    }
    subject
        .attributes
        .iter()
        .filter_map(|(name, _)| {
            if !follows_convention(name) {
                return Some(Fault {
                    value: name.clone(),
                    description: format!(
                        "The attribute \"{name}\" is not named like \"namespace.name\" in lower case."
                    ),
                    suggestions: vec!["Rename the attribute.".to_owned()],
                    ..Fault::default()
                });
            }
            namespaces.contains(name.as_str()).then(|| Fault {
                value: name.clone(),
                description: format!(
                    "The attribute \"{name}\" is named like the namespace of another attribute."
                ),
                suggestions: vec![format!(
                    "Give the attribute a name inside the namespace, like \"{name}.name\"."
                )],
                ..Fault::default()
            })
        })
        .collect()
}

/// Namespaces in which the conventions put names of headers, which have dashes.
const HEADERS: [&str; 4] = [
    "http.request.header.",
    "http.response.header.",
    "rpc.grpc.request.metadata.",
    "rpc.grpc.response.metadata.",
];

fn follows_convention(name: &str) -> bool {
    let dashes = HEADERS.iter().any(|prefix| name.starts_with(prefix));
    let letter = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || (dashes && byte == b'-')
    };
    name.contains('.') && name.split('.').all(|part| !part.is_empty() && part.bytes().all(letter))
}
