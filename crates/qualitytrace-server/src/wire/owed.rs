//! What a run that waits for spans still owes. It is sent to clients that ask for it, and not stored.

use std::collections::HashMap;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::Forecast;
use schemars::JsonSchema;
use serde::Serialize;

use crate::base::redact::Redactor;

/// What a run owes. Times are nanoseconds since the epoch, as texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitStatus {
    /// `owed`.
    what: &'static str,
    /// When this was so.
    at: String,
    /// The number of spans that have arrived.
    spans: usize,
    /// What is pending, the most telling first.
    debts: Vec<PendingItem>,
    /// How many more debts there are.
    unnamed_debts: usize,
    /// The specs, as far as they can be told now.
    specs: Vec<EarlySpec>,
    /// When the wait ends if nothing is owed and nothing more arrives.
    quiet_until: String,
    /// When the wait ends although something is owed, if nothing more arrives.
    settle_until: String,
    /// When the wait ends in any case.
    timeout_at: String,
}

/// Something that is still to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PendingItem {
    /// `root`, `parent`, `caller`, `answer`, `shape`, `spec`, `first` or `quiet`.
    kind: &'static str,
    /// The sentence for people.
    text: String,
    /// The span that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
    /// When it was first seen.
    since: String,
    /// When the wait for it ends if nothing more arrives.
    until: String,
}

/// A spec while spans still arrive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EarlySpec {
    /// Its name, or its selector.
    pub name: String,
    /// Whether it would pass or fail now, and whether no further span can change that.
    pub outcome: EarlyOutcome,
}

/// The outcome of a spec while spans still arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum EarlyOutcome {
    /// It passes, whatever comes.
    Passed,
    /// It fails, whatever comes.
    Failed,
    /// It passes with the spans that are here; more could make it fail.
    Passing,
    /// It fails with the spans that are here; more could make it pass.
    Failing,
}

/// When each debt was first seen, by its sentence.
pub type FirstSeen = HashMap<String, Timestamp>;

impl WaitStatus {
    /// Describes what a run owes, with secrets redacted.
    pub(crate) fn of(
        forecast: &Forecast,
        (spans, specs): (usize, Vec<EarlySpec>),
        first_seen: &mut FirstSeen,
        redactor: &Redactor,
        now: Timestamp,
    ) -> Self {
        let debts: Vec<PendingItem> = forecast
            .debts
            .iter()
            .map(|due| {
                let text = redactor.text(&due.debt.to_string()).into_owned();
                let since = *first_seen.entry(text.clone()).or_insert(now);
                PendingItem {
                    kind: due.debt.kind(),
                    span_id: due.debt.span().map(|id| id.to_string()),
                    since: nanos(since),
                    until: nanos(due.until),
                    text,
                }
            })
            .collect();
        first_seen.retain(|text, _| debts.iter().any(|debt| debt.text == *text));
        Self {
            what: "owed",
            at: nanos(now),
            spans,
            debts,
            unnamed_debts: forecast.unnamed_debts,
            specs,
            quiet_until: nanos(forecast.quiet_until),
            settle_until: nanos(forecast.settle_until),
            timeout_at: nanos(forecast.deadline),
        }
    }

    /// Whether more than the time differs.
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        *self != Self { at: self.at.clone(), ..other.clone() }
    }
}

fn nanos(at: Timestamp) -> String {
    at.as_nanos().to_string()
}
