//! Fields of spans and events as attributes.

use std::{error::Error, fmt};

use opentelemetry::trace::SpanKind;
use tracing::field::{Field, Visit};

use crate::{
    attributes::{Attributes, Value, shorten},
    config::AttributeLimits,
    span::{Span, Status},
};

/// The fields of an event.
pub(crate) struct Fields {
    pub(crate) message: Option<String>,
    pub(crate) attributes: Attributes,
}

impl Fields {
    pub(crate) fn new(limits: AttributeLimits) -> Self {
        Self { message: None, attributes: Attributes::limited(limits) }
    }

    fn put(&mut self, field: &Field, value: &Value<'_>) {
        match (field.name(), value) {
            ("message", Value::Text(text)) => self.message = Some(shorten(text).to_owned()),
            // `type` is a keyword, so the macros cannot spell the name of the convention.
            ("exception.kind", value) => self.attributes.put("exception.type", value),
            (name, value) => self.attributes.put(name, value),
        }
    }

    /// Whether a field of an exception is among them.
    pub(crate) fn is_exception(&self) -> bool {
        self.attributes.keys().any(|key| key.starts_with(b"exception."))
    }
}

/// Writes fields into a span.
pub(crate) struct OfSpan<'a> {
    pub(crate) span: &'a mut Span,
    /// Whether no field was written before, so that none needs to be replaced.
    pub(crate) is_new: bool,
}

impl OfSpan<'_> {
    fn put(&mut self, field: &Field, value: &Value<'_>) {
        let span = &mut *self.span;
        match (field.name(), value) {
            ("otel.name", Value::Text(text)) => span.name = shorten(text).to_owned().into(),
            ("otel.kind", Value::Text(text)) => span.kind = kind(text),
            ("otel.status_code", Value::Text(text)) => span.status = status(text),
            ("otel.status_message" | "otel.status_description", Value::Text(text)) => {
                shorten(text).clone_into(&mut span.status_message);
            }
            (name, value) if self.is_new => span.attributes.add(name, value),
            (name, value) => span.attributes.put(name, value),
        }
    }
}

fn status(text: &str) -> Status {
    [("ok", Status::Ok), ("error", Status::Error)]
        .into_iter()
        .find(|(name, _)| text.eq_ignore_ascii_case(name))
        .map_or(Status::Unset, |(_, status)| status)
}

fn kind(text: &str) -> SpanKind {
    [
        ("server", SpanKind::Server),
        ("client", SpanKind::Client),
        ("producer", SpanKind::Producer),
        ("consumer", SpanKind::Consumer),
    ]
    .into_iter()
    .find(|(name, _)| text.eq_ignore_ascii_case(name))
    .map_or(SpanKind::Internal, |(_, kind)| kind)
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
                self.put(field, &Value::Bool(value));
            }

            fn record_i64(&mut self, field: &Field, value: i64) {
                self.put(field, &Value::Int(value));
            }

            fn record_u64(&mut self, field: &Field, value: u64) {
                // OTLP has no unsigned numbers; a value that does not fit is kept as text.
                match i64::try_from(value) {
                    Ok(value) => self.put(field, &Value::Int(value)),
                    Err(_) => self.put(field, &Value::text(&value.to_string())),
                }
            }

            fn record_f64(&mut self, field: &Field, value: f64) {
                self.put(field, &Value::Float(value));
            }

            fn record_str(&mut self, field: &Field, value: &str) {
                self.put(field, &Value::text(value));
            }

            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.put(field, &Value::text(&format!("{value:?}")));
            }

            fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
                self.error(field, &describe(value));
            }
        }
    };
}

impl Fields {
    /// An error in an event is recorded as an exception.
    fn error(&mut self, _: &Field, text: &str) {
        self.attributes.put("exception.message", &Value::text(text));
    }
}

impl OfSpan<'_> {
    fn error(&mut self, field: &Field, text: &str) {
        self.put(field, &Value::text(text));
    }
}

visit!(Fields);
visit!(OfSpan<'_>);
