//! The attacks.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use super::http::{self, Answer};
use super::{Attack, Outcome, Target};
use crate::try_eventually_blocking;

/// Timeout of one request within an attack.
pub(super) const LONGEST: Duration = Duration::from_mins(1);

/// All tables.
pub(super) const ALL: [&[Attack]; 5] = [&STRANGERS, &TEXTS, &MEMORY, &TRACES, &CROWDS];

pub(super) const fn attack(
    name: &'static str,
    seconds: u64,
    is_small: bool,
    run: fn(&Target) -> Outcome,
) -> Attack {
    Attack { name, limit: Duration::from_secs(seconds), is_small, run }
}

/// Cross-site requests, and unknown methods.
const STRANGERS: [Attack; 5] = [
    attack("cross-site POST", 5, false, |to| {
        let headers = [("origin", "http://evil.example"), ("content-type", "application/json")];
        expect(&to.send("POST", "/api/tests", &headers, b"{}", LONGEST)?, &[403])
    }),
    attack("cross-site form", 5, false, |to| {
        let headers = [("origin", "http://evil.example"), ("content-type", "text/plain")];
        expect(&to.send("POST", "/api/tests", &headers, b"{}", LONGEST)?, &[403, 415])
    }),
    attack("DNS rebinding", 5, false, |to| {
        expect(&to.send("GET", "/api/tests", &[("host", "evil.example")], b"", LONGEST)?, &[421])
    }),
    attack("cross-origin socket", 5, false, |to| {
        let headers = [
            ("origin", "http://evil.example"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ];
        expect(&to.send("GET", "/ws", &headers, b"", LONGEST)?, &[403])
    }),
    attack("2,100 invented methods", 30, false, |to| {
        for at in 0..2_100 {
            let answer = to.send(&format!("M{at}"), "/api/tests", &[], b"", LONGEST)?;
            expect(&answer, &[400, 404, 405, 501])?;
        }
        let metrics = to.get("/metrics", LONGEST)?;
        if metrics.bytes > 512 * 1024 {
            return Err(format!("/metrics has {} bytes", metrics.bytes));
        }
        Ok(format!("405, /metrics {} KiB", metrics.bytes / 1024))
    }),
];

/// Texts that are long, deep, or grow during evaluation.
const TEXTS: [Attack; 9] = [
    attack("5,000 terms", 5, false, |to| resolve(to, &format!("1{}", " + 1".repeat(5_000)))),
    attack("5,000 pipes", 5, false, |to| resolve(to, &format!("'a'{}", " | length".repeat(5_000)))),
    attack("20,000-part selector", 5, false, |to| {
        let selector = vec![r#"span[name=\"a\"]"#; 20_000].join(" ");
        answered(&to.post(
            "/api/tests",
            &test(&format!(r#""specs":[{{"selector":"{selector}"}}]"#)),
            LONGEST,
        )?)
    }),
    attack("100,000 nested brackets", 5, false, |to| {
        answered(&to.post("/api/tests", &"[".repeat(100_000), LONGEST)?)
    }),
    attack("1,000 nested messages", 10, false, |to| {
        let proto = format!("syntax='proto3'; {}{}", "message M {".repeat(1_000), "}".repeat(1_000));
        let grpc = format!(
            r#"{{"type":"Test","spec":{{"id":"proto","name":"proto","trigger":{{"type":"grpc","grpc":{{"protobufFile":"{proto}","address":"127.0.0.1:9","method":"a.B/C"}}}}}}}}"#
        );
        let stored = to.post("/api/tests", &grpc, LONGEST)?;
        if stored.status >= 400 {
            return answered(&stored);
        }
        answered(&to.post("/api/tests/proto/run", "{}", LONGEST)?)
    }),
    attack("json_path unions", 10, false, |to| {
        let path = vec!["*"; 2_000].join(",");
        resolve(to, &format!(r#"'{{"a":[1,2,3]}}' | json_path '$..[{path}]'"#))
    }),
    attack("100,000-element array", 10, false, |to| {
        resolve(to, &format!("[{}] contains 2", vec!["1"; 100_000].join(", ")))
    }),
    attack("ten paths over 14 MB", 30, false, |to| {
        let document = format!("[{}0]", "0,".repeat(7_000_000));
        resolve(to, &format!("'{document}'{}", " | json_path '$[*]'".repeat(10)))
    }),
    attack("ten million numbers", 30, false, |to| {
        answered(&to.post("/api/tests", &format!("[{}0]", "0,".repeat(10_000_000)), LONGEST)?)
    }),
];

/// More data than fits into memory, and clients that stop sending.
const MEMORY: [Attack; 3] = [
    attack("30 half-sent bodies", 60, true, |to| {
        let begin = |_| half_sent(to.address, "/api/tests").map_err(|error| error.to_string());
        let streams: Vec<TcpStream> = (0..30).map(begin).collect::<Result<_, _>>()?;
        let small = to.get("/api/tests?take=1", LONGEST)?;
        let answers: Vec<_> = thread::scope(|scope| {
            let readers: Vec<_> = streams
                .into_iter()
                .map(|mut stream| scope.spawn(move || http::answer(&mut stream, LONGEST)))
                .collect();
            readers.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        let refused =
            answers.iter().filter(|answer| matches!(answer, Ok(Ok(answer)) if answer.status >= 400));
        Ok(format!("{} for others, {} refused", answered(&small)?, refused.count()))
    }),
    attack("four run lists", 60, false, |to| {
        large_runs(to, 60)?;
        let lists: Vec<_> = thread::scope(|scope| {
            let readers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| to.get("/api/tests/large/run?take=1000", LONGEST))).collect();
            readers.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        let mut told = String::new();
        for list in lists {
            let list = list.map_err(|_| "a reader panicked")??;
            let _ = write!(told, "{} ", list.status);
        }
        Ok(told.trim_end().to_owned())
    }),
    attack("lists that the client does not read", 60, false, |to| {
        large_runs(to, 60)?;
        let mut streams = Vec::new();
        for _ in 0..20 {
            let begun = http::begin(to.address, "GET", "/api/tests/large/run?take=1000", &[], 0, LONGEST);
            streams.push(begun.map_err(|error| error.to_string())?);
        }
        // The server drops all of them: then it has memory for another request.
        let again = "there is memory for another request";
        try_eventually_blocking(Duration::from_secs(50), again, || {
            let list = to.get("/api/tests/large/run?take=20", LONGEST)?;
            if list.status == 200 { Ok("200 for others".to_owned()) } else { Err(list.status.to_string()) }
        })
    }),
];

/// Unusual traces.
const TRACES: [Attack; 3] = [
    attack("200,000-span chain", 120, false, |to| chain(to, 200_000)),
    attack("2,000-span chain", 60, true, |to| chain(to, 2_000)),
    attack("doubling outputs", 60, true, |to| {
        let trace = format!("{:032x}", 0xadd_ffff_u64);
        let headers = [("content-type", "application/x-protobuf")];
        expect(&to.send("POST", "/v1/traces", &headers, &request(&trace, 3), LONGEST)?, &[200])?;
        let output = |name: &str, value: &str| {
            format!(r#"{{"name":"{name}","selector":"span[name=\"s\"]:first","value":"{value}"}}"#)
        };
        let doubled = |at: usize| {
            let before = at - 1;
            output(&format!("o{at}"), &format!("'${{var:o{before}}}${{var:o{before}}}'"))
        };
        let outputs: Vec<String> =
            std::iter::once(output("o0", "'0123456789'")).chain((1..60).map(doubled)).collect();
        judged(to, "doubling", &trace, &format!(r#""outputs":[{}]"#, outputs.join(",")))
    }),
];

/// Many clients, and clients that disconnect.
const CROWDS: [Attack; 2] = [
    attack("disconnecting clients", 60, true, |to| {
        let numbers = vec!["1"; 100_000].join(",");
        let conditions = vec!["@ == 2"; 100].join(" || ");
        let body = format!(r#"{{"expression":"'[{numbers}]' | json_path '$[?({conditions})]'"}}"#);
        for _ in 0..20 {
            let headers = [("content-type", "application/json")];
            let path = "/api/expressions/resolve";
            let begun = http::begin(to.address, "POST", path, &headers, body.len(), LONGEST);
            let mut stream = begun.map_err(|error| error.to_string())?;
            stream.write_all(body.as_bytes()).map_err(|error| error.to_string())?;
        }
        resolve(to, "1 + 1")
    }),
    attack("ingest flooder", 60, true, |to| {
        let flood: Vec<TcpStream> = (0..40).map_while(|_| half_sent(to.address, "/v1/traces").ok()).collect();
        let small = to.get("/api/tests?take=1", LONGEST)?;
        drop(flood);
        let trace = format!("{:032x}", 0xadd_fffe_u64);
        let headers = [("content-type", "application/x-protobuf")];
        try_eventually_blocking(Duration::from_secs(30), "there is room for a sender again", || {
            let sent = to.send("POST", "/v1/traces", &headers, &request(&trace, 3), LONGEST)?;
            if sent.status == 200 { Ok(()) } else { Err(sent.status.to_string()) }
        })?;
        answered(&small)
    }),
];

/// Sends a chain of spans, reads it in every representation, judges it and reads the run.
fn chain(to: &Target, length: u64) -> Outcome {
    let trace = format!("{:032x}", 0xadd_0000_u64 + length);
    let body = request(&trace, length);
    let headers = [("content-type", "application/x-protobuf")];
    expect(&to.send("POST", "/v1/traces", &headers, &body, LONGEST)?, &[200])?;
    let mut told = String::new();
    for form in ["application/json", "application/vnd.otlp+json", "application/vnd.jaeger+json"] {
        let read = to.send("GET", &format!("/api/traces/{trace}"), &[("accept", form)], b"", LONGEST)?;
        let _ = write!(told, "{} ", read.status);
    }
    let id = format!("chain-{length}");
    let specs =
        r#""specs":[{"selector":"span[name=\"s\"] span[name=\"s\"]","assertions":["attr:name = \"s\""]}]"#;
    judged(to, &id, &trace, specs)?;
    for path in [format!("/api/tests/{id}/run/1"), format!("/api/tests/{id}/run/1/export")] {
        let read = to.get(&path, LONGEST)?;
        let _ = write!(told, "{} ", read.status);
    }
    Ok(told.trim_end().to_owned())
}

/// Judges a trace with a test that has these parts, and waits for the end of its run.
fn judged(to: &Target, id: &str, trace: &str, parts: &str) -> Outcome {
    let trigger = format!(r#"{{"type":"traceid","traceid":{{"id":"{trace}"}}}}"#);
    let definition =
        format!(r#"{{"type":"Test","spec":{{"id":"{id}","name":"{id}","trigger":{trigger},{parts}}}}}"#);
    let headers = [("content-type", "application/json")];
    expect(&to.send("PUT", "/api/tests", &headers, definition.as_bytes(), LONGEST)?, &[200, 201])?;
    expect(&to.post(&format!("/api/tests/{id}/run"), "{}", LONGEST)?, &[200])?;
    let runs = try_eventually_blocking(Duration::from_secs(100), "the run ends", || {
        let runs = to.get(&format!("/api/tests/{id}/run?take=1"), LONGEST)?;
        let has_ended = [r#""state":"FINISHED""#, "_FAILED\""].iter().any(|state| runs.text.contains(state));
        if has_ended || runs.status >= 400 { Ok(runs) } else { Err(runs.text) }
    });
    answered(&runs?)
}

/// An OTLP request in protobuf with a chain of spans.
pub(super) fn request(trace: &str, length: u64) -> Vec<u8> {
    let trace: Vec<u8> =
        (0..16).filter_map(|at| u8::from_str_radix(&trace[at * 2..at * 2 + 2], 16).ok()).collect();
    let mut spans = Vec::new();
    for at in 1..=length {
        let mut span = Vec::new();
        field(&mut span, 1, &trace);
        field(&mut span, 2, &at.to_be_bytes());
        if at > 1 {
            field(&mut span, 4, &(at - 1).to_be_bytes());
        }
        field(&mut span, 5, b"s");
        for (number, time) in [(7_u8, at), (8, at + length)] {
            span.push(number << 3 | 1);
            span.extend_from_slice(&(1_700_000_000_000_000_000 + time).to_le_bytes());
        }
        field(&mut spans, 2, &span);
    }
    let (mut resource, mut whole) = (Vec::new(), Vec::new());
    field(&mut resource, 2, &spans);
    field(&mut whole, 1, &resource);
    whole
}

/// Writes a length-delimited protobuf field.
pub(super) fn field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    let mut rest = bytes.len();
    while rest >= 0x80 {
        out.push(u8::try_from(rest & 0x7f).unwrap_or(0) | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap_or(0));
    out.extend_from_slice(bytes);
}

/// A connection on which most of a large body was sent.
pub(super) fn half_sent(to: SocketAddr, path: &str) -> std::io::Result<TcpStream> {
    let announced = 60 << 20;
    let mut stream =
        http::begin(to, "POST", path, &[("content-type", "application/json")], announced, LONGEST)?;
    // A server that refuses may stop reading.
    let piece = vec![b' '; 1 << 20];
    for _ in 0..announced / piece.len() - 1 {
        if stream.write_all(&piece).is_err() {
            break;
        }
    }
    Ok(stream)
}

/// Stores a test and runs that each have a variable of a mebibyte.
fn large_runs(to: &Target, count: usize) -> Result<(), String> {
    let definition = test(r#""id":"large""#);
    let stored = to.send(
        "PUT",
        "/api/tests",
        &[("content-type", "application/json")],
        definition.as_bytes(),
        LONGEST,
    )?;
    expect(&stored, &[200, 201])?;
    let run = format!(r#"{{"variables":[{{"key":"large","value":"{}"}}]}}"#, "x".repeat(1 << 20));
    for _ in 0..count {
        expect(&to.post("/api/tests/large/run", &run, LONGEST)?, &[200])?;
    }
    Ok(())
}

fn test(more: &str) -> String {
    let trigger = r#""trigger":{"type":"http","httpRequest":{"url":"http://127.0.0.1:9/"}}"#;
    format!(r#"{{"type":"Test","spec":{{"name":"a",{trigger},{more}}}}}"#)
}

fn resolve(to: &Target, expression: &str) -> Outcome {
    let escaped = expression.replace('\\', r"\\").replace('"', r#"\""#);
    answered(&to.post("/api/expressions/resolve", &format!(r#"{{"expression":"{escaped}"}}"#), LONGEST)?)
}

/// Accepts a success, a client error, or 503.
fn answered(answer: &Answer) -> Outcome {
    match answer.status {
        200..=299 | 400..=499 | 503 => Ok(answer.status.to_string()),
        other => Err(format!("answered with {other}")),
    }
}

pub(super) fn expect(answer: &Answer, statuses: &[u16]) -> Outcome {
    if statuses.contains(&answer.status) {
        return Ok(answer.status.to_string());
    }
    Err(format!("answered with {}, not {statuses:?}", answer.status))
}
