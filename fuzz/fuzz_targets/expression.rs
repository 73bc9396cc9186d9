//! Fuzzes expressions, assertions and templates with any text: no panic, spans inside the text, a round trip through
//! printing, evaluation that terminates.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qualitytrace_core::budget::Budget;
use qualitytrace_core::judge;
use qualitytrace_core::lang::{self, Generator, EvaluationScope, Variables};
use qualitytrace_core::time::Timestamp;
use qualitytrace_fuzz::on_a_small_stack;

fuzz_target!(|text: &str| {
    on_a_small_stack(|| {
        for diagnostics in
            [lang::diagnose_expression(text), lang::diagnose_assertion(text), lang::diagnose_template(text)]
        {
            for diagnostic in &diagnostics {
                assert!(diagnostic.span.start <= diagnostic.span.end && diagnostic.span.end <= text.len());
            }
            lang::render("text", text, &diagnostics, false);
        }
        let variables: Variables =
            [("A", "{\"a\":[1,2,{\"b\":\"c\"}]}"), ("B", "25ms"), ("C", "-1e3")].into_iter().collect();
        let budget = Budget::new(200_000, 8 * 1024 * 1024);
        let scope = EvaluationScope {
            trace: None,
            span: None,
            selection: Some(&[]),
            variables: &variables,
            generator: Generator::in_utc(Timestamp::from_nanos(1_700_000_000_000_000_000), 1),
            aliases: true,
            budget: &budget,
        };
        let expression = lang::parse_expression(text);
        if expression.is_valid() {
            let printed = expression.tree.to_string();
            let again = lang::parse_expression(&printed);
            assert!(again.is_valid(), "{printed}");
            assert_eq!(again.tree, expression.tree, "{printed}");
            let _ = lang::evaluate(&expression.tree, &scope);
        }
        let assertion = lang::parse_assertion(text);
        if assertion.is_valid() {
            let printed = assertion.tree.to_string();
            let again = lang::parse_assertion(&printed);
            assert!(again.is_valid(), "{printed}");
            assert_eq!(again.tree, assertion.tree, "{printed}");
            judge::assert_once(&assertion, &scope);
        }
        let _ = lang::resolve_text(text, &variables, &mut scope.generator.clone(), &budget);
    });
});
