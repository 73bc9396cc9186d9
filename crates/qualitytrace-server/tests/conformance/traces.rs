//! Kinds `otlp_poll`, `otlp_server`, `augment_root` and `stored_json`, and those of data stores: conversion of spans.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::names;
use qualitytrace_core::run::{GrpcReply, Reply, TriggerSpan};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Span, Trace, special, stored};
use qualitytrace_server::outbound::data_store::StoreAnswer;
use qualitytrace_server::receive::otlp::{convert, json};
use serde_json::{Map, Value, json};

use super::expected::{compare, expected, is_error};

/// The time at which Tracetest looked at spans that were still running.
const NOW: Timestamp = Timestamp::from_nanos(1_700_000_100_000_000_000);
/// The span that Tracetest inserts above several roots.
const TEMPORARY_ROOT: &str = "Temporary Tracetest root span";
/// Ids that Tracetest generates.
const FREE: [&str; 3] = ["root_id", "root_name", "trace_id"];

/// Checks one case.
pub(crate) fn check(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let expected = expected(case);
    let answer = match input["kind"].as_str() {
        Some("otlp_poll") => spans(input).map(|spans| {
            let trace = spans.first().and_then(|(trace, _)| *trace);
            answer(trace, spans.into_iter().map(|(_, span)| span))
        }),
        Some("otlp_server") => spans(input).map(traces),
        Some("augment_root") => Ok(augmented(input)),
        Some(kind @ ("jaeger" | "tempo_http" | "opensearch" | "elastic" | "signalfx")) => {
            fetched(kind, input)
        }
        _ => stored(input),
    };
    match answer {
        Err(_) if is_error(expected) => Ok(()),
        Err(error) => Err(format!("expected {expected}\nactual   error: {error}")),
        Ok(answer) if is_error(expected) => Err(format!("expected {expected}\nactual   {answer}")),
        Ok(answer) => compare(&shape(expected), &answer, &FREE),
    }
}

/// Converts the expected answer: the full form has the tree as objects, the abbreviated one as nested lists of names.
fn shape(expected: &Value) -> Value {
    let mut expected = expected.clone();
    if expected["tree"].is_object() {
        expected["tree"] = names_of(&expected["tree"]);
    }
    if expected["value"].is_object() {
        return expected["value"].take();
    }
    if let Some(traces) = expected["traces"].as_array() {
        expected["traces"] = json!(traces.len());
    }
    expected
}

fn names_of(node: &Value) -> Value {
    let mut names = vec![node["name"].clone()];
    names.extend(node["children"].as_array().into_iter().flatten().map(names_of));
    Value::Array(names)
}

fn spans(input: &Value) -> Result<Vec<(Option<TraceId>, Span)>, String> {
    let body = input["body"].to_string();
    let request: ExportTraceServiceRequest =
        json::decode(body.as_bytes()).map_err(|error| error.to_string())?;
    let spans = convert::spans(request);
    // The endpoint accepts valid spans and counts the others; it is an error if there are no valid ones.
    if !spans.is_empty() && spans.iter().all(|(trace, _)| trace.is_none()) {
        return Err("no span has a valid trace id".to_owned());
    }
    Ok(spans)
}

/// Converts the answers of a data store.
fn fetched(kind: &str, input: &Value) -> Result<Value, String> {
    let wanted: TraceId =
        input["trace_id"].as_str().unwrap_or_default().parse().map_err(|_| "no trace id".to_owned())?;
    match input["code"].as_u64() {
        None | Some(200) => {}
        Some(code) => return Err(format!("the store answered {code}")),
    }
    let documents: Vec<Value> = match kind {
        "jaeger" => input["chunks"].as_array().cloned().unwrap_or_default(),
        "signalfx" => {
            let times = input["times"].as_array().into_iter().flatten();
            times.map(|time| input["segments"][time.to_string()].clone()).collect()
        }
        _ => vec![input["body"].clone()],
    };
    if kind == "signalfx" && documents.is_empty() {
        return Err("trace not found".to_owned());
    }
    let mut spans = Vec::new();
    for document in documents {
        let body = input["raw_body"].as_str().map_or_else(|| document.to_string(), ToOwned::to_owned);
        let content_type = input["content_type"].as_str().unwrap_or("application/json");
        let otlp = || -> Result<ExportTraceServiceRequest, String> {
            json::decode(body.as_bytes()).map_err(|error| error.to_string())
        };
        let request = match (kind, content_type) {
            ("jaeger", _) => otlp()?,
            // The case has the message in JSON.
            (_, "application/protobuf") => {
                StoreAnswer::Tempo.read(content_type, otlp()?.encode_to_vec().into())?
            }
            ("tempo_http", _) => StoreAnswer::Tempo.read(content_type, body.into())?,
            ("opensearch", _) => StoreAnswer::OpenSearch.read(content_type, body.into())?,
            ("elastic", _) => StoreAnswer::ElasticApm.read(content_type, body.into())?,
            _ => StoreAnswer::SignalFx.read(content_type, body.into())?,
        };
        spans.extend(convert::spans(request));
    }
    // Documents of an index need not repeat the trace that was asked for.
    if let Some((other, _)) = spans.iter().find(|(trace, _)| trace.is_some_and(|trace| trace != wanted)) {
        return Err(format!("a span is of trace {other:?}"));
    }
    Ok(answer(Some(wanted), spans.into_iter().map(|(_, span)| span)))
}

fn traces(spans: Vec<(Option<TraceId>, Span)>) -> Value {
    let mut ids: Vec<Option<TraceId>> = spans.iter().map(|(trace, _)| *trace).collect();
    ids.sort();
    ids.dedup();
    let mut whole = answer(ids.first().copied().flatten(), spans.into_iter().map(|(_, span)| span));
    whole["traces"] = json!(ids.len());
    whole
}

fn answer(trace: Option<TraceId>, spans: impl Iterator<Item = Span>) -> Value {
    let trace = trace.or_else(|| TraceId::from_bytes([1; 16]));
    let Some(trace) = trace.map(|id| Trace::assemble(id, spans)) else {
        return Value::Null;
    };
    let roots: Vec<usize> = trace.roots().collect();
    let trigger = roots.iter().copied().find(|root| &*trace.span(*root).name == names::TRIGGER_SPAN);
    let mut count = trace.spans().len();
    let tree = match (roots.as_slice(), trigger) {
        ([root], _) => tree(&trace, *root),
        (roots, Some(trigger)) => {
            let mut top = tree(&trace, trigger);
            let others = roots.iter().filter(|root| **root != trigger).map(|root| tree(&trace, *root));
            top.as_array_mut().into_iter().for_each(|top| top.extend(others.clone()));
            top
        }
        (roots, None) => {
            count += 1;
            let mut top = vec![json!(TEMPORARY_ROOT)];
            top.extend(roots.iter().map(|root| tree(&trace, *root)));
            Value::Array(top)
        }
    };
    let spans: Map<String, Value> =
        trace.spans().iter().map(|span| (span.name.to_string(), view(span))).collect();
    json!({ "tree": tree, "span_count": count, "spans": spans })
}

fn tree(trace: &Trace, at: usize) -> Value {
    let mut names = vec![json!(&*trace.span(at).name)];
    names.extend(trace.children(at).map(|child| tree(trace, child)));
    Value::Array(names)
}

fn view(span: &Span) -> Value {
    let mut span = span.clone();
    span.end = span.end.or(Some(NOW));
    let mut attributes: Map<String, Value> =
        special::texts(&span).into_iter().map(|(name, text)| (name, text.into())).collect();
    // Found by name, but not listed.
    attributes.insert("tracetest.span.kind".to_owned(), span.kind.as_str().into());
    let id = span.id.map(|id| id.to_string());
    json!({ "id": id, "kind": span.kind.as_str(), "attributes": attributes })
}

/// Builds the trigger's span with the attributes of the response.
fn augmented(input: &Value) -> Value {
    let nanos = |value: &Value| Timestamp::from_nanos(value.as_u64().unwrap_or_default());
    let (Some(id), Some(trace)) =
        (input["span"]["id"].as_str().and_then(|id| id.parse().ok()), TraceId::from_bytes([1; 16]))
    else {
        return Value::Null;
    };
    let span = TriggerSpan {
        id,
        trace,
        start: nanos(&input["span"]["start_unix_nano"]),
        end: nanos(&input["span"]["end_unix_nano"]),
    };
    let span = span.to_span(&reply(&input["result"]));
    special::texts(&span)
        .into_iter()
        .map(|(name, text)| (name, Value::from(text)))
        .collect::<Map<_, _>>()
        .into()
}

fn reply(result: &Value) -> Reply {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let either = |header: &Value, names: [&str; 2]| {
        names.into_iter().find_map(|name| header[name].as_str()).unwrap_or_default().to_owned()
    };
    let pairs = |headers: &Value| -> Vec<(String, String)> {
        let headers = headers.as_array().into_iter().flatten();
        headers.map(|header| (either(header, ["Key", "key"]), either(header, ["Value", "value"]))).collect()
    };
    let (http, grpc) = (&result["http"], &result["grpc"]);
    if http.is_object() {
        return Reply::Http {
            status: http["StatusCode"]
                .as_u64()
                .and_then(|status| u16::try_from(status).ok())
                .unwrap_or_default(),
            reason: text(&http["Status"]),
            headers: pairs(&http["Headers"]),
            body: text(&http["Body"]),
            truncated: false,
            binary: false,
        };
    }
    if grpc.is_object() {
        return Reply::Grpc(Box::new(GrpcReply {
            code: grpc["StatusCode"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or_default(),
            status: text(&grpc["Status"]),
            metadata: pairs(&grpc["Metadata"]),
            body: text(&grpc["Body"]),
            ..GrpcReply::default()
        }));
    }
    Reply::TraceId { id: String::new() }
}

/// Reads a trace in Tracetest's stored format.
fn stored(input: &Value) -> Result<Value, String> {
    let trace = stored::read(&input["json"]).map_err(|error| error.to_string())?;
    let root = trace.spans().first().ok_or("no root")?;
    let parents: Map<String, Value> = (0..trace.spans().len())
        .filter_map(|at| {
            let (span, parent) = (trace.span(at).id?, trace.span(trace.parent(at)?).id?);
            Some((span.to_string(), parent.to_string().into()))
        })
        .collect();
    Ok(json!({
        "trace_id": trace.id().to_string(),
        "span_count": trace.spans().len(),
        "start": stored::time(root.start),
        "end": root.end.map(stored::time),
        "parents": parents,
        "encoded": stored::write(&trace),
    }))
}
