//! Any text as the protocol of a gRPC trigger: no panic, and an answer on a small stack.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qualitytrace_fuzz::on_a_small_stack;
use qualitytrace_server::trigger::check_protocol;

fuzz_target!(|text: &str| {
    on_a_small_stack(|| {
        let _ = check_protocol(text);
    });
});
