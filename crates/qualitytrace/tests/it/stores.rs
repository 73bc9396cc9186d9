//! The demo shop with real data stores: it exports through a real Collector into each of them, and the tests of
//! `examples/shop` have the same verdicts as with OTLP, on the same spans.

mod collector;
mod kept;
mod shop;

use std::path::Path;

use qualitytrace_testing::{DEADLINE, eventually, peer, peer_addresses};
use serde_json::{Value, json};
use tokio::process::Command;

use self::collector::Collector;
use self::kept::{Kept, spans};
use self::shop::Shop;
use crate::late_spans_load::client::Client;
use crate::late_spans_load::program::Served;
use crate::program;

/// A data store: how it is fed by the Collector, how it is read, and what it keeps of a span.
struct Store {
    exporter: String,
    spec: Value,
    kept: Kept,
}

/// The exporter of a store that receives OTLP over HTTP.
fn otlp(url: &str) -> String {
    format!("otlphttp/store: {{ endpoint: '{url}', compression: none }}")
}

/// Runs the tests of a folder on a server, and returns the exit code and the report.
async fn run(folder: &Path, server: &Served, shop: &Shop) -> (Option<i32>, String) {
    let gateway = format!("GATEWAY={}", shop.gateway);
    let output = Command::new(program())
        .args(["run", ".", "--server", &server.url(""), "--var", &gateway])
        .current_dir(folder)
        .output()
        .await
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text.into_owned())
}

/// A copy of the tests of the shop, with names of spans as the store has them.
fn tests(kept: Kept) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(folder.path().join(path.file_name().unwrap()), kept.test(&text)).unwrap();
    }
    folder
}

/// Runs the tests of the shop with a data store and with OTLP, and compares verdicts and spans.
async fn is_like_otlp(store: Store, bug: Option<&str>, code: i32) {
    let Some(otelcol) = peer("OTELCOL") else { return };
    let ours = Served::start(program(), "sqlite::memory:", &[]).await;
    let theirs = Served::start(program(), "sqlite::memory:", &[]).await;
    let mut spec = store.spec;
    spec["name"] = json!("store");
    let client = Client::new(theirs.url(""));
    client.put("/api/datastores/current", &json!({ "type": "DataStore", "spec": spec })).await;
    let collector = Collector::start(&otelcol, &[&store.exporter, &copy(&ours)]).await;
    let shop = Shop::start(&collector.url, bug).await;

    let (as_sent, as_kept) = (tests(Kept::All), tests(store.kept));
    let (sent, pulled) = tokio::join!(run(as_sent.path(), &ours, &shop), run(as_kept.path(), &theirs, &shop));
    assert_eq!((sent.0, pulled.0), (Some(code), Some(code)), "{}\n{}", sent.1, pulled.1);
    assert_eq!(verdicts(&pulled.1), verdicts(&sent.1), "{}\n{}", sent.1, pulled.1);

    let http = crate::client();
    let traces = traces(&http, &theirs).await;
    assert!(traces.len() >= 8, "{traces:?}");
    for trace in traces {
        eventually(DEADLINE, format!("trace {trace} is the same on both servers"), async || {
            let sent = store.kept.of(spans(&http, &ours, &trace).await);
            let pulled = store.kept.of(spans(&http, &theirs, &trace).await);
            if sent == pulled { Ok(()) } else { Err(format!("{sent:#?}\n instead of \n{pulled:#?}")) }
        })
        .await;
    }
}

/// The exporter of a copy to our server.
fn copy(server: &Served) -> String {
    format!("otlphttp/ours: {{ endpoint: '{}', compression: none }}", server.url(""))
}

/// The lines of a report that tell what passed and what failed.
fn verdicts(report: &str) -> Vec<&str> {
    let lines = report.lines().map(str::trim).filter(|line| line.starts_with(['✔', '✘', '?']));
    let mut lines: Vec<&str> = lines.map(|line| line.split("  ").next().unwrap_or_default()).collect();
    lines.sort_unstable();
    lines
}

/// The traces of the runs on a server.
async fn traces(http: &reqwest::Client, server: &Served) -> Vec<String> {
    let listed: Value =
        http.get(server.url("/api/traces?take=100")).send().await.unwrap().json().await.unwrap();
    let items = listed["items"].as_array().unwrap().iter();
    items.map(|item| item["traceId"].as_str().unwrap().to_owned()).collect()
}

fn plain(endpoint: &str) -> Value {
    json!({ "endpoint": endpoint, "tls": { "insecure": true } })
}

fn jaeger() -> Option<Store> {
    let [grpc, _, otlp_url] = peer_addresses("JAEGER")?;
    let spec = json!({ "type": "jaeger", "jaeger": plain(&grpc) });
    Some(Store { exporter: otlp(&otlp_url), spec, kept: Kept::All })
}

fn tempo(kind: &str) -> Option<Store> {
    let [grpc, http, otlp_url] = peer_addresses("TEMPO")?;
    let client = if kind == "grpc" { plain(&grpc) } else { json!({ "url": http }) };
    let spec = json!({ "type": "tempo", "tempo": { "type": kind, kind: client } });
    Some(Store { exporter: otlp(&otlp_url), spec, kept: Kept::ByTempo })
}

/// OpenSearch, which Jaeger writes to.
fn opensearch(prefix: &str) -> Option<Store> {
    let [url, otlp_url] = peer_addresses("OPENSEARCH")?;
    let index = json!({ "addresses": [url], "index": format!("{prefix}-jaeger-span-*") });
    let spec = json!({ "type": "opensearch", "opensearch": index });
    Some(Store { exporter: otlp(&otlp_url), spec, kept: Kept::ByJaeger })
}

fn zipkin() -> Option<Store> {
    let url = peer("ZIPKIN")?;
    let exporter = format!("zipkin: {{ endpoint: '{url}/api/v2/spans' }}");
    Some(Store {
        exporter,
        spec: json!({ "type": "zipkin", "zipkin": { "url": url } }),
        kept: Kept::ByZipkin,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_in_jaeger_is_like_the_shop_with_otlp() {
    let Some(store) = jaeger() else { return };
    is_like_otlp(store, None, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_in_tempo_over_grpc_is_like_the_shop_with_otlp() {
    let Some(store) = tempo("grpc") else { return };
    is_like_otlp(store, None, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bug_of_the_shop_in_tempo_over_http_is_found_as_with_otlp() {
    let Some(store) = tempo("http") else { return };
    is_like_otlp(store, Some("missing-attribute"), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_in_opensearch_is_like_the_shop_with_otlp() {
    let Some(store) = opensearch("list") else { return };
    is_like_otlp(store, None, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bug_of_the_shop_in_opensearch_with_tags_as_fields_is_found_as_with_otlp() {
    let Some(store) = opensearch("fields") else { return };
    is_like_otlp(store, Some("n-plus-one-queries"), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shop_in_zipkin_is_like_the_shop_with_otlp() {
    let Some(store) = zipkin() else { return };
    is_like_otlp(store, None, 0).await;
}
