//! The server's own telemetry when it is sent to the server itself, and its status when a receiver refuses it.

use std::time::{Duration, Instant};

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::Client;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;

use crate::late_spans_load::program::Served;
use crate::program;

/// Polling interval. It is long because each poll is a request, of which some is recorded.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Spans and log lines of one poll at the level `trace`.
const RECORDED_OF_A_LOOK: u64 = 30;

/// A free port.
async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

async fn status(client: &Client, server: &Served) -> Value {
    client.get(server.url("/api/telemetry/status")).send().await.unwrap().json().await.unwrap()
}

/// Waits until a sum over all sinks is reached; returns that status.
async fn until(client: &Client, server: &Served, sum: impl Fn(&Value) -> u64, least: u64) -> Value {
    let mut poll = tokio::time::interval(LOOK_AGAIN);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    eventually(DEADLINE, format!("{least} is reached"), async || {
        poll.tick().await;
        let status = status(client, server).await;
        if sum(&status) >= least { Ok(status) } else { Err(format!("{status:#}")) }
    })
    .await
}

fn sinks(status: &Value) -> Vec<Value> {
    status["sinks"].as_array().unwrap().clone()
}

fn delivered(status: &Value) -> u64 {
    sinks(status).iter().map(|sink| sink["health"]["requests"].as_u64().unwrap()).sum()
}

/// Spans and log records that were made for any sink, taken or not.
fn recorded(status: &Value) -> u64 {
    let of = |sink: &Value, signal: &str| sink["ledger"][signal]["created"].as_u64().unwrap_or(0);
    sinks(status).iter().map(|sink| of(sink, "traces") + of(sink, "logs")).sum()
}

/// Starts a server that sends everything to itself; nothing is recorded of what it receives.
async fn feeds_itself(config: impl Fn(u16) -> String, declarative: bool, arguments: &[&str], requests: u64) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let (http, otlp) = (free_port().await, free_port().await);
    let file = folder.path().join(if declarative { "otel.yaml" } else { "server.yaml" });
    let target = if arguments.contains(&"off") { http } else { otlp };
    std::fs::write(&file, config(target)).unwrap();
    let (path, port, data) =
        (file.to_str().unwrap(), http.to_string(), folder.path().join("data").display().to_string());
    let address = format!("127.0.0.1:{otlp}");
    let mut all = vec!["--server.httpPort", &port, "--database-url", "sqlite::memory:", "--data-dir", &data];
    let otlp_arguments: Vec<&str> =
        arguments.iter().map(|argument| if *argument == "OTLP" { &address } else { *argument }).collect();
    all.extend(&otlp_arguments);
    let variables = if declarative { vec![("OTEL_CONFIG_FILE", path)] } else { Vec::new() };
    if !declarative {
        all.extend(["--config", path]);
    }
    let server = Served::start_in(program(), &variables, &all).await;
    let client = crate::client();
    // It is working, and the effects of the start are over.
    let before = until(&client, &server, delivered, 10).await;
    let idle = Instant::now();
    let sent = delivered(&before);
    let after = until(&client, &server, delivered, sent + requests).await;
    let looks = u64::try_from(idle.elapsed().as_millis() / LOOK_AGAIN.as_millis()).unwrap() + 1;
    let more = recorded(&after) - recorded(&before);
    let received = delivered(&after) - sent;
    assert!(
        more < looks * RECORDED_OF_A_LOOK,
        "{more} spans and logs were recorded while it received {received} requests of its own and was looked at {looks} \
         times: {after:#}"
    );
}

/// Everything at the level `trace`, transport crates included.
fn everything(transport: &str, port: u16) -> String {
    format!(
        "tracer:\n  a:\n    type: open-telemetry\n    transport: {transport}\n    endpoint: 'http://127.0.0.1:{port}'\n    \
         level: trace\n    throttle: 1ms\n    interval: 20ms\n    enable.log-exporter: true\n    \
         enable.metric-exporter: true\n    targets: [h2=trace, hyper=trace, hyper_util=trace, tower=trace]\n"
    )
}

#[tokio::test]
async fn a_server_that_sends_to_its_main_port_does_not_feed_itself() {
    let off = ["--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];
    for transport in ["grpc", "http"] {
        feeds_itself(|port| everything(transport, port), false, &off, 100).await;
    }
}

#[tokio::test]
async fn a_server_that_sends_to_its_otlp_port_does_not_feed_itself() {
    let grpc = ["--otlp-grpc-addr", "OTLP", "--otlp-http-addr", "127.0.0.1:0"];
    feeds_itself(|port| everything("grpc", port), false, &grpc, 100).await;
    let http = ["--otlp-grpc-addr", "127.0.0.1:0", "--otlp-http-addr", "OTLP"];
    feeds_itself(|port| everything("http", port), false, &http, 100).await;
}

#[tokio::test]
async fn a_declarative_file_does_not_make_a_server_feed_itself() {
    let text = |port: u16| {
        format!(
            "file_format: '1.1'\n\
             tracer_provider: {{processors: [{{batch: {{schedule_delay: 1, exporter: {{otlp_grpc: {{endpoint: 'http://127.0.0.1:{port}'}}}}}}}}]}}\n\
             logger_provider: {{processors: [{{batch: {{schedule_delay: 1, exporter: {{otlp_grpc: {{endpoint: 'http://127.0.0.1:{port}'}}}}}}}}]}}\n\
             meter_provider: {{readers: [{{periodic: {{interval: 20, exporter: {{otlp_grpc: {{endpoint: 'http://127.0.0.1:{port}'}}}}}}}}]}}\n"
        )
    };
    feeds_itself(text, true, &["--otlp-grpc-addr", "off", "--otlp-http-addr", "off"], 20).await;
}

/// Answers every request with 401.
async fn refuse(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut bytes = vec![0; 65_536];
            while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {
                let answer = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 6\r\n\r\ndenied";
                if stream.write_all(answer).await.is_err() {
                    return;
                }
            }
        });
    }
}

#[tokio::test]
async fn refusals_and_losses_are_lines_in_the_log_and_failures_in_the_status() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let receiver = listener.local_addr().unwrap();
    tokio::spawn(refuse(listener));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.yaml");
    let tracer = format!(
        "tracer: {{a: {{type: open-telemetry, transport: http, endpoint: 'http://{receiver}', throttle: 1ms}}}}\n"
    );
    std::fs::write(&file, tracer).unwrap();
    let data = folder.path().join("data");
    // A file blocks the folder of the spools.
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("telemetry"), "in the way").unwrap();
    let arguments = ["--config", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
    let mut server = Served::start(program(), "sqlite::memory:", &arguments).await;
    let client = crate::client();
    for _ in 0..20 {
        client.get(server.url("/api/tests")).send().await.unwrap();
    }
    let refused = |status: &Value| status["sinks"][0]["health"]["refused_requests"].as_u64().unwrap();
    let status = until(&client, &server, refused, 1).await;
    assert!(status["sinks"][0]["health"]["failures"].as_u64().unwrap() > 0, "{status:#}");
    let problems = status["sinks"][0]["problems"].to_string();
    for part in ["401", "were lost", "cannot be opened"] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    let mut missing =
        vec!["telemetry spool has a problem", "telemetry sink has a problem", "telemetry items were lost"];
    while !missing.is_empty() {
        let line = server.logged("telemetry ").await;
        missing.retain(|part| !line.contains(part));
    }
}
