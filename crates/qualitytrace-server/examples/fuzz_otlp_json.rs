//! Fuzzer for the OTLP JSON decoder: it must not panic, and everything that it accepts can be split and decoded again.
//!
//! `cargo run -p qualitytrace-server --example fuzz_otlp_json -- SECONDS [SEED]`

#![expect(clippy::print_stdout, reason = "the count is what it is run for")]

use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use qualitytrace_server::receive::ingest::Budget;
use qualitytrace_server::receive::otlp::{json, wire};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The texts that mutations start from, and those that they splice in.
const SEEDS: [&str; 3] = [
    r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"api"}}]},"scopeSpans":[{"scope":{"name":"lib","version":"1"},"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"","name":"r","kind":2,"startTimeUnixNano":"1700000000000000000","endTimeUnixNano":1700000000025000000,"attributes":[{"key":"d","value":{"doubleValue":0.5}},{"key":"l","value":{"arrayValue":{"values":[{"intValue":"1"},{"boolValue":true}]}}},{"key":"o","value":{"kvlistValue":{"values":[{"key":"x","value":{"bytesValue":"AQID"}}]}}}],"events":[{"name":"e","timeUnixNano":"1","attributes":[]}],"links":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174"}],"status":{"code":2,"message":"bad"}}]}]}]}"#,
    r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"W47/95gDgQPSabYzgT/GDA==","spanId":"7uGbfsPBsXQ=","kind":"SPAN_KIND_SERVER","attributes":null}]}]}]}"#,
    "{}",
];
const PIECES: [&str; 14] = [
    "null",
    "{}",
    "[",
    "]",
    "\"",
    "\\u0000",
    "\\ud800",
    "1e999",
    "-1",
    "18446744073709551616",
    "true",
    ",",
    ":",
    "é",
];

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let time = Duration::from_secs(arguments.next().unwrap_or(10));
    let mut random = StdRng::seed_from_u64(arguments.next().unwrap_or(1));
    let began = Instant::now();
    let (mut executions, mut accepted) = (0_u64, 0_u64);
    while began.elapsed() < time {
        for _ in 0..1_000 {
            accepted += u64::from(survives(&mutated(&mut random)));
            executions += 1;
        }
    }
    println!("{executions} executions in {} s, {accepted} accepted, no panic", began.elapsed().as_secs());
}

fn mutated(random: &mut StdRng) -> Vec<u8> {
    let mut text = SEEDS[random.random_range(0..SEEDS.len())].as_bytes().to_vec();
    for _ in 0..random.random_range(1..6) {
        let at = random.random_range(0..=text.len());
        let until = (at + random.random_range(0..12)).min(text.len());
        match random.random_range(0..4) {
            0 => drop(text.drain(at..until)),
            1 => drop(text.splice(at..until, PIECES[random.random_range(0..PIECES.len())].bytes())),
            2 => {
                let copy: Vec<u8> = text[at..until].to_vec();
                drop(text.splice(at..at, copy));
            }
            _ => {
                if let Some(byte) = text.get_mut(at) {
                    *byte = random.random();
                }
            }
        }
    }
    text
}

/// Whether the decoder accepts the text; its result must then be decodable.
fn survives(text: &[u8]) -> bool {
    let Ok(request) = json::decode::<ExportTraceServiceRequest>(text) else { return false };
    let mut lease = Budget::new(1 << 30).lease().expect("there is room");
    let split = wire::split_traces(&request.encode_to_vec().into(), &mut lease);
    let split = split.expect("what was encoded can be split");
    for chunk in split.chunks {
        ExportTraceServiceRequest::decode(chunk.data).expect("a chunk is a request");
    }
    true
}
