//! Benchmark of recording a span, beside the OpenTelemetry SDK's batch processor in the same run.
//!
//! `cargo run --release -p qualitytrace-telemetry --example bench_telemetry` prints one JSON object a figure.
//! The receiver is a child process, so that its work is not counted as ours.

#![expect(clippy::print_stdout, reason = "the result is what it prints")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run must stop")]
#![expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{BatchSpanProcessor, SdkTracerProvider, SpanData, SpanExporter},
};
use qualitytrace_telemetry::{
    Telemetry,
    config::{Config, Signal, Sink, Transport},
};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt as _;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("receiver") {
        return receive();
    }
    let (receiver, url) = start_receiver();
    let folder = std::env::temp_dir().join(format!("bench-telemetry-{}", std::process::id()));
    let mut starts = [(url.as_str(), Vec::new()), ("http://127.0.0.1:1", Vec::new())];
    for _ in 0..20 {
        for (url, times) in &mut starts {
            let before = Instant::now();
            let telemetry = start(&folder, url);
            times.push(before.elapsed().as_nanos() as f64 / 1_000.0);
            telemetry.shutdown(Duration::ZERO);
        }
    }
    let [up, down] = starts.map(|(_, mut times)| median(&mut times));
    let telemetry = start(&folder, &url);
    let provider = SdkTracerProvider::builder()
        .with_span_processor(BatchSpanProcessor::builder(Discard).build())
        .build();
    let ours = tracing::Dispatch::new(tracing_subscriber::registry().with(telemetry.layer()));
    let sdk_layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("bench"));
    let sdk = tracing::Dispatch::new(tracing_subscriber::registry().with(sdk_layer));

    let (mut our_costs, mut sdk_costs) = (Vec::new(), Vec::new());
    // Alternating, so that other load on the machine falls on both.
    for round in 0..400 {
        let a = tracing::dispatcher::with_default(&ours, burst);
        let b = tracing::dispatcher::with_default(&sdk, burst);
        if round >= 40 {
            our_costs.push(a);
            sdk_costs.push(b);
        }
    }
    let latencies = tracing::dispatcher::with_default(&ours, || paced(10_000, Duration::from_secs(10)));
    let sdk_latencies = tracing::dispatcher::with_default(&sdk, || paced(10_000, Duration::from_secs(10)));
    let arithmetic = as_long_as(median(&mut latencies.clone()));
    let noise = paced_by(10_000, Duration::from_secs(10), |_| arithmetic());
    let idle = cpu_of(|| paced_asleep(1_000, Duration::from_secs(10), false));
    let cpu_at_work = |dispatch: &tracing::Dispatch| {
        let work = || paced_asleep(1_000, Duration::from_secs(10), true);
        (cpu_of(|| tracing::dispatcher::with_default(dispatch, work)) - idle) * 100.0 / 10.0
    };
    let cpu = [cpu_at_work(&ours), cpu_at_work(&sdk)];
    let flushed = telemetry.flush(Duration::from_secs(30));
    let status = telemetry.shutdown(Duration::from_secs(5));
    let balance = status.sinks[0].ledger[&Signal::Traces];
    let _ = provider.shutdown();
    stop_receiver(receiver);
    let _ = std::fs::remove_dir_all(&folder);

    row("call site, ns per span", median(&mut our_costs), median(&mut sdk_costs), &json!(""), "not slower");
    let [ours, sdk, noise] = [latencies, sdk_latencies, noise].map(sorted);
    for (name, per_mille, wanted) in
        [("p50", 500, ""), ("p99", 990, ""), ("p99.9", 999, "under 10,000"), ("max", 1_000, "")]
    {
        let figure = format!("emission at 10k spans/s, {name}, ns");
        row(&figure, at(&ours, per_mille), at(&sdk, per_mille), &json!(at(&noise, per_mille)), wanted);
    }
    row("processor at 1k spans/s, % of a core", tenths(cpu[0]), tenths(cpu[1]), &json!(""), "under 2");
    row("start with the receiver up, us", up, "", &json!(""), "");
    row("start with the receiver down, us", down, "", &json!(""), "as with it up");
    let all_there = flushed && balance.exported == balance.created;
    row("everything delivered", all_there, "not asked", &json!(""), "true");
}

/// Prints one line of the result: ours; the SDK's batch processor with an exporter that discards; and arithmetic that
/// takes as long as our median, which shows what the machine itself adds.
fn row(figure: &str, ours: impl Into<Value>, sdk: impl Into<Value>, noise: &Value, wanted: &str) {
    let (ours, sdk) = (ours.into(), sdk.into());
    println!(
        "{}",
        json!({ "figure": figure, "ours": ours, "sdk batch": sdk, "arithmetic": noise, "wanted": wanted })
    );
}

/// Arithmetic that takes about this many nanoseconds.
fn as_long_as(nanos: f64) -> impl Fn() {
    let turns = |count: u64| {
        for n in 0..count {
            std::hint::black_box(n.wrapping_mul(6_364_136_223_846_793_005));
        }
    };
    let probe = 10_000_000;
    let started = Instant::now();
    turns(probe);
    let each = started.elapsed().as_nanos() as f64 / probe as f64;
    let count = (1..probe).find(|count| *count as f64 * each >= nanos).unwrap_or(probe);
    move || turns(count)
}

fn span(n: u64) {
    let span = tracing::info_span!(
        "GET /api/tests/{id}",
        otel.kind = "server",
        http.request.method = "GET",
        http.route = "/api/tests/{id}",
        http.response.status_code = 200,
        n
    );
    drop(span.entered());
}

/// Nanoseconds per span in a burst that fits every queue; then a pause to empty it.
fn burst() -> f64 {
    const SPANS: u32 = 500;
    let started = Instant::now();
    for n in 0..u64::from(SPANS) {
        span(n);
    }
    let cost = started.elapsed().as_nanos() as f64 / f64::from(SPANS);
    thread::sleep(Duration::from_millis(8));
    cost
}

/// The time of each span at a steady rate; the thread never sleeps.
fn paced(rate: u64, length: Duration) -> Vec<f64> {
    paced_by(rate, length, span)
}

fn paced_by(rate: u64, length: Duration, act: impl Fn(u64)) -> Vec<f64> {
    let started = Instant::now();
    let mut times = Vec::new();
    let mut n = 0;
    while started.elapsed() < length {
        let due = started + Duration::from_nanos(n * 1_000_000_000 / rate);
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        let before = Instant::now();
        act(n);
        times.push(before.elapsed().as_nanos() as f64);
        n += 1;
    }
    times
}

/// The same rate, ten spans at a time, sleeping in between.
fn paced_asleep(rate: u64, length: Duration, emit: bool) {
    let started = Instant::now();
    let mut n = 0;
    while started.elapsed() < length {
        let due = started + Duration::from_nanos(n * 1_000_000_000 / rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        for n in n..n + 10 {
            if emit {
                span(n);
            }
        }
        n += 10;
    }
}

/// CPU seconds of this process.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn cpu_of(work: impl FnOnce()) -> f64 {
    let before = cpu();
    work();
    cpu() - before
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2].round()
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn at(sorted: &[f64], per_mille: usize) -> f64 {
    sorted[(sorted.len() - 1) * per_mille / 1_000]
}

fn start(folder: &std::path::Path, url: &str) -> Telemetry {
    let mut sink = Sink::new("bench", Transport::Http);
    sink.endpoints.insert(Signal::Traces, format!("{url}/v1/traces"));
    let mut config = Config::new("bench");
    config.spool_path = Some(folder.to_owned());
    config.sinks.push(sink);
    Telemetry::start(config).unwrap()
}

/// An exporter that discards every batch.
#[derive(Debug)]
struct Discard;

impl SpanExporter for Discard {
    async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
        Ok(())
    }
}

fn start_receiver() -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("receiver")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, format!("http://{}", line.trim()))
}

fn stop_receiver(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A minimal HTTP server that accepts everything: enough for one client with persistent connections.
fn receive() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        thread::spawn(move || {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            loop {
                let mut length = 0;
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = text.trim().parse().unwrap();
                    }
                    if line == "\r\n" {
                        break;
                    }
                }
                std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).unwrap();
                let answer =
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
                if stream.write_all(answer).is_err() {
                    return;
                }
            }
        });
    }
}
