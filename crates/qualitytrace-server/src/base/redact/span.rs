//! Redaction of secrets in traces of the system under test.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use qualitytrace_core::trace::{Attributes, Event, Link, Resource, Scope, Span, Status, Trace, special};
use qualitytrace_core::value::Value;

use super::Redactor;

/// Redacted resources and scopes, by address: the spans of a request share them.
#[derive(Default)]
struct RedactionCache {
    resources: HashMap<*const Resource, Arc<Resource>>,
    scopes: HashMap<*const Scope, Arc<Scope>>,
}

impl Redactor {
    /// Redacts every secret in a trace, also in names of attributes.
    pub fn trace(&self, trace: Trace) -> Trace {
        if self.is_empty() {
            return trace;
        }
        let seen = &mut RedactionCache::default();
        trace.map(|span| self.span(span, seen))
    }

    /// Redacts every secret in one span.
    pub(crate) fn one_span(&self, span: &Span) -> Span {
        self.span(span, &mut RedactionCache::default())
    }

    /// Redacts a span. All fields are listed, so that a new one cannot be forgotten.
    fn span(&self, span: &Span, seen: &mut RedactionCache) -> Span {
        let Span { id, parent, name, kind, start, end, status, attributes, events, links, .. } = span;
        let Span { resource, scope, trace_state, flags, dropped, .. } = span;
        let status = status.as_ref();
        let resource = seen.resources.entry(Arc::as_ptr(resource)).or_insert_with(|| self.resource(resource));
        let scope = seen.scopes.entry(Arc::as_ptr(scope)).or_insert_with(|| self.scope(scope));
        Span {
            id: *id,
            parent: *parent,
            name: self.word(name),
            kind: *kind,
            start: *start,
            end: *end,
            status: status.map(|status| Status { code: status.code, message: self.word(&status.message) }),
            attributes: self.attributes(attributes),
            events: events.iter().map(|event| self.event(event)).collect(),
            links: links.iter().map(|link| self.link(link)).collect(),
            resource: Arc::clone(resource),
            scope: Arc::clone(scope),
            trace_state: self.word(trace_state),
            flags: *flags,
            dropped: *dropped,
        }
    }

    fn event(&self, event: &Event) -> Event {
        let Event { time, name, attributes, dropped_attributes } = event;
        Event {
            time: *time,
            name: self.word(name),
            attributes: self.attributes(attributes),
            dropped_attributes: *dropped_attributes,
        }
    }

    fn link(&self, link: &Link) -> Link {
        let Link { trace, span, trace_state, attributes, dropped_attributes, flags } = link;
        Link {
            trace: *trace,
            span: *span,
            trace_state: self.word(trace_state),
            attributes: self.attributes(attributes),
            dropped_attributes: *dropped_attributes,
            flags: *flags,
        }
    }

    fn resource(&self, resource: &Resource) -> Arc<Resource> {
        let Resource { attributes, dropped_attributes, schema_url } = resource;
        Arc::new(Resource {
            attributes: self.attributes(attributes),
            dropped_attributes: *dropped_attributes,
            schema_url: self.word(schema_url),
        })
    }

    fn scope(&self, scope: &Scope) -> Arc<Scope> {
        let Scope { name, version, attributes, dropped_attributes, schema_url } = scope;
        Arc::new(Scope {
            name: self.word(name),
            version: self.word(version),
            attributes: self.attributes(attributes),
            dropped_attributes: *dropped_attributes,
            schema_url: self.word(schema_url),
        })
    }

    pub(crate) fn attributes(&self, attributes: &Attributes) -> Attributes {
        attributes.iter().map(|(name, value)| (self.text(name), self.value(value))).collect()
    }

    pub(crate) fn value(&self, value: &Value) -> Value {
        // Searched in its text form, in which the items of a list are escaped.
        let text = special::text(value);
        match self.text(&text) {
            shown if shown == text => value.clone(),
            shown => Value::String(shown.as_ref().into()),
        }
    }

    pub(crate) fn word(&self, word: &Arc<str>) -> Arc<str> {
        match self.text(word) {
            Cow::Borrowed(shown) if *shown == **word => Arc::clone(word),
            shown => shown.into(),
        }
    }
}
