//! Files that definitions name, and the environment of the program.

use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::Request;
use tokio::process::Command;

/// A server that records its requests: the path as sent, and the body.
struct Peer {
    address: String,
    seen: Arc<Mutex<Vec<(String, Bytes)>>>,
}

impl Peer {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = Self { address: listener.local_addr().unwrap().to_string(), seen: Arc::default() };
        let seen = peer.seen.clone();
        let remember = async move |request: Request| {
            let asked = format!("{} {}", request.method(), request.uri());
            let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
            seen.lock().unwrap().push((asked, body));
        };
        tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(remember)).await });
        peer
    }

    fn seen(&self) -> Vec<(String, Bytes)> {
        self.seen.lock().unwrap().clone()
    }
}

fn definition(url: &str, keys: &str) -> String {
    format!(
        "type: Test
spec:
  name: An upload
  skipTraceCollection: true
  trigger:
    type: http
    httpRequest:
      url: {url}
{keys}
  specs:
  - selector: span[name=\"Tracetest trigger\"]
    assertions:
    - attr:tracetest.response.status = 200
"
    )
}

async fn program(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qualitytrace"));
    command.args(arguments).current_dir(folder).env("HOME", folder);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "no_proxy"] {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied()).output().await.unwrap()
}

const RUN: [&str; 5] = ["run", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"];

#[tokio::test]
async fn files_go_along_byte_by_byte() {
    let peer = Peer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let tests = folder.path().join("tests");
    std::fs::create_dir(&tests).unwrap();
    std::fs::write(tests.join("photo.png"), [0, 255, 10]).unwrap();
    std::fs::write(tests.join("order.json"), "{\"book\": \"${var:BOOK}\"}").unwrap();
    // Invalid JSON until its variable is replaced.
    std::fs::write(tests.join("count.json"), "{\"count\": ${var:COUNT}}").unwrap();
    let url = |path: &str| format!("http://{}{path}", peer.address);
    let write = |name: &str, text: String| std::fs::write(tests.join(name), text).unwrap();
    write("a.yaml", definition(&url("/a"), "      method: PUT\n      bodyFile: photo.png # its bytes"));
    write("b.yaml", definition(&url("/b"), "      method: POST\n      body: ./order.json"));
    write(
        "c.yaml",
        definition(&url("/c"), "      multipart: [{name: photo, file: ./photo.png}]\n      method: POST"),
    );
    let arguments = [&RUN[..], &["--parallel", "1", "--var", "BOOK=Dune", "tests"]].concat();
    let output = program(folder.path(), &arguments, &[]).await;
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));

    let said = String::from_utf8_lossy(&output.stderr);
    for body in ["tests/order.json", "tests/count.json"] {
        let note = format!("{body} has no `type` and `spec` and is left out\n");
        assert!(said.contains(&note), "{said}");
    }

    let seen = peer.seen();
    assert_eq!(seen[0], ("PUT /a".to_owned(), Bytes::from_static(&[0, 255, 10])));
    assert_eq!(seen[1], ("POST /b".to_owned(), Bytes::from_static(b"{\"book\": \"Dune\"}")));
    let multipart = &seen[2].1;
    let has = |part: &[u8]| multipart.windows(part.len()).any(|window| window == part);
    assert!(has(b"name=\"photo\"; filename=\"photo.png\"") && has(&[b'\r', b'\n', 0, 255, 10, b'\r', b'\n']));
}

#[tokio::test]
async fn a_file_that_is_named_must_be_a_definition() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("body.json"), "{\"book\": 1}").unwrap();
    let output = program(folder.path(), &[&RUN[..], &["body.json"]].concat(), &[]).await;
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stdout));
    let output = program(folder.path(), &[&RUN[..], &["."]].concat(), &[]).await;
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(". holds no definition in a .yaml, .yml or .json file"), "{said}");
}

#[tokio::test]
async fn what_runs_teach_is_kept_by_the_server_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("test.yaml"), definition("http://localhost/", "")).unwrap();
    let arguments = ["run", "test.yaml", "--server", "http://localhost:9", "--learned", "learned.json"];
    let output = program(folder.path(), &arguments, &[]).await;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the server at http://localhost:9 remembers by itself what runs teach"), "{said}");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_told_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let text = definition("http://localhost/", "      bodyFile: ./gone.png\n      tls: {ca: ca.pem}");
    std::fs::write(folder.path().join("test.yaml"), text).unwrap();
    for (arguments, code) in [
        (&["check", "test.yaml"][..], 0),
        (&["check", "--strict", "test.yaml"], 3),
        (&[&RUN[..], &["test.yaml"]].concat(), 3),
    ] {
        let output = program(folder.path(), arguments, &[]).await;
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        for expected in [
            "the file `./gone.png` cannot be read: No such file or directory",
            "test.yaml:9:17",
            "the file `ca.pem` cannot be read",
            "test.yaml:10:17",
        ] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
}

#[tokio::test]
async fn the_proxy_of_the_environment_is_used_except_for_this_machine() {
    let (peer, proxy) = (Peer::start().await, Peer::start().await);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, url: &str| {
        std::fs::write(folder.path().join(name), definition(url, "")).unwrap();
    };
    write("far.yaml", "http://shop.invalid/far");
    write("near.yaml", &format!("http://{}/near", peer.address));
    let address = format!("http://{}", proxy.address);
    let arguments = [&RUN[..], &["far.yaml", "near.yaml"]].concat();
    let output = program(folder.path(), &arguments, &[("HTTP_PROXY", &address)]).await;
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(proxy.seen(), [("GET http://shop.invalid/far".to_owned(), Bytes::new())]);
    assert_eq!(peer.seen(), [("GET /near".to_owned(), Bytes::new())]);

    let environment = [("HTTP_PROXY", address.as_str()), ("NO_PROXY", "shop.invalid")];
    let output = program(folder.path(), &[&RUN[..], &["far.yaml"]].concat(), &environment).await;
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("the host `shop.invalid` is unknown"), "{said}");
}
