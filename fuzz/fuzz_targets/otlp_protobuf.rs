//! Fuzzes OTLP requests with any bytes: no panic, and each chunk that is split off is itself a valid request.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use qualitytrace_fuzz::on_a_small_stack;
use qualitytrace_server::receive::ingest::{Budget, Lease, Split};
use qualitytrace_server::receive::otlp::wire::{SplitError, split_logs, split_traces};

fuzz_target!(|input: &[u8]| {
    on_a_small_stack(|| {
        let body = Bytes::copy_from_slice(input);
        let mut lease = Budget::new(1 << 30).lease().expect("there is room");
        let split: [fn(&Bytes, &mut Lease) -> Result<Split, SplitError>; 2] = [split_traces, split_logs];
        for split in split {
            let Ok(whole) = split(&body, &mut lease) else { continue };
            for chunk in &whole.chunks {
                let again = split(&chunk.data, &mut lease).expect("a chunk is a request");
                assert_eq!(again.items(), u64::from(chunk.items));
            }
        }
    });
});
