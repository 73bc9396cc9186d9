//! The implementations of the rules.
//!
//! Semantic conventions have changed names over the years. A span may follow the old ones or the current ones;
//! where a rule needs an attribute it takes either.

mod addresses;
mod attributes;
mod naming;
mod secrecy;

use super::{RuleId, SpanReport};
use crate::id::SpanId;
use crate::trace::{Span, SpanKind, special};

/// The facts about a span that rules use.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The span.
    pub id: Option<SpanId>,
    /// The span's name.
    pub name: String,
    /// The side of a call that it represents.
    pub kind: SpanKind,
    /// Its type, as `tracetest.span.type` gives it.
    pub family: String,
    /// The attributes that its sender set, as text, sorted by name.
    pub attributes: Vec<(String, String)>,
}

impl Subject {
    /// Extracts the facts that rules use from `span`.
    pub fn of(span: &Span) -> Self {
        Self {
            id: span.id,
            name: span.name.to_string(),
            kind: span.kind,
            family: special::span_type(span).to_owned(),
            attributes: special::texts(span)
                .into_iter()
                .filter(|(name, _)| !special::is_special(name))
                .collect(),
        }
    }

    /// Returns the first of these attributes that is present, with its name.
    fn first<'s>(&'s self, names: &[&str]) -> Option<(&'s str, &'s str)> {
        names.iter().find_map(|name| {
            let at = self.attributes.iter().find(|(known, _)| known == name)?;
            Some((at.0.as_str(), at.1.as_str()))
        })
    }

    /// Returns the text of the first of these attributes that is present; empty when none is.
    fn text(&self, names: &[&str]) -> &str {
        self.first(names).map_or("", |(_, text)| text)
    }
}

/// A violation of a rule by a span.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fault {
    /// The name of the attribute concerned.
    pub value: String,
    /// The expected value; empty when it is not known.
    pub expected: String,
    /// What is wrong, as one sentence.
    pub description: String,
    /// What to do about it.
    pub suggestions: Vec<String>,
}

/// Checks a span against a rule; `None` when the rule does not apply to such a span.
pub(super) fn judge(rule: RuleId, subject: &Subject) -> Option<SpanReport> {
    let faults = match rule {
        RuleId::SpanNaming => naming::span(subject),
        RuleId::RequiredAttributes => attributes::required(subject),
        RuleId::AttributeNaming => naming::attributes(subject),
        RuleId::NoEmptyAttributes => attributes::empty(subject),
        RuleId::PreferDns => addresses::numeric(subject),
        RuleId::SecureHttpsProtocol => addresses::insecure(subject)?,
        RuleId::NoApiKeyLeak => secrecy::keys(subject)?,
    };
    Some(SpanReport { span: subject.id, passed: faults.is_empty(), faults })
}
