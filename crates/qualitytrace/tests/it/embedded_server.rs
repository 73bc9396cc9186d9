//! The server inside `run` and `demo`: no other process can use it.

use std::path::Path;
use std::process::{Command, Stdio};

use qualitytrace_testing::{DEADLINE, eventually, within};
use reqwest::StatusCode;

use crate::late_spans_load::program::Served;
use crate::program;

/// Waits until a file has a complete line, and reads it.
async fn line(path: &Path) -> String {
    eventually(DEADLINE, format!("{} is written", path.display()), async || {
        let text = std::fs::read_to_string(path).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    })
    .await
}

#[tokio::test]
async fn the_server_of_a_run_listens_to_its_own_client_only() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    // The command writes the address of the server, its environment and its parent's arguments to files, and waits to
    // be released.
    let script = format!(
        "env > {0}/env; tr '\\0' '\\n' < /proc/$PPID/cmdline > {0}/argv; echo $OTEL_EXPORTER_OTLP_ENDPOINT > {0}/endpoint; \
         while [ ! -e {0}/go ]; do sleep 0.05; done",
        folder.path().display()
    );
    let test = serde_json::json!({ "type": "Test", "spec": {
        "id": "inner", "name": "inner", "skipTraceCollection": true,
        "trigger": { "type": "exec", "exec": { "command": ["sh", "-c", script], "timeout": "60s" } },
    } });
    std::fs::write(file("test.json"), test.to_string()).unwrap();
    let run = Command::new(program())
        .args(["run", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"])
        .arg(file("test.json"))
        .env_remove("QUALITYTRACE_SERVER_URL")
        .env_remove("OTEL_EXPORTER_OTLP_ENDPOINT")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let base = line(&file("endpoint")).await;
    let client = crate::client();
    for path in ["/api/tests", "/api/tests/inner/run", "/", "/metrics"] {
        let answer = client.get(format!("{base}{path}")).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path}");
    }
    let changed = client.put(format!("{base}/api/tests")).json(&test).send().await.unwrap();
    assert_eq!(changed.status(), StatusCode::UNAUTHORIZED);
    let spans = client.post(format!("{base}/v1/traces")).json(&serde_json::json!({}));
    assert_eq!(spans.send().await.unwrap().status(), StatusCode::OK, "exporters need no token");
    std::fs::write(file("go"), "").unwrap();
    let ended = tokio::task::spawn_blocking(move || run.wait_with_output()).await.unwrap().unwrap();
    let told = [
        ended.stdout,
        ended.stderr,
        std::fs::read(file("env")).unwrap(),
        std::fs::read(file("argv")).unwrap(),
    ];
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&told[0]));
    for text in &told {
        let text = String::from_utf8_lossy(text);
        let is_token = |word: &str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(!text.split(|letter: char| !letter.is_ascii_alphanumeric()).any(is_token), "{text}");
    }
}

#[tokio::test]
async fn the_server_of_a_demo_wants_the_token_from_its_file() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let mut demo = tokio::process::Command::new(program())
        .args(["demo", "--keep"])
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(demo.stdout.take().unwrap()));
    let suggested = within(DEADLINE, "the demo suggests a run", async {
        loop {
            let line = lines.next_line().await.unwrap().expect("the demo suggests a run");
            if line.contains("qualitytrace run ") {
                break line;
            }
        }
    });
    let suggested = suggested.await;
    let words: Vec<&str> = suggested.split(' ').collect();
    let after = |flag: &str| words[words.iter().position(|word| *word == flag).unwrap() + 1];
    let (base, file) = (after("--server"), Path::new(after("--token-file")));
    let token = std::fs::read_to_string(file).unwrap();
    assert!(token.len() >= 32 && !suggested.contains(&token));
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    let client = crate::client();
    let tests = client.get(format!("{base}/api/tests"));
    let stranger = tests.try_clone().unwrap().send().await.unwrap();
    assert_eq!(stranger.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(tests.bearer_auth(&token).send().await.unwrap().status(), StatusCode::OK);
    let pid = demo.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = within(DEADLINE, "the demo ends", demo.wait()).await.unwrap();
    assert_eq!(ended.code(), Some(0));
    assert!(!file.exists(), "the token is gone with its server");
}

#[tokio::test]
async fn an_exposed_server_warns_loudly() {
    let mut served =
        Served::start(program(), "sqlite::memory:", &["--host", "0.0.0.0", "--runs.commands"]).await;
    let line = served.logged("every client that reaches this address").await;
    assert!(line.contains(" WARN ") && line.contains("auth.tokens"), "{line}");
    served.logged("WARNING").await;
}

#[tokio::test]
async fn wrong_tokens_are_logged_without_the_token() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let tokens = ["--auth.tokens", "full:full-token-0123456789"];
    let mut served = Served::start(program(), "sqlite::memory:", &tokens).await;
    let wrong = "some-token-0123456789";
    let answer = crate::client().get(served.url("/api/tests")).bearer_auth(wrong).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    let line = served.logged("refused a wrong token").await;
    assert!(line.contains(" WARN ") && line.contains("client=127.0.0.1"), "{line}");
    assert!(!line.contains(wrong), "{line}");
}
