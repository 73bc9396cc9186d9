//! The reader of Jaeger JSON, as its query API returns it and its UI downloads and opens it.
//!
//! The tags that Jaeger and OpenTelemetry agree on become what they were in OTLP: kind, status, scope and trace state.

use std::collections::HashMap;

use base64::Engine as _;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use super::collected::{Collected, ScopeName, attribute, json, text};
use super::{Each, RefusedSpans, ids, item, numbers};
use crate::base::decode::{self, Allowance, DecodeError, Room};

/// The tag that says which format a span was sent in.
pub const SPAN_FORMAT: &str = "internal.span.format";
/// Its value for OTLP: references beside the parent are links there.
pub const OTLP: &str = "otlp";

/// A file: several traces, or one.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    /// Of a file that is one trace.
    spans: Option<IgnoredAny>,
}

/// A trace.
#[derive(Deserialize)]
struct Data<'a> {
    #[serde(rename = "traceID", default)]
    trace_id: String,
    #[serde(borrow)]
    spans: Option<&'a RawValue>,
    #[serde(borrow)]
    processes: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JaegerSpan {
    #[serde(rename = "traceID")]
    trace_id: Option<String>,
    #[serde(rename = "spanID")]
    span_id: String,
    /// Of older versions.
    #[serde(rename = "parentSpanID")]
    parent_span_id: Option<String>,
    operation_name: Option<String>,
    references: Option<Vec<Reference>>,
    flags: Option<u32>,
    /// Microseconds since the epoch.
    start_time: Number,
    /// Microseconds.
    duration: Option<Number>,
    tags: Option<Vec<Tag>>,
    logs: Option<Vec<Log>>,
    #[serde(rename = "processID")]
    process_id: Option<String>,
    /// Instead of `processID`.
    process: Option<Process>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    service_name: Option<String>,
    tags: Option<Vec<Tag>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    ref_type: Option<String>,
    #[serde(rename = "traceID", default)]
    trace_id: String,
    #[serde(rename = "spanID", default)]
    span_id: String,
}

#[derive(Deserialize)]
struct Log {
    /// Microseconds since the epoch.
    timestamp: Number,
    fields: Option<Vec<Tag>>,
}

#[derive(Deserialize)]
struct Tag {
    key: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    value: Value,
}

/// Reads a document. Spans that cannot be read are left out.
pub(crate) fn read(
    document: &[u8],
    room: &mut impl Room,
) -> Result<(ExportTraceServiceRequest, RefusedSpans), DecodeError> {
    // Measured: references to the text.
    let Document { data, spans } = serde_json::from_slice(document)?;
    let (mut collected, mut refused) = (Collected::default(), RefusedSpans::default());
    match (data, spans) {
        (Some(traces), _) => {
            let mut at = 0..;
            Each(|trace: &RawValue| {
                let location = format!("data[{}].", at.next().unwrap_or(0));
                add(trace.get().as_bytes(), &location, room, &mut collected, &mut refused)
            })
            .of(traces.get().as_bytes())?;
        }
        (None, Some(_)) => add(document, "", room, &mut collected, &mut refused)?,
        (None, None) => {}
    }
    Ok((collected.into_request(), refused))
}

/// Adds the spans of a trace.
fn add(
    trace: &[u8],
    location: &str,
    room: &mut impl Room,
    collected: &mut Collected,
    refused: &mut RefusedSpans,
) -> Result<(), DecodeError> {
    // Measured: references to the text, and one id.
    let Data { trace_id, spans, processes } = serde_json::from_slice(trace)?;
    let processes: Option<HashMap<String, Process>> =
        processes.map(|processes| decode::json(processes.get().as_bytes(), room)).transpose()?;
    let processes = processes.unwrap_or_default();
    let convert = |sent: JaegerSpan, _: &mut Allowance| {
        let process = sent.process_id.clone().unwrap_or_default();
        let own = sent.process.as_ref().map(resource);
        let (span, scope) = span(sent, &trace_id)?;
        Ok((process, own, span, scope))
    };
    let mut at = 0..;
    let list = spans.map_or("[]", RawValue::get);
    Each(|sent: &RawValue| {
        let at = at.next().unwrap_or(0);
        match item(sent, room, convert)? {
            Ok((process, own, span, scope)) => {
                let of_process = || processes.get(&process).map(resource).unwrap_or_default();
                let key = own.as_ref().map_or_else(|| process.clone(), |own| format!("{own:?}"));
                let weight = collected.add(&key, scope, span, || own.unwrap_or_else(of_process));
                room.take(weight)?;
            }
            Err(reason) => refused.note(|| format!("{location}spans[{at}]"), reason),
        }
        Ok(())
    })
    .of(list.as_bytes())?;
    collected.forget_processes();
    Ok(())
}

/// Returns the attributes of the resource.
fn resource(process: &Process) -> Vec<KeyValue> {
    let mut attributes: Vec<KeyValue> = process.tags.iter().flatten().map(value).collect();
    let name = process.service_name.as_deref().filter(|name| !name.is_empty());
    if let Some(name) = name.filter(|_| !attributes.iter().any(|known| known.key == "service.name")) {
        attributes.push(text("service.name", name));
    }
    attributes
}

/// Converts a span. `of_trace` is the trace id for spans that do not repeat it.
fn span(sent: JaegerSpan, of_trace: &str) -> Result<(Span, ScopeName), String> {
    let trace_id = ids::trace("traceID", sent.trace_id.as_deref().unwrap_or(of_trace))?;
    let start = numbers::nanos("startTime", &sent.start_time)?;
    let end = numbers::end(start, sent.duration.as_ref())?;
    let mut special = Special::default();
    let tags = sent.tags.unwrap_or_default();
    let attributes = tags.iter().filter(|tag| !special.take(tag)).map(value).collect();
    let (parent, links) = relations(
        sent.references.unwrap_or_default(),
        sent.parent_span_id.as_deref().unwrap_or_default(),
        &trace_id,
        special.is_otlp,
    )?;
    let logs = sent.logs.unwrap_or_default();
    let span = Span {
        trace_id,
        span_id: ids::span("spanID", &sent.span_id)?,
        parent_span_id: parent,
        name: sent.operation_name.unwrap_or_default(),
        kind: special.kind.into(),
        start_time_unix_nano: start,
        end_time_unix_nano: end,
        attributes,
        events: logs.into_iter().map(event).collect::<Result<_, _>>()?,
        links,
        trace_state: special.trace_state,
        // The first bit has the same meaning in W3C's flags.
        flags: sent.flags.unwrap_or_default() & 1,
        status: special.status,
        ..Span::default()
    };
    Ok((span, special.scope))
}

/// What tags say about a span besides its attributes.
#[derive(Default)]
struct Special {
    kind: SpanKind,
    status: Option<Status>,
    scope: ScopeName,
    trace_state: String,
    is_otlp: bool,
}

impl Special {
    /// Notes what a tag says. `false` if it is an attribute.
    fn take(&mut self, tag: &Tag) -> bool {
        let value = tag.value.as_str();
        match (tag.key.as_str(), value) {
            ("span.kind", Some(kind)) => match kind.to_ascii_lowercase().as_str() {
                "server" => self.kind = SpanKind::Server,
                "client" => self.kind = SpanKind::Client,
                "producer" => self.kind = SpanKind::Producer,
                "consumer" => self.kind = SpanKind::Consumer,
                "internal" => self.kind = SpanKind::Internal,
                "unspecified" | "" => self.kind = SpanKind::Unspecified,
                _ => return false,
            },
            ("error", _) if tag.value == true || value == Some("true") => self.set_status(StatusCode::Error),
            ("otel.status_code", Some(code)) => match code.to_ascii_uppercase().as_str() {
                "OK" | "STATUS_CODE_OK" => self.set_status(StatusCode::Ok),
                "ERROR" | "STATUS_CODE_ERROR" => self.set_status(StatusCode::Error),
                "UNSET" | "STATUS_CODE_UNSET" => {}
                _ => return false,
            },
            ("otel.status_description", Some(message)) => {
                message.clone_into(&mut self.status.get_or_insert_default().message);
            }
            ("otel.scope.name" | "otel.library.name", Some(name)) => name.clone_into(&mut self.scope.0),
            ("otel.scope.version" | "otel.library.version", Some(version)) => {
                version.clone_into(&mut self.scope.1);
            }
            ("w3c.tracestate", Some(state)) => state.clone_into(&mut self.trace_state),
            (SPAN_FORMAT, Some(format)) => self.is_otlp |= format == OTLP,
            _ => return false,
        }
        true
    }

    fn set_status(&mut self, code: StatusCode) {
        self.status.get_or_insert_default().code = code.into();
    }
}

/// Splits references into the parent and links.
///
/// The parent is the first span of the same trace that this one is a child of. Without one, it is the first that this
/// one follows from, except in spans that were sent as OTLP: those have only links there.
fn relations(
    references: Vec<Reference>,
    named: &str,
    trace: &[u8],
    is_otlp: bool,
) -> Result<(Vec<u8>, Vec<Link>), String> {
    let mut parent = ids::span("parentSpanID", named)?;
    let mut links = Vec::new();
    let mut follows = None;
    for Reference { ref_type, trace_id, span_id } in references {
        let trace_id = ids::linked_trace("traceID", &trace_id)?;
        let span_id = ids::span("spanID", &span_id)?;
        let is_child = ref_type.as_deref() == Some("CHILD_OF");
        let is_here = trace_id == trace && !span_id.is_empty();
        if is_child && is_here && (parent.is_empty() || parent == span_id) {
            parent = span_id;
            continue;
        }
        let attributes = if is_child { vec![text("opentracing.ref_type", "child_of")] } else { Vec::new() };
        if !is_child && is_here && !is_otlp {
            follows.get_or_insert(links.len());
        }
        links.push(Link { trace_id, span_id, attributes, ..Link::default() });
    }
    if let Some(at) = follows.filter(|_| parent.is_empty()) {
        parent = links.remove(at).span_id;
    }
    Ok((parent, links))
}

fn event(log: Log) -> Result<Event, String> {
    let fields = log.fields.unwrap_or_default();
    let at = fields.iter().position(|field| field.key == "event" && field.value.is_string());
    let name = at.and_then(|at| fields[at].value.as_str()).unwrap_or_default().to_owned();
    let others = fields.iter().enumerate().filter(|(index, _)| Some(*index) != at);
    Ok(Event {
        time_unix_nano: numbers::nanos("timestamp", &log.timestamp)?,
        name,
        attributes: others.map(|(_, field)| value(field)).collect(),
        ..Event::default()
    })
}

/// Converts a tag by its type. A value that does not fit the type keeps its own.
fn value(tag: &Tag) -> KeyValue {
    let text = tag.value.as_str();
    let typed = match tag.kind.as_deref() {
        Some("bool") => text.and_then(|text| text.parse().ok()).map(Any::BoolValue),
        Some("int64") => text.and_then(|text| text.parse().ok()).map(Any::IntValue),
        Some("float64") => tag.value.as_f64().or_else(|| text?.parse().ok()).map(Any::DoubleValue),
        Some("binary") => {
            let bytes = text.and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
            bytes.map(Any::BytesValue)
        }
        _ => None,
    };
    match typed {
        Some(typed) => attribute(&tag.key, typed),
        None => json(&tag.key, &tag.value),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use qualitytrace_core::id::{SpanId, TraceId};
    use qualitytrace_core::time::Timestamp;
    use qualitytrace_core::trace::{self, Attributes, Dropped, Resource, Scope, Trace};
    use qualitytrace_core::value::Value as Core;
    use serde_json::json;

    use super::*;
    use crate::receive::otlp::convert;
    use crate::wire::jaeger::Document as Exported;

    const TRACE: &str = "000000000000000100000000000000ab";

    /// The first span of a document with this span.
    fn one(span: &Value) -> trace::Span {
        let document = json!({ "data": [{ "traceID": TRACE, "spans": [span], "processes": {
            "p1": { "serviceName": "shop", "tags": [{ "key": "host", "type": "string", "value": "h" }] } } }] });
        let (request, refused) = read(document.to_string().as_bytes(), &mut Allowance::new(1 << 20)).unwrap();
        assert_eq!(refused, RefusedSpans::default());
        convert::spans(request).remove(0).1
    }

    #[test]
    fn a_span_keeps_what_jaeger_has_of_it() {
        let span = one(&json!({
            "spanID": "b", "operationName": "GET /", "startTime": 1_700_000_000_000_001_u64, "duration": 25.5,
            "processID": "p1", "flags": 3,
            "references": [{ "refType": "FOLLOWS_FROM", "traceID": "1", "spanID": "2" },
                { "refType": "CHILD_OF", "traceID": "100000000000000ab", "spanID": "a" }],
            "tags": [{ "key": "span.kind", "type": "string", "value": "server" }, { "key": "error", "type": "bool", "value": true },
                { "key": "otel.status_description", "type": "string", "value": "gone" },
                { "key": "n", "type": "int64", "value": "9007199254740993" }, { "key": "f", "type": "float64", "value": 1 },
                { "key": "b", "type": "bool", "value": "true" }, { "key": "raw", "type": "binary", "value": "AQI=" },
                { "key": "bare", "value": 7 }, { "key": "otel.scope.name", "type": "string", "value": "lib" }],
            "logs": [{ "timestamp": 1_700_000_000_000_002_u64, "fields": [{ "key": "event", "type": "string", "value": "retry" },
                { "key": "attempt", "type": "int64", "value": 2 }] }],
        }));
        assert_eq!(
            (span.id.unwrap().to_string(), span.parent.unwrap().to_string()),
            ("000000000000000b".into(), "000000000000000a".into())
        );
        assert_eq!((span.start.as_nanos(), span.duration().as_nanos()), (1_700_000_000_000_001_000, 25_500));
        assert_eq!(
            (span.kind, span.service(), &*span.scope.name, span.flags),
            (trace::SpanKind::Server, "shop", "lib", 1)
        );
        let status = span.status.unwrap();
        assert_eq!((status.code, &*status.message), (trace::StatusCode::Error, "gone"));
        let expected = [
            ("b", Core::Bool(true)),
            ("bare", Core::Int(7)),
            ("f", Core::Float(1.0)),
            ("n", Core::Int(9_007_199_254_740_993)),
            ("raw", Core::Bytes(vec![1, 2].into())),
        ];
        assert_eq!(span.attributes, expected.into_iter().collect::<Attributes>());
        assert_eq!(
            (&*span.events[0].name, span.events[0].time.as_nanos()),
            ("retry", 1_700_000_000_000_002_000)
        );
        assert_eq!(span.events[0].attributes.get("attempt"), Some(&Core::Int(2)));
        assert_eq!((span.links.len(), span.links[0].trace.unwrap().to_string()), (1, format!("{:032x}", 1)));
    }

    #[test]
    fn a_span_that_only_follows_another_is_its_child_unless_it_was_otlp() {
        let span = |tags: Value| {
            json!({ "spanID": "b", "startTime": 1, "tags": tags,
            "references": [{ "refType": "FOLLOWS_FROM", "traceID": TRACE, "spanID": "a" }] })
        };
        let old = one(&span(json!([])));
        assert_eq!(
            (old.parent.map(|id| id.to_string()), old.links.len()),
            (Some("000000000000000a".to_owned()), 0)
        );
        let otlp = one(&span(json!([{ "key": SPAN_FORMAT, "type": "string", "value": OTLP }])));
        assert_eq!((otlp.parent, otlp.links.len(), otlp.attributes.iter().count()), (None, 1, 0));
    }

    #[test]
    fn a_reference_to_no_trace_is_a_link_without_ids() {
        let nothing =
            json!({ "refType": "FOLLOWS_FROM", "traceID": "0".repeat(32), "spanID": "0".repeat(16) });
        let span = one(&json!({ "spanID": "b", "startTime": 1, "references": [nothing] }));
        assert_eq!((span.links.len(), span.links[0].trace, span.links[0].span), (1, None, None));
    }

    #[test]
    fn a_file_may_be_one_trace_with_processes_in_its_spans() {
        let document = json!({ "traceID": "1", "processes": {}, "spans": [{ "spanID": "1", "startTime": 5, "duration": -1 },
            { "spanID": "2", "startTime": 5, "process": { "serviceName": "a" } }, { "spanID": "3", "startTime": "now" }, 7] });
        let (request, refused) = read(document.to_string().as_bytes(), &mut Allowance::new(1 << 20)).unwrap();
        let spans = convert::spans(request);
        assert_eq!((spans.len(), spans[0].1.service()), (1, "a"));
        let indexes: Vec<&str> = refused.problems.iter().map(|problem| problem.location.as_str()).collect();
        assert_eq!(indexes, ["spans[0]", "spans[2]", "spans[3]"]);
        assert!(refused.problems[0].reason.contains("`duration` is -1"), "{refused:?}");
    }

    fn value() -> impl Strategy<Value = Core> {
        prop_oneof![
            any::<String>().prop_map(Core::from),
            any::<bool>().prop_map(Core::Bool),
            any::<i64>().prop_map(Core::Int),
            any::<i32>().prop_map(|number| Core::Float(f64::from(number) / 2.0)),
        ]
    }

    fn attributes() -> impl Strategy<Value = Attributes> {
        proptest::collection::vec(("[a-c]{1,2}", value()), 0..4).prop_map(|pairs| pairs.into_iter().collect())
    }

    fn status() -> impl Strategy<Value = Option<trace::Status>> {
        let code = prop_oneof![Just(trace::StatusCode::Ok), Just(trace::StatusCode::Error)];
        proptest::option::of(
            (code, "[a-z]{0,4}").prop_map(|(code, message)| trace::Status { code, message: message.into() }),
        )
    }

    fn event() -> impl Strategy<Value = trace::Event> {
        (1..1_000_000_u64, any::<String>(), attributes()).prop_map(|(micros, name, attributes)| {
            trace::Event {
                time: Timestamp::from_nanos(micros * 1_000),
                name: name.into(),
                attributes,
                dropped_attributes: 0,
            }
        })
    }

    fn link() -> impl Strategy<Value = trace::Link> {
        let trace =
            prop_oneof![Just(None), Just(Some(TRACE)), Just(Some("00000000000000000000000000000007"))];
        (trace, 0..9_u64).prop_map(|(trace, span)| trace::Link {
            trace: trace.map(|id| id.parse().unwrap()),
            span: SpanId::from_bytes(span.to_be_bytes()),
            trace_state: "".into(),
            attributes: Attributes::default(),
            dropped_attributes: 0,
            flags: 0,
        })
    }

    fn kind() -> impl Strategy<Value = trace::SpanKind> {
        prop_oneof![
            Just(trace::SpanKind::Unspecified),
            Just(trace::SpanKind::Internal),
            Just(trace::SpanKind::Server),
            Just(trace::SpanKind::Client),
            Just(trace::SpanKind::Producer),
            Just(trace::SpanKind::Consumer),
        ]
    }

    /// The resource of a process; there is one for each service.
    fn process(service: &str) -> Resource {
        let mut resource = Resource::default();
        if !service.is_empty() {
            resource.attributes.set("service.name", service);
            resource.attributes.set("host", Core::Int(1));
        }
        resource
    }

    prop_compose! {
        fn span()(
            parent in 0..9_u64,
            name in any::<String>(),
            kind in kind(),
            service in "(shop|till)?",
            (start, duration) in (1..1_000_000_u64, 0..1_000_u64),
            status in status(),
            attributes in attributes(),
            events in proptest::collection::vec(event(), 0..3),
            links in proptest::collection::vec(link(), 0..3),
            (scope, state) in ("[a-z]{0,2}", "[a-z=]{0,3}"),
        ) -> trace::Span {
            trace::Span {
                id: None,
                parent: SpanId::from_bytes(parent.to_be_bytes()),
                name: name.into(),
                kind,
                start: Timestamp::from_nanos(start * 1_000),
                end: Some(Timestamp::from_nanos((start + duration) * 1_000)),
                status,
                attributes,
                events,
                links,
                resource: Arc::new(process(&service)),
                scope: Arc::new(Scope { name: scope.into(), ..Scope::default() }),
                trace_state: state.into(),
                flags: 0,
                dropped: Dropped::default(),
            }
        }
    }

    fn spans() -> impl Strategy<Value = Vec<trace::Span>> {
        let numbered =
            |(at, span): (u64, trace::Span)| trace::Span { id: SpanId::from_bytes(at.to_be_bytes()), ..span };
        proptest::collection::vec(span(), 1..9)
            .prop_map(move |spans| (1..).zip(spans).map(numbered).collect())
    }

    proptest! {
        #[test]
        fn what_we_export_is_read_back_as_the_same_tree(spans in spans()) {
            let id: TraceId = TRACE.parse().unwrap();
            let trace = Trace::assemble(id, spans);
            let written = serde_json::to_string(&Exported(trace.clone())).unwrap();
            let (request, refused) = read(written.as_bytes(), &mut Allowance::new(1 << 30)).unwrap();
            prop_assert_eq!(refused, RefusedSpans::default());
            let again = convert::spans(request).into_iter().map(|(trace, span)| { assert_eq!(trace, Some(id)); span });
            let again = Trace::assemble(id, again);
            prop_assert_eq!(trace.spans(), again.spans());
            let depths = |trace: &Trace| (0..trace.spans().len()).map(|at| trace.depth(at)).collect::<Vec<_>>();
            prop_assert_eq!(depths(&trace), depths(&again));
        }
    }
}
