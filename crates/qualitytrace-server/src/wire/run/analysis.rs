//! What the analyzer says about a trace.

use qualitytrace_core::analyzer::{PluginReport, Report, RuleReport, SpanReport};
use serde_json::{Map, Value, json};

use super::{flag, text};

/// A report as clients read it.
pub fn analysis(report: &Report) -> Value {
    let mut out = Map::new();
    number(&mut out, "minimumScore", report.minimum_score);
    flag(&mut out, "passed", report.passed);
    number(&mut out, "score", report.score);
    out.insert("plugins".to_owned(), report.plugins.iter().map(plugin).collect());
    out.into()
}

fn plugin(plugin: &PluginReport) -> Value {
    let mut out = Map::new();
    text(&mut out, "name", plugin.id.title());
    text(&mut out, "description", plugin.id.description());
    flag(&mut out, "passed", plugin.passed);
    number(&mut out, "score", plugin.score);
    out.insert("rules".to_owned(), plugin.rules.iter().map(rule).collect());
    out.into()
}

fn rule(rule: &RuleReport) -> Value {
    let entry = rule.id.entry();
    let mut out = Map::new();
    text(&mut out, "id", entry.id);
    text(&mut out, "name", entry.title);
    text(&mut out, "description", entry.description);
    text(&mut out, "errorDescription", entry.fault);
    flag(&mut out, "passed", rule.passed);
    number(&mut out, "weight", rule.weight);
    if !entry.tips.is_empty() {
        out.insert("tips".to_owned(), json!(entry.tips));
    }
    let results: Vec<Value> = rule.results.iter().map(span).collect();
    if !results.is_empty() {
        out.insert("results".to_owned(), results.into());
    }
    text(&mut out, "level", rule.level.as_str());
    out.into()
}

fn span(report: &SpanReport) -> Value {
    let mut out = Map::new();
    text(&mut out, "spanId", &report.span.map(|id| id.to_string()).unwrap_or_default());
    let faults: Vec<Value> = report
        .faults
        .iter()
        .map(|fault| {
            let mut out = Map::new();
            text(&mut out, "value", &fault.value);
            text(&mut out, "expected", &fault.expected);
            text(&mut out, "description", &fault.description);
            if !fault.suggestions.is_empty() {
                out.insert("suggestions".to_owned(), json!(fault.suggestions));
            }
            out.into()
        })
        .collect();
    if !faults.is_empty() {
        out.insert("errors".to_owned(), faults.into());
    }
    flag(&mut out, "passed", report.passed);
    out.into()
}

fn number(out: &mut Map<String, Value>, key: &str, number: u32) {
    if number > 0 {
        out.insert(key.to_owned(), number.into());
    }
}
