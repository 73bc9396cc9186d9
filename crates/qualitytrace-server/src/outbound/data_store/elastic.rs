//! The documents of Elastic APM: transactions and spans.

use std::collections::HashMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use serde_json::{Map, Value};

use super::spans::{flattened, flattened_weight, kind, rfc3339};
use crate::base::decode::{DecodeError, Room};
use crate::receive::trace_files::collected::{self, Collected, ScopeName};
use crate::receive::trace_files::ids;

/// What belongs to the process that recorded a span.
const RESOURCE: [&str; 8] =
    ["service.", "host.", "process.", "agent.", "container.", "kubernetes.", "cloud.", "os."];
/// Where APM Server puts attributes that it has no field for.
const LABELS: [&str; 2] = ["labels.", "numeric_labels."];

/// Converts documents to spans.
pub(super) fn read(
    documents: &[Map<String, Value>],
    room: &mut impl Room,
) -> Result<ExportTraceServiceRequest, DecodeError> {
    room.take(documents.iter().map(flattened_weight).sum())?;
    let mut collected = Collected::default();
    for document in documents {
        let fields = flattened(document);
        if let Some((resource, span)) = span(&fields)? {
            collected.add(&format!("{resource:?}"), ScopeName::default(), span, || resource);
        }
    }
    Ok(collected.into_request())
}

/// Converts a document; `None` if it is no span, but an error or a metric of the same trace.
fn span(fields: &[(String, Value)]) -> Result<Option<(Vec<KeyValue>, Span)>, String> {
    let get = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let text = |name: &str| get(name).and_then(Value::as_str).unwrap_or_default();
    if !["", "transaction", "span"].contains(&text("processor.event")) {
        return Ok(None);
    }
    // A span names its transaction, too. APM Server copies the id of a transaction to `span.id` since 2023.
    let of = match (text("processor.event"), text("span.id")) {
        ("transaction", _) | ("", "") => "transaction",
        ("", id) if id == text("transaction.id") => "transaction",
        _ => "span",
    };
    let own = |name: &str| format!("{of}.{name}");
    let start = match get("timestamp.us").and_then(Value::as_u64) {
        Some(micros) => micros.saturating_mul(1_000),
        None => rfc3339("@timestamp", text("@timestamp"))?,
    };
    let duration = get(&own("duration.us")).and_then(Value::as_u64).unwrap_or_default();
    let (mut of_resource, mut of_span) = (Vec::new(), Vec::<KeyValue>::new());
    let mut indexes = HashMap::new();
    for (key, value) in fields {
        if RESOURCE.iter().any(|prefix| key.starts_with(prefix)) {
            of_resource.push(collected::json(key, value));
            continue;
        }
        let label = LABELS.iter().find_map(|prefix| key.strip_prefix(prefix));
        let name =
            label.map_or_else(|| key.replace("transaction.", "").replace("span.", ""), ToOwned::to_owned);
        match indexes.get(&name) {
            // A span has fields of its transaction with the same names.
            Some(at) if key.starts_with(of) => of_span[*at] = collected::json(name, value),
            Some(_) => {}
            None => {
                indexes.insert(name.clone(), of_span.len());
                of_span.push(collected::json(name, value));
            }
        }
    }
    let trace = text("trace.id");
    let outcome = text("event.outcome");
    let span = Span {
        trace_id: if trace.is_empty() { Vec::new() } else { ids::trace("trace.id", trace)? },
        span_id: ids::span(&own("id"), text(&own("id")))?,
        parent_span_id: ids::span("parent.id", text("parent.id"))?,
        name: text(&own("name")).to_owned(),
        kind: kind_of(of, text("span.kind"), text(&own("type"))).into(),
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(duration.saturating_mul(1_000)),
        attributes: of_span,
        status: (outcome == "failure")
            .then(|| Status { code: StatusCode::Error.into(), message: String::new() }),
        ..Span::default()
    };
    if span.span_id.is_empty() {
        return Err("a document has neither `span.id` nor `transaction.id`".to_owned());
    }
    Ok(Some((of_resource, span)))
}

/// The kind that OpenTelemetry wrote, or the one that the type of a document means.
fn kind_of(of: &str, written: &str, type_of: &str) -> SpanKind {
    match (of, type_of) {
        _ if kind(written) != SpanKind::Unspecified => kind(written),
        ("transaction", "request") => SpanKind::Server,
        ("transaction", "messaging") => SpanKind::Consumer,
        ("span", "external" | "db" | "storage") => SpanKind::Client,
        ("span", "messaging") => SpanKind::Producer,
        ("span", _) => SpanKind::Internal,
        _ => SpanKind::Unspecified,
    }
}
