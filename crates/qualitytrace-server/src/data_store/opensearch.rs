//! The documents of spans in OpenSearch, as Data Prepper, the Collector's exporter and Jaeger write them.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use serde_json::{Map, Value, json};

use super::spans::{attributes, flattened, kind, rfc3339};
use crate::trace_files::collected::{self, Collected, ScopeName};
use crate::trace_files::{ids, jaeger};

/// Prefixes of attributes in Data Prepper's documents, which have `@` for every dot of a name.
const SPAN_PREFIX: &str = "span.attributes.";
const RESOURCE_PREFIX: &str = "resource.attributes.";

/// Converts documents to spans.
pub(super) fn read(documents: Vec<Map<String, Value>>) -> Result<ExportTraceServiceRequest, String> {
    let (of_jaeger, others): (Vec<_>, Vec<_>) =
        documents.into_iter().partition(|document| document.contains_key("operationName"));
    let mut collected = Collected::default();
    for document in &others {
        let (resource, scope, span) = span(document)?;
        collected.add(&format!("{resource:?}"), scope, span, || resource);
    }
    let mut request = collected.into_request();
    if !of_jaeger.is_empty() {
        let document = json!({ "data": [{ "spans": of_jaeger }] }).to_string();
        let (more, refused) = jaeger::read(document.as_bytes()).map_err(|error| error.to_string())?;
        if let Some(problem) = refused.problems.first() {
            return Err(problem.reason.clone());
        }
        request.resource_spans.extend(more.resource_spans);
    }
    Ok(request)
}

fn span(document: &Map<String, Value>) -> Result<(Vec<KeyValue>, ScopeName, Span), String> {
    let text = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default();
    let (mut of_span, mut of_resource) = (attributes(document.get("attributes")), resource(document));
    for (key, value) in flattened(document) {
        let named = |prefix: &str| key.strip_prefix(prefix).map(|name| name.replace('@', "."));
        if let Some(name) = named(SPAN_PREFIX) {
            of_span.push(collected::json(name, &value));
        } else if let Some(name) = named(RESOURCE_PREFIX) {
            of_resource.push(collected::json(name, &value));
        }
    }
    let service = text("serviceName");
    if !service.is_empty() && !of_resource.iter().any(|pair| pair.key == "service.name") {
        of_resource.push(collected::text("service.name", service));
    }
    let scope = document.get("instrumentationScope").or_else(|| document.get("instrumentationLibrary"));
    let of_scope = |key: &str| {
        scope.and_then(|scope| scope.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let trace = [text("traceId"), text("traceID")].into_iter().find(|id| !id.is_empty());
    let span = Span {
        trace_id: trace.map(|id| ids::trace("traceId", id)).transpose()?.unwrap_or_default(),
        span_id: ids::span("spanId", text("spanId"))?,
        parent_span_id: ids::span("parentSpanId", text("parentSpanId"))?,
        trace_state: text("traceState").to_owned(),
        name: text("name").to_owned(),
        kind: kind(text("kind")).into(),
        start_time_unix_nano: rfc3339("startTime", text("startTime"))?,
        end_time_unix_nano: match text("endTime") {
            "" => 0,
            end => rfc3339("endTime", end)?,
        },
        attributes: of_span,
        events: list(document, "events").map(event).collect::<Result<_, _>>()?,
        links: list(document, "links").map(link).collect::<Result<_, _>>()?,
        status: status(document),
        ..Span::default()
    };
    if span.span_id.is_empty() {
        return Err("a document has no `spanId`".to_owned());
    }
    Ok((of_resource, (of_scope("name"), of_scope("version")), span))
}

/// The resource of the Collector's documents: its attributes, or an object that holds them.
fn resource(document: &Map<String, Value>) -> Vec<KeyValue> {
    let resource = document.get("resource");
    let inner = resource.and_then(|resource| resource.get("attributes"));
    // Data Prepper writes `resource.attributes.*` with `@`, which is read elsewhere.
    let is_prefixed = inner.is_some_and(|inner| {
        inner.as_object().is_some_and(|fields| fields.keys().any(|key| key.contains('@')))
    });
    if is_prefixed || inner.is_some() { Vec::new() } else { attributes(resource) }
}

fn list<'d>(document: &'d Map<String, Value>, key: &str) -> impl Iterator<Item = &'d Value> {
    document.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn event(written: &Value) -> Result<Event, String> {
    let text = |key: &str| written.get(key).and_then(Value::as_str).unwrap_or_default();
    let time = ["time", "@timestamp", "timestamp"].into_iter().map(text).find(|time| !time.is_empty());
    Ok(Event {
        time_unix_nano: time.map(|time| rfc3339("time", time)).transpose()?.unwrap_or_default(),
        name: text("name").to_owned(),
        attributes: attributes(written.get("attributes")),
        ..Event::default()
    })
}

fn link(written: &Value) -> Result<Link, String> {
    let text = |key: &str| written.get(key).and_then(Value::as_str).unwrap_or_default();
    Ok(Link {
        trace_id: ids::trace("traceId", text("traceId"))?,
        span_id: ids::span("spanId", text("spanId"))?,
        trace_state: text("traceState").to_owned(),
        attributes: attributes(written.get("attributes")),
        ..Link::default()
    })
}

/// The status: `status.code` of Data Prepper is a number, that of the Collector a word.
fn status(document: &Map<String, Value>) -> Option<Status> {
    let of = |key: &str| {
        let nested = document.get("status").and_then(|status| status.get(key));
        nested.or_else(|| document.get(&format!("status.{key}")))
    };
    let code = match of("code")? {
        Value::Number(number) => match number.as_u64() {
            Some(1) => StatusCode::Ok,
            Some(2) => StatusCode::Error,
            _ => StatusCode::Unset,
        },
        Value::String(word) => match word.to_ascii_lowercase().trim_start_matches("status_code_") {
            "ok" => StatusCode::Ok,
            "error" => StatusCode::Error,
            _ => StatusCode::Unset,
        },
        _ => StatusCode::Unset,
    };
    let message = of("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(Status { code: code.into(), message })
}
