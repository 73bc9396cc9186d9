//! OTLP requests that are small when they arrive and large once they are split or decoded.

use super::cases::{LONGEST, attack, expect, field};
use super::{Attack, Outcome, Target};

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// All attacks. A server with its default limits takes them without growing, or refuses them.
pub(super) const ALL: [Attack; 8] = [
    attack("20,000 scopes of a large resource", 10, false, |to| {
        send(to, "traces", PROTOBUF, &resource(1 << 20, &EMPTY_SCOPE.repeat(20_000)), 200)
    }),
    attack("20,000,000 empty scopes", 30, false, |to| {
        send(to, "traces", PROTOBUF, &resource(1, &EMPTY_SCOPE.repeat(20_000_000)), 200)
    }),
    attack("200 traces of a large resource", 10, true, |to| {
        send(to, "traces", PROTOBUF, &resource(1 << 20, &of_field(2, &spans(200))), 413)
    }),
    attack("300,000 traces of a span each", 30, false, |to| {
        send(to, "traces", PROTOBUF, &resource(1, &of_field(2, &spans(300_000))), 413)
    }),
    attack("300,000 empty spans in JSON", 10, true, |to| {
        let spans = vec!["{}"; 300_000].join(",");
        let body = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#);
        send(to, "traces", JSON, body.as_bytes(), 413)
    }),
    attack("a million numbers beside spans", 10, true, |to| {
        let body = format!(r#"{{"resource_spans":[],"x":[{}0]}}"#, "0,".repeat(1_000_000));
        send(to, "traces", JSON, body.as_bytes(), 413)
    }),
    attack("20,000,000 empty data points", 30, false, |to| {
        let histogram = of_field(9, &EMPTY_POINT.repeat(20_000_000));
        send(to, "metrics", PROTOBUF, &resource(1, &of_field(2, &of_field(2, &histogram))), 200)
    }),
    attack("300,000 empty data points in JSON", 10, true, |to| {
        let metric = format!(r#"{{"histogram":{{"dataPoints":[{}]}}}}"#, vec!["{}"; 300_000].join(","));
        let body = format!(r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metric}]}}]}}]}}"#);
        send(to, "metrics", JSON, body.as_bytes(), 413)
    }),
];

/// `ScopeSpans` in field 2, and a data point in field 1, without content.
const EMPTY_SCOPE: [u8; 2] = [2 << 3 | 2, 0];
const EMPTY_POINT: [u8; 2] = [1 << 3 | 2, 0];

fn send(to: &Target, signal: &str, content_type: &str, body: &[u8], status: u16) -> Outcome {
    let headers = [("content-type", content_type)];
    expect(&to.send("POST", &format!("/v1/{signal}"), &headers, body, LONGEST)?, &[status])
}

/// A request with one resource, which has an attribute of this size, and these encoded scopes.
fn resource(attribute: usize, scopes: &[u8]) -> Vec<u8> {
    let value = of_field(1, &vec![b'x'; attribute]);
    let pair = [of_field(1, b"a"), of_field(2, &value)].concat();
    let mut list = of_field(1, &of_field(1, &pair));
    list.extend_from_slice(scopes);
    of_field(1, &list)
}

/// Encoded spans, each of another trace.
fn spans(count: u128) -> Vec<u8> {
    (1..=count).flat_map(|trace| of_field(2, &of_field(1, &trace.to_be_bytes()))).collect()
}

fn of_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    field(&mut out, number, bytes);
    out
}
