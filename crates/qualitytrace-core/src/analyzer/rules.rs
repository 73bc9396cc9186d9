//! What each rule looks at.
//!
//! Conventions have changed names over the years. A span may follow the old ones or the current ones; where a rule
//! needs an attribute it takes either.

mod addresses;
mod attributes;
mod naming;
mod secrecy;

use super::{RuleId, SpanReport};
use crate::id::SpanId;
use crate::lang::span_type;
use crate::trace::{Span, SpanKind, special};

/// What rules know of a span.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The span.
    pub id: Option<SpanId>,
    /// What was done.
    pub name: String,
    /// The side of a call that it stands for.
    pub kind: SpanKind,
    /// What it is about, as `tracetest.span.type` says.
    pub family: String,
    /// The attributes that its sender wrote, as text, sorted by name.
    pub attributes: Vec<(String, String)>,
}

impl Subject {
    /// What rules need to know of `span`.
    pub fn of(span: &Span) -> Self {
        Self {
            id: span.id,
            name: span.name.to_string(),
            kind: span.kind,
            family: span_type(span).to_owned(),
            attributes: special::texts(span)
                .into_iter()
                .filter(|(name, _)| !special::is_special(name))
                .collect(),
        }
    }

    /// The first of these attributes that is there, with its name.
    fn first<'s>(&'s self, names: &[&str]) -> Option<(&'s str, &'s str)> {
        names.iter().find_map(|name| {
            let at = self.attributes.iter().find(|(known, _)| known == name)?;
            Some((at.0.as_str(), at.1.as_str()))
        })
    }

    /// The text of the first of these attributes that is there; empty when none is.
    fn text(&self, names: &[&str]) -> &str {
        self.first(names).map_or("", |(_, text)| text)
    }
}

/// One thing that is wrong with a span.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fault {
    /// What it is about: the name of an attribute.
    pub value: String,
    /// What should have been there; empty when that cannot be said.
    pub expected: String,
    /// What is wrong, as one sentence.
    pub description: String,
    /// What to do about it.
    pub suggestions: Vec<String>,
}

/// Holds a span against a rule; `None` when the rule has nothing to say about such a span.
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
