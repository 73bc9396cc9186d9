//! Evaluations that exceed their budget: each ends with an error that says so.

use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{self, Format, Output, Spec};
use qualitytrace_core::judge::{Compiled, FailureReason, Options, Outcome, Verdict, nearest_misses};
use qualitytrace_core::lang::{self, EvaluationScope, Generator, Variables};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::Trace;

use crate::fixture;

const STEPS: &str = "the evaluation takes more than 1000000 steps; split the test";
const BYTES: &str = "the values of the evaluation take more than 4194304 bytes; read less";

/// Small enough for short tests, and much more than any sensible evaluation takes.
fn budget() -> Budget {
    Budget::new(1_000_000, 4 * 1024 * 1024)
}

fn generator() -> Generator {
    Generator::in_utc(Timestamp::from_nanos(1), 1)
}

fn trace(spans: u64) -> Trace {
    fixture::trace((1..=spans).map(|at| fixture::span(at, None)))
}

fn judged(specs: &[Spec], outputs: &[Output], trace: &Trace, variables: &[(&str, String)]) -> Verdict {
    let variables: Variables = variables.iter().cloned().collect();
    let options = Options { budget: budget(), ..Options::new(generator()) };
    Compiled::new(specs, outputs).judge(trace, &variables, &options)
}

/// Returns the error of an expression that reads these variables.
fn trouble(expression: &str, variables: &[(&str, String)]) -> String {
    trouble_within(&budget(), expression, variables)
}

fn trouble_within(budget: &Budget, expression: &str, variables: &[(&str, String)]) -> String {
    let variables: Variables = variables.iter().cloned().collect();
    let surroundings = EvaluationScope {
        trace: None,
        span: None,
        selection: None,
        variables: &variables,
        generator: generator(),
        aliases: true,
        budget,
    };
    let assertion = lang::parse_assertion(expression);
    if assertion.is_valid() {
        let result = qualitytrace_core::judge::assert_once(&assertion, &surroundings);
        return result.error.unwrap_or_default();
    }
    lang::resolve(expression, &surroundings).map_or_else(|trouble| trouble.text, |_| String::new())
}

fn check(expression: &str, variables: &[(&str, String)], expected: &str) {
    let told = trouble(expression, variables);
    assert!(told.contains(expected), "{told}");
}

fn list(length: usize, item: impl Fn(usize) -> String) -> String {
    let items: Vec<String> = (0..length).map(item).collect();
    format!("[{}]", items.join(","))
}

#[test]
fn a_path_that_multiplies_what_it_finds_ends() {
    let document = ("D", format!("{}1{}", "{\"a\":".repeat(60), "}".repeat(60)));
    let unions = "['a','a']".repeat(40);
    check(&format!("var:D | json_path \"${unions}\""), std::slice::from_ref(&document), BYTES);
    check("var:D | json_path '$..*..*..*..*..*..*..*'", &[document], BYTES);
    let wide = ("D", list(3_000, |at| at.to_string()));
    check("var:D | json_path '$[?(@ in $)]'", std::slice::from_ref(&wide), STEPS);
    check("var:D | json_path '$[?($[?(@ == -1)] == 1)]'", &[wide], STEPS);
}

#[test]
fn lists_and_objects_that_are_compared_item_by_item_end() {
    let long = |point: &str| list(10_000, |at| format!("\"{at}{point}\""));
    check("var:A contains var:B", &[("A", long("")), ("B", long(".0"))], STEPS);
    let objects = |last: usize| list(3_000, |at| format!("{{\"a\":{}}}", last.abs_diff(at)));
    check("var:A json-contains var:B", &[("A", objects(0)), ("B", objects(2_999))], STEPS);
    // Equal values are found at once, at any length.
    check("var:A contains var:B", &[("A", long("")), ("B", long(""))], "");
    let members = |by: usize| {
        let members: Vec<String> = (0..20_000).map(|at| format!("\"k{}\":1", at * by % 20_000)).collect();
        format!("{{{}}}", members.join(","))
    };
    check("var:A = var:B", &[("A", members(1)), ("B", members(7))], "");
}

#[test]
fn a_value_that_is_too_large_to_be_taken_apart_is_refused() {
    let document = list(1_000_000, |_| "1".to_owned());
    check("var:D | json_path '$[0]'", &[("D", document.clone())], BYTES);
    check("var:D | length", &[("D", document.clone())], BYTES);
    check("var:D contains 2", &[("D", document)], BYTES);
}

#[test]
fn paths_over_one_document_are_paid_together() {
    let output = |at: usize| Output {
        name: format!("O{at}").into(),
        selector: "span[]".into(),
        value: "var:D | json_path '$[0]'".into(),
    };
    let outputs: Vec<Output> = (0..60).map(output).collect();
    let verdict = judged(&[], &outputs, &trace(1), &[("D", list(20_000, |_| "0".to_owned()))]);
    assert!(verdict.outputs[0].resolved, "{:?}", verdict.outputs[0].error);
    let told = verdict.outputs[59].error.clone().unwrap_or_default();
    assert!(told.contains(STEPS), "{told}");
}

#[test]
fn a_pattern_is_paid_by_its_size_and_its_text() {
    let text = ("T", "ab".repeat(500_000));
    check("var:T | regex '(a|b)*a(a|b){300}$'", std::slice::from_ref(&text), STEPS);
    check("var:T matches '(a|b)*a(a|b){300}$'", std::slice::from_ref(&text), STEPS);
    check("var:T | regex 'x+'", &[text], "");
    // Each match is short, and the search for it reads the rest of the text.
    let line = ("T", "A".repeat(64 * 1024));
    for expression in ["var:T | regex '.*[^A-Z]|[A-Z]'", "var:T | regex_group '.*[^A-Z]|([A-Z])'"] {
        let told =
            trouble_within(&Budget::new(50_000, 4 * 1024 * 1024), expression, std::slice::from_ref(&line));
        assert!(told.contains("takes more than 50000 steps"), "{told}");
    }
    check("var:T | regex 'a'", &[("T", "ab".repeat(5_000))], "");
}

#[test]
fn patterns_are_read_without_being_compiled_and_compiled_at_their_price() {
    let selector = |pattern: &str| lang::parse_selector(&format!("span[name =~ \"{pattern}\"]"));
    let refused = selector("(a{99}){900}");
    assert!(!refused.is_valid(), "it can be told to be too large before it is compiled");
    // These parse without an error; compiling them ends the evaluation.
    for (pattern, expected) in [
        ("(a{99}){490}", "a regular expression is too large once it is compiled"),
        (r"(?i)\\p{Nothing}", "a regular expression is too large once it is compiled, or names a class that"),
        (r"(?i)\\pL\\pL", STEPS),
    ] {
        let parsed = selector(pattern);
        assert!(parsed.is_valid(), "{pattern}: {:?}", parsed.diagnostics);
        let budget = Budget::new(2_000_000, 4 * 1024 * 1024);
        let told = lang::select(&parsed.tree, &trace(2), &budget).unwrap_err().to_string();
        assert!(told.contains(&expected.replace("1000000", "2000000")), "{pattern}: {told}");
    }
    let many = list(100, |at| format!("\"(a{{99}}){{{}}}\"", 380 + at));
    check(&format!("'{many}' | json_path '$[?(\"b\" =~ @)]'"), &[], STEPS);
    assert!(selector(r"(?i)get|post \\w+").is_valid());
}

#[test]
fn outputs_that_double_each_other_end_and_leave_the_others_alone() {
    let double = |at: usize| Output {
        name: format!("O{at}").into(),
        selector: "span[]".into(),
        value: format!("\"${{var:O{0}}}${{var:O{0}}}\"", at - 1).into(),
    };
    let outputs: Vec<Output> = (1..60).map(double).collect();
    let spec = Spec {
        name: None,
        selector: "span[]".into(),
        within: None,
        assertions: vec!["var:O2 = \"abcabcabcabc\"".into()],
    };
    let verdict = judged(&[spec], &outputs, &trace(1), &[("O0", "abc".to_owned())]);
    assert_eq!(verdict.outputs[1].value, "abcabcabcabc");
    assert!(verdict.outputs.iter().map(|output| output.value.len()).sum::<usize>() < 4 * 1024 * 1024);
    let told = verdict.outputs.iter().find_map(|output| output.error.clone()).unwrap_or_default();
    assert!(told.contains(BYTES), "{told}");
    assert_eq!(verdict.specs[0].assertions[0].outcome, Outcome::Passed);
}

#[test]
fn what_a_verdict_keeps_is_bounded() {
    let large = "x".repeat(10 * 1024 * 1024);
    let output = |at: usize| Output {
        name: format!("O{at}").into(),
        selector: "span[]".into(),
        value: "var:LARGE".into(),
    };
    let variables: Variables = [("LARGE", large)].into_iter().collect();
    let outputs: Vec<Output> = (0..4).map(output).collect();
    let verdict = Compiled::new(&[], &outputs).judge(&trace(1), &variables, &Options::new(generator()));
    let resolved: Vec<bool> = verdict.outputs.iter().map(|output| output.resolved).collect();
    assert_eq!(resolved, [true, true, false, false]);
    let told = verdict.outputs[2].error.clone().unwrap_or_default();
    assert!(told.contains("keep more than 25165824 bytes"), "{told}");
}

#[test]
fn many_assertions_on_many_spans_end_with_one_result_that_says_so() {
    let assertions = vec!["1 = 1".into(); 200];
    let spec = Spec { name: None, selector: "span[]".into(), within: None, assertions };
    let verdict = judged(&[spec], &[], &trace(5_000), &[]);
    let results: usize = verdict.specs[0].assertions.iter().map(|it| it.results.len()).sum();
    assert!(results < 100_000, "{results}");
    let last = verdict.specs[0].assertions.last().unwrap();
    assert_eq!(last.outcome, Outcome::Failed(FailureReason::NotEvaluated));
    let told = last.results.last().and_then(|result| result.error.clone()).unwrap_or_default();
    assert!(told.contains(BYTES) || told.contains(STEPS), "{told}");
}

#[test]
fn a_selector_of_many_parts_on_many_spans_ends() {
    let selector = vec!["span[name = \"a\"]"; 20_000].join(", ");
    let spec = Spec {
        name: None,
        selector: selector.as_str().into(),
        within: None,
        assertions: vec!["1 = 1".into()],
    };
    let verdict = judged(&[spec], &[], &trace(2_000), &[]);
    let told = verdict.specs[0].assertions[0].results[0].error.clone().unwrap_or_default();
    assert!(told.contains(STEPS), "{told}");
    let conditions = |join: &str, condition: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..20_000).map(condition).collect();
        lang::parse_selector(&format!("span[{}]", all.join(join)))
    };
    // Conditions that nothing satisfies, alternatives, and a name each.
    for selector in [
        conditions(" ", &|_| "name != \"a\"".to_owned()),
        conditions(" or ", &|_| "name = \"a\"".to_owned()),
        conditions(" or ", &|at| format!("a{at} = 1")),
    ] {
        assert!(selector.is_valid(), "{:?}", selector.diagnostics.first());
        let trace = trace(20_000);
        let told = lang::select(&selector.tree, &trace, &budget()).unwrap_err().to_string();
        assert!(told.contains(STEPS), "{told}");
        assert_eq!(nearest_misses(&selector.tree, &trace, 3, true, &budget()), []);
    }
    let parsed = lang::parse_selector("span[] ~ span[] ~ span[]");
    assert!(lang::select(&parsed.tree, &trace(3_000), &budget()).is_err());
}

#[test]
fn a_text_of_a_trigger_that_grows_without_end_is_refused() {
    let variables: Variables = [("A", "x".repeat(10_000))].into_iter().collect();
    let text = "${var:A}".repeat(1_000);
    let told = lang::resolve_text(&text, &variables, &mut generator(), &budget()).unwrap_err().text;
    assert!(told.contains(BYTES), "{told}");
}

#[test]
fn texts_have_a_bound_of_parts_and_tests_one_of_texts() {
    let long = 60_000;
    for text in [
        vec!["1"; long].join(" + "),
        format!("[{}]", vec!["1"; long].join(",")),
        format!("'a'{}", " | length".repeat(long)),
        format!("\"{}\"", "${var:A}".repeat(long)),
    ] {
        let parsed = lang::parse_expression(&text);
        let error = parsed.error().map(|error| error.message.clone()).unwrap_or_default();
        assert_eq!(error, "a text has at most 50000 values, conditions and filters", "{}", &text[..20]);
    }
    for selector in [vec!["span[]"; long].join(", "), format!("span[a in ({})]", vec!["1"; long].join(","))] {
        assert!(!lang::parse_selector(&selector).is_valid());
    }
    let assertions = vec![format!("attr:a = \"{}\"", "b".repeat(600_000)); 2];
    let text = serde_json::json!({
        "type": "Test",
        "spec": { "name": "t", "specs": [{ "selector": "span[]", "assertions": assertions }] },
    });
    let reading = definition::read(&text.to_string(), Format::Json);
    let found = definition::check(&reading.documents[0].resource);
    let error = found.iter().find(|found| found.is_error()).expect("it is too large");
    assert!(error.message.contains("take at most 1048576 bytes"), "{}", error.message);
}

#[test]
fn the_texts_of_a_test_have_a_bound() {
    let assertions = vec![format!("attr:a = \"{}\"", "b".repeat(600_000)); 2];
    let spec = serde_json::json!({ "selector": "span[]", "assertions": assertions });
    let text = serde_json::json!({ "type": "Test", "spec": { "name": "t", "specs": [spec] } });
    let reading = definition::read(&text.to_string(), Format::Json);
    let found = definition::check(&reading.documents[0].resource);
    let messages: Vec<&str> = found.iter().map(|found| found.message.as_str()).collect();
    assert!(messages.iter().any(|message| message.contains("take at most 1048576 bytes")), "{messages:?}");
}

#[test]
fn a_suite_with_too_many_steps_is_refused_without_comparing_them() {
    let text =
        serde_json::json!({ "type": "TestSuite", "spec": { "name": "s", "steps": vec!["a"; 100_000] } });
    let reading = definition::read(&text.to_string(), Format::Json);
    let errors: Vec<_> = reading.diagnostics.iter().filter(|found| found.is_error()).collect();
    assert!(errors.len() == 1 && errors[0].message.contains("at most 1000 steps"), "{errors:?}");
}
