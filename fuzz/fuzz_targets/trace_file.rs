//! Fuzzes trace files with any bytes: no panic, every span that is read has a valid trace id, and what is read can be
//! stored.

#![no_main]

use libfuzzer_sys::fuzz_target;
use qualitytrace_fuzz::on_a_small_stack;
use qualitytrace_server::receive::ingest::Budget;
use qualitytrace_server::receive::otlp::wire::split_traces;
use qualitytrace_server::receive::trace_files::{Format, read};

fuzz_target!(|input: &[u8]| {
    on_a_small_stack(|| {
        for format in Format::ALL.map(Some).into_iter().chain([None]) {
            let Ok(file) = read(input, format) else { continue };
            let spans: u64 = file.traces().iter().map(|(_, spans)| spans).sum();
            let mut lease = Budget::new(1 << 30).lease().expect("there is room");
            let split = split_traces(&file.into_message(), &mut lease).expect("it is a request");
            assert_eq!((split.items(), split.without_trace), (spans, 0));
        }
    });
});
