//! The example of the documentation, run against a receiver.
//!
//! The server is this test program itself, started again as a child.

use std::process::{Command, ExitCode};

use crate::receiver::Receiver;

#[path = "../../examples/embed.rs"]
#[expect(dead_code, reason = "its `main` reads arguments")]
mod embed;

const CONFIG: &str = "TELEMETRY_TEST_EXAMPLE";

#[test]
fn child() {
    if let Ok(file) = std::env::var(CONFIG) {
        assert_eq!(embed::serve(Some(file)), ExitCode::SUCCESS);
    }
}

#[test]
fn the_mail_server_of_the_example_delivers_what_it_says() {
    let receiver = Receiver::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.toml");
    let text = format!(
        "[tracer.otel]\ntype = \"open-telemetry\"\ntransport = \"grpc\"\nendpoint = \"{}\"\nenable = true\nenable.log-exporter = true\n",
        receiver.url()
    );
    std::fs::write(&file, text).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "example::child", "--nocapture"])
        .env(CONFIG, &file)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("traces   created 200 recovered 0 = sampled out 0 + exported 200"), "{said}");
    let got = receiver.stop();
    assert_eq!((got.spans.len(), got.logs.len()), (200, 110));
    let sessions: Vec<_> = got.spans.iter().filter(|span| span.name == "smtp.session").collect();
    let attempts: Vec<_> = got.spans.iter().filter(|span| span.name == "delivery.attempt").collect();
    assert_eq!((sessions.len(), attempts.len()), (100, 100));
    for attempt in attempts {
        assert!(
            sessions
                .iter()
                .any(|s| (&s.trace_id, &s.span_id) == (&attempt.trace_id, &attempt.parent_span_id))
        );
    }
}
