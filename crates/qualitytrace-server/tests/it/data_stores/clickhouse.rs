//! ClickHouse's real engine, with the table of the Collector's exporter.

use qualitytrace_testing::peer;
use serde_json::{Value, json};

use super::Bench;
use super::clickhouse_table::{CREATE, DATABASE, TABLE, query};
use super::real::{Feed, runs_with_fed};

fn store(url: &str, table: &str) -> Value {
    let details = json!({ "url": url, "database": DATABASE, "table": table });
    json!({ "name": "C", "type": "clickhouse", "clickhouse": details })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_its_trace_from_clickhouse() {
    let Some(url) = peer("CLICKHOUSE") else { return };
    let bench = Bench::start().await;
    query(&bench.client, &url, format!("CREATE DATABASE IF NOT EXISTS {DATABASE}")).await;
    query(&bench.client, &url, CREATE.to_owned()).await;
    runs_with_fed(store(&url, TABLE), Feed::ClickHouse(url.clone()), 1).await;

    let connection = bench.connection(&store(&url, "other")).await;
    assert_eq!(connection["fetchTraces"]["status"], "failed", "{connection}");
    assert!(connection["fetchTraces"]["error"].as_str().unwrap().contains("`otel.other`"), "{connection}");
    bench.server.shutdown().await;
}
