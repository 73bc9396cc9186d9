//! The documents of spans in OpenSearch, as Data Prepper, the Collector's exporter and Jaeger write them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use serde_json::{Map, Value, json};

use super::spans::{attributes, flattened, flattened_weight, kind, rfc3339};
use crate::base::decode::{DecodeError, Room};
use crate::receive::trace_files::collected::{self, Collected, ScopeName};
use crate::receive::trace_files::{ids, jaeger};

/// Prefixes of attributes in Data Prepper's documents, which have `@` for every dot of a name.
const SPAN_PREFIX: &str = "span.attributes.";
const RESOURCE_PREFIX: &str = "resource.attributes.";

/// Converts documents to spans.
pub(super) fn read(
    documents: Vec<Map<String, Value>>,
    room: &mut impl Room,
) -> Result<ExportTraceServiceRequest, DecodeError> {
    room.take(documents.iter().map(flattened_weight).sum())?;
    let (mut of_jaeger, others): (Vec<_>, Vec<_>) =
        documents.into_iter().partition(|document| document.contains_key("operationName"));
    let mut collected = Collected::default();
    for document in &others {
        let (resource, scope, span) = span(document)?;
        collected.add(&format!("{resource:?}"), scope, span, || resource);
    }
    let mut request = collected.into_request();
    if !of_jaeger.is_empty() {
        of_jaeger.iter_mut().for_each(respell_jaeger);
        let document = json!({ "data": [{ "spans": of_jaeger }] }).to_string();
        drop(of_jaeger);
        let (more, refused) = jaeger::read(document.as_bytes(), room)?;
        if let Some(problem) = refused.problems.into_iter().next() {
            return Err(problem.reason.into());
        }
        request.resource_spans.extend(more.resource_spans);
    }
    Ok(request)
}

/// Rewrites a document of Jaeger as its query API shows a span.
///
/// Tags that Jaeger writes as fields (`tags_as_fields`) are in the object `tag`, with `@` for every dot of a name. Bytes
/// are in hexadecimal.
fn respell_jaeger(document: &mut Map<String, Value>) {
    fields_to_tags(document);
    if let Some(Value::Object(process)) = document.get_mut("process") {
        fields_to_tags(process);
    }
    for log in document.get_mut("logs").and_then(Value::as_array_mut).into_iter().flatten() {
        respell_bytes(log.get_mut("fields"));
    }
}

fn fields_to_tags(owner: &mut Map<String, Value>) {
    respell_bytes(owner.get_mut("tags"));
    let Some(Value::Object(fields)) = owner.remove("tag") else { return };
    let fields = flattened(&fields).into_iter();
    let fields = fields.map(|(key, value)| json!({ "key": key.replace('@', "."), "value": value }));
    match owner.get_mut("tags") {
        Some(Value::Array(tags)) => tags.extend(fields),
        _ => {
            owner.insert("tags".to_owned(), fields.collect());
        }
    }
}

fn respell_bytes(tags: Option<&mut Value>) {
    for tag in tags.and_then(Value::as_array_mut).into_iter().flatten() {
        let is_binary = tag.get("type").is_some_and(|kind| kind == "binary");
        if let Some(Value::String(text)) = tag.get_mut("value").filter(|_| is_binary)
            && let Ok(bytes) = const_hex::decode(text.as_str())
        {
            *text = STANDARD.encode(bytes);
        }
    }
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
        trace_id: ids::linked_trace("traceId", text("traceId"))?,
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

#[cfg(test)]
mod tests {
    use qualitytrace_core::trace::{self, SpanKind, StatusCode};
    use qualitytrace_core::value::Value as Core;

    use super::*;
    use crate::base::decode::Allowance;
    use crate::receive::otlp::convert;

    fn one(document: Value) -> trace::Span {
        let Value::Object(document) = document else { panic!("no object") };
        convert::spans(read(vec![document], &mut Allowance::new(1 << 20)).unwrap()).remove(0).1
    }

    /// A document as Jaeger 2.13 writes it, with these tags of the span and of its process.
    fn of_jaeger(tags: &Value, process: &Value) -> Value {
        let mut document = json!({
            "traceID": "5982fe77008310cc80f1da5e10147517", "spanID": "90394f6bcffb5d13", "flags": 257,
            "operationName": "POST /charges",
            "references": [{ "refType": "CHILD_OF", "traceID": "5982fe77008310cc80f1da5e10147517",
                "spanID": "bd7a977555f6b982" }],
            "startTime": 1_700_000_000_000_001_u64, "startTimeMillis": 1_700_000_000_000_u64, "duration": 25,
            "logs": [{ "timestamp": 1_700_000_000_000_002_u64, "fields": [
                { "key": "event", "type": "string", "value": "retry" },
                { "key": "attempt", "type": "int64", "value": 2 }] }],
            "process": { "serviceName": "payment" },
        });
        document.as_object_mut().unwrap().extend(tags.as_object().unwrap().clone());
        document["process"].as_object_mut().unwrap().extend(process.as_object().unwrap().clone());
        document
    }

    fn check(span: &trace::Span, status: (StatusCode, &str)) {
        assert_eq!((span.kind, &*span.name, span.service()), (SpanKind::Server, "POST /charges", "payment"));
        let told = span.status.as_ref().unwrap();
        assert_eq!((told.code, &*told.message), status);
        assert_eq!((&*span.scope.name, &*span.scope.version), ("shop", "1.2"));
        assert_eq!(span.parent.unwrap().to_string(), "bd7a977555f6b982");
        assert_eq!(span.resource.attributes.get("host.cpus"), Some(&Core::Int(2)));
        assert_eq!((&*span.events[0].name, span.events[0].attributes.len()), ("retry", 1));
        let expected = [
            ("http.response.status_code", Core::Int(201)),
            ("is.new", Core::Bool(true)),
            ("ratio", Core::Float(0.5)),
            ("raw", Core::Bytes(vec![1, 255].into())),
        ];
        assert_eq!(span.attributes, expected.into_iter().collect::<trace::Attributes>());
    }

    #[test]
    fn tags_of_jaeger_are_kind_status_scope_and_attributes() {
        // By default, these two are fields, and the others a list.
        let tags = json!({ "tags": [
            { "key": "otel.scope.name", "type": "string", "value": "shop" },
            { "key": "otel.scope.version", "type": "string", "value": "1.2" },
            { "key": "http.response.status_code", "type": "int64", "value": 201 },
            { "key": "is.new", "type": "bool", "value": true },
            { "key": "ratio", "type": "float64", "value": 0.5 },
            { "key": "raw", "type": "binary", "value": "01ff" },
            { "key": "otel.status_description", "type": "string", "value": "declined" }],
            "tag": { "error": true, "span@kind": "server" } });
        let process = json!({ "tags": [{ "key": "host.cpus", "type": "int64", "value": 2 }] });
        check(&one(of_jaeger(&tags, &process)), (StatusCode::Error, "declined"));
    }

    #[test]
    fn tags_that_jaeger_writes_as_fields_are_the_same() {
        let tags = json!({ "tags": [{ "key": "raw", "type": "binary", "value": "01ff" }], "tag": {
            "otel@scope@name": "shop", "otel@scope@version": "1.2", "http@response@status_code": 201, "is@new": true,
            "ratio": 0.5, "span@kind": "server", "otel@status_code": "OK" } });
        let process = json!({ "tags": [], "tag": { "host@cpus": 2 } });
        check(&one(of_jaeger(&tags, &process)), (StatusCode::Ok, ""));
        let tags = json!({ "tags": null, "tag": { "span@kind": "client", "error": true, "otel@status_description": "x" } });
        let span = one(of_jaeger(&tags, &json!({})));
        let status = span.status.unwrap();
        assert_eq!((span.kind, status.code, &*status.message), (SpanKind::Client, StatusCode::Error, "x"));
        assert_eq!(span.attributes.len(), 0);
    }
}
