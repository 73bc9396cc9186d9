//! `run --learned FILE`: what a run learned is known to the next one.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::late_spans_load::system::{Deliveries, Leaf, System};
use crate::program;

#[tokio::test]
async fn the_next_run_knows_what_this_one_learned() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let port = qualitytrace_testing::port();
    let manner = Deliveries { delay: Duration::from_millis(100), leaf: Leaf::Comes };
    let system = System::start(vec![format!("http://127.0.0.1:{port}")], manner).await;
    let folder = tempfile::tempdir().unwrap();
    let (test, learned) = (folder.path().join("test.yaml"), folder.path().join("learned.json"));
    let trigger = format!("{{ type: http, httpRequest: {{ method: GET, url: '{}/order' }} }}", system.url);
    let spec = "{ selector: 'span[name=\"render\"]', assertions: ['attr:well = \"yes\"'] }";
    std::fs::write(
        &test,
        format!(
            "type: Test\nspec:\n  id: order\n  name: Order\n  trigger: {trigger}\n  specs:\n    - {spec}\n"
        ),
    )
    .unwrap();
    for runs in 1..=2 {
        let ended = Command::new(program())
            .arg("run")
            .arg(&test)
            .args(["--otlp-grpc-addr", "off", "--otlp-http-addr", &format!("127.0.0.1:{port}")])
            .arg("--learned")
            .arg(&learned)
            .output()
            .await
            .unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        let known: Value = serde_json::from_str(&std::fs::read_to_string(&learned).unwrap()).unwrap();
        assert_eq!(known["tests"]["order"]["runs"], runs, "{known:#}");
        assert_eq!(known["tests"]["order"]["spans"].as_array().unwrap().len(), 8, "{known:#}");
        assert!(known["services"]["mailer"].is_object(), "{known:#}");
    }
}

/// A test with a request to this address, run with these arguments.
fn asking(folder: &std::path::Path, url: &str, arguments: &[&str]) -> Command {
    let trigger = format!("{{ type: http, httpRequest: {{ method: GET, url: '{url}' }} }}");
    let text =
        format!("type: Test\nspec:\n  id: t\n  name: T\n  skipTraceCollection: true\n  trigger: {trigger}\n");
    std::fs::write(folder.join("t.yaml"), text).unwrap();
    let mut command = Command::new(program());
    command.current_dir(folder).args(["run", "t.yaml", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"]);
    command.args(arguments);
    command
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_told_before_the_first_trigger() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    for flag in ["--learned", "--junit"] {
        let output = asking(folder.path(), &url, &[flag, "missing/file"]).output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("{flag} missing/file: there is no folder missing")), "{said}");
        assert_eq!(
            listener.accept().unwrap_err().kind(),
            std::io::ErrorKind::WouldBlock,
            "nothing was triggered"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_written_at_the_end_keeps_nothing_else_from_being_written() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let doomed = folder.path().join("doomed");
    std::fs::create_dir(&doomed).unwrap();
    let mut command = asking(folder.path(), &url, &["--learned", "doomed/l.json", "-j", "report.xml"]);
    let running = tokio::spawn(async move { command.output().await.unwrap() });
    let (mut stream, _) = listener.accept().await.unwrap();
    std::fs::create_dir(doomed.join("l.json")).unwrap();
    let mut buffer = [0; 4096];
    let _ = stream.read(&mut buffer).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    let output = running.await.unwrap();
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{text}{said}");
    assert!(text.contains("1 test: 1 passed"), "{text}");
    assert!(said.contains("the learned data in doomed/l.json"), "{said}");
    let junit = std::fs::read_to_string(folder.path().join("report.xml")).unwrap();
    assert!(junit.contains("<testsuite name=\"T\""), "{junit}");
}
