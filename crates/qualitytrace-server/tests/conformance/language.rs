//! Checks cases about the language against `qualitytrace-core`.
//!
//! A case has Tracetest's answer and says whether that is sane. Where our language extends Tracetest's, a text that
//! Tracetest refused may be valid: the parser reports that, and such a case counts as passed.

use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{Output, Spec, Text};
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::judge::{self, Compiled, Options, SpanResult};
use qualitytrace_core::lang::{self, Comparison, EvalErrorKind, EvaluationScope, Generator, Item, Variables};
use qualitytrace_core::time::{Timestamp, format_duration, parse_duration};
use qualitytrace_core::trace::{Attributes, Dropped, Resource, Scope, Span, SpanKind, Trace};
use qualitytrace_core::value::Value as Runtime;
use serde_json::{Value, json};

/// The kinds of cases that this file can check.
pub(crate) const KINDS: [&str; 14] = [
    "select",
    "select_spec",
    "expression",
    "expression_shape",
    "statement",
    "resolve",
    "compare",
    "missing_variables",
    "variable_set_merge",
    "assertion_run",
    "outputs",
    "resolve_trigger",
    "format_ns",
    "parse_duration",
];

/// Checks one case; the error has the expected and the actual answer.
pub(crate) fn check(case: &Value) -> Result<(), String> {
    let input = &case["input"];
    match input["kind"].as_str().unwrap_or_default() {
        "select" | "select_spec" => check_select(case, input),
        "expression" => check_expression(case, input),
        "expression_shape" => check_shape(case, input),
        "statement" => check_statement(case, input),
        "resolve" => check_resolve(case, input),
        "compare" => check_compare(case, input),
        "missing_variables" => check_missing_variables(case, input),
        "variable_set_merge" => check_merge(case, input),
        "assertion_run" => check_run(case, input),
        "outputs" => check_outputs(case, input),
        "resolve_trigger" => check_trigger(case, input),
        "format_ns" => equal(
            &expectation(case)["text"],
            &json!(format_duration(input["ns"].as_i64().unwrap_or_default())),
        ),
        "parse_duration" => match parse_duration(&text(input, "text")) {
            Some(nanos) => equal(&expectation(case)["ns"], &json!(nanos)),
            None => expect_error(case, "no duration"),
        },
        other => Err(format!("the kind `{other}` is not about the language")),
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn is_sane(case: &Value) -> bool {
    case["sane"].as_bool().unwrap_or(false)
}

/// Returns the expected answer: Tracetest's if it is sane, otherwise the sane one.
fn expectation(case: &Value) -> &Value {
    if is_sane(case) { &case["upstream"] } else { &case["sane_expect"] }
}

fn wants_error(case: &Value) -> bool {
    let expected = expectation(case);
    expected == &json!(false) || expected["error"] == json!(true) || expected["error"].is_string()
}

fn expect_error(case: &Value, got: &str) -> Result<(), String> {
    if wants_error(case) {
        Ok(())
    } else {
        Err(format!("expected {}, got the error: {got}", expectation(case)))
    }
}

fn equal(expected: &Value, got: &Value) -> Result<(), String> {
    if expected == got { Ok(()) } else { Err(format!("expected {expected}, got {got}")) }
}

fn generator() -> Generator {
    Generator::in_utc(Timestamp::from_nanos(1_700_000_100_000_000_000), 7)
}

fn variables(values: &Value) -> Variables {
    let values = values.as_object().cloned().unwrap_or_default();
    values.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

// Traces.

fn trace(tree: &Value) -> Trace {
    let mut spans = Vec::new();
    collect(tree, None, &mut spans);
    Trace::assemble(TraceId::from_bytes([1; 16]).expect("not zero"), spans).as_stored()
}

fn collect(node: &Value, parent: Option<SpanId>, spans: &mut Vec<Span>) {
    let id: Option<SpanId> = node["id"].as_str().and_then(|id| id.parse().ok());
    let start = spans.len() as u64 + 1;
    spans.push(span(node, id, parent, start));
    for child in node["children"].as_array().into_iter().flatten() {
        collect(child, id, spans);
    }
}

fn span(node: &Value, id: Option<SpanId>, parent: Option<SpanId>, start: u64) -> Span {
    let attributes = node["attributes"].as_object().cloned().unwrap_or_default();
    let name = node["name"]
        .as_str()
        .or_else(|| node["attributes"]["tracetest.span.name"].as_str())
        .unwrap_or_default();
    Span {
        id,
        parent,
        name: name.into(),
        kind: match node["kind"].as_str().unwrap_or_default() {
            "server" => SpanKind::Server,
            "client" => SpanKind::Client,
            "producer" => SpanKind::Producer,
            "consumer" => SpanKind::Consumer,
            "internal" => SpanKind::Internal,
            _ => SpanKind::Unspecified,
        },
        start: Timestamp::from_nanos(start),
        end: None,
        status: None,
        attributes: attributes
            .iter()
            .map(|(name, value)| (name.as_str(), Runtime::from(value.as_str().unwrap_or_default())))
            .collect::<Attributes>(),
        events: vec![],
        links: vec![],
        resource: Resource::default().into(),
        scope: Scope::default().into(),
        trace_state: "".into(),
        flags: 0,
        dropped: Dropped::default(),
    }
}

fn check_select(case: &Value, input: &Value) -> Result<(), String> {
    let selector = lang::parse_selector(&text(input, "selector"));
    if let Some(error) = selector.error() {
        return expect_error(case, &error.message);
    }
    if wants_error(case) {
        return accepted(&selector.beyond);
    }
    let trace = trace(&input["trace"]);
    let ids: Vec<String> = lang::select(&selector.tree, &trace, &Budget::default())
        .unwrap_or_default()
        .into_iter()
        .map(|at| trace.span(at).id.map(|id| id.to_string()).unwrap_or_default())
        .collect();
    equal(&expectation(case)["spans"], &json!(ids))
}

/// A text that Tracetest refuses may be accepted if it uses an extension of our language.
fn accepted(beyond: &[std::ops::Range<usize>]) -> Result<(), String> {
    if beyond.is_empty() { Err("expected an error, but the text is accepted".to_owned()) } else { Ok(()) }
}

// Expressions.

fn in_context<T>(context: &Value, run: impl FnOnce(&EvaluationScope<'_>) -> T) -> T {
    let has_span = context["span"].is_object();
    let trace = has_span.then(|| trace(&context["span"]));
    let count = usize::try_from(context["selected_spans_count"].as_u64().unwrap_or(0)).unwrap_or(0);
    let selection = vec![0; count];
    let variables = variables(&context["variables"]);
    run(&EvaluationScope {
        trace: trace.as_ref(),
        span: context["span"]["id"].is_string().then_some(0),
        selection: context.get("selected_spans_count").map(|_| selection.as_slice()),
        variables: &variables,
        generator: generator(),
        aliases: true,
        budget: &Budget::default(),
    })
}

/// Checks that an error is of the expected kind, unless the text uses an extension of our language.
fn check_trouble(
    case: &Value,
    class: EvalErrorKind,
    got: &str,
    beyond: &[std::ops::Range<usize>],
) -> Result<(), String> {
    expect_error(case, got)?;
    let expected = match case["upstream"]["error_kind"].as_str() {
        Some("syntax") => EvalErrorKind::Syntax,
        Some("resolution") => EvalErrorKind::Resolution,
        Some("evaluation") => EvalErrorKind::Evaluation,
        _ => return Ok(()),
    };
    // Tracetest has one kind of error for all unknown names, of attributes and others.
    let class = if class == EvalErrorKind::Attribute { EvalErrorKind::Resolution } else { class };
    if !is_sane(case) || class == expected || !beyond.is_empty() {
        Ok(())
    } else {
        Err(format!("expected a {expected:?} error, got {class:?}: {got}"))
    }
}

fn check_expression(case: &Value, input: &Value) -> Result<(), String> {
    let parsed = lang::parse_expression(&text(input, "expression"));
    if let Some(error) = parsed.error() {
        return check_trouble(case, EvalErrorKind::Syntax, &error.message, &parsed.beyond);
    }
    match in_context(&input["context"], |surroundings| lang::evaluate(&parsed.tree, surroundings)) {
        Err(trouble) => check_trouble(case, trouble.class, &trouble.text, &parsed.beyond),
        Ok(_) if wants_error(case) => accepted(&parsed.beyond),
        Ok(item) => check_item(expectation(case), &item),
    }
}

fn check_item(expected: &Value, item: &Item) -> Result<(), String> {
    let got = item.text();
    let wanted = expected["value"].as_str().unwrap_or_default();
    // Tracetest prints durations as nanoseconds; ours keep their unit.
    let same_time = item.type_name() == "duration" && parse_duration(wanted) == parse_duration(&got);
    let list_of_durations = matches!(&item.value, Runtime::List(items) if items.iter().any(|item| item.type_name() == "duration"));
    if got != wanted && !same_time && !list_of_durations {
        return Err(format!("expected {wanted:?}, got {got:?}"));
    }
    if let Some(wanted) = expected["type"].as_str() {
        // Negative numbers and exponents count as numbers for us.
        let number_too = wanted == "string"
            && item.type_name() == "number"
            && !got.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if item.type_name() != wanted && !number_too {
            return Err(format!("expected the type {wanted}, got {}", item.type_name()));
        }
    }
    Ok(())
}

fn check_shape(case: &Value, input: &Value) -> Result<(), String> {
    let parsed = lang::parse_expression(&text(input, "expression"));
    if let Some(error) = parsed.error() {
        return expect_error(case, &error.message);
    }
    let shape = lang::parse_assertion(&format!(
        "var:X matches {}",
        lang::quote(&format!("^(?:{})$", text(input, "shape")))
    ));
    for seed in 0..300 {
        let result = in_context(&input["context"], |surroundings| {
            let generator = Generator::in_utc(Timestamp::from_nanos(1_700_000_100_000_000_000), seed);
            lang::evaluate(&parsed.tree, &EvaluationScope { generator, ..surroundings.clone() })
        });
        let item = match result {
            Ok(item) => item,
            Err(trouble) => return expect_error(case, &trouble.text),
        };
        if wants_error(case) {
            return accepted(&parsed.beyond);
        }
        let made: Variables = [("X", item.text().into_owned())].into_iter().collect();
        let matches = judge::assert_once(
            &shape,
            &EvaluationScope {
                trace: None,
                span: None,
                selection: None,
                variables: &made,
                generator: generator(),
                aliases: true,
                budget: &Budget::default(),
            },
        );
        if !matches.passed {
            return Err(format!("{:?} has not the shape {}", item.text(), input["shape"]));
        }
        let types = case["upstream"]["types"].as_array().cloned().unwrap_or_default();
        if is_sane(case) && !types.contains(&json!(item.type_name())) {
            return Err(format!("{:?} is a {}, not one of {types:?}", item.text(), item.type_name()));
        }
    }
    Ok(())
}

fn check_statement(case: &Value, input: &Value) -> Result<(), String> {
    let parsed = lang::parse_assertion(&text(input, "statement"));
    let result = in_context(&input["context"], |surroundings| judge::assert_once(&parsed, surroundings));
    let expected = expectation(case);
    let got = format!("passed: {}, error: {:?}", result.passed, result.error);
    let passes = expected["pass"].as_bool().unwrap_or(false);
    if result.passed && !passes {
        return accepted(&parsed.beyond);
    }
    if result.passed != passes {
        return Err(format!("expected {expected}, got {got}"));
    }
    let kind = kind_of(&result);
    let wanted = case["upstream"]["error_kind"].as_str();
    if is_sane(case) && wanted.is_some() && wanted != kind && parsed.beyond.is_empty() {
        return Err(format!("expected the error {wanted:?}, got {kind:?}: {got}"));
    }
    // Tracetest rounds the durations that it shows, and shows other texts as 0.
    let shown = expected["left"].as_str().filter(|left| is_sane(case) && parse_duration(left).is_none());
    let is_text = shown.is_some_and(|left| left != "<random>" && kind != Some("syntax"));
    if is_text
        && shown != Some(result.observed_text.as_str())
        && !expected["left"].to_string().contains("\\\\'")
    {
        let list = matches!(&result.observed, Some(Runtime::List(items)) if items.iter().any(|item| item.type_name() == "duration"));
        if !list && kind != Some("resolution") && kind != Some("evaluation") {
            return Err(format!("expected to observe {shown:?}, got {:?}", result.observed_text));
        }
    }
    Ok(())
}

fn kind_of(result: &SpanResult) -> Option<&'static str> {
    match (result.trouble, &result.error) {
        (Some(EvalErrorKind::Syntax), _) => Some("syntax"),
        (Some(EvalErrorKind::Resolution | EvalErrorKind::Attribute), _) => Some("resolution"),
        (Some(EvalErrorKind::Evaluation), _) => Some("evaluation"),
        (None, Some(error)) if error.ends_with("no match") => Some("no_match"),
        (None, Some(_)) => Some("comparison"),
        (None, None) => None,
    }
}

fn check_resolve(case: &Value, input: &Value) -> Result<(), String> {
    let source = text(input, "input");
    let result = in_context(&input["context"], |surroundings| lang::resolve(&source, surroundings));
    match result {
        Ok(_) if wants_error(case) => {
            let beyond = lang::parse_expression(&source).beyond;
            accepted(&beyond)
        }
        Ok(got) => equal(&expectation(case)["value"], &json!(got)),
        Err(trouble) => {
            check_trouble(case, trouble.class, &trouble.text, &lang::parse_expression(&source).beyond)
        }
    }
}

fn check_compare(case: &Value, input: &Value) -> Result<(), String> {
    let comparison =
        lang::compare_texts(&text(input, "comparator"), &text(input, "actual"), &text(input, "expected"));
    let (result, error) = match comparison {
        Comparison::Match => ("match", None),
        Comparison::NoMatch(text) => ("no_match", Some(text)),
        Comparison::Impossible(text) => ("error", Some(text)),
    };
    let expected = expectation(case);
    if expected["error"] == json!(true) && error.is_some() {
        return Ok(());
    }
    equal(&expected["result"], &json!(result))?;
    match (is_sane(case), expected["error"].as_str()) {
        (false, Some(wanted)) => equal(&json!(wanted), &json!(error)),
        _ => Ok(()),
    }
}

// Variables.

fn check_missing_variables(case: &Value, input: &Value) -> Result<(), String> {
    let available: Vec<&str> =
        input["available"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut missing: Vec<String> = Vec::new();
    for field in input["fields"].as_array().into_iter().flatten() {
        let source = text(field, "text");
        let used = match field["mode"].as_str() {
            Some("statement") => lang::variables_in_assertion(&lang::parse_assertion(&source)),
            Some("expression") => lang::variables_in_expression(&lang::parse_expression(&source)),
            _ => lang::variables_used(&source),
        };
        for name in used {
            if !available.contains(&name.as_str()) && !missing.contains(&name) {
                missing.push(name);
            }
        }
    }
    equal(&expectation(case)["value"], &json!(missing))
}

fn check_merge(case: &Value, input: &Value) -> Result<(), String> {
    let merged = variables(&input["base"]["values"]).merged(&variables(&input["overlay"]["values"]));
    let values: serde_json::Map<String, Value> =
        merged.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let expected = expectation(case);
    if expected["count"].is_number() {
        equal(&expected["count"], &json!(merged.len()))?;
    }
    let wanted = expected["value"]["values"].as_object().cloned().unwrap_or_default();
    if wanted.len() == values.len() && wanted.iter().all(|(name, value)| values.get(name) == Some(value)) {
        Ok(())
    } else {
        Err(format!("expected {wanted:?}, got {values:?}"))
    }
}

// Specs and outputs.

fn check_run(case: &Value, input: &Value) -> Result<(), String> {
    let specs: Vec<Spec> = input["specs"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|spec| Spec {
            name: None,
            selector: Text::from(text(spec, "selector").as_str()),
            within: None,
            assertions: spec["assertions"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|assertion| Text::from(assertion.as_str().unwrap_or_default()))
                .collect(),
        })
        .collect();
    let trace = trace(&input["trace"]);
    let verdict =
        Compiled::new(&specs, &[]).judge(&trace, &variables(&input["variables"]), &Options::new(generator()));
    let expected = if is_sane(case) { &case["judged"] } else { &case["sane_expect"] };
    if let Some(passed) = expected["all_passed"].as_bool()
        && passed != verdict.passed()
    {
        return Err(format!("expected the test to pass: {passed}, got {:?}", verdict.outcome));
    }
    let Some(results) = expected["results"].as_array() else {
        return Ok(());
    };
    if results.len() != verdict.specs.len() {
        return Err(format!("expected {} specs, got {}", results.len(), verdict.specs.len()));
    }
    for (wanted, got) in results.iter().zip(&verdict.specs) {
        equal(&wanted[0], &json!(got.selector))?;
        for (wanted, got) in wanted[1].as_array().into_iter().flatten().zip(&got.assertions) {
            equal(&wanted[0], &json!(got.passed()))?;
            let spans = wanted[1].as_array().cloned().unwrap_or_default();
            if spans.len() != got.results.len() {
                return Err(format!("expected {} span results, got {}", spans.len(), got.results.len()));
            }
            spans.iter().zip(&got.results).try_for_each(|(wanted, got)| check_span_result(wanted, got))?;
        }
    }
    Ok(())
}

fn check_span_result(wanted: &Value, got: &SpanResult) -> Result<(), String> {
    equal(&wanted[0], &json!(got.span.map(|id| id.to_string())))?;
    let observed = wanted[1].as_str().unwrap_or_default();
    let near = match (parse_duration(observed), parse_duration(&got.observed_text)) {
        // Tracetest rounds the durations that it shows, to a tenth of a minute at worst.
        (Some(wanted), Some(got)) => (wanted - got).abs() <= wanted / 20,
        _ => false,
    };
    if observed != got.observed_text && !near {
        return Err(format!("expected to observe {observed:?}, got {:?}", got.observed_text));
    }
    let error = match &got.error {
        None => Value::Null,
        Some(text) if text.ends_with("no match") => json!("no match"),
        Some(_) => json!("error"),
    };
    equal(&wanted[2], &error)
}

fn check_outputs(case: &Value, input: &Value) -> Result<(), String> {
    let outputs: Vec<Output> = input["outputs"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|output| Output {
            name: Text::from(text(output, "name").as_str()),
            selector: Text::from(text(output, "selector").as_str()),
            value: Text::from(text(output, "value").as_str()),
        })
        .collect();
    let trace = trace(&input["trace"]);
    let verdict = Compiled::new(&[], &outputs).judge(
        &trace,
        &variables(&input["variables"]),
        &Options::new(generator()),
    );
    let got: Vec<Value> =
        verdict.outputs.iter().map(|output| json!([output.name, output.value, output.resolved])).collect();
    let expected = if is_sane(case) { &case["judged"] } else { &case["sane_expect"]["value"] };
    equal(expected, &json!(got))
}

// Triggers.

fn check_trigger(case: &Value, input: &Value) -> Result<(), String> {
    let trigger = &input["trigger"];
    let variables = variables(&input["variables"]);
    let kind = text(trigger, "type");
    let block = if kind == "http" { "httpRequest" } else { kind.as_str() };
    if !trigger[block].is_object() {
        return expect_error(case, "the trigger has no content");
    }
    let mut generator = generator();
    match resolved(trigger, &variables, &mut generator) {
        Err(error) => expect_error(case, &error),
        Ok(_) if wants_error(case) => Err("expected an error".to_owned()),
        Ok(got) => {
            let expected = if is_sane(case) { &case["judged"] } else { &case["sane_expect"] };
            is_part(expected, &got)
        }
    }
}

fn resolved(value: &Value, variables: &Variables, generator: &mut Generator) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => {
            json!(
                lang::resolve_text(text, variables, generator, &Budget::default())
                    .map_err(|trouble| trouble.text)?
            )
        }
        Value::Array(items) => Value::Array(
            items.iter().map(|item| resolved(item, variables, generator)).collect::<Result<_, _>>()?,
        ),
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, value)| Ok((name.clone(), resolved(value, variables, generator)?)))
                .collect::<Result<_, String>>()?,
        ),
        other => other.clone(),
    })
}

fn is_part(wanted: &Value, got: &Value) -> Result<(), String> {
    match (wanted, got) {
        (Value::Object(members), Value::Object(_)) => {
            members.iter().try_for_each(|(name, wanted)| is_part(wanted, &got[name.as_str()]))
        }
        _ => equal(wanted, got),
    }
}
