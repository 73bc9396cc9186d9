//! A real Chromium without a window, driven over its `DevTools` protocol.

use std::process::Stdio;

use futures_util::{SinkExt as _, StreamExt as _};
use qualitytrace_testing::{DEADLINE, within};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// A browser with an empty profile. It is killed on drop, if it was not closed.
pub(super) struct Chromium {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    calls: u64,
    // Field order is drop order: the browser is killed before its folder goes.
    child: Child,
    _folder: TempDir,
}

/// A tab.
pub(super) struct Page(String);

impl Chromium {
    /// Starts the browser; `None` if this machine has none. `names` are the host names that lead to this machine;
    /// no other name resolves.
    pub(super) async fn start(names: &[&str]) -> Option<Self> {
        let Some(program) = std::env::var_os("QUALITYTRACE_TEST_CHROMIUM") else {
            assert!(
                std::env::var("QUALITYTRACE_REQUIRE_PEERS").is_err(),
                "QUALITYTRACE_TEST_CHROMIUM is not set"
            );
            println!("skipped: QUALITYTRACE_TEST_CHROMIUM is not set");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let mut rules: Vec<String> = names.iter().map(|name| format!("MAP {name} 127.0.0.1")).collect();
        rules.extend(["MAP * ~NOTFOUND", "EXCLUDE 127.0.0.1", "EXCLUDE localhost"].map(str::to_owned));
        let mut child = Command::new(program)
            // Its own sandbox needs rights that root and containers do not give; the pages are ours.
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update"])
            .args(["--disable-sync", "--disable-extensions", "--disable-popup-blocking"])
            // The browser's own check would ask the user before a page reaches this machine; ours must hold without it.
            .arg("--disable-features=LocalNetworkAccessChecks")
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .arg(format!("--host-resolver-rules={}", rules.join(",")))
            .arg("about:blank")
            .env("HOME", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = within(DEADLINE, "Chromium says where it listens", async {
            let mut said = String::new();
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some(address) = line.strip_prefix("DevTools listening on ") {
                    return address.to_owned();
                }
                said = said + &line + "\n";
            }
            panic!("Chromium ended: {said}");
        })
        .await;
        // The rest of its output must be read, or it would block.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let (socket, _) = tokio_tungstenite::connect_async(address).await.unwrap();
        Some(Self { socket, calls: 0, child, _folder: folder })
    }

    /// Opens a page in a tab of its own and waits until it is loaded.
    pub(super) async fn open(&mut self, url: &str) -> Page {
        let target = self.call(None, "Target.createTarget", json!({ "url": "about:blank" })).await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call(None, "Target.attachToTarget", attach).await;
        let page = Page(session["sessionId"].as_str().unwrap().to_owned());
        let went = self.call(Some(&page), "Page.navigate", json!({ "url": url })).await;
        assert_eq!(went.get("errorText"), None, "{url}: {went}");
        let loaded = "new Promise((done) => document.readyState === 'complete' ? done() : addEventListener('load', () => done()))";
        self.evaluate(&page, loaded).await;
        assert_eq!(self.evaluate(&page, "location.href").await, url);
        page
    }

    /// Evaluates a script in a page as if its user had clicked, and returns the value of its promise.
    pub(super) async fn evaluate(&mut self, page: &Page, script: &str) -> Value {
        let asked =
            json!({ "expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true });
        let mut got = self.call(Some(page), "Runtime.evaluate", asked).await;
        assert_eq!(got.get("exceptionDetails"), None, "{got:#}");
        got["result"]["value"].take()
    }

    /// Ends the browser and waits until nothing writes to its folder any more.
    pub(super) async fn close(mut self) {
        self.call(None, "Browser.close", json!({})).await;
        within(DEADLINE, "Chromium ends", self.child.wait()).await.unwrap();
    }

    async fn call(&mut self, page: Option<&Page>, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if let Some(Page(session)) = page {
            message["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(message.to_string())).await.unwrap();
        let answer = async {
            loop {
                let Message::Text(text) = self.socket.next().await.unwrap().unwrap() else { continue };
                let mut told: Value = serde_json::from_str(&text).unwrap();
                if told["id"] == self.calls {
                    assert_eq!(told.get("error"), None, "{method}: {told}");
                    return told["result"].take();
                }
            }
        };
        within(DEADLINE, format!("Chromium answers {method}"), answer).await
    }
}
