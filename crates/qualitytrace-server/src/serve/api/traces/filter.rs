//! Filters of the list of traces.

use std::time::Duration;

use qualitytrace_core::definition::settings::parse_duration;
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{StatusCode, Trace, special};
use serde::Deserialize;

use super::digest::Digest;
use crate::serve::api::error::ApiError;
use crate::wire::time::from_rfc3339;

const TAKE: usize = 20;
const MOST: usize = 200;

/// The filters as sent.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::serve::api) struct Parameters {
    service: String,
    name: String,
    status: String,
    min_duration: String,
    max_duration: String,
    from: String,
    to: String,
    take: String,
    next: String,
}

/// The parsed filters.
#[derive(Debug)]
pub(super) struct Filter {
    service: String,
    name: String,
    status: Option<StatusCode>,
    longer: Duration,
    shorter: Duration,
    /// All of these must match.
    attributes: Vec<(String, Option<String>)>,
    from: Timestamp,
    to: Timestamp,
    /// The cursor: only what arrived before.
    pub(super) before: Timestamp,
    pub(super) take: usize,
}

impl Filter {
    /// Parses the filters. `pairs` are all query parameters, repeated ones included.
    pub(super) fn read(sent: &Parameters, pairs: &[(String, String)]) -> Result<Self, ApiError> {
        let wrong = |name: &str, text: &str, hint: &str| {
            ApiError::bad_request(format!("`{text}` is no value of `{name}`; write {hint}"))
        };
        let duration = |name: &str, text: &str, default: Duration| {
            if text.is_empty() {
                return Ok(default);
            }
            parse_duration(text).ok_or_else(|| wrong(name, text, "a duration like 250ms or 2s"))
        };
        let time = |name: &str, text: &str, default: Timestamp| {
            if text.is_empty() {
                return Ok(default);
            }
            from_rfc3339(text).ok_or_else(|| wrong(name, text, "a time like 2026-01-31T12:00:00Z"))
        };
        let take: usize = match sent.take.as_str() {
            "" => TAKE,
            text => text.parse().map_err(|_| wrong("take", text, "a number"))?,
        };
        let latest = Timestamp::from_nanos(u64::try_from(i64::MAX).unwrap_or(u64::MAX));
        let next = match sent.next.as_str() {
            "" => latest,
            text => Timestamp::from_nanos(
                text.parse().map_err(|_| wrong("next", text, "what the last page said"))?,
            ),
        };
        Ok(Self {
            service: sent.service.to_lowercase(),
            name: sent.name.to_lowercase(),
            status: match sent.status.as_str() {
                "" => None,
                "ok" => Some(StatusCode::Ok),
                "error" => Some(StatusCode::Error),
                "unset" => Some(StatusCode::Unset),
                other => return Err(wrong("status", other, "ok, error or unset")),
            },
            longer: duration("minDuration", &sent.min_duration, Duration::ZERO)?,
            shorter: duration("maxDuration", &sent.max_duration, Duration::MAX)?,
            attributes: pairs
                .iter()
                .filter(|(name, text)| name == "attribute" && !text.is_empty())
                .map(|(_, text)| match text.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (text.clone(), None),
                })
                .collect(),
            from: time("from", &sent.from, Timestamp::default())?,
            to: time("to", &sent.to, latest)?,
            before: next,
            take: if take == 0 { TAKE } else { take.min(MOST) },
        })
    }

    /// How many arrivals to read per step.
    pub(super) fn step(&self) -> u64 {
        u64::try_from(self.take * 4).unwrap_or(u64::MAX)
    }

    /// Whether a trace passes, as far as its digest can tell.
    pub(super) fn passes(&self, trace: &Digest) -> bool {
        (self.from..self.to).contains(&trace.start)
            && (self.longer..=self.shorter).contains(&trace.duration)
            && (self.service.is_empty() || trace.services.contains(&self.service))
            && (self.name.is_empty() || trace.names.iter().any(|name| name.contains(&self.name)))
            && self.status.is_none_or(|wanted| trace.status == wanted)
            && self.attributes.iter().all(|(name, value)| trace.may_have(name, value.as_deref()))
            // A trace whose last part arrived later was on an earlier page.
            && trace.last < self.before
    }

    /// Whether attributes are filtered, for which the spans are needed.
    pub(super) fn asks_for_attributes(&self) -> bool {
        !self.attributes.is_empty()
    }

    /// Whether the spans have the wanted attributes.
    pub(super) fn has_attributes(&self, trace: &Trace) -> bool {
        self.attributes.iter().all(|(name, wanted)| {
            let is_wanted = |(known, value): &(String, String)| {
                known == name && wanted.as_ref().is_none_or(|wanted| wanted == value)
            };
            trace.spans().iter().any(|span| special::texts(span).iter().any(is_wanted))
        })
    }
}
