//! Fuzzes the printer: what parses is printed so that it parses to the same tree, and prints the same again.

#![no_main]

use std::fmt::Display;

use libfuzzer_sys::fuzz_target;
use qualitytrace_core::lang::{self, Parsed};
use qualitytrace_fuzz::on_a_small_stack;

fn check<T: Display + PartialEq>(text: &str, parse: fn(&str) -> Parsed<T>) {
    let parsed = parse(text);
    if parsed.is_valid() {
        let printed = parsed.tree.to_string();
        let again = parse(&printed);
        assert!(again.is_valid(), "{printed}");
        assert!(again.tree == parsed.tree, "{printed}");
        assert_eq!(again.tree.to_string(), printed);
    }
}

fuzz_target!(|text: &str| {
    on_a_small_stack(|| {
        check(text, lang::parse_selector);
        check(text, lang::parse_assertion);
        check(text, lang::parse_expression);
        let quoted = lang::parse_expression(&lang::quote(text));
        assert!(quoted.is_valid(), "{text}");
        let selected = format!("span[a = {}]", lang::quote_in_selector(text));
        assert!(lang::parse_selector(&selected).is_valid(), "{selected}");
    });
});
