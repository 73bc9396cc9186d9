//! A system that sends planned spans for a request at planned times, and the real program beside it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use qualitytrace_testing::{DEADLINE, within};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// One span that the system sends for a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) service: &'static str,
    pub(super) id: u64,
    /// 0 is the trigger.
    pub(super) parent: u64,
    pub(super) name: &'static str,
    pub(super) kind: u8,
    pub(super) attributes: &'static [(&'static str, &'static str)],
    /// How long after the request it begins.
    pub(super) begins: Duration,
    /// How long after the request it ends.
    pub(super) ends: Duration,
    /// How long after the request it is delivered.
    pub(super) comes: Duration,
    /// Whether it is in a trace of its own.
    pub(super) strays: bool,
    /// Whether it is sent in a form that cannot be read.
    pub(super) malformed: bool,
}

pub(super) const ROOT: Sent = Sent {
    service: "shop",
    id: 1,
    parent: 0,
    name: "GET /",
    kind: 2,
    attributes: &[],
    begins: Duration::ZERO,
    ends: Duration::ZERO,
    comes: Duration::ZERO,
    strays: false,
    malformed: false,
};
pub(super) const LEAF: Sent = Sent { id: 2, parent: 1, name: "leaf", kind: 1, ..ROOT };

/// A system that answers at once and sends the spans that are planned for the path.
pub(super) struct System {
    pub(super) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    otlp: String,
    plan: HashMap<&'static str, Vec<Sent>>,
    http: reqwest::Client,
    /// The last `traceparent`.
    asked: watch::Sender<String>,
}

impl System {
    pub(super) async fn start(otlp: &str, plan: &[(&'static str, &[Sent])]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let shared = Arc::new(Shared {
            otlp: otlp.to_owned(),
            plan: plan.iter().map(|(path, spans)| (*path, spans.to_vec())).collect(),
            http: crate::client(),
            asked: watch::Sender::new(String::new()),
        });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, shared }
    }

    /// Delivers a span now.
    pub(super) async fn deliver(&self, sent: Sent, context: &str, began: u64) {
        self.shared.deliver(sent, context, began).await;
    }

    /// The `traceparent` of the last request; waits for the first one.
    pub(super) async fn asked(&self) -> String {
        let mut asked = self.shared.asked.subscribe();
        let asked = asked.wait_for(|context| !context.is_empty());
        within(DEADLINE, "the system is asked", asked).await.unwrap().clone()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap) -> &'static str {
    let context = headers["traceparent"].to_str().unwrap().to_owned();
    let began = now();
    for sent in shared.plan.get(uri.path()).into_iter().flatten().copied() {
        let (shared, context) = (Arc::clone(&shared), context.clone());
        tokio::spawn(async move {
            // A system whose spans come late, in real time.
            sleep(sent.comes).await;
            shared.deliver(sent, &context, began).await;
        });
    }
    shared.asked.send_replace(context);
    "yes"
}

impl Shared {
    async fn deliver(&self, sent: Sent, context: &str, began: u64) {
        let parts: Vec<&str> = context.split('-').collect();
        let [start, end] =
            [sent.begins, sent.ends].map(|after| began + u64::try_from(after.as_nanos()).unwrap());
        let stray = format!("{:032x}", u128::from(now()) << 64 | 7);
        let parent = if sent.parent == 0 { parts[2].to_owned() } else { format!("{:016x}", sent.parent) };
        let span = json!({
            "traceId": if sent.strays { &stray } else { parts[1] }, "spanId": format!("{:016x}", sent.id),
            "parentSpanId": if sent.strays { "" } else { &parent }, "name": sent.name, "kind": sent.kind,
            "startTimeUnixNano": if sent.malformed { "-1".to_owned() } else { start.to_string() },
            "endTimeUnixNano": end.to_string(),
            "attributes": attributes(sent.attributes),
        });
        let resource = json!({ "attributes": attributes(&[("service.name", sent.service)]) });
        let body =
            json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": [span] }] }] });
        // A server that ended early does not receive it any more.
        let _ = self.http.post(format!("http://{}/v1/traces", self.otlp)).json(&body).send().await;
    }
}

fn attributes(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } })).collect()
}

pub(super) fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// A test of one path, with one spec.
pub(super) fn test(path: &str, selector: &str, assertion: &str, more: &str) -> String {
    format!(
        "type: Test
spec:
  id: t
  name: T
  trigger:
    type: http
    httpRequest: {{ method: GET, url: '${{var:URL}}{path}' }}
{more}  specs:
  - selector: '{selector}'
    assertions:
    - '{assertion}'
"
    )
}

pub(super) const COUNT: &str = "attr:tracetest.selected_spans.count";

pub(super) struct Ran {
    pub(super) code: Option<i32>,
    pub(super) text: String,
    pub(super) took: Duration,
}

/// Runs files beside a system, on a server inside the program.
pub(super) async fn run(
    folder: &Path,
    files: &[(&str, &str)],
    plan: &[(&'static str, &[Sent])],
    arguments: &[&str],
) -> Ran {
    let otlp = format!("127.0.0.1:{}", qualitytrace_testing::port());
    let system = System::start(&otlp, plan).await;
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let began = Instant::now();
    let output = Command::new(crate::program())
        .current_dir(folder)
        .args(["run", ".", "--var", &format!("URL={}", system.url), "--settle", "400ms", "--quiet", "50ms"])
        .args(["--otlp-grpc-addr", "off", "--otlp-http-addr", &otlp])
        .args(arguments)
        .output();
    let output = within(DEADLINE, "the program ends", output).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    Ran { code: output.status.code(), text: text.into_owned(), took: began.elapsed() }
}

/// The same for one test in a folder of its own.
pub(super) async fn run_test(test: &str, plan: &[(&'static str, &[Sent])], arguments: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &[("t.yaml", test)], plan, arguments).await
}

pub(super) const CALL: Sent = Sent {
    id: 3,
    parent: 1,
    name: "POST",
    kind: 3,
    attributes: &[("http.request.method", "POST"), ("server.address", "mail"), ("server.port", "25")],
    ..ROOT
};
