//! A system under test with three services whose spans come late, in several batches, out of order and sometimes twice.
//!
//! `GET /order?bug=1` puts an error into one leaf span; `lose=1` loses a span that has a child.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{Query, State};
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Value, json};

/// How often an exporter tries to deliver a batch.
const ATTEMPTS: usize = 100;
/// The pause between attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// How spans are delivered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deliveries {
    /// The longest time between the end of a span and its delivery.
    pub(crate) delay: Duration,
    /// What happens to the last leaf.
    pub(crate) leaf: Leaf,
}

/// What happens to a span that specs need and that no other span announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaf {
    /// It comes like the others.
    Comes,
    /// It never comes.
    Withheld,
    /// It comes this much later.
    Late(Duration),
}

/// What the system knows of a trace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// How many requests had this trace.
    pub(crate) requests: u32,
    /// When its last span was acknowledged, in nanoseconds since the epoch.
    pub(crate) delivered: u64,
    /// Batches that are still in flight.
    pub(crate) under_way: usize,
    /// A span that has a child and was lost.
    pub(crate) lost: Option<String>,
}

/// A running system.
#[derive(Debug, Clone)]
pub(crate) struct System {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    manner: Deliveries,
    /// Servers for deliveries, chosen at random.
    servers: Vec<String>,
    client: reqwest::Client,
    traces: Mutex<HashMap<String, Known>>,
}

#[derive(Debug, Deserialize)]
struct Order {
    #[serde(default)]
    bug: u8,
    #[serde(default)]
    lose: u8,
}

impl System {
    /// Starts it on a free port. It delivers to any of these servers.
    pub(crate) async fn start(servers: Vec<String>, manner: Deliveries) -> Self {
        let shared = Arc::new(Shared {
            manner,
            servers,
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            traces: Mutex::default(),
        });
        let router = axum::Router::new()
            .route("/order", get(order))
            .route("/quick", get(async || "quick"))
            .route("/hang", get(std::future::pending::<&'static str>))
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, shared }
    }

    /// What the system knows of a trace.
    pub(crate) fn known(&self, trace: &str) -> Known {
        self.shared.traces.lock().unwrap().get(trace).cloned().unwrap_or_default()
    }
}

async fn order(
    State(shared): State<Arc<Shared>>,
    Query(order): Query<Order>,
    headers: axum::http::HeaderMap,
) -> &'static str {
    let context = headers["traceparent"].to_str().unwrap();
    let parts: Vec<&str> = context.split('-').collect();
    let (trace, caller) = (parts[1].to_owned(), parts[2].to_owned());
    let work = Work { trace: trace.clone(), start: nanos() };
    let [root, check, call, entry, look, send, receive, render] = std::array::from_fn(|_| new_id());
    let went_well = order.bug == 0;
    let gateway = vec![
        work.span(&check, &root, "check order", 1, 1, true),
        work.span(&call, &root, "GET /stock", 3, 4, true),
        work.span(&send, &root, "mails send", 4, 5, true),
        work.span(&root, &caller, "GET /order", 2, 6, true),
    ];
    let mut stock = vec![work.span(&look, &entry, "look up", 1, 2, went_well)];
    if order.lose == 0 {
        stock.push(work.span(&entry, &call, "GET /stock", 2, 3, true));
    }
    let mut mailer = vec![work.span(&receive, &send, "mails process", 5, 8, true)];
    let leaf = work.span(&render, &receive, "render", 1, 7, true);
    let slow = shared.manner.delay;
    let fast = slow / 2;
    let mut batches = Vec::new();
    let mut deliver = |service: &'static str, spans: Vec<Value>, from: Duration, to: Duration| {
        batches.push((service, spans, between(from, to)));
    };
    match shared.manner.leaf {
        Leaf::Comes => mailer.insert(0, leaf),
        Leaf::Late(by) => deliver("mailer", vec![leaf], slow + by, slow + by),
        Leaf::Withheld => {}
    }
    for (service, mut spans, from, to) in [
        ("gateway", gateway, Duration::ZERO, fast),
        ("stock", stock, Duration::ZERO, fast),
        ("mailer", mailer, fast, slow),
    ] {
        let rest = spans.split_off(rand::random_range(0..spans.len()));
        // An exporter whose response was lost sends again what already arrived.
        if rand::random_range(0..4) == 0 {
            deliver(service, rest.clone(), from, to);
        }
        deliver(service, rest, from, to);
        if !spans.is_empty() {
            deliver(service, spans, from, to);
        }
    }
    {
        let mut traces = shared.traces.lock().unwrap();
        let known = traces.entry(trace.clone()).or_default();
        known.requests += 1;
        known.under_way += batches.len();
        known.lost = (order.lose != 0).then_some(entry);
    }
    for (service, spans, delay) in batches {
        let (shared, trace) = (Arc::clone(&shared), trace.clone());
        tokio::spawn(async move {
            // A system whose exporters deliver late, in real time.
            tokio::time::sleep(delay).await;
            shared.deliver(service, &spans).await;
            let mut traces = shared.traces.lock().unwrap();
            let known = traces.entry(trace).or_default();
            known.delivered = known.delivered.max(nanos());
            known.under_way -= 1;
        });
    }
    "ordered"
}

impl Shared {
    /// Delivers to any server, and to another one when that is gone.
    async fn deliver(&self, service: &str, spans: &[Value]) {
        let resource = json!({ "attributes": [attribute("service.name", service)] });
        let body = json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": spans }] }] });
        let first = rand::random_range(0..self.servers.len());
        let mut refusal = String::new();
        for attempt in 0..ATTEMPTS {
            let server = &self.servers[(first + attempt) % self.servers.len()];
            refusal = match self.client.post(format!("{server}/v1/traces")).json(&body).send().await {
                Ok(answer) if answer.status().is_success() => return,
                Ok(answer) => format!("{} {}", answer.status(), answer.text().await.unwrap_or_default()),
                Err(error) => format!("{error:?}"),
            };
            // An exporter waits before it tries again.
            tokio::time::sleep(PAUSE).await;
        }
        panic!("no server takes the spans of {service}: {refusal}");
    }
}

struct Work {
    trace: String,
    start: u64,
}

impl Work {
    fn span(&self, id: &str, parent: &str, name: &str, kind: u8, end: u64, ok: bool) -> Value {
        let attributes = match kind {
            3 => vec![attribute("http.request.method", "GET"), attribute("url.full", "http://stock/stock")],
            4 | 5 => vec![attribute("messaging.system", "kafka")],
            _ => Vec::new(),
        };
        let well = attribute("well", if ok { "yes" } else { "no" });
        json!({
            "traceId": self.trace, "spanId": id, "parentSpanId": parent, "name": name, "kind": kind,
            "startTimeUnixNano": self.start.to_string(),
            "endTimeUnixNano": (self.start + end * 100_000).to_string(),
            "attributes": attributes.into_iter().chain([well]).collect::<Vec<_>>(),
        })
    }
}

fn attribute(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn new_id() -> String {
    format!("{:016x}", rand::random_range(1..u64::MAX))
}

fn between(from: Duration, to: Duration) -> Duration {
    if from < to { rand::random_range(from..to) } else { to }
}

fn nanos() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}
