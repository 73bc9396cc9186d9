//! Conversion of OTLP messages to the core's spans; every field and type is kept.

use std::collections::HashSet;
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource as OtlpResource;
use opentelemetry_proto::tonic::trace::v1 as otlp;
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{
    Attributes, Dropped, Event, Link, Resource, Scope, Span, SpanKind, Status, StatusCode,
};
use qualitytrace_core::value::Value;

/// Interned names of spans, events and attributes: each distinct name is stored once.
#[derive(Default)]
struct Names(HashSet<Arc<str>>);

impl Names {
    fn one(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return Arc::clone(known);
        }
        let new = Arc::<str>::from(name);
        self.0.insert(Arc::clone(&new));
        new
    }
}

/// Returns the spans of a request, each with its trace id; `None` for spans without a valid one.
pub fn spans(request: ExportTraceServiceRequest) -> Vec<(Option<TraceId>, Span)> {
    let mut spans = Vec::new();
    let names = &mut Names::default();
    for resource_spans in request.resource_spans {
        let resource = Arc::new(resource(resource_spans.resource, resource_spans.schema_url, names));
        for scope_spans in resource_spans.scope_spans {
            let scope = Arc::new(scope(scope_spans.scope, scope_spans.schema_url, names));
            spans.extend(scope_spans.spans.into_iter().map(|sent| {
                let trace = TraceId::from_slice(&sent.trace_id);
                (trace, span(sent, Arc::clone(&resource), Arc::clone(&scope), names))
            }));
        }
    }
    spans
}

fn resource(sent: Option<OtlpResource>, schema_url: String, names: &mut Names) -> Resource {
    let sent = sent.unwrap_or_default();
    Resource {
        attributes: attributes(sent.attributes, names),
        dropped_attributes: sent.dropped_attributes_count,
        schema_url: schema_url.into(),
    }
}

fn scope(sent: Option<InstrumentationScope>, schema_url: String, names: &mut Names) -> Scope {
    let sent = sent.unwrap_or_default();
    Scope {
        name: sent.name.into(),
        version: sent.version.into(),
        attributes: attributes(sent.attributes, names),
        dropped_attributes: sent.dropped_attributes_count,
        schema_url: schema_url.into(),
    }
}

fn span(sent: otlp::Span, resource: Arc<Resource>, scope: Arc<Scope>, names: &mut Names) -> Span {
    Span {
        id: SpanId::from_slice(&sent.span_id),
        parent: SpanId::from_slice(&sent.parent_span_id),
        kind: kind(sent.kind()),
        name: names.one(&sent.name),
        start: Timestamp::from_nanos(sent.start_time_unix_nano),
        end: (sent.end_time_unix_nano != 0).then(|| Timestamp::from_nanos(sent.end_time_unix_nano)),
        status: sent.status.map(status),
        attributes: attributes(sent.attributes, names),
        events: sent.events.into_iter().map(|sent| event(sent, names)).collect(),
        links: sent.links.into_iter().map(|sent| link(sent, names)).collect(),
        resource,
        scope,
        trace_state: sent.trace_state.into(),
        flags: sent.flags,
        dropped: Dropped {
            attributes: sent.dropped_attributes_count,
            events: sent.dropped_events_count,
            links: sent.dropped_links_count,
        },
    }
}

fn kind(sent: otlp::span::SpanKind) -> SpanKind {
    match sent {
        otlp::span::SpanKind::Unspecified => SpanKind::Unspecified,
        otlp::span::SpanKind::Internal => SpanKind::Internal,
        otlp::span::SpanKind::Server => SpanKind::Server,
        otlp::span::SpanKind::Client => SpanKind::Client,
        otlp::span::SpanKind::Producer => SpanKind::Producer,
        otlp::span::SpanKind::Consumer => SpanKind::Consumer,
    }
}

fn status(sent: otlp::Status) -> Status {
    let code = match sent.code() {
        otlp::status::StatusCode::Unset => StatusCode::Unset,
        otlp::status::StatusCode::Ok => StatusCode::Ok,
        otlp::status::StatusCode::Error => StatusCode::Error,
    };
    Status { code, message: sent.message.into() }
}

fn event(sent: otlp::span::Event, names: &mut Names) -> Event {
    Event {
        time: Timestamp::from_nanos(sent.time_unix_nano),
        name: names.one(&sent.name),
        attributes: attributes(sent.attributes, names),
        dropped_attributes: sent.dropped_attributes_count,
    }
}

fn link(sent: otlp::span::Link, names: &mut Names) -> Link {
    Link {
        trace: TraceId::from_slice(&sent.trace_id),
        span: SpanId::from_slice(&sent.span_id),
        trace_state: sent.trace_state.into(),
        attributes: attributes(sent.attributes, names),
        dropped_attributes: sent.dropped_attributes_count,
        flags: sent.flags,
    }
}

/// Converts the attributes of a log record.
pub(crate) fn log_attributes(sent: Vec<KeyValue>) -> Attributes {
    attributes(sent, &mut Names::default())
}

fn attributes(sent: Vec<KeyValue>, names: &mut Names) -> Attributes {
    sent.into_iter().map(|pair| (names.one(&pair.key), value(pair.value))).collect()
}

pub(crate) fn value(sent: Option<AnyValue>) -> Value {
    match sent.and_then(|any| any.value) {
        // A string-table reference means nothing outside the profiles signal.
        None | Some(any_value::Value::StringValueStrindex(_)) => Value::Null,
        Some(any_value::Value::StringValue(text)) => Value::from(text),
        Some(any_value::Value::BoolValue(truth)) => Value::Bool(truth),
        Some(any_value::Value::IntValue(number)) => Value::Int(number),
        Some(any_value::Value::DoubleValue(number)) => Value::Float(number),
        Some(any_value::Value::BytesValue(bytes)) => Value::Bytes(bytes.into()),
        Some(any_value::Value::ArrayValue(list)) => {
            Value::List(list.values.into_iter().map(|item| value(Some(item))).collect())
        }
        Some(any_value::Value::KvlistValue(list)) => {
            Value::Object(list.values.into_iter().map(|pair| (pair.key.into(), value(pair.value))).collect())
        }
    }
}
