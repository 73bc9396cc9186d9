//! Hiding secrets in what the system under test says about itself.

use std::borrow::Cow;
use std::sync::Arc;

use qualitytrace_core::trace::{Attributes, Span, Trace};
use qualitytrace_core::value::Value;

use super::Mask;

impl Mask {
    /// The trace with the mask in place of every secret.
    pub fn trace(&self, trace: Trace) -> Trace {
        if self.is_empty() {
            return trace;
        }
        let spans = trace.spans().iter().map(|span| self.span(span.clone()));
        Trace::assemble(trace.id(), spans.collect::<Vec<_>>())
    }

    fn span(&self, mut span: Span) -> Span {
        self.word(&mut span.name);
        self.attributes(&mut span.attributes);
        for event in &mut span.events {
            self.word(&mut event.name);
            self.attributes(&mut event.attributes);
        }
        if let Some(status) = &mut span.status {
            self.word(&mut status.message);
        }
        span
    }

    fn attributes(&self, attributes: &mut Attributes) {
        let changed: Vec<(String, Value)> = attributes
            .iter()
            .filter_map(|(name, value)| Some((name.to_owned(), self.value(value)?)))
            .collect();
        for (name, value) in changed {
            attributes.set(name, value);
        }
    }

    /// The value with the mask in it; `None` when there is nothing to hide.
    fn value(&self, value: &Value) -> Option<Value> {
        let text = value.text();
        let shown = self.text(&text);
        (shown != text).then(|| Value::String(shown.as_ref().into()))
    }

    fn word(&self, word: &mut Arc<str>) {
        if let Cow::Owned(shown) = self.text(word) {
            *word = shown.into();
        }
    }
}
