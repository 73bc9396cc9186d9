//! Fuzzes imports with any text: no panic, and every definition can be used.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qualitytrace_core::budget::Budget;
use qualitytrace_core::definition::{Format, read};
use qualitytrace_core::import::{Tool, import};
use qualitytrace_fuzz::on_a_small_stack;

fuzz_target!(|text: &str| {
    on_a_small_stack(|| {
        let tools = [Tool::Curl, Tool::Har, Tool::Postman, Tool::Openapi, Tool::Hurl].map(Some);
        for tool in tools.into_iter().chain([None]) {
            let Ok(found) = import(tool, text, &Budget::default()) else { continue };
            for definition in &found.definitions {
                assert!(read(&definition.text, Format::Yaml).is_usable(false), "{}", definition.text);
            }
        }
    });
});
