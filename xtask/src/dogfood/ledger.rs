//! The ledger of a dog-food run: every span that the subject created is in the Collector's file, by its id.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Counts of spans in the status of the subject's telemetry, over all sinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Created {
    /// Spans that a sink has to deliver: all that its level and sampler let through.
    pub(crate) due: u64,
    /// Those that the Collector has acknowledged.
    pub(crate) exported: u64,
}

impl Created {
    /// Reads `GET /api/telemetry/status`. A loss of any signal is an error.
    pub(crate) fn read(status: &Value) -> Result<Self> {
        let mut sum = Self::default();
        let sinks = ["sinks", "retired"].into_iter().filter_map(|key| status[key].as_array()).flatten();
        for sink in sinks {
            let ledger = sink["ledger"].as_object().context("the status of a sink has no ledger")?;
            for (signal, counts) in ledger {
                let count = |name: &str| counts[name].as_u64().unwrap_or(0);
                let reasons = counts["dropped"].as_object().into_iter().flatten();
                let dropped: u64 = reasons.filter_map(|(_, count)| count.as_u64()).sum();
                if dropped + count("rejected") > 0 {
                    bail!("the sink {} lost {signal}: {counts}", sink["id"]);
                }
                if signal == "traces" {
                    sum.due += count("created") + count("recovered") - count("sampled_out");
                    sum.exported += count("exported");
                }
            }
        }
        Ok(sum)
    }
}

/// The ids of a trace and of a span in it.
pub(crate) type SpanId = (String, String);

/// What identifies a span besides its id, and its place in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The id of its parent; empty for a root.
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) service: String,
}

/// The items in the Collector's file.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) spans: BTreeMap<SpanId, Span>,
    /// The names of spans.
    pub(crate) names: BTreeSet<String>,
    /// The names of metrics with their units.
    pub(crate) metrics: BTreeSet<(String, String)>,
    /// Spans whose parent is in no span of the file: `name (parent id)`.
    pub(crate) orphans: Vec<String>,
}

impl Received {
    /// Reads the file. The parent of a request's span is elsewhere: in the observer.
    pub(crate) fn read(text: &str) -> Result<Self> {
        let mut received = Self::default();
        let mut parents = Vec::new();
        for document in documents(text) {
            let document = document?;
            for (resource, span) in items(&document, ["resourceSpans", "scopeSpans", "spans"]) {
                let word = |key: &str| span[key].as_str().unwrap_or_default().to_owned();
                let parent = word("parentSpanId");
                // Kind 2 is a server: its parent is the observer's trigger.
                if !parent.is_empty() && span["kind"] != 2 {
                    parents.push((word("traceId"), parent.clone(), word("name")));
                }
                received.names.insert(word("name"));
                let facts = Span { parent, name: word("name"), service: service_name(resource) };
                received.spans.insert((word("traceId"), word("spanId")), facts);
            }
            for (_, metric) in items(&document, ["resourceMetrics", "scopeMetrics", "metrics"]) {
                let word = |key: &str| metric[key].as_str().unwrap_or_default().to_owned();
                received.metrics.insert((word("name"), word("unit")));
            }
        }
        for (trace, parent, name) in parents {
            if !received.spans.contains_key(&(trace, parent.clone())) {
                received.orphans.push(format!("{name} (parent {parent})"));
            }
        }
        Ok(received)
    }
}

/// The documents of the file. Its last line may be incomplete while the Collector writes.
pub(super) fn documents(text: &str) -> impl Iterator<Item = Result<Value>> {
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.map(|line| serde_json::from_str(line).context("the Collector's file is not JSON"))
}

fn service_name(resource: &Value) -> String {
    let mut attributes = resource["resource"]["attributes"].as_array().into_iter().flatten();
    let name = attributes.find(|attribute| attribute["key"] == "service.name");
    name.and_then(|name| name["value"]["stringValue"].as_str()).unwrap_or_default().to_owned()
}

/// The leaves of a document, each with its resource.
pub(super) fn items<'d>(
    document: &'d Value,
    path: [&'d str; 3],
) -> impl Iterator<Item = (&'d Value, &'d Value)> {
    let list = |value: &'d Value, key: &str| value[key].as_array().into_iter().flatten();
    let [resources, scopes, leaves] = path;
    list(document, resources).flat_map(move |resource| {
        let scopes = list(resource, scopes);
        scopes.flat_map(move |scope| list(scope, leaves)).map(move |leaf| (resource, leaf))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(spans: &Value) -> String {
        format!("{}\n", json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] }))
    }

    #[test]
    fn spans_are_counted_by_id_and_a_missing_parent_is_named() {
        let first =
            json!({ "traceId": "t", "spanId": "a", "parentSpanId": "outside", "kind": 2, "name": "GET /" });
        let second = json!({ "traceId": "t", "spanId": "b", "parentSpanId": "a", "kind": 1, "name": "work" });
        let orphan =
            json!({ "traceId": "t", "spanId": "c", "parentSpanId": "gone", "kind": 1, "name": "lost" });
        let text =
            [line(&json!([first, second])), line(&json!([second, orphan])), "{\"half".to_owned()].concat();
        let received = Received::read(&text).unwrap();
        assert_eq!(received.spans.len(), 3);
        assert_eq!(received.orphans, ["lost (parent gone)"]);
    }

    #[test]
    fn a_loss_is_an_error_whatever_the_signal() {
        let status = |dropped: u64| {
            json!({ "sinks": [{ "id": "a", "ledger": {
                "traces": { "created": 6, "sampled_out": 1, "exported": 5, "dropped": {} },
                "logs": { "created": 5, "exported": 4, "dropped": { "queue_full": dropped } },
            } }], "retired": [] })
        };
        assert_eq!(Created::read(&status(0)).unwrap(), Created { due: 5, exported: 5 });
        assert!(Created::read(&status(1)).unwrap_err().to_string().contains("queue_full"));
    }
}
