//! Fuzzes the protobuf definitions of gRPC triggers with any text: no panic, and a result on a small stack.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qualitytrace_fuzz::on_a_small_stack;
use qualitytrace_server::outbound::trigger::check_protocol;

fuzz_target!(|text: &str| {
    on_a_small_stack(|| {
        let _ = check_protocol(text);
    });
});
