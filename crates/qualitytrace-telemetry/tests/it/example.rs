//! The example of the documentation, run against a receiver.
//!
//! The server is this test program itself, started again as a child.

use std::process::{Command, ExitCode};

use crate::receiver::Receiver;

#[path = "../../examples/embed.rs"]
#[expect(dead_code, reason = "its `main` reads arguments")]
mod embed;
#[path = "../../examples/quickstart.rs"]
mod quickstart;

const CONFIG: &str = "TELEMETRY_TEST_EXAMPLE";
const QUICKSTART: &str = "TELEMETRY_TEST_QUICKSTART";

#[test]
fn child() {
    if let Ok(file) = std::env::var(CONFIG) {
        assert_eq!(embed::serve(Some(file)), ExitCode::SUCCESS);
    }
    if std::env::var(QUICKSTART).is_ok() {
        quickstart::main().unwrap();
    }
}

#[test]
fn the_program_of_the_readme_delivers_what_it_records() {
    let example = include_str!("../../examples/quickstart.rs");
    let (_, code) = example.split_once("#![expect").unwrap().1.split_once("\n\n").unwrap();
    let code = code.replace("pub(crate) ", "");
    assert!(
        include_str!("../../README.md").contains(&code),
        "README.md does not show examples/quickstart.rs"
    );
    let receiver = Receiver::start();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "example::child", "--nocapture"])
        .env(QUICKSTART, "1")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("traces   created 1 recovered 0 = sampled out 0 + exported 1"), "{said}");
    let got = receiver.stop();
    assert_eq!((got.spans.len(), got.logs.len()), (1, 1));
    assert!(got.metrics.iter().any(|metric| metric.name == "mail.accepted"));
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

#[test]
fn the_documentation_shows_every_feature() {
    let manifest = include_str!("../../Cargo.toml");
    assert!(manifest.contains("[package.metadata.docs.rs]\nall-features = true\n"), "{manifest}");
}

#[test]
fn settings_and_status_may_get_more_fields() {
    for text in [
        include_str!("../../../qualitytrace-config/src/diagnostic.rs"),
        include_str!("../../src/config.rs"),
        include_str!("../../src/config/check.rs"),
        include_str!("../../src/config/metrics.rs"),
        include_str!("../../src/config/sources.rs"),
        include_str!("../../src/config/table.rs"),
        include_str!("../../src/delivery.rs"),
        include_str!("../../src/ledger.rs"),
        include_str!("../../src/spool/status.rs"),
        include_str!("../../src/status.rs"),
    ] {
        for (at, _) in text.match_indices("\npub struct ") {
            let (before, rest) = text.split_at(at);
            let attributes = before.rsplit("\n\n").next().unwrap_or_default();
            let name = rest.trim().lines().next().unwrap_or_default();
            assert!(attributes.contains("#[non_exhaustive]"), "{name}");
        }
    }
}
