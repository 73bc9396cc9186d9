//! A trace in OTLP JSON, as it was received.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use qualitytrace_core::id::TraceId;
use serde::ser::{SerializeMap as _, SerializeStruct as _};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::lazy::Lazy;
use crate::base::redact::Redactor;
use crate::receive::otlp::non_finite;
use crate::receive::source::Source;
use crate::storage::store;

/// All requests that delivered spans of a trace, merged while the document is serialized.
#[derive(Debug)]
pub struct Document {
    requests: Vec<ExportTraceServiceRequest>,
    redactor: Redactor,
    /// Whether it has numbers that JSON lacks.
    is_marked: bool,
}

impl Document {
    /// Loads everything that arrived of the trace; secrets are redacted.
    pub async fn load(source: &Source, trace: TraceId, redactor: Redactor) -> Result<Self, store::Error> {
        let mut requests = source.requests(trace).await?;
        let is_marked = requests.iter_mut().fold(false, |found, request| non_finite::mark(request) | found);
        Ok(Self { requests, redactor, is_marked })
    }

    /// Whether nothing arrived.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    fn shown(&self, part: &impl Serialize) -> Value {
        let mut shown = serde_json::to_value(part).unwrap_or_default();
        self.redactor.json(&mut shown);
        if self.is_marked {
            non_finite::spell_out(&mut shown);
        }
        shown
    }
}

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let of_resources = Lazy(|| {
            let all = self.requests.iter().flat_map(|request| &request.resource_spans);
            all.map(|of_resource| OfResource { document: self, of_resource })
        });
        let mut document = serializer.serialize_struct("Document", 1)?;
        document.serialize_field("resourceSpans", &of_resources)?;
        document.end()
    }
}

struct OfResource<'d> {
    document: &'d Document,
    of_resource: &'d ResourceSpans,
}

impl Serialize for OfResource<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { document, of_resource } = *self;
        let ResourceSpans { resource, schema_url, scope_spans } = of_resource;
        let (resource, schema_url) = (resource.clone(), schema_url.clone());
        let around = document.shown(&ResourceSpans { resource, schema_url, scope_spans: Vec::new() });
        let of_scopes = || scope_spans.iter().map(|of_scope| OfScope { document, of_scope });
        filled(around, "scopeSpans", &Lazy(of_scopes), serializer)
    }
}

struct OfScope<'d> {
    document: &'d Document,
    of_scope: &'d ScopeSpans,
}

impl Serialize for OfScope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { document, of_scope } = *self;
        let ScopeSpans { scope, schema_url, spans } = of_scope;
        let (scope, schema_url) = (scope.clone(), schema_url.clone());
        let around = document.shown(&ScopeSpans { scope, schema_url, spans: Vec::new() });
        if document.redactor.is_empty() && !document.is_marked {
            return filled(around, "spans", spans, serializer);
        }
        filled(around, "spans", &Lazy(|| spans.iter().map(|span| document.shown(span))), serializer)
    }
}

/// Serializes an object with this list in place of its empty one.
fn filled<S: Serializer>(
    around: Value,
    name: &str,
    list: &impl Serialize,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let Value::Object(fields) = around else { return list.serialize(serializer) };
    let mut object = serializer.serialize_map(None)?;
    for (field, value) in fields.iter().filter(|(field, _)| *field != name) {
        object.serialize_entry(field, value)?;
    }
    object.serialize_entry(name, list)?;
    object.end()
}
