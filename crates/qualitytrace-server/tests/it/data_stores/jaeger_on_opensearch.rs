//! Real OpenSearch, which a real Jaeger writes to.

use qualitytrace_testing::peer_addresses;
use serde_json::{Value, json};

use super::real::runs_with;

/// Jaeger writes microseconds.
const TICK: u64 = 1_000;

/// Runs with the documents in the indexes with this prefix.
async fn runs_with_index(prefix: &str) {
    let Some([opensearch, otlp]) = peer_addresses("OPENSEARCH") else { return };
    let index = json!({ "addresses": [opensearch], "index": format!("{prefix}-jaeger-span-*") });
    let store: Value = json!({ "name": "O", "type": "opensearch", "opensearch": index });
    runs_with(store, otlp, TICK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_its_trace_from_documents_of_jaeger() {
    runs_with_index("list").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_reads_its_trace_from_documents_of_jaeger_with_tags_as_fields() {
    runs_with_index("fields").await;
}
