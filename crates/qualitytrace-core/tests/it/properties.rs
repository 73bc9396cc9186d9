//! Properties of every text and every trace.

use proptest::prelude::*;
use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{Output, Spec, Text};
use qualitytrace_core::id::{SpanId, TraceId};
use qualitytrace_core::judge::{Compiled, Options};
use qualitytrace_core::lang::{self, EvaluationScope, Generator, Variables};
use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::{Attributes, Dropped, Resource, Scope, Span, SpanKind, Trace};
use qualitytrace_core::value::Value;

fn generator() -> Generator {
    Generator::in_utc(Timestamp::from_nanos(1_700_000_000_000_000_000), 3)
}

/// Texts made of tokens of the language, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "span",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        "$",
        "${",
        "\"",
        "'",
        "\\",
        "|",
        ",",
        ":",
        ".",
        "=",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "=~",
        "!~",
        "!",
        "~",
        "+",
        "-",
        "*",
        "/",
        " ",
        "\n",
        "\t",
        "name",
        "kind",
        "status",
        "duration",
        "attr:",
        "var:",
        "env:",
        "http.status_code",
        "tracetest.span.duration",
        "tracetest.selected_spans.count",
        "contains",
        "not-contains",
        "json-contains",
        "not",
        "and",
        "or",
        "in",
        "exists",
        "matches",
        "is one of",
        "any",
        "all",
        "none",
        "at least 2 of",
        "3 of",
        "before",
        "after",
        "within 2s of",
        "overlaps",
        "first",
        "last",
        "nth_child",
        "root",
        "has",
        "count",
        "sum",
        "avg",
        "p95",
        "first(span[])",
        "uuid()",
        "randomInt(1, 2)",
        "json_path",
        "regex",
        "get_index",
        "length",
        "type",
        "'$.a[?(@.b == 1)]'",
        "200",
        "1.5",
        "-5",
        "0x10",
        "5ms",
        "25 ms",
        "1e3",
        "true",
        "false",
        "null",
        "error",
        "\"a\"",
        "'b'",
        "'{\"a\":1}'",
        "[1, 2]",
        "é",
        "\u{1f980}",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

pub(crate) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![pieces(), ".{0,60}", "span\\[[a-z.]{0,12}(=|!=|<| contains )\"?[a-z0-9 ]{0,12}\"?\\].{0,20}"]
}

/// A small trace: each span names one of the spans before it as its parent.
fn spans() -> impl Strategy<Value = Vec<Span>> {
    let span = (any::<prop::sample::Index>(), 0_u64..9, 0_u64..5, 0_usize..4, 0_i64..4);
    prop::collection::vec(span, 1..16).prop_map(|seeds| {
        seeds
            .into_iter()
            .enumerate()
            .map(|(at, (parent, start, length, name, code))| {
                let parent = parent.index(at + 1);
                let mut attributes = Attributes::default();
                attributes.set("http.status_code", Value::Int(200 + code));
                attributes.set("text", ["a", "b", "", "{\"a\":[1,2]}"][name]);
                Span {
                    id: id(at + 1),
                    parent: id(parent),
                    name: ["GET /", "POST /", "SELECT", "publish"][name].into(),
                    kind: [SpanKind::Server, SpanKind::Client, SpanKind::Internal, SpanKind::Producer][name],
                    start: Timestamp::from_nanos(start),
                    end: Some(Timestamp::from_nanos(start + length)),
                    status: None,
                    attributes,
                    events: vec![],
                    links: vec![],
                    resource: Resource::default().into(),
                    scope: Scope::default().into(),
                    trace_state: "".into(),
                    flags: 0,
                    dropped: Dropped::default(),
                }
            })
            .collect()
    })
}

fn id(number: usize) -> Option<SpanId> {
    SpanId::from_bytes((number as u64).to_be_bytes())
}

fn assemble(spans: Vec<Span>) -> Trace {
    Trace::assemble(TraceId::from_bytes([1; 16]).expect("not zero"), spans)
}

fn judged(selector: &str, assertion: &str, trace: &Trace) -> String {
    let spec = Spec {
        name: None,
        selector: Text::from(selector),
        within: None,
        assertions: vec![Text::from(assertion)],
    };
    let output =
        Output { name: Text::from("X"), selector: Text::from(selector), value: Text::from("attr:text") };
    let test = Compiled::new(&[spec], &[output]);
    let verdict = test.judge(trace, &Variables::new(), &Options::new(generator()));
    format!("{verdict:?}")
}

/// Texts found by fuzzing that once caused a failure.
#[test]
fn texts_that_broke_something_get_an_answer() {
    for text in ["'${\\\"{\\\u{704}\u{6f2}QQQ[", "\"${'\\\u{e9}"] {
        let _ = lang::diagnose_selector(text);
        let _ = lang::diagnose_assertion(text);
        let _ = lang::diagnose_expression(text);
        let _ = lang::diagnose_template(text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gets_an_answer(text in any_text(), other in any_text(), spans in spans()) {
        let trace = assemble(spans);
        judged(&text, &other, &trace);
        let variables = Variables::new();
        let surroundings = EvaluationScope {
            trace: Some(&trace),
            span: Some(0),
            selection: Some(&[0]),
            variables: &variables,
            generator: generator(),
            aliases: true,
            budget: &Budget::default(),
        };
        let _ = lang::resolve(&text, &surroundings);
        let _ = lang::resolve_text(&text, &variables, &mut generator(), &Budget::default());
        for diagnostics in [
            lang::parse_selector(&text).diagnostics,
            lang::parse_assertion(&text).diagnostics,
            lang::parse_expression(&text).diagnostics,
        ] {
            for diagnostic in &diagnostics {
                prop_assert!(diagnostic.span.start <= diagnostic.span.end && diagnostic.span.end <= text.len());
            }
            lang::render("text", &text, &diagnostics, false);
        }
    }

    #[test]
    fn what_is_printed_means_the_same(text in any_text()) {
        let selector = lang::parse_selector(&text);
        if selector.is_valid() {
            let printed = selector.tree.to_string();
            let again = lang::parse_selector(&printed);
            prop_assert!(again.is_valid(), "{printed}");
            prop_assert_eq!(again.tree, selector.tree, "{}", printed);
        }
        let assertion = lang::parse_assertion(&text);
        if assertion.is_valid() {
            let printed = assertion.tree.to_string();
            let again = lang::parse_assertion(&printed);
            prop_assert!(again.is_valid(), "{printed}");
            prop_assert_eq!(again.tree, assertion.tree, "{}", printed);
        }
        let expression = lang::parse_expression(&text);
        if expression.is_valid() {
            let printed = expression.tree.to_string();
            let again = lang::parse_expression(&printed);
            prop_assert!(again.is_valid(), "{printed}");
            prop_assert_eq!(again.tree, expression.tree, "{}", printed);
        }
    }

    #[test]
    fn every_string_survives_quoting(text in prop_oneof![".{0,40}", pieces()]) {
        let variables = Variables::new();
        let surroundings = EvaluationScope {
            trace: None,
            span: None,
            selection: None,
            variables: &variables,
            generator: generator(),
            aliases: true,
            budget: &Budget::default(),
        };
        let parsed = lang::parse_expression(&lang::quote(&text));
        prop_assert!(parsed.is_valid());
        let value = lang::evaluate(&parsed.tree, &surroundings).expect("a text has a value");
        prop_assert_eq!(value.text().into_owned(), text.clone());
        let printed = lang::parse_expression(&parsed.tree.to_string());
        prop_assert_eq!(printed.tree, parsed.tree);

        let selector = lang::parse_selector(&format!("span[name={}]", lang::quote_in_selector(&text)));
        prop_assert!(selector.is_valid());
        prop_assert_eq!(lang::parse_selector(&selector.tree.to_string()).tree, selector.tree);
    }

    #[test]
    fn the_order_of_arrival_changes_nothing(
        spans in spans(),
        order in any::<u64>(),
        selector in prop::sample::select(vec![
            "",
            "span[kind=\"server\"] span[]",
            "span[http.status_code>200]:first",
            "span[name contains \"/\"] > span[]:last",
            "span[]:has(span[name=\"SELECT\"]) ~ span[]",
            "span[kind=\"client\"], span[kind=\"server\"] span[kind=\"client\"]",
        ]),
        assertion in prop::sample::select(vec![
            "attr:http.status_code = 200",
            "any attr:text = \"a\"",
            "sum(attr:http.status_code) > 400",
            "before span[name=\"SELECT\"]",
            "attr:tracetest.span.duration < 3ns",
        ]),
    ) {
        let straight = assemble(spans.clone());
        let mut shuffled = spans;
        let mut seed = order;
        for at in (1..shuffled.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let other = usize::try_from(seed >> 33).expect("31 bits") % (at + 1);
            shuffled.swap(at, other);
        }
        let shuffled = assemble(shuffled);
        let tree = |trace: &Trace| (0..trace.spans().len()).map(|at| (trace.span(at).id, trace.parent(at))).collect::<Vec<_>>();
        prop_assert_eq!(tree(&straight), tree(&shuffled));
        prop_assert_eq!(judged(selector, assertion, &straight), judged(selector, assertion, &shuffled));
    }
}
