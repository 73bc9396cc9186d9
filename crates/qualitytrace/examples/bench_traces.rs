//! Benchmark of large traces over the API of a real server: a JSON line for each request. `cargo xtask bench traces`;
//! `--smoke` takes small traces, `--live` measures followers only. With `--jaeger URL` (its query API) and `--jaeger-otlp URL` (its OTLP over HTTP), Jaeger
//! returns the same trace as JSON, too.

#![expect(clippy::print_stdout, reason = "a program that prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails is worth nothing")]

#[path = "../tests/late_spans_load/program.rs"]
#[expect(dead_code, reason = "tests and other measurements use the rest")]
mod program;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use program::{Served, beside};
use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::Client;
use serde::Deserialize;
use serde_json::{Value, json};

/// Spans in one request.
const BATCH: u64 = 500;
/// How often each request is measured; the median counts.
const ROUNDS: u64 = 5;
const SERVICES: u64 = 12;
const START: u64 = 1_700_000_000_000_000_000;

#[tokio::main]
async fn main() {
    // Another provider may be installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let is_smoke = arguments.iter().any(|argument| argument == "--smoke");
    let jaeger = named("--jaeger").zip(named("--jaeger-otlp"));
    let is_live = arguments.iter().any(|argument| argument == "--live");
    let sizes: &[u64] = match (is_smoke, is_live) {
        (_, true) => &[],
        (true, false) => &[1_000],
        (false, false) => &[50_000, 200_000],
    };
    let folder = tempfile::tempdir().unwrap();
    for spans in sizes {
        let database = format!("sqlite://{}", folder.path().join(format!("{spans}.db")).display());
        // A decoded trace of 200,000 spans does not fit into the default.
        let server = Served::start(&beside(), &database, &["--limits.apiBytes", "1GiB"]).await;
        let bench = Bench { client: Client::new(), url: server.url(""), spans: *spans };
        bench.requests(jaeger.as_ref()).await;
        println!(
            "{}",
            json!({ "note": format!("{} spans: RSS peak {} MiB", bench.spans, server.peak_mib()) })
        );
    }
    let database = format!("sqlite://{}", folder.path().join("live.db").display());
    let server = Served::start(&beside(), &database, &[]).await;
    let bench =
        Bench { client: Client::new(), url: server.url(""), spans: if is_smoke { 5_000 } else { 50_000 } };
    bench.live().await;
}

struct Bench {
    client: Client,
    url: String,
    spans: u64,
}

fn trace_id(number: u64) -> String {
    format!("{:032x}", u128::from(number) + (1 << 100))
}

/// A request of an exporter: spans `first..first + BATCH` of a trace, with ten attributes each.
fn batch(trace: u64, first: u64, last: u64) -> Vec<u8> {
    let text = |key: &str, value: String| json!({ "key": key, "value": { "stringValue": value } });
    let span = |at: u64| {
        let start = START + at * 1_000;
        let mut attributes: Vec<Value> = (0..7)
            .map(|key| text(&format!("app.attribute.{key}"), format!("value {} of {key}", at % 50)))
            .collect();
        attributes.push(text("http.route", format!("/items/{}", at % 20)));
        attributes.push(text("request.id", format!("{at:032x}")));
        attributes.push(json!({ "key": "http.response.status_code", "value": { "intValue": (200 + at % 3).to_string() } }));
        json!({
            "traceId": trace_id(trace), "spanId": format!("{:016x}", at + 1), "kind": 2,
            "parentSpanId": if at == 0 { String::new() } else { format!("{:016x}", at.div_ceil(4)) },
            "name": format!("GET /items/{}", at % 20), "startTimeUnixNano": start.to_string(),
            "endTimeUnixNano": (start + 5_000_000).to_string(), "attributes": attributes,
        })
    };
    let of_services = (0..SERVICES).map(|service| {
        let own = (first..last).filter(|at| at % SERVICES == service).map(span);
        json!({
            "resource": { "attributes": [text("service.name", format!("service-{service}"))] },
            "scopeSpans": [{ "spans": own.collect::<Vec<_>>() }],
        })
    });
    json!({ "resourceSpans": of_services.collect::<Vec<_>>() }).to_string().into_bytes()
}

impl Bench {
    async fn deliver(&self, url: &str, batch: Vec<u8>) {
        let request = self.client.post(format!("{url}/v1/traces")).header("content-type", "application/json");
        let got = request.body(batch).send().await.unwrap();
        assert!(got.status().is_success(), "{}", got.text().await.unwrap());
    }

    async fn deliver_all(&self, url: &str, trace: u64) {
        for first in (0..self.spans).step_by(usize::try_from(BATCH).unwrap()) {
            self.deliver(url, batch(trace, first, (first + BATCH).min(self.spans))).await;
        }
    }

    /// Sends a request and returns the milliseconds that it took, and the size of the response.
    async fn time(&self, request: reqwest::RequestBuilder) -> (f64, usize) {
        let began = Instant::now();
        let got = request.send().await.unwrap();
        let status = got.status();
        let body = got.bytes().await.unwrap();
        let took = began.elapsed().as_secs_f64() * 1e3;
        assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body[..body.len().min(500)]));
        (took, body.len())
    }

    /// Measures a request, which is made for each round, and prints the median.
    async fn measure(&self, name: &str, goal: Option<f64>, make: impl Fn(u64) -> reqwest::RequestBuilder) {
        let mut times = Vec::new();
        for round in 1..=ROUNDS {
            times.push(self.time(make(round)).await);
        }
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (median, bytes) = times[times.len() / 2];
        println!(
            "{}",
            json!({
                "request": name, "spans": self.spans, "ms": tenths(median), "goal ms": goal,
                "MB": tenths(f64::from(u32::try_from(bytes).unwrap()) / 1e6),
            })
        );
    }

    async fn requests(&self, jaeger: Option<&(String, String)>) {
        for trace in 1..=ROUNDS {
            self.deliver_all(&self.url, trace).await;
        }
        let by = if self.spans > 50_000 { 5.0 } else { 1.0 };
        let goal = |ms: f64| Some(ms * by);
        let of = |round: u64, rest: &str| format!("{}/api/traces/{}{rest}", self.url, trace_id(round));
        let get = |url: String| self.client.get(url);
        self.measure("columns, cold", goal(200.0), |round| get(of(round, "/columns"))).await;
        self.measure("columns, again", None, |_| get(of(ROUNDS, "/columns"))).await;
        let from = self.spans - 100;
        self.measure("columns, the last 100", goal(20.0), |_| {
            get(of(ROUNDS, &format!("/columns?from={from}")))
        })
        .await;
        let middle = format!("{:016x}", self.spans / 2);
        self.measure("one span in full", goal(10.0), |_| get(of(ROUNDS, &format!("/spans/{middle}")))).await;
        let post = |round: u64, rest: &str, body: &Value| self.client.post(of(round, rest)).json(body);
        let selector =
            json!({ "query": r#"span[service.name = "service-3" http.route contains "/items/1"]"# });
        self.measure("select, cold", None, |round| post(round, "/select", &selector)).await;
        self.measure("select, decoded", goal(80.0), |_| post(ROUNDS, "/select", &selector)).await;
        let near = json!({ "query": r#"span[service.name = "service-33" http.route = "/item/1"]"# });
        self.measure("select nothing, with the nearest", None, |_| post(ROUNDS, "/select", &near)).await;
        let spec = |number: u64| {
            json!({
                "selector": format!(r#"span[service.name = "service-{}" http.route = "/items/{number}"]"#, number % SERVICES),
                "assertions": ["attr:http.response.status_code >= 200", "attr:tracetest.span.duration < 1s"],
            })
        };
        let trial = json!({ "specs": (0..20).map(spec).collect::<Vec<_>>() });
        self.measure("dry run of 20 specs", goal(150.0), |_| post(ROUNDS, "/dry-run", &trial)).await;
        let clicked = json!({ "spanId": middle });
        self.measure("describe a span", None, |_| post(ROUNDS, "/describe", &clicked)).await;
        let typed = "span[service.name=";
        self.measure("complete a value", None, |_| {
            let body =
                json!({ "text": typed, "at": typed.len(), "in": "selector", "traceId": trace_id(ROUNDS) });
            self.client.post(format!("{}/api/language/complete", self.url)).json(&body)
        })
        .await;
        self.measure("the trace as JSON", None, |_| get(of(ROUNDS, ""))).await;
        let accepting = |form: &'static str| move |_| get(of(ROUNDS, "")).header("accept", form);
        self.measure("as OTLP JSON", None, accepting("application/vnd.otlp+json")).await;
        self.measure("as Jaeger JSON", None, accepting("application/vnd.jaeger+json")).await;
        if let Some((query, otlp)) = jaeger {
            // One Jaeger has the traces of all sizes: each has an id of its own.
            self.deliver_all(otlp, self.spans).await;
            let url = format!("{query}/api/traces/{}", trace_id(self.spans));
            eventually(DEADLINE, "Jaeger has the trace", async || {
                self.client.get(&url).send().await.is_ok_and(|got| got.status().is_success())
            })
            .await;
            self.measure("Jaeger's own JSON", None, |_| get(url.clone())).await;
        }
    }

    /// Delivers spans at 5,000 a second, alone and while 100 clients follow the trace.
    async fn live(&self) {
        for (trace, followers) in [(1, 0), (2, 100), (3, 0), (4, 100)] {
            let is_over = Arc::new(AtomicBool::new(false));
            let reads = Arc::new(AtomicU64::new(0));
            let following: Vec<_> = (0..followers)
                .map(|_| {
                    tokio::spawn(follow(self.url.clone(), trace, Arc::clone(&is_over), Arc::clone(&reads)))
                })
                .collect();
            // Made beforehand: the sender shares the machine with the server.
            let batches: Vec<_> = (0..self.spans)
                .step_by(usize::try_from(BATCH).unwrap())
                .map(|first| batch(trace, first, first + BATCH))
                .collect();
            let (began, mut longest, mut waited) = (Instant::now(), Duration::ZERO, Duration::ZERO);
            for (number, batch) in batches.into_iter().enumerate() {
                let due = began + Duration::from_millis(100) * u32::try_from(number).unwrap();
                tokio::time::sleep_until(due.into()).await;
                let sent = Instant::now();
                self.deliver(&self.url, batch).await;
                longest = longest.max(sent.elapsed());
                waited += sent.elapsed();
            }
            let took = began.elapsed().as_secs_f64();
            is_over.store(true, Ordering::Relaxed);
            for follower in following {
                follower.await.unwrap();
            }
            let requests = u32::try_from(self.spans / BATCH).unwrap();
            let mean = (waited / requests).as_secs_f64() * 1e3;
            let name = format!("delivery at 5,000 spans/s, {followers} followers");
            println!(
                "{}",
                json!({ "request": name, "spans": self.spans, "ms": tenths(mean), "goal ms": null, "MB": null })
            );
            let rate = (f64::from(u32::try_from(self.spans).unwrap()) / took).round();
            let reads = reads.load(Ordering::Relaxed);
            let longest = tenths(longest.as_secs_f64() * 1e3);
            let note = format!(
                "{name}: {rate} spans/s, the longest delivery {longest} ms, {reads} reads by followers"
            );
            println!("{}", json!({ "note": note }));
        }
    }
}

/// How far a follower has read.
#[derive(Deserialize)]
struct Position {
    total: u64,
    revision: String,
}

/// Reads what is new of a trace ten times a second.
async fn follow(url: String, trace: u64, is_over: Arc<AtomicBool>, reads: Arc<AtomicU64>) {
    let client = Client::new();
    let (mut rows, mut revision) = (0, "0".to_owned());
    while !is_over.load(Ordering::Relaxed) {
        let path = format!("{url}/api/traces/{}/columns?from={rows}&revision={revision}", trace_id(trace));
        let got = client.get(path).send().await.unwrap();
        if got.status().is_success() {
            // The rows are not looked at: a client has its own processor.
            let position: Position = serde_json::from_slice(&got.bytes().await.unwrap()).unwrap();
            (rows, revision) = (position.total, position.revision);
            reads.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
