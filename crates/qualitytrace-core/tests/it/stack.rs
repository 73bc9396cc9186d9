//! Deep and long texts on a small stack: each stage returns, and none overflows the stack.

use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{self, Format};
use qualitytrace_core::id::SpanId;
use qualitytrace_core::judge::{Compiled, Options, nearest_misses};
use qualitytrace_core::lang::limits::MAX_DEPTH;
use qualitytrace_core::lang::{self, EvaluationScope, Generator, Variables};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Trace, stored};

use crate::fixture;

/// A quarter of the stack of a server's worker thread.
const STACK: usize = 512 * 1024;

/// Runs on a thread with a small stack: unbounded recursion ends the process there.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread").join().expect("no panic");
}

fn generator() -> Generator {
    Generator::in_utc(Timestamp::from_nanos(1_700_000_000_000_000_000), 1)
}

/// Passes a text through every stage.
fn through_all_stages(text: &str) {
    let variables: Variables = [("A", "1")].into_iter().collect();
    let budget = Budget::default();
    let trace = chain(3);
    let surroundings = EvaluationScope {
        trace: Some(&trace),
        span: Some(0),
        selection: Some(&[0]),
        variables: &variables,
        generator: generator(),
        aliases: true,
        budget: &budget,
    };
    for diagnostics in [
        lang::diagnose_selector(text),
        lang::diagnose_assertion(text),
        lang::diagnose_expression(text),
        lang::diagnose_template(text),
    ] {
        lang::render("text", text, &diagnostics[..diagnostics.len().min(3)], false);
    }
    let expression = lang::parse_expression(text);
    assert_eq!(expression.tree.clone(), expression.tree);
    if expression.is_valid() {
        let printed = expression.tree.to_string();
        assert_eq!(lang::parse_expression(&printed).tree, expression.tree);
        let _ = lang::evaluate(&expression.tree, &surroundings);
        lang::variables_in_expression(&expression);
    }
    let selector = lang::parse_selector(text);
    if selector.is_valid() {
        let printed = selector.tree.to_string();
        assert_eq!(lang::parse_selector(&printed).tree, selector.tree);
        let _ = lang::select(&selector.tree, &trace, &budget);
        nearest_misses(&selector.tree, &trace, 3, true, &Budget::default());
    }
    let _ = lang::resolve(text, &surroundings);
    let _ = lang::resolve_text(text, &variables, &mut generator(), &budget);
    let spec = definition::Spec {
        name: None,
        selector: text.into(),
        within: None,
        assertions: vec![text.into(), "attr:name = 1".into()],
    };
    let output = definition::Output { name: "O".into(), selector: text.into(), value: text.into() };
    Compiled::new(&[spec], &[output]).judge(&trace, &variables, &Options::new(generator()));
}

/// A trace in which each span is the child of the one before.
fn chain(length: u64) -> Trace {
    let above = |at: u64| SpanId::from_bytes((at - 1).to_be_bytes());
    fixture::trace((1..=length).map(|at| fixture::span(at, above(at))))
}

#[test]
fn long_texts_are_calculated_and_filtered_in_a_row() {
    on_a_small_stack(|| {
        let surely = |text: &str, expected: &str| {
            let (variables, budget) = (Variables::new(), Budget::default());
            let surroundings = EvaluationScope {
                trace: None,
                span: None,
                selection: None,
                variables: &variables,
                generator: generator(),
                aliases: true,
                budget: &budget,
            };
            assert_eq!(lang::resolve(text, &surroundings).unwrap(), expected);
            through_all_stages(text);
        };
        surely(&vec!["1"; 5_000].join(" + "), "5000");
        surely(&format!("2 * {}", vec!["1"; 5_000].join(" * ")), "2");
        surely(&format!("\"a\"{}", " | get_index 0".repeat(5_000)), "a");
    });
}

#[test]
fn selectors_of_twenty_thousand_parts_are_answered() {
    on_a_small_stack(|| {
        through_all_stages(&vec!["span[name = \"a\"]"; 2_000].join(", "));
        let chain = vec!["span[name = \"a\"]"; 20_000].join(" ");
        let parsed = lang::parse_selector(&chain);
        assert_eq!(parsed.error().map(|error| error.code), Some("nested-too-deeply"));
        through_all_stages(&chain);
        for combinator in [">", "~", "+"] {
            through_all_stages(&vec!["span[]"; 20_000].join(combinator));
        }
        let allowed = vec!["span[]"; MAX_DEPTH].join(" ");
        assert!(lang::parse_selector(&allowed).is_valid());
    });
}

#[test]
fn what_nests_too_deep_is_a_diagnostic_at_every_stage() {
    let nested = |open: &str, middle: &str, close: &str, times: usize| {
        format!("{}{middle}{}", open.repeat(times), close.repeat(times))
    };
    on_a_small_stack(move || {
        for times in [MAX_DEPTH - 2, 5_000] {
            for text in [
                nested("(", "1", ")", times),
                nested("[", "1", "]", times),
                nested("date(", "", ")", times),
                nested("1 + (2 * (", "3", "))", times / 2),
                nested("1 | get_index (", "0", ")", times),
                nested("\"${", "1", "}\"", times),
                nested("sum(", "attr:a", ")", times),
                nested("span[]:has(", "span[]", ")", times / 2),
                nested("span[]:not(", "span[]", ")", times / 2),
                format!("span[{}]", nested("(", "a = 1", ")", times)),
                format!("span[{} a = 1]", "!".repeat(times)),
                format!("span[{} a = 1]", "not ".repeat(times)),
                format!("'{{}}' | json_path '$[?({})]'", nested("(", "@.a == 1", ")", times)),
                format!("'{{}}' | json_path '$[?({}@.a == 1)]'", "!".repeat(times)),
                format!("'{{}}' | json_path '$[?(@.a in {})]'", nested("[", "1", "]", times)),
                format!("'[[]]' | json_path '${}'", nested("[?(@", " == 1", ")]", times)),
                format!("'[1]' | json_path '$[?(1 == 1{})]'", " && 1 == 1".repeat(times)),
                format!("'{}' | json_path '$..*'", nested("[", "1", "]", times)),
                format!(
                    "'{}' = '{}'",
                    nested("{\"a\":", "1", "}", times),
                    nested("{\"a\": ", "1", "}", times)
                ),
            ] {
                through_all_stages(&text);
            }
        }
    });
}

#[test]
fn definitions_that_nest_too_deep_are_refused_in_both_formats_alike() {
    on_a_small_stack(|| {
        for levels in [65, 100_000] {
            let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            for format in [Format::Json, Format::Yaml] {
                let reading = definition::read(&text, format);
                let found = &reading.diagnostics[0];
                // YAML's parser has its own limit, far beyond ours.
                assert!(
                    found.is_error() && (levels > 65 || found.code == "too-deep"),
                    "{format:?} {found:?}"
                );
            }
        }
        let many = format!("[{}1]", "1,".repeat(250_000));
        for format in [Format::Json, Format::Yaml] {
            assert_eq!(definition::read(&many, format).diagnostics[0].code, "too-large", "{format:?}");
        }
    });
}

#[test]
fn a_long_chain_of_spans_is_written_and_read_back() {
    on_a_small_stack(|| {
        let trace = chain(20_000);
        let written = stored::write(&trace).to_string();
        let read = stored::read(&serde_json::from_str(&written).unwrap()).unwrap();
        assert_eq!(read.spans().len(), 20_000);
        assert_eq!(read.depth(19_999), 19_999);
    });
}

#[test]
fn the_depths_of_a_long_chain_take_linear_time() {
    let trace = chain(100_000);
    let start = std::time::Instant::now();
    for at in 0..100_000 {
        assert_eq!(trace.depth(at), at);
        // A walk to the root for each span would take five thousand million steps.
        assert!(start.elapsed() < std::time::Duration::from_secs(5), "{at} in {:?}", start.elapsed());
    }
}
