//! What a data store keeps of a span: two spans are compared after what it does not keep has been removed.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::late_spans_load::program::Served;

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Everything.
    All,
    /// Everything but flags.
    ByTempo,
    /// What Jaeger writes to a search engine: microseconds, the first of the flags, and no link to the parent.
    ByJaeger,
    /// What the Collector's exporter writes to Zipkin: microseconds, names in lower case, no flags, attributes as texts, and
    /// those of the resource among those of the span.
    ByZipkin,
}

/// The spans of a trace by their id, each with its resource and its scope, as OTLP in JSON.
pub(super) type Spans = BTreeMap<String, Value>;

/// Fetches the spans of a trace.
pub(super) async fn spans(http: &reqwest::Client, server: &Served, trace: &str) -> Spans {
    let request = http.get(server.url(&format!("/api/traces/{trace}")));
    let answer = request.header("accept", "application/vnd.otlp+json").send().await.unwrap();
    let document: Value = answer.json().await.unwrap_or_default();
    let mut spans = Spans::new();
    for of_resource in list(&document["resourceSpans"]) {
        for of_scope in list(&of_resource["scopeSpans"]) {
            for span in list(&of_scope["spans"]) {
                let mut span = span.clone();
                span["resource"] = attributes(&of_resource["resource"]["attributes"]);
                span["scope"] = json!([of_scope["scope"]["name"], of_scope["scope"]["version"]]);
                span["attributes"] = attributes(&span["attributes"]);
                for key in ["events", "links"] {
                    let items = list(&span[key]).cloned().map(|mut item| {
                        item["attributes"] = attributes(&item["attributes"]);
                        item
                    });
                    span[key] = items.collect();
                }
                let id = span["spanId"].as_str().unwrap().to_owned();
                // The span of the trigger is our own: no store has it.
                if span["name"] != "Tracetest trigger" {
                    spans.insert(id, span);
                }
            }
        }
    }
    spans
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Attributes as an object: their order means nothing.
fn attributes(pairs: &Value) -> Value {
    let pairs = list(pairs).map(|pair| (pair["key"].as_str().unwrap().to_owned(), pair["value"].clone()));
    let sorted: BTreeMap<String, Value> = pairs.collect();
    Value::Object(Map::from_iter(sorted))
}

impl Kept {
    /// A test whose selectors have the names that the store keeps.
    pub(super) fn test(self, text: &str) -> String {
        if self != Self::ByZipkin {
            return text.to_owned();
        }
        let lines = text.lines().map(|line| match line.split_once("selector:") {
            Some((before, selector)) if !selector.contains("Tracetest trigger") => {
                format!("{before}selector:{}\n", lower_names(selector))
            }
            _ => format!("{line}\n"),
        });
        lines.collect()
    }

    /// The spans without what the store does not keep.
    pub(super) fn of(self, spans: Spans) -> Spans {
        spans.into_iter().map(|(id, span)| (id, self.of_span(span))).collect()
    }

    fn of_span(self, mut span: Value) -> Value {
        if self == Self::All {
            return span;
        }
        for link in span["links"].as_array_mut().into_iter().flatten() {
            link.as_object_mut().unwrap().remove("flags");
        }
        let flags = span["flags"].as_u64().unwrap_or(0);
        span["flags"] = json!(if self == Self::ByJaeger { flags & 1 } else { 0 });
        if self == Self::ByTempo {
            return span;
        }
        // A status that says nothing is not written.
        if span["status"]["code"] == 0 {
            span["status"] = Value::Null;
        }
        let nanos = |value: &Value| value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0_u64);
        let (start, end) = (nanos(&span["startTimeUnixNano"]), nanos(&span["endTimeUnixNano"]));
        // The Collector's exporter rounds.
        let half = if self == Self::ByZipkin { 500 } else { 0 };
        let micros = |nanos: u64| (nanos + half) / 1_000;
        span["startTimeUnixNano"] = json!(micros(start));
        span["endTimeUnixNano"] = json!(micros(start) + micros(end - start));
        for event in span["events"].as_array_mut().into_iter().flatten() {
            event["timeUnixNano"] = json!(micros(nanos(&event["timeUnixNano"])));
        }
        if self == Self::ByZipkin {
            by_zipkin(&mut span);
        } else {
            let parent = (span["traceId"].clone(), span["parentSpanId"].clone());
            let links = span["links"].as_array_mut().unwrap();
            links.retain(|link| (&link["traceId"], &link["spanId"]) != (&parent.0, &parent.1));
        }
        span
    }
}

fn by_zipkin(span: &mut Value) {
    span["name"] = json!(span["name"].as_str().unwrap_or_default().to_lowercase());
    let mut all = Map::new();
    for key in ["resource", "attributes"] {
        let from = span[key].as_object().cloned().unwrap_or_default();
        all.extend(from.into_iter().map(|(name, value)| (name, text(&value))));
    }
    // The exporter repeats it under its old name.
    all.remove("http.status_code");
    all.sort_keys();
    span["resource"] = Value::Null;
    span["attributes"] = Value::Object(all);
}

/// A value as the text that the exporter writes.
fn text(value: &Value) -> Value {
    let inner = value.as_object().and_then(|object| object.values().next()).unwrap_or(&Value::Null);
    json!(inner.as_str().map_or_else(|| inner.to_string(), ToOwned::to_owned))
}

/// Puts what follows `name=` into lower case.
fn lower_names(selector: &str) -> String {
    let mut parts = selector.split(" name=\"");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('"').unwrap();
        text += " name=\"";
        text += &name.to_lowercase();
        text += "\"";
        text += rest;
    }
    text
}
