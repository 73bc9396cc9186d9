//! Fuzzes help while writing with any text and place: no panic, places inside the text, tokens in order that cover it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qualitytrace_core::assist::{Context, check, complete};
use qualitytrace_core::budget::Budget;
use qualitytrace_core::lang::Form;
use qualitytrace_fuzz::on_a_small_stack;

fuzz_target!(|input: (u16, &str)| {
    on_a_small_stack(|| {
        let (at, text) = (usize::from(input.0), input.1);
        let budget = Budget::default();
        let variables = ["X".to_owned()];
        let context = Context { trace: None, variables: &variables, budget: &budget };
        for form in [Form::Selector, Form::Assertion, Form::Expression, Form::Template] {
            for one in complete(text, at, form, &context) {
                assert!(text.get(one.replaces.clone()).is_some(), "{one:?}");
            }
            let mut end = 0;
            for token in check(text, form).tokens {
                assert!(end <= token.place.start && text.get(token.place.clone()).is_some(), "{token:?}");
                assert!(text[end..token.place.start].trim().is_empty(), "{token:?}");
                end = token.place.end;
            }
        }
    });
});
