//! Conversion of OTLP messages to the core's spans; every field and type is kept.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource as OtlpResource;
use opentelemetry_proto::tonic::trace::v1 as otlp;
use prost::Message as _;
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{
    Attributes, Dropped, Event, Link, Resource, Scope, Span, SpanKind, Status, StatusCode,
};
use qualitytrace_core::value::Value;

/// Longer texts are seldom equal.
const SHARED_BYTES: usize = 64;
/// Distinct texts, and distinct resources and scopes, that are compared; later ones are stored as often as they come.
const SHARED_TEXTS: usize = 16_384;
const SHARED_SOURCES: usize = 1_024;

/// Decodes requests. Texts, resources and scopes that are equal are stored once, in several requests too.
#[derive(Debug, Default)]
pub struct Decoder {
    texts: Texts,
    /// By their encoded form, with the URL of the schema.
    resources: HashMap<(Vec<u8>, String), Arc<Resource>>,
    scopes: HashMap<(Vec<u8>, String), Arc<Scope>>,
}

#[derive(Debug, Default)]
struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn one(&mut self, text: &str) -> Arc<str> {
        if text.len() > SHARED_BYTES {
            return text.into();
        }
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new = Arc::<str>::from(text);
        if self.0.len() < SHARED_TEXTS {
            self.0.insert(Arc::clone(&new));
        }
        new
    }
}

/// Returns the spans of a request, each with its trace id; `None` for spans without a valid one.
pub fn spans(request: ExportTraceServiceRequest) -> Vec<(Option<TraceId>, Span)> {
    Decoder::default().spans(request)
}

impl Decoder {
    /// Returns the spans of a request, each with its trace id; `None` for spans without a valid one.
    pub fn spans(&mut self, request: ExportTraceServiceRequest) -> Vec<(Option<TraceId>, Span)> {
        let mut spans = Vec::new();
        for resource_spans in request.resource_spans {
            let resource =
                self.resource(resource_spans.resource.unwrap_or_default(), resource_spans.schema_url);
            for scope_spans in resource_spans.scope_spans {
                let scope = self.scope(scope_spans.scope.unwrap_or_default(), scope_spans.schema_url);
                spans.extend(scope_spans.spans.into_iter().map(|sent| {
                    let trace = TraceId::from_slice(&sent.trace_id);
                    (trace, span(sent, Arc::clone(&resource), Arc::clone(&scope), &mut self.texts))
                }));
            }
        }
        spans
    }

    fn resource(&mut self, sent: OtlpResource, schema_url: String) -> Arc<Resource> {
        let key = (sent.encode_to_vec(), schema_url);
        if let Some(known) = self.resources.get(&key) {
            return Arc::clone(known);
        }
        let new = Arc::new(resource(sent, &key.1, &mut self.texts));
        if self.resources.len() < SHARED_SOURCES {
            self.resources.insert(key, Arc::clone(&new));
        }
        new
    }

    fn scope(&mut self, sent: InstrumentationScope, schema_url: String) -> Arc<Scope> {
        let key = (sent.encode_to_vec(), schema_url);
        if let Some(known) = self.scopes.get(&key) {
            return Arc::clone(known);
        }
        let new = Arc::new(scope(sent, &key.1, &mut self.texts));
        if self.scopes.len() < SHARED_SOURCES {
            self.scopes.insert(key, Arc::clone(&new));
        }
        new
    }
}

fn resource(sent: OtlpResource, schema_url: &str, texts: &mut Texts) -> Resource {
    Resource {
        attributes: attributes(sent.attributes, texts),
        dropped_attributes: sent.dropped_attributes_count,
        schema_url: schema_url.into(),
    }
}

fn scope(sent: InstrumentationScope, schema_url: &str, texts: &mut Texts) -> Scope {
    Scope {
        name: sent.name.into(),
        version: sent.version.into(),
        attributes: attributes(sent.attributes, texts),
        dropped_attributes: sent.dropped_attributes_count,
        schema_url: schema_url.into(),
    }
}

fn span(sent: otlp::Span, resource: Arc<Resource>, scope: Arc<Scope>, texts: &mut Texts) -> Span {
    Span {
        id: SpanId::from_slice(&sent.span_id),
        parent: SpanId::from_slice(&sent.parent_span_id),
        kind: kind(sent.kind()),
        name: texts.one(&sent.name),
        start: Timestamp::from_nanos(sent.start_time_unix_nano),
        end: (sent.end_time_unix_nano != 0).then(|| Timestamp::from_nanos(sent.end_time_unix_nano)),
        status: sent.status.map(|sent| status(&sent, texts)),
        attributes: attributes(sent.attributes, texts),
        events: sent.events.into_iter().map(|sent| event(sent, texts)).collect(),
        links: sent.links.into_iter().map(|sent| link(sent, texts)).collect(),
        resource,
        scope,
        trace_state: texts.one(&sent.trace_state),
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

fn status(sent: &otlp::Status, texts: &mut Texts) -> Status {
    let code = match sent.code() {
        otlp::status::StatusCode::Unset => StatusCode::Unset,
        otlp::status::StatusCode::Ok => StatusCode::Ok,
        otlp::status::StatusCode::Error => StatusCode::Error,
    };
    Status { code, message: texts.one(&sent.message) }
}

fn event(sent: otlp::span::Event, texts: &mut Texts) -> Event {
    Event {
        time: Timestamp::from_nanos(sent.time_unix_nano),
        name: texts.one(&sent.name),
        attributes: attributes(sent.attributes, texts),
        dropped_attributes: sent.dropped_attributes_count,
    }
}

fn link(sent: otlp::span::Link, texts: &mut Texts) -> Link {
    Link {
        trace: TraceId::from_slice(&sent.trace_id),
        span: SpanId::from_slice(&sent.span_id),
        trace_state: texts.one(&sent.trace_state),
        attributes: attributes(sent.attributes, texts),
        dropped_attributes: sent.dropped_attributes_count,
        flags: sent.flags,
    }
}

/// Converts the attributes of a log record.
pub(crate) fn log_attributes(sent: Vec<KeyValue>) -> Attributes {
    attributes(sent, &mut Texts::default())
}

fn attributes(sent: Vec<KeyValue>, texts: &mut Texts) -> Attributes {
    sent.into_iter().map(|pair| (texts.one(&pair.key), shared_value(pair.value, texts))).collect()
}

/// Converts the value of an attribute.
pub(crate) fn value(sent: Option<AnyValue>) -> Value {
    shared_value(sent, &mut Texts::default())
}

fn shared_value(sent: Option<AnyValue>, texts: &mut Texts) -> Value {
    match sent.and_then(|any| any.value) {
        // A string-table reference means nothing outside the profiles signal.
        None | Some(any_value::Value::StringValueStrindex(_)) => Value::Null,
        Some(any_value::Value::StringValue(text)) => Value::String(texts.one(&text)),
        Some(any_value::Value::BoolValue(truth)) => Value::Bool(truth),
        Some(any_value::Value::IntValue(number)) => Value::Int(number),
        Some(any_value::Value::DoubleValue(number)) => Value::Float(number),
        Some(any_value::Value::BytesValue(bytes)) => Value::Bytes(bytes.into()),
        Some(any_value::Value::ArrayValue(list)) => {
            Value::List(list.values.into_iter().map(|item| shared_value(Some(item), texts)).collect())
        }
        Some(any_value::Value::KvlistValue(list)) => {
            let mut member = |pair: KeyValue| (texts.one(&pair.key), shared_value(pair.value, texts));
            Value::Object(list.values.into_iter().map(&mut member).collect())
        }
    }
}
