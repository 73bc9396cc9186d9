//! Kinds `rule`, `plugin_score`, `run_gates` and `config_validate`.

use qualitytrace_core::analyzer::{self, Level, RuleId, RuleReport, Subject};
use qualitytrace_core::definition::{self, Format, Kind};
use qualitytrace_core::gates::{self, Gate};
use qualitytrace_core::trace::{SpanKind, special};
use serde_json::{Value, json};

use super::expected::{compare, expected, is_error};

/// Keys that are not compared: texts and advice are ours; Tracetest judges gates in two places, of which one is meant.
const FREE: [&str; 4] = ["description", "suggestions", "generate_failed", "generate_passed"];

/// Checks one case.
pub(crate) fn check(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    let expected = expected(case);
    match input["kind"].as_str() {
        Some("rule") => rule(input, expected),
        Some("plugin_score") => plugin_score(input, expected),
        Some("run_gates") => run_gates(input, expected),
        _ => config_validate(input, expected),
    }
}

fn rule(input: &Value, expected: &Value) -> Result<(), String> {
    let id = RuleId::named(input["rule"].as_str().unwrap_or_default()).ok_or("no such rule")?;
    let level = level(&input["config"]["errorLevel"]);
    let subjects: Vec<Subject> = input["spans"].as_array().into_iter().flatten().map(subject).collect();
    let report = analyzer::rule_report(id, 0, level, &subjects);
    let mut expected = expected.clone();
    // Some rules of Tracetest report that a span failed, but not why.
    for result in expected.get_mut("results").and_then(Value::as_array_mut).into_iter().flatten() {
        if result["errors"].is_null()
            && let Some(result) = result.as_object_mut()
        {
            result.remove("errors");
        }
    }
    compare(&expected, &rule_answer(&report), &FREE)
}

fn rule_answer(report: &RuleReport) -> Value {
    let results: Vec<Value> = report
        .results
        .iter()
        .map(|result| {
            let errors: Vec<Value> = result
                .faults
                .iter()
                .map(|fault| json!({ "value": fault.value, "expected": fault.expected }))
                .collect();
            json!({ "span_id": result.span.map(|id| id.to_string()), "passed": result.passed, "errors": errors })
        })
        .collect();
    json!({ "passed": report.passed, "results_count": results.len(), "results": results })
}

fn subject(span: &Value) -> Subject {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut attributes: Vec<(String, String)> = span["attributes"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| !special::is_special(name))
        .map(|(name, value)| (name.clone(), text(value)))
        .collect();
    attributes.sort();
    let kinds =
        [SpanKind::Internal, SpanKind::Server, SpanKind::Client, SpanKind::Producer, SpanKind::Consumer];
    Subject {
        id: text(&span["id"]).parse().ok(),
        name: text(&span["name"]),
        kind: kinds.into_iter().find(|kind| span["kind"] == kind.as_str()).unwrap_or_default(),
        family: text(&span["attributes"]["tracetest.span.type"]),
        attributes,
    }
}

fn level(word: &Value) -> Level {
    word.as_str().and_then(Level::named).unwrap_or(Level::Error)
}

fn plugin_score(input: &Value, expected: &Value) -> Result<(), String> {
    let mut rules: Vec<(Level, u32, bool, Value)> = input["rules"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|rule| {
            let weight =
                rule["weight"].as_u64().and_then(|weight| u32::try_from(weight).ok()).unwrap_or_default();
            (level(&rule["level"]), weight, rule["passed"] == json!(true), rule["id"].clone())
        })
        .collect();
    rules.sort_by_key(|(level, ..)| *level);
    let (score, passed) =
        analyzer::plugin_score(rules.iter().map(|(level, weight, passed, _)| (*level, *weight, *passed)));
    let order: Vec<&Value> = rules.iter().map(|(.., id)| id).collect();
    compare(expected, &json!({ "score": score, "passed": passed, "rule_order": order }), &FREE)
}

fn run_gates(input: &Value, expected: &Value) -> Result<(), String> {
    let gate = |name: &Value| name.as_str().and_then(Gate::named);
    let required: Vec<Gate> = input["required"].as_array().into_iter().flatten().filter_map(gate).collect();
    let number =
        |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or_default();
    let analysis = &input["analyzer_result"];
    let report = analysis.is_object().then(|| analyzer::Report {
        minimum_score: number(&analysis["minimumScore"]),
        score: number(&analysis["score"]),
        passed: analysis["passed"] == json!(true),
        plugins: Vec::new(),
    });
    let gates = gates::gates(&required, report.as_ref(), input["specs_all_passed"] == json!(true));
    let mut failed: Vec<&str> = gates.failed.iter().copied().map(Gate::as_str).collect();
    // The order of failed gates does not matter.
    let mut expected = expected.clone();
    if let Some(wanted) = expected.get_mut("failed").and_then(Value::as_array_mut) {
        wanted.sort_by_key(ToString::to_string);
    }
    failed.sort_unstable();
    compare(&expected, &json!({ "failed": failed, "passed": gates.passed }), &FREE)
}

fn config_validate(input: &Value, expected: &Value) -> Result<(), String> {
    let envelope = json!({ "type": "Analyzer", "spec": input["config"] });
    let reading = definition::read_as(&envelope.to_string(), Format::Json, Kind::Analyzer);
    let refused = !reading.is_usable(false);
    if refused == is_error(expected) {
        return Ok(());
    }
    Err(format!("expected {expected}\nactual   {:?}", reading.diagnostics))
}
