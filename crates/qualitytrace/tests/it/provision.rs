//! Provisioning at startup, with the real program.

use std::process::Stdio;

use base64::Engine as _;
use serde_json::Value;
use tokio::process::Command;

use crate::kill::fresh_database;
use crate::late_spans_load::program::Served;
use crate::program;

const GOOD: &str = "\
type: VariableSet
spec:
  id: shop
  name: Shop
  values:
  - {key: TOKEN, value: very-secret-word, type: secret}
---
type: Test
spec:
  id: t
  name: T
  trigger: {type: http, httpRequest: {method: GET, url: 'http://127.0.0.1:1/'}}
";
/// Valid until it is stored: the store knows no such secret.
const MASKED: &str = "type: VariableSet\nspec:\n  id: late\n  name: Late\n  values: [{key: K, value: '********', type: secret}]\n";

/// A database, and the data folder of the server.
struct Home {
    folder: tempfile::TempDir,
    database: String,
}

impl Home {
    fn file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = format!("sqlite://{}", folder.path().join("test.db").display());
        Self { folder, database }
    }

    async fn postgres() -> Option<Self> {
        Some(Self { database: fresh_database().await?, folder: tempfile::tempdir().unwrap() })
    }

    fn write(&self, text: &str) -> String {
        let file = self.folder.path().join("provision.yaml");
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    async fn start(&self, more: &[&str]) -> Served {
        let data = self.folder.path().join("data");
        let arguments = [&["--data-dir", data.to_str().unwrap()], more].concat();
        Served::start(program(), &self.database, &arguments).await
    }

    /// Starts a server that refuses to start, and returns its output.
    async fn refused(&self, text: &str) -> String {
        let (file, data) = (self.write(text), self.folder.path().join("data"));
        let output = Command::new(program())
            .args(["serve", "--server.httpPort", "0", "--otlp-grpc-addr", "off", "--otlp-http-addr", "off"])
            .args(["--database-url", &self.database, "--data-dir", data.to_str().unwrap()])
            .args(["--provisioning-file", &file])
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

async fn get(server: &Served, path: &str) -> Value {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let request = crate::client().get(server.url(path)).header("x-tracetest-augmented", "true");
    request.send().await.unwrap().json().await.unwrap()
}

async fn ids(server: &Served) -> (Value, Value) {
    let count = async |path| get(server, path).await["count"].clone();
    (count("/api/tests").await, count("/api/variablesets").await)
}

async fn all_or_nothing(home: &Home) {
    let other = GOOD.replace("id: shop", "id: other").replace("id: t", "id: u");
    let said = home.refused(&format!("{GOOD}---\n{MASKED}---\n{other}")).await;
    let place = "document 3, line 18, column 29, `spec.values[0].value`";
    assert!(said.contains(&format!("{place}: `K` is masked; write the secret itself")), "{said}");
    let wrong = GOOD.replace("method: GET", "metod: GET");
    let said =
        home.refused(&format!("{wrong}---\ntype: TestRunner\nspec:\n  requiredGates: [elephants]\n")).await;
    assert!(said.contains("document 3, line 16, column 19, `spec.requiredGates[0]`: "), "{said}");
    assert!(said.contains("document 2, line 12, column 39, `spec.trigger.httpRequest.metod`: "), "{said}");

    let file = home.write(GOOD);
    let server = home.start(&["--provisioning-file", &file]).await;
    assert_eq!(ids(&server).await, (1.into(), 1.into()));
    drop(server);
    // A user's change stays, unless the resource is always provisioned.
    let server = home.start(&["--provisioning-file", &file]).await;
    assert_eq!(ids(&server).await, (1.into(), 1.into()));
    let client = crate::client();
    let changed = serde_json::json!({ "spec": { "id": "shop", "name": "Mine" } });
    let sent = client.put(server.url("/api/variablesets/shop")).json(&changed).send().await.unwrap();
    assert!(sent.status().is_success());
    drop(server);
    let server = home.start(&["--provisioning-file", &file]).await;
    assert_eq!(get(&server, "/api/variablesets/shop").await["spec"]["name"], "Mine");
    drop(server);
    for _ in 0..2 {
        let server = home.start(&["--provisioning-file", &file, "--provision-always"]).await;
        assert_eq!(get(&server, "/api/variablesets/shop").await["spec"]["name"], "Shop");
        assert_eq!(get(&server, "/api/tests/t").await["spec"]["version"], 1);
        assert_eq!(ids(&server).await, (1.into(), 1.into()));
    }
}

#[tokio::test]
async fn a_stream_is_provisioned_as_a_whole_into_a_file() {
    all_or_nothing(&Home::file()).await;
}

mod postgres {
    #[tokio::test]
    async fn a_stream_is_provisioned_as_a_whole() {
        if let Some(home) = super::Home::postgres().await {
            super::all_or_nothing(&home).await;
        }
    }
}

#[tokio::test]
async fn a_database_that_was_used_before_is_not_new() {
    let home = Home::file();
    drop(home.start(&[]).await);
    let file = home.write(GOOD);
    let mut server = home.start(&["--provisioning-file", &file]).await;
    assert_eq!(ids(&server).await, (0.into(), 0.into()));
    server.logged("this database is not new; --provision-always does it all the same").await;
    drop(server);
    let server = home.start(&["--provisioning-file", &file, "--provision-always"]).await;
    assert_eq!(ids(&server).await, (1.into(), 1.into()));
}

#[tokio::test]
async fn a_stream_can_be_given_by_a_variable() {
    let encoded = base64::engine::general_purpose::STANDARD.encode(GOOD);
    let server = Served::start(program(), "sqlite::memory:", &["--provisioning", &encoded]).await;
    assert_eq!(ids(&server).await, (1.into(), 1.into()));
    let mut command = Command::new(program());
    command.args(["config", "show"]).env("TRACETEST_PROVISIONING", &encoded);
    let shown = String::from_utf8(command.output().await.unwrap().stdout).unwrap();
    let line = shown.lines().find(|line| line.contains("provisioning ")).unwrap_or_default();
    assert!(line.contains("TRACETEST_PROVISIONING") && !line.contains(&encoded), "{shown}");
}
