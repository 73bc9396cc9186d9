//! Benchmark of verdicts on traces in real data stores, with spans that come up to three seconds late, in several batches,
//! out of order and twice: a JSON line for each store and protocol. `cargo xtask bench sources`, which starts the stores;
//! `--runs N` does fewer than the 500 of each.

#![expect(clippy::print_stdout, reason = "a program that prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails is worth nothing")]

#[path = "../tests/late_spans_load/load.rs"]
#[expect(dead_code, reason = "tests and other measurements use the rest")]
mod late_spans_load;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use late_spans_load::client::Client;
use late_spans_load::program::{Served, beside};
use late_spans_load::system::{Deliveries, Leaf, System};
use late_spans_load::waiting::{Load, Tally, measure};
use serde_json::{Value, json};

const DELAY: Duration = Duration::from_secs(3);
/// Runs at the same time, and the share of all runs that is done so: few, which the store answers at once, and more than
/// it may be asked for together.
const LOADS: [(usize, usize); 2] = [(10, 5), (200, 1)];
const TESTS: usize = 20;

/// Where a store is.
struct Addresses {
    grpc: String,
    http: String,
    otlp: String,
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let after = |flag: &str, at: usize| words.iter().skip_while(|word| *word != flag).nth(at);
    let runs = after("--runs", 1).map_or(500, |runs| runs.parse().expect("`--runs` needs a number"));
    let store = |flag: &str| {
        let [grpc, http, otlp] = [1, 2, 3].map(|at| after(flag, at).expect("three addresses").to_owned());
        Addresses { grpc, http, otlp }
    };
    let (jaeger, tempo) = (store("--jaeger"), store("--tempo"));
    let plain = |endpoint: &str| json!({ "endpoint": endpoint, "tls": { "insecure": true } });

    line("Jaeger, gRPC", &jaeger, json!({ "type": "jaeger", "jaeger": plain(&jaeger.grpc) }), None, runs)
        .await;
    let counted = CountingProxy::start(&jaeger.http).await;
    let read = json!({ "type": "jaeger", "jaeger": { "endpoint": counted.url } });
    line("Jaeger, HTTP", &jaeger, read, Some(&counted), runs).await;

    let read = json!({ "type": "tempo", "tempo": { "type": "grpc", "grpc": plain(&tempo.grpc) } });
    line("Tempo, gRPC", &tempo, read, None, runs).await;
    let counted = CountingProxy::start(&tempo.http).await;
    let read = json!({ "type": "tempo", "tempo": { "type": "http", "http": { "url": counted.url } } });
    line("Tempo, HTTP", &tempo, read, Some(&counted), runs).await;
}

/// Measures runs with one data store, under each load.
async fn line(name: &str, store: &Addresses, mut read: Value, counted: Option<&CountingProxy>, runs: usize) {
    read["name"] = json!(name);
    for (parallel, share) in LOADS {
        measured(name, store, &read, counted, Load { tests: TESTS, runs: runs / share, parallel }).await;
    }
}

/// Measures runs on a new server.
async fn measured(name: &str, store: &Addresses, read: &Value, counted: Option<&CountingProxy>, load: Load) {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}", folder.path().join("sources.db").display());
    let concurrency = load.parallel.to_string();
    let server = Served::start(&beside(), &database, &["--runs.concurrency", &concurrency]).await;
    let client = Client::new(server.url(""));
    client.put("/api/datastores/current", &json!({ "type": "DataStore", "spec": read })).await;
    let system =
        System::start(vec![store.otlp.clone()], Deliveries { delay: DELAY, leaf: Leaf::Comes }).await;
    let before = counted.map(CountingProxy::requests);
    let load = Load { tests: load.tests.min(load.runs / 2).max(1), ..load };
    let tally = measure(&client, &system, load).await;
    let requests = counted.zip(before).map(|(counted, before)| counted.requests() - before);
    for wrong in &tally.wrong {
        println!("{wrong}");
    }
    let at = |percent| Tally::at(&tally.known, percent).as_millis();
    println!(
        "{}",
        json!({
            "store": name, "runs": tally.runs, "at once": load.parallel, "wrong verdicts": tally.wrong.len(),
            "gave up, rightly": tally.gave_up, "p50 ms after the last span": at(50), "p90 ms": at(90),
            "p99 ms": at(99), "max ms": at(100), "requests": requests,
            "most in flight": counted.map(CountingProxy::most),
        })
    );
}

/// A proxy before a store that counts requests.
struct CountingProxy {
    url: String,
    counts: Arc<Counts>,
}

struct Counts {
    to: String,
    client: reqwest::Client,
    requests: AtomicUsize,
    in_flight: AtomicUsize,
    most: AtomicUsize,
}

impl CountingProxy {
    async fn start(to: &str) -> Self {
        // Fails when a provider is installed already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let counts = Arc::new(Counts {
            to: to.to_owned(),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            requests: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        });
        let router = Router::new().fallback(forward).with_state(Arc::clone(&counts));
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, counts }
    }

    fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::Relaxed)
    }

    fn most(&self) -> usize {
        self.counts.most.load(Ordering::Relaxed)
    }
}

/// A request that is not answered yet, or given up.
struct InFlight<'c>(&'c Counts);

impl<'c> InFlight<'c> {
    fn begin(counts: &'c Counts) -> Self {
        let now = counts.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        counts.most.fetch_max(now, Ordering::Relaxed);
        Self(counts)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Forwards a request, and reads the whole answer before the request counts as answered.
async fn forward(State(counts): State<Arc<Counts>>, request: Request) -> Response {
    counts.requests.fetch_add(1, Ordering::Relaxed);
    let _in_flight = InFlight::begin(&counts);
    let url = format!("{}{}", counts.to, request.uri());
    let mut asked = counts.client.request(request.method().clone(), url);
    if let Some(accept) = request.headers().get("accept") {
        asked = asked.header("accept", accept);
    }
    let answer = asked.send().await.unwrap();
    let mut response = Response::builder().status(answer.status());
    if let Some(kind) = answer.headers().get("content-type") {
        response = response.header("content-type", kind);
    }
    let body = answer.bytes().await.unwrap();
    response.body(Body::from(body)).unwrap()
}
