//! `docs/language.md` is executed: every example gives the result below it.
//!
//! `UPDATE_DOCS=1 cargo test -p qualitytrace-core reference` writes the results of the examples into the page.

use std::path::Path;

use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{Spec, Text};
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::judge::{self, Compiled, FailureReason, Options, Outcome};
use qualitytrace_core::lang::{self, EvaluationScope, Generator, Variables};
use qualitytrace_core::time::{Timestamp, parse_duration};
use qualitytrace_core::trace::{
    Attributes, Dropped, Resource, Scope, Span, SpanKind, Status, StatusCode, Trace,
};
use qualitytrace_core::value::Value;

#[test]
fn every_example_gives_what_stands_below_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/language.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mut trace = None;
    let mut count = 0;
    let mut written = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        written.push_str(line);
        written.push('\n');
        let Some(kind) = line.strip_prefix("```").filter(|kind| !kind.is_empty()) else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        if kind == "trace" {
            trace = Some(read_trace(&block));
            written.push_str(&(block.join("\n") + "\n```\n"));
            continue;
        }
        let trace = trace.as_ref().expect("the trace comes before the examples");
        written.push_str(&(run(kind, &block, trace) + "```\n"));
        count += 1;
    }
    assert!(count > 60, "only {count} examples were found");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    for (expected, got) in page.lines().zip(written.lines()) {
        assert_eq!(expected, got);
    }
    assert_eq!(page.lines().count(), written.lines().count());
}

/// Returns the expected block: the example, and its result.
fn run(kind: &str, block: &[&str], trace: &Trace) -> String {
    let (kind, language) = kind.split_once(' ').unwrap_or((kind, ""));
    let example: Vec<&str> = block
        .iter()
        .take_while(|line| !line.starts_with("->") && (kind != "diagnostic" || !line.starts_with("error")))
        .copied()
        .collect();
    let (on, text) = match example.first().and_then(|line| line.strip_prefix("on ")) {
        Some(selector) => (Some(selector), example[1..].join("\n")),
        None => (None, example.join("\n")),
    };
    let shown = example.join("\n");
    let result = match kind {
        "selector" => select(&text, trace),
        "expression" => evaluate(on, &text, trace),
        "assertion" => assert_on(on.unwrap_or_default(), &text, trace),
        "nearest" => {
            let misses = judge::nearest_misses(&selector(&text), trace, 1, true, &Budget::default());
            misses.first().map(ToString::to_string).unwrap_or_default()
        }
        "template" => {
            lang::resolve_text(&text, &variables(), &mut generator(), &Budget::default()).expect(&text)
        }
        "diagnostic" => {
            let text = text.trim_end();
            let diagnostics = match language {
                "selector" => lang::diagnose_selector(text),
                "assertion" => lang::diagnose_assertion(text),
                _ => lang::diagnose_expression(text),
            };
            assert!(!diagnostics.is_empty(), "{text} has nothing wrong");
            return format!("{text}\n\n{}\n", lang::render(language, text, &diagnostics, false));
        }
        other => panic!("unknown kind of example: {other}"),
    };
    format!("{shown}\n-> {result}\n")
}

fn generator() -> Generator {
    Generator::in_utc(Timestamp::from_nanos(1_700_000_000_000_000_000), 1)
}

fn variables() -> Variables {
    [("HOST", "shop.example"), ("ID", "7")].into_iter().collect()
}

fn selector(text: &str) -> lang::ast::Selector {
    let parsed = lang::parse_selector(text);
    assert!(parsed.is_valid(), "{}", lang::render("selector", text, &parsed.diagnostics, false));
    parsed.tree
}

fn select(text: &str, trace: &Trace) -> String {
    let found = lang::select(&selector(text), trace, &Budget::default()).expect("small enough");
    if found.len() == trace.spans().len() {
        return format!("{} spans", found.len());
    }
    let names: Vec<&str> = found.iter().map(|at| &*trace.span(*at).name).collect();
    names.join(", ")
}

fn evaluate(on: Option<&str>, text: &str, trace: &Trace) -> String {
    let parsed = lang::parse_expression(text);
    assert!(parsed.is_valid(), "{}", lang::render("expression", text, &parsed.diagnostics, false));
    assert!(lang::diagnose_expression(text).is_empty());
    let selection = on
        .map(|on| lang::select(&selector(on), trace, &Budget::default()).expect("small enough"))
        .unwrap_or_default();
    let variables = variables();
    let surroundings = EvaluationScope {
        trace: on.map(|_| trace),
        span: selection.first().copied(),
        selection: Some(&selection),
        variables: &variables,
        generator: generator(),
        aliases: true,
        budget: &Budget::default(),
    };
    lang::evaluate(&parsed.tree, &surroundings).expect(text).text().into_owned()
}

fn assert_on(on: &str, text: &str, trace: &Trace) -> String {
    assert!(lang::diagnose_assertion(text).is_empty(), "{text}");
    let spec =
        Spec { name: None, selector: Text::from(on), within: None, assertions: vec![Text::from(text)] };
    let verdict = Compiled::new(&[spec], &[]).judge(trace, &variables(), &Options::new(generator()));
    let assertion = &verdict.specs[0].assertions[0];
    let aliases: Vec<String> = assertion
        .aliases
        .iter()
        .map(|alias| format!(" ({} found as {})", alias.asked, alias.found))
        .collect();
    match &assertion.outcome {
        Outcome::Passed => format!("passed{}", aliases.concat()),
        Outcome::Failed(FailureReason::NoSpan) => "failed: no span matches".to_owned(),
        Outcome::Failed(FailureReason::NoMatch) => {
            let failed = assertion.results.iter().find(|result| !result.passed).expect("a failed result");
            let expected = match failed.expected_text.as_str() {
                "" => String::new(),
                text => format!(", expected {text}"),
            };
            format!("failed: observed {}{expected}", failed.observed_text)
        }
        other => format!("{other:?}: {:?}", assertion.results),
    }
}

/// `name | kind | service | start..end | attribute=value ...`, indented below its parent.
fn read_trace(block: &[&str]) -> Trace {
    let mut above: Vec<u64> = Vec::new();
    let mut spans = Vec::new();
    for (at, line) in block.iter().enumerate() {
        let number = at as u64 + 1;
        let depth = (line.len() - line.trim_start().len()) / 2;
        above.truncate(depth);
        let fields: Vec<&str> = line.trim_start().splitn(5, " | ").collect();
        let (start, end) = fields[3].split_once("..").expect("start and end");
        let time =
            |text: &str| Timestamp::from_nanos(u64::try_from(parse_duration(text).expect(text)).expect(text));
        let mut attributes = Attributes::default();
        let mut status = None;
        for pair in fields[4].split(' ') {
            let (name, value) = pair.split_once('=').expect("name and value");
            match (name, value) {
                ("status", "ok") => status = Some(StatusCode::Ok),
                ("status", _) => status = Some(StatusCode::Error),
                _ => attributes.set(name, value.parse().map_or_else(|_| Value::from(value), Value::Int)),
            }
        }
        let mut resource = Resource::default();
        resource.attributes.set("service.name", fields[2]);
        spans.push(Span {
            id: SpanId::from_bytes(number.to_be_bytes()),
            parent: above.last().and_then(|parent| SpanId::from_bytes(parent.to_be_bytes())),
            name: fields[0].into(),
            kind: match fields[1] {
                "server" => SpanKind::Server,
                "client" => SpanKind::Client,
                "producer" => SpanKind::Producer,
                "consumer" => SpanKind::Consumer,
                _ => SpanKind::Internal,
            },
            start: time(start),
            end: Some(time(end)),
            status: status.map(|code| Status { code, message: "".into() }),
            attributes,
            events: vec![],
            links: vec![],
            resource: resource.into(),
            scope: Scope::default().into(),
            trace_state: "".into(),
            flags: 0,
            dropped: Dropped::default(),
        });
        above.push(number);
    }
    Trace::assemble(TraceId::from_bytes([2; 16]).expect("not zero"), spans)
}
