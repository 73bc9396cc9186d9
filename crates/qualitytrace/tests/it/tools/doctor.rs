//! `doctor` and `ready`.

use super::{run, run_with, stderr, stdout};
use crate::late_spans_load::program::Served;
use crate::program;

#[tokio::test]
async fn a_server_that_works_is_good() {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let found = run(folder.path(), &["doctor", "-s", &server.url("")]);
    let text = stdout(&found);
    assert_eq!(found.status.code(), Some(0), "{text}{}", stderr(&found));
    for part in ["✔ server", "as this program", "database", "✔ span", "over gRPC", "over HTTP", "✔ clock"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches("arrived after").count(), 2, "{text}");
}

#[test]
fn without_a_server_one_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let ports = ["--otlp-grpc-addr", "127.0.0.1:0", "--otlp-http-addr", "127.0.0.1:0"];
    let found = run(folder.path(), &[&["doctor"], &ports[..]].concat());
    let text = stdout(&found);
    assert_eq!(found.status.code(), Some(0), "{text}{}", stderr(&found));
    assert_eq!(text.matches("arrived after").count(), 2, "{text}");
}

#[test]
fn each_trouble_has_a_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let used = run(folder.path(), &["doctor", "--otlp-grpc-addr", &address, "--otlp-http-addr", "off"]);
    let text = stdout(&used);
    assert_eq!(used.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot be listened on") && text.contains("→ end the collector"), "{text}");
    let variables = [("OTEL_TRACES_EXPORTER", "none")];
    let silent = run_with(folder.path(), &variables, &["doctor", "-s", "http://127.0.0.1:1"]);
    let text = stdout(&silent);
    assert_eq!(silent.status.code(), Some(1), "{text}");
    assert!(text.contains("✘ exporter") && text.contains("→ set OTEL_TRACES_EXPORTER=otlp"), "{text}");
    assert!(text.contains("✘ server") && text.contains("qualitytrace serve"), "{text}");
}

#[tokio::test]
async fn a_dead_data_store_and_a_wrong_port_are_found() {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let url = server.url("");
    let store = "type: DataStore\nspec:\n  name: Jaeger\n  type: jaeger\n  jaeger:\n    endpoint: 127.0.0.1:1\n    \
                 tls:\n      insecure: true\n";
    std::fs::write(folder.path().join("jaeger.yaml"), store).unwrap();
    let applied = run(folder.path(), &["apply", "-f", "jaeger.yaml", "-s", &url]);
    assert_eq!(applied.status.code(), Some(0), "{}", stderr(&applied));
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")];
    let found = run_with(folder.path(), &variables, &["doctor", "-s", &url]);
    let text = stdout(&found);
    assert_eq!(found.status.code(), Some(1), "{text}");
    assert!(text.contains("✘ data store jaeger cannot be queried"), "{text}");
    assert!(text.contains("! exporter") && text.contains("port 9 is none of those"), "{text}");
    let kept = run(folder.path(), &["delete", "datastore", "--id", "current", "-s", &url]);
    assert_eq!(kept.status.code(), Some(1));
    let said = stderr(&kept);
    assert!(said.contains("  type: otlp\n") && said.contains("qualitytrace apply -f otlp.yaml"), "{said}");
}

#[tokio::test]
async fn a_server_without_tls_is_named_as_such() {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let plain = server.url("");
    let asked = run(folder.path(), &["ready", "-s", &plain.replace("http://", "https://")]);
    assert_eq!(asked.status.code(), Some(1));
    assert!(stderr(&asked).contains(&format!("answers without TLS; write {plain}")), "{}", stderr(&asked));
}

#[tokio::test]
async fn ready_answers_with_its_exit_code() {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let found = run(folder.path(), &["ready", "-s", &server.url("")]);
    assert_eq!((found.status.code(), stdout(&found).as_str()), (Some(0), "ready\n"), "{}", stderr(&found));
    let silent = run(folder.path(), &["ready", "-s", "http://127.0.0.1:1"]);
    assert_eq!(silent.status.code(), Some(1));
    assert!(stderr(&silent).contains("does not answer"), "{}", stderr(&silent));
}
