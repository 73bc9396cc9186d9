//! Fields of spans and events as attributes.

use std::{error::Error, fmt};

use opentelemetry::trace::SpanKind;
use tracing::field::{Field, Visit};

use crate::span::{Attribute, MAX_ATTRIBUTES, Span, Status, Value, shorten};

/// The fields of an event.
#[derive(Default)]
pub(crate) struct Fields {
    pub(crate) message: Option<String>,
    pub(crate) attributes: Vec<Attribute>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::Text(text)) => self.message = Some(text),
            // `type` is a keyword, so the macros cannot spell the name of the convention.
            ("exception.kind", value) => self.attributes.push(("exception.type".into(), value)),
            (name, value) => self.attributes.push((name.into(), value)),
        }
    }
}

/// Writes fields into a span.
pub(crate) struct OfSpan<'a>(pub(crate) &'a mut Span);

impl OfSpan<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        let span = &mut *self.0;
        match (field.name(), &value) {
            ("otel.name", Value::Text(text)) => span.name = text.clone().into(),
            ("otel.kind", Value::Text(text)) => span.kind = kind(text),
            ("otel.status_code", Value::Text(text)) => {
                span.status = match text.to_ascii_lowercase().as_str() {
                    "ok" => Status::Ok,
                    "error" => Status::Error,
                    _ => Status::Unset,
                }
            }
            ("otel.status_message" | "otel.status_description", Value::Text(text)) => {
                span.status_message.clone_from(text);
            }
            (name, _) => {
                // A field that is recorded again takes the new value.
                if let Some((_, old)) = span.attributes.iter_mut().find(|(key, _)| key == name) {
                    *old = value;
                } else if span.attributes.len() < MAX_ATTRIBUTES {
                    span.attributes.push((name.into(), value));
                } else {
                    span.dropped_attributes += 1;
                }
            }
        }
    }
}

fn kind(text: &str) -> SpanKind {
    match text.to_ascii_lowercase().as_str() {
        "server" => SpanKind::Server,
        "client" => SpanKind::Client,
        "producer" => SpanKind::Producer,
        "consumer" => SpanKind::Consumer,
        _ => SpanKind::Internal,
    }
}

/// An error and its causes.
fn describe(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

macro_rules! visit {
    ($type:ty) => {
        impl Visit for $type {
            fn record_bool(&mut self, field: &Field, value: bool) {
                self.put(field, Value::Bool(value));
            }

            fn record_i64(&mut self, field: &Field, value: i64) {
                self.put(field, Value::Int(value));
            }

            fn record_u64(&mut self, field: &Field, value: u64) {
                // OTLP has no unsigned numbers; what does not fit is kept as text.
                let value = i64::try_from(value).map_or_else(|_| Value::Text(value.to_string()), Value::Int);
                self.put(field, value);
            }

            fn record_f64(&mut self, field: &Field, value: f64) {
                self.put(field, Value::Float(value));
            }

            fn record_str(&mut self, field: &Field, value: &str) {
                self.put(field, Value::Text(shorten(value.to_owned())));
            }

            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.put(field, Value::Text(shorten(format!("{value:?}"))));
            }

            fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
                self.error(field, describe(value));
            }
        }
    };
}

impl Fields {
    /// An error in an event is an exception.
    fn error(&mut self, _: &Field, text: String) {
        self.attributes.push(("exception.message".into(), Value::Text(shorten(text))));
    }
}

impl OfSpan<'_> {
    fn error(&mut self, field: &Field, text: String) {
        self.put(field, Value::Text(shorten(text)));
    }
}

visit!(Fields);
visit!(OfSpan<'_>);
