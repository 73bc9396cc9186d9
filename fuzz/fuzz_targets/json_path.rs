//! Fuzzes JSONPath with any path and document: no panic, and an end within the budget.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qualitytrace_core::budget::Budget;
use qualitytrace_core::lang::{self, Generator, EvaluationScope, Variables};
use qualitytrace_core::time::Timestamp;
use qualitytrace_fuzz::on_a_small_stack;

/// The document for inputs that are a path alone.
const DOCUMENT: &str =
    r#"{"a":[{"b":1,"c":"x"},{"b":2.5,"c":null},[1,[2,[3]]]],"a-b":{"a":{"a":{"a":true}}},"":[]}"#;

fuzz_target!(|input: &str| {
    on_a_small_stack(|| {
        let (path, document) = input.split_once('\n').unwrap_or((input, DOCUMENT));
        let variables: Variables = [("D", document), ("P", path)].into_iter().collect();
        let budget = Budget::new(200_000, 8 * 1024 * 1024);
        let scope = EvaluationScope {
            trace: None,
            span: None,
            selection: None,
            variables: &variables,
            generator: Generator::in_utc(Timestamp::from_nanos(1), 1),
            aliases: true,
            budget: &budget,
        };
        let _ = lang::diagnose_expression(&format!("var:D | json_path {}", lang::quote(path)));
        for text in [
            "var:D | json_path var:P",
            "var:D | json_path var:P | length",
            "var:D | json_path var:P | get_index 'last'",
            "var:D contains var:P",
            "var:D json-contains var:P",
        ] {
            let _ = lang::resolve(text, &scope);
            let _ = qualitytrace_core::judge::assert_once(&lang::parse_assertion(text), &scope);
        }
    });
});
