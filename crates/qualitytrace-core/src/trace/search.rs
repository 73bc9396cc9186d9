//! Spans that contain a text: in the id, the kind, the name, or the name or value of an attribute.

use super::Trace;
use super::span::Span;
use super::special::{self, SPECIAL, Special, computed};
use crate::value::Value;

/// Returns the positions of the spans that contain a text, in any case of letters.
pub fn containing(trace: &Trace, text: &str) -> Vec<usize> {
    let wanted = SearchText::new(text);
    (0..trace.spans().len()).filter(|at| wanted.is_in(trace.span(*at))).collect()
}

/// A text that is looked for. Hardly anything is copied to compare it: a trace has a million texts.
struct SearchText {
    /// In lower case.
    text: String,
    /// Whether an id can contain it.
    is_hexadecimal: bool,
    /// Whether a whole number can contain it.
    is_number: bool,
}

impl SearchText {
    fn new(text: &str) -> Self {
        let text = text.to_lowercase();
        Self {
            is_hexadecimal: text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            is_number: text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'),
            text,
        }
    }

    fn is_in(&self, span: &Span) -> bool {
        self.is_in_text(&span.name)
            || self.is_in_text(span.kind.as_str())
            || (self.is_hexadecimal && span.id.is_some_and(|id| self.is_in_text(&id.to_string())))
            || self.is_in_attributes(span)
            || shown().any(|(name, special)| self.is_in_special(name, special, span))
    }

    fn is_in_attributes(&self, span: &Span) -> bool {
        let (own, scope, resource) = (&span.attributes, &span.scope.attributes, &span.resource.attributes);
        let has = |(name, value): (&str, &Value)| {
            // What a span shows under a name counts, and not what that hides.
            self.is_in_text(name)
                || (self.is_in_value(value)
                    && !shown().any(|(known, special)| known == name && computed(special, span).is_some()))
        };
        own.iter().any(has)
            || scope.iter().filter(|(name, _)| own.get(name).is_none()).any(has)
            || resource
                .iter()
                .filter(|(name, _)| own.get(name).is_none() && scope.get(name).is_none())
                .any(has)
    }

    fn is_in_special(&self, name: &str, special: Special, span: &Span) -> bool {
        let can_be = match special {
            Special::Start | Special::End | Special::Duration => self.is_number,
            Special::ParentId | Special::Id => self.is_hexadecimal,
            Special::Name
            | Special::Type
            | Special::Kind
            | Special::StatusCode
            | Special::StatusDescription
            | Special::Events => true,
        };
        let is_named = self.is_in_text(name);
        if !can_be && !is_named {
            return false;
        }
        computed(special, span).is_some_and(|value| is_named || self.is_in_value(&value.into_value()))
    }

    fn is_in_value(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.is_in_text(text),
            Value::Int(_) | Value::Duration(_) => self.is_number && self.is_in_text(&special::text(value)),
            Value::Null
            | Value::Bool(_)
            | Value::Float(_)
            | Value::Bytes(_)
            | Value::List(_)
            | Value::Object(_) => self.is_in_text(&special::text(value)),
        }
    }

    fn is_in_text(&self, text: &str) -> bool {
        if !text.is_ascii() {
            return text.to_lowercase().contains(&self.text);
        }
        let wanted = self.text.as_bytes();
        let Some(first) = wanted.first() else { return true };
        let mut parts = text.as_bytes().windows(wanted.len());
        parts.any(|part| part[0].to_ascii_lowercase() == *first && part.eq_ignore_ascii_case(wanted))
    }
}

/// The special attributes that are shown beside those of a span; its kind and its id are shown elsewhere.
fn shown() -> impl Iterator<Item = (&'static str, Special)> {
    SPECIAL.iter().copied().filter(|(_, special)| !matches!(special, Special::Kind | Special::Id))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::span::{Attributes, Dropped, Resource, Scope, SpanKind};
    use super::*;
    use crate::id::{SpanId, TraceId};
    use crate::time::Timestamp;

    fn attributes(pairs: &[(&str, Value)]) -> Attributes {
        pairs.iter().map(|(name, value)| (*name, value.clone())).collect()
    }

    /// A span with an attribute of every level, one of which is hidden.
    fn span() -> Span {
        Span {
            id: SpanId::from_bytes([0xab; 8]),
            parent: None,
            name: "GET /Cart".into(),
            kind: SpanKind::Unspecified,
            start: Timestamp::from_nanos(1_234_500),
            end: Some(Timestamp::from_nanos(1_234_567)),
            status: None,
            attributes: attributes(&[
                ("db.query.text", "SELECT Ünïcode".into()),
                ("retries", Value::Int(-31)),
                ("ok", Value::Bool(true)),
                ("tags", Value::List(vec!["red".into(), Value::Int(7)])),
                ("tracetest.span.name", "forged".into()),
            ]),
            scope: Arc::new(Scope {
                attributes: attributes(&[("retries", "hidden".into())]),
                ..Scope::default()
            }),
            resource: Arc::new(Resource {
                attributes: attributes(&[("service.name", "Shop".into()), ("ok", "resource".into())]),
                ..Resource::default()
            }),
            events: Vec::new(),
            links: Vec::new(),
            trace_state: "".into(),
            flags: 0,
            dropped: Dropped::default(),
        }
    }

    /// Whether one of the texts that are shown of a span contains a text.
    fn is_shown(span: &Span, text: &str) -> bool {
        let wanted = text.to_lowercase();
        let has = |other: &str| other.to_lowercase().contains(&wanted);
        span.id.is_some_and(|id| has(&id.to_string()))
            || has(span.kind.as_str())
            || special::texts(span).iter().any(|(name, value)| has(name) || has(value))
    }

    #[test]
    fn a_text_is_found_wherever_a_span_shows_it() {
        let trace = Trace::assemble(TraceId::from_bytes([1; 16]).unwrap(), vec![span()]);
        let shown = [
            "cart",
            "CART",
            "get /c",
            "select ü",
            "ÜNÏ",
            "-31",
            "31",
            "true",
            "red",
            "\"red\",7",
            "shop",
            "service.NAME",
            "tracetest.span",
            "1234567",
            "67",
            "abab",
            "unspecified",
            "status_code_unset",
            "[]",
            "",
            "database",
        ];
        let hidden = ["forged", "hidden", "resource", "nothing", "cart ", "-32", "cdcd", "ünd"];
        for (texts, is_expected) in [(&shown[..], true), (&hidden[..], false)] {
            for text in texts {
                assert_eq!(is_shown(&span(), text), is_expected, "{text}");
                assert_eq!(!containing(&trace, text).is_empty(), is_expected, "{text}");
            }
        }
    }
}
