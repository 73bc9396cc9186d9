//! Disk queues in the telemetry status: damage and orphans.

use std::{
    fs,
    path::{Path, PathBuf},
};

use qualitytrace_testing::{DEADLINE, eventually};
use serde_json::Value;

use crate::{late_spans_load::program::Served, program};

fn segments(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let below = |path: PathBuf| {
        if path.is_dir() {
            segments(&path)
        } else {
            path.extension().is_some_and(|it| it == "seg").then_some(path).into_iter().collect()
        }
    };
    entries.flat_map(below).collect()
}

async fn start(folder: &Path, config: &str) -> Served {
    let file = folder.join("server.yaml");
    fs::write(&file, config).unwrap();
    let data = folder.join("data");
    let arguments = ["--config", file.to_str().unwrap(), "--data-dir", data.to_str().unwrap()];
    Served::start(program(), "sqlite::memory:", &arguments).await
}

/// Runs `telemetry status`; returns its exit code and output.
fn status(server: &Served, json: bool) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(program());
    command.args(["telemetry", "status", "--server", &server.url("")]).args(json.then_some("--json"));
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Polls the status until it is as expected.
async fn until(server: &Served, what: &str, good: impl Fn(&Value) -> bool) {
    eventually(DEADLINE, what, async || {
        let (_, out) = status(server, true);
        if good(&serde_json::from_str(&out).unwrap()) { Ok(()) } else { Err(status(server, false).1) }
    })
    .await;
}

fn tracer(throttle: &str) -> String {
    let sink =
        format!("{{type: open-telemetry, transport: http, endpoint: 'http://127.0.0.1:1', {throttle}}}");
    format!("tracer: {{a: {sink}}}\n")
}

#[tokio::test]
async fn damage_is_told_in_the_log_in_the_status_and_by_the_exit_code() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let client = crate::client();
    let mut server = start(folder.path(), &tracer("throttle: 1ms")).await;
    for _ in 0..20 {
        assert!(client.get(server.url("/api/tests")).send().await.unwrap().status().is_success());
    }
    until(&server, "20 spans wait", |status| {
        status["sinks"][0]["ledger"]["traces"]["queued"].as_u64() >= Some(20)
    })
    .await;
    assert_eq!(status(&server, false).0, Some(0), "a receiver that is down has cost nothing yet");
    server.child.kill().await.unwrap();
    drop(server);

    let segment = segments(folder.path()).remove(0);
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&segment, bytes).unwrap();
    let mut server = start(folder.path(), &tracer("throttle: 1ms")).await;
    let line = server.logged("telemetry spool is damaged").await;
    assert!(line.contains(segment.to_str().unwrap()), "{line}");
    let (code, out) = status(&server, false);
    let told = format!("bytes of the spool are damaged: {} at byte", segment.display());
    assert!(out.contains(&told), "{out}");
    assert!(out.contains("tracer.a: 1 spans were lost"), "{out}");
    assert_eq!(code, Some(2), "{out}");
    server.child.kill().await.unwrap();
    drop(server);

    // No sink takes it over any more: it is shown below the table.
    let server = start(folder.path(), "logLevel: info\n").await;
    until(&server, "the orphan is found", |status| !status["orphans"][0].is_null()).await;
    let (_, out) = status(&server, false);
    assert!(out.contains("spool of tracer.a without a sink: "), "{out}");
}
