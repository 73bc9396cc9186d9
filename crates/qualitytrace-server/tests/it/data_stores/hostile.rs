//! Answers of data stores that are small on the wire and large once they are decoded: refused before that.

use qualitytrace_server::base::limits::Limits;
use serde_json::{Value, json};

use super::Bench;
use super::stand_in::{Answer, StandIn, StoreRequest};

const MIB: u64 = 1 << 20;

/// So many empty members of a list.
fn empty(count: usize) -> String {
    format!("{}{{}}", "{},".repeat(count - 1))
}

/// A server that has 16 MiB for the answers of data stores.
async fn small_bench() -> Bench {
    Bench::start_within(Limits { api_bytes: 16 * MIB, ..Limits::default() }).await
}

/// Runs a test whose trace is in a store that answers like this, and expects that it is told why it has none.
async fn check(
    bench: &Bench,
    store: impl Fn(&str) -> Value,
    answer: fn(&StoreRequest) -> Answer,
    told: &str,
) {
    let stand_in = StandIn::start(&bench.caused, move |asked, _| answer(asked)).await;
    let store = store(&stand_in.url);
    bench.store(&store).await;
    let run = bench.run(&json!([])).await;
    let error = run["lastErrorState"].as_str().unwrap_or_default();
    assert!(error.contains(told), "{}: {run}", store["type"]);
}

fn of_http(kind: &str, details: &Value) -> Value {
    json!({ "name": "S", "type": kind, kind: details })
}

fn jaeger(url: &str) -> Value {
    of_http("jaeger", &json!({ "endpoint": url }))
}

fn tempo(url: &str) -> Value {
    of_http("tempo", &json!({ "type": "http", "http": { "url": url } }))
}

fn index(kind: &str, url: &str) -> Value {
    of_http(kind, &json!({ "addresses": [url], "index": "traces" }))
}

/// A list of 200,000 empty resources in protobuf: 400 kB.
fn empty_resources() -> Vec<u8> {
    [10, 0].repeat(200_000)
}

#[tokio::test]
async fn answers_over_http_are_measured_before_they_are_decoded() {
    let bench = small_bench().await;
    let told = "`limits.apiBytes`";
    let resources: fn(&StoreRequest) -> Answer =
        |_| Answer::json(format!(r#"{{"resourceSpans":[{}]}}"#, empty(200_000)));
    check(&bench, jaeger, resources, told).await;
    check(&bench, tempo, resources, told).await;
    let protobuf: fn(&StoreRequest) -> Answer = |_| {
        let headers = vec![("content-type", "application/protobuf".to_owned())];
        Answer { headers, body: empty_resources(), ..Answer::status(200) }
    };
    check(&bench, tempo, protobuf, told).await;
    let hits: fn(&StoreRequest) -> Answer =
        |_| Answer::json(format!(r#"{{"hits":{{"hits":[{}]}}}}"#, empty(200_000)));
    check(&bench, |url| index("opensearch", url), hits, told).await;
    check(&bench, |url| index("elasticapm", url), hits, told).await;
    let list: fn(&StoreRequest) -> Answer = |asked| match asked.path.as_str() {
        "/api/v2/services" => Answer::json(json!([])),
        // One span with many annotations: it is read as a whole.
        path if path.starts_with("/api/v2/trace") => {
            let annotations = vec![r#"{"timestamp":1}"#; 100_000].join(",");
            Answer::json(format!(r#"[{{"traceId":"1","id":"2","annotations":[{annotations}]}}]"#))
        }
        _ => Answer::json(format!("[{}]", empty(200_000))),
    };
    check(&bench, |url| of_http("zipkin", &json!({ "url": url })), list, told).await;
    let signalfx = |url: &str| of_http("signalfx", &json!({ "realm": "us1", "token": "t", "url": url }));
    check(&bench, signalfx, list, told).await;
    let rows: fn(&StoreRequest) -> Answer =
        |_| Answer::json(format!(r#"{{"SpanId":"","Start":1,"LinkAttributes":[{}]}}"#, empty(200_000)));
    let clickhouse = |url: &str| of_http("clickhouse", &json!({ "url": url, "database": "d", "table": "t" }));
    check(&bench, clickhouse, rows, told).await;
    let spans: fn(&StoreRequest) -> Answer =
        |_| Answer::json(format!(r#"{{"spanPage":[{}]}}"#, empty(200_000)));
    let sumo = |url: &str| of_http("sumologic", &json!({ "url": url, "accessID": "i", "accessKey": "k" }));
    check(&bench, sumo, spans, told).await;
    bench.server.shutdown().await;
}

#[tokio::test]
async fn messages_of_grpc_are_measured_before_they_are_decoded() {
    let bench = small_bench().await;
    let jaeger = |url: &str| {
        let endpoint = url.trim_start_matches("http://");
        of_http("jaeger", &json!({ "endpoint": endpoint, "tls": { "insecure": true } }))
    };
    let answer: fn(&StoreRequest) -> Answer = |_| {
        let headers = vec![("content-type", "application/grpc".to_owned()), ("grpc-status", "0".to_owned())];
        let message = empty_resources();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        Answer { headers, body: [&[0][..], &length, &message].concat(), ..Answer::status(200) }
    };
    check(&bench, jaeger, answer, "`limits.apiBytes`").await;
    bench.server.shutdown().await;
}

#[tokio::test]
async fn what_an_answer_repeats_is_measured_too() {
    let bench = small_bench().await;
    let told = "`limits.apiBytes`";
    // The name of an object is repeated for each of its members.
    let hits: fn(&StoreRequest) -> Answer = |_| {
        let (name, members) = ("n".repeat(100_000), vec![r#""m":0"#; 1_000]);
        let members: Vec<String> =
            members.iter().enumerate().map(|(at, member)| member.replace('m', &format!("m{at}"))).collect();
        let source = format!(r#"{{"attributes":{{"{name}":{{{}}}}}}}"#, members.join(","));
        Answer::json(format!(r#"{{"hits":{{"hits":[{{"_source":{source}}}]}}}}"#))
    };
    check(&bench, |url| index("opensearch", url), hits, told).await;
    check(&bench, |url| index("elasticapm", url), hits, told).await;
    // So are the names of columns, for each row.
    let azure = |url: &str| {
        of_http(
            "azureappinsights",
            &json!({ "url": url, "resourceArmId": "r", "accessToken": "t",
            "connectionType": "direct" }),
        )
    };
    let tables: fn(&StoreRequest) -> Answer = |_| {
        let (name, rows) = ("n".repeat(100_000), vec![r#"["2026-01-31T12:00:00Z",0]"#; 1_000].join(","));
        let columns = format!(r#"[{{"name":"timestamp"}},{{"name":"{name}"}}]"#);
        Answer::json(format!(r#"{{"tables":[{{"columns":{columns},"rows":[{rows}]}}]}}"#))
    };
    check(&bench, azure, tables, told).await;
    // A text may be JSON itself.
    let custom: fn(&StoreRequest) -> Answer = |_| {
        let written = format!(r#"{{"a":[{}]}}"#, empty(200_000));
        let columns = json!([{ "name": "customDimensions" }]);
        Answer::json(json!({ "tables": [{ "columns": columns, "rows": [[written]] }] }))
    };
    check(&bench, azure, custom, told).await;
    bench.server.shutdown().await;
}
