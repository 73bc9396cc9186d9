//! Stores over HTTP: Zipkin, Tempo, SignalFx, Azure, Sumo Logic and ClickHouse.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Bench;
use super::stand_in::{Answer, StandIn, StoreRequest};

/// Nanoseconds since the epoch. It changes with every answer: a span that does is stored again, and is no new one.
fn now() -> u64 {
    qualitytrace_server::base::clock::now().as_nanos()
}

/// The time as RFC 3339.
fn now_text() -> String {
    jiff::Timestamp::from_nanosecond(i128::from(now())).unwrap().to_string()
}

const HANDLE: &str = "00000000000000aa";
const QUERY: &str = "00000000000000bb";

#[tokio::test]
async fn a_run_reads_its_trace_from_zipkin() {
    let bench = Bench::start().await;
    let zipkin = StandIn::start(&bench.caused, |asked: &StoreRequest, caused| {
        if asked.path == "/zipkin/api/v2/services" {
            return Answer::json(json!(["shop"]));
        }
        let Some((trace, parent)) =
            caused.filter(|(trace, _)| asked.path == format!("/zipkin/api/v2/trace/{trace}"))
        else {
            return Answer::status(404);
        };
        let span = |id: &str, parent: &str, name: &str| {
            json!({ "traceId": trace, "id": id, "parentId": parent, "name": name, "timestamp": now() / 1_000,
                "duration": 5, "localEndpoint": { "serviceName": "shop" }, "tags": { "shop.id": "7" } })
        };
        let mut query = span(QUERY, HANDLE, "query");
        // Zipkin may not know when a span began.
        query.as_object_mut().unwrap().remove("timestamp");
        Answer::json(json!([span(HANDLE, parent, "handle"), query]))
    })
    .await;
    let client = json!({ "url": format!("{}/zipkin/", zipkin.url), "headers": { "X-Key": "k" } });
    let store = json!({ "name": "Z", "type": "zipkin", "zipkin": client });
    bench.passes_with(&store).await;
    assert!(zipkin.asked().iter().all(|asked| asked.header("x-key") == "k"));
    let connection = bench.connection(&store).await;
    assert_eq!(connection["fetchTraces"]["status"], "passed", "{connection}");
    assert_eq!(connection["portCheck"]["status"], "warning", "{connection}");
    bench.server.shutdown().await;
}

/// The spans of a trace as OTLP in the JSON of Tempo: ids in base64, old names.
fn tempo_json(trace: &str, parent: &str) -> Value {
    let base64 = |hex: &str| STANDARD.encode(const_hex::decode(hex).unwrap());
    let span = |id: &str, parent: &str, name: &str| {
        json!({ "traceId": base64(trace), "spanId": base64(id), "parentSpanId": base64(parent), "name": name,
            "kind": "SPAN_KIND_SERVER", "startTimeUnixNano": now().to_string(),
            "endTimeUnixNano": (now() + 5).to_string(),
            "attributes": [{ "key": "shop.id", "value": { "intValue": "7" } }] })
    };
    let spans = [span(HANDLE, parent, "handle"), span(QUERY, HANDLE, "query")];
    json!({ "batches": [{ "resource": { "attributes": [] }, "instrumentationLibrarySpans": [{ "spans": spans }] }] })
}

#[tokio::test]
async fn a_run_reads_its_trace_from_tempo_with_its_tenant() {
    let bench = Bench::start().await;
    let tempo = StandIn::start(&bench.caused, |asked: &StoreRequest, caused| {
        if asked.header("x-scope-orgid") != "shop" {
            return Answer::status(401);
        }
        match caused {
            _ if asked.path == "/api/echo" => Answer { body: b"echo".to_vec(), ..Answer::status(200) },
            Some((trace, parent)) if asked.path == format!("/api/traces/{trace}") => {
                Answer::json(tempo_json(trace, parent))
            }
            _ => Answer::status(404),
        }
    })
    .await;
    let store = |tenant: &str| {
        let http = json!({ "url": tempo.url, "headers": { "X-Scope-OrgID": tenant } });
        json!({ "name": "T", "type": "tempo", "tempo": { "type": "http", "http": http } })
    };
    bench.passes_with(&store("shop")).await;
    assert!(tempo.asked().iter().any(|asked| asked.header("accept") == "application/protobuf"));
    let connection = bench.connection(&store("another")).await;
    assert_eq!(connection["authentication"]["status"], "failed", "{connection}");
    assert_eq!(connection["fetchTraces"], json!({}), "{connection}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_run_reads_its_trace_from_signalfx_segment_by_segment() {
    let bench = Bench::start().await;
    let signalfx = StandIn::start(&bench.caused, |asked: &StoreRequest, caused| {
        if asked.header("authorization") != "Bearer word" {
            return Answer::status(401);
        }
        let Some((trace, parent)) = caused else { return Answer::status(404) };
        let span = |id: &str, parent: &str, name: &str| {
            json!([{ "traceId": trace, "spanId": id, "parentId": parent, "operationName": name,
                "startTime": now_text(), "durationMicros": 5, "tags": { "span.kind": "server", "shop.id": "7" },
                "processTags": { "service.name": "shop", "shop.id": "8" } }])
        };
        match asked.path.strip_prefix(&format!("/v2/apm/trace/{trace}/")) {
            Some("segments") => Answer::json(json!([1, 2])),
            Some("1") => Answer::json(span(HANDLE, parent, "handle")),
            Some("2") => Answer::json(span(QUERY, HANDLE, "query")),
            _ => Answer::status(404),
        }
    })
    .await;
    let store = |token: &str| {
        json!({ "name": "S", "type": "signalfx",
            "signalfx": { "realm": "us1", "token": token, "url": signalfx.url } })
    };
    bench.passes_with(&store("word")).await;
    let connection = bench.connection(&store("wrong")).await;
    assert_eq!(connection["authentication"]["status"], "failed", "{connection}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_run_reads_its_trace_from_sumo_logic_page_by_page() {
    let bench = Bench::start().await;
    let sumo = StandIn::start(&bench.caused, |asked: &StoreRequest, caused| {
        if asked.header("authorization") != format!("Basic {}", STANDARD.encode("id:key")) {
            return Answer::status(401);
        }
        let Some((trace, parent)) = caused else { return Answer::status(404) };
        let spans = format!("/api/v1/tracing/traces/{trace}/spans");
        let span = |id: &str, parent: &str, name: &str| {
            json!({ "id": id, "parentId": parent, "operationName": name, "service": "shop",
                "startedAt": now_text(), "duration": 5_000, "status": { "code": "ERROR", "message": "404" } })
        };
        let event = json!({ "name": "retry", "timestamp": now_text(), "attributes": [{ "attributeName": "attempt",
            "attributeValue": { "type": "IntegerEventAttributeValue", "value": 2 } }] });
        match (asked.path.strip_prefix(&spans), asked.query.as_str()) {
            (Some(""), "limit=100") => {
                Answer::json(json!({ "spanPage": [span(HANDLE, parent, "handle")], "next": "more" }))
            }
            (Some(""), "limit=100&token=more") => {
                Answer::json(json!({ "spanPage": [span(QUERY, HANDLE, "query")] }))
            }
            (Some(id), _) if id.starts_with("/0000") => {
                let fields = json!({ "shop.id": { "type": "LongValue", "value": 7 } });
                let link = json!({ "traceId": trace, "spanId": HANDLE });
                Answer::json(json!({ "fields": fields, "events": [event], "links": [link] }))
            }
            _ => Answer::status(404),
        }
    })
    .await;
    let details = json!({ "url": format!("{}/api", sumo.url), "accessID": "id", "accessKey": "key" });
    bench.passes_with(&json!({ "name": "S", "type": "sumologic", "sumologic": details })).await;
    // The details of each span are fetched once, however often the trace is polled.
    let details = sumo.asked().into_iter().filter(|asked| asked.path.contains("/spans/")).count();
    assert_eq!(details, 2);
    let (trace, _) = bench.caused.lock().unwrap().clone().unwrap();
    let span = bench.get(&format!("/api/traces/{trace}/spans/{QUERY}")).await;
    assert_eq!((&span["status"], &span["statusMessage"]), (&json!("error"), &json!("404")), "{span}");
    let attribute = &span["events"][0]["attributes"][0];
    assert_eq!((&attribute["key"], &attribute["value"]), (&json!("attempt"), &json!(2)), "{span}");
    assert_eq!(span["links"][0]["spanId"], HANDLE, "{span}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_run_reads_its_trace_from_clickhouse() {
    let bench = Bench::start().await;
    let clickhouse = StandIn::start(&bench.caused, |asked: &StoreRequest, caused| {
        let is_asked = asked.body.contains("{database:Identifier}.{table:Identifier}")
            && asked.query.contains("param_database=otel&param_table=otel_traces")
            && asked.header("x-clickhouse-key") == "word";
        if !is_asked {
            return Answer::status(403);
        }
        let Some((trace, parent)) = caused.filter(|(trace, _)| asked.query.contains(trace.as_str())) else {
            return Answer::status(200);
        };
        assert!(!trace.is_empty());
        let row = |id: &str, parent: &str, name: &str| {
            json!({ "SpanId": id, "ParentSpanId": parent, "SpanName": name, "SpanKind": "Server",
                "ServiceName": "shop", "ResourceAttributes": { "service.name": "shop" },
                "SpanAttributes": { "shop.id": "7" }, "Start": now().to_string(), "Duration": "5000",
                "StatusCode": "Error", "StatusMessage": "gone", "EventTimes": [now().to_string()],
                "EventNames": ["retry"], "EventAttributes": [{ "n": "1" }],
                // A link without ids is kept for its attributes.
                "LinkTraces": [""], "LinkSpans": [""], "LinkStates": [""], "LinkAttributes": [{ "n": "1" }] })
        };
        Answer::json(format!("{}\n{}\n", row(HANDLE, parent, "handle"), row(QUERY, HANDLE, "query")))
    })
    .await;
    let table = |password: &str| {
        json!({ "name": "C", "type": "clickhouse", "clickhouse":
            { "url": clickhouse.url, "database": "otel", "username": "reader", "password": password } })
    };
    bench.passes_with(&table("word")).await;
    let stored = bench.get("/api/datastores/current").await;
    assert_eq!(stored["spec"]["clickhouse"]["password"], "********", "{stored}");
    let connection = bench.connection(&table("wrong")).await;
    assert_eq!(connection["authentication"]["status"], "failed", "{connection}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_run_reads_its_trace_from_azure() {
    let bench = Bench::start().await;
    let azure = StandIn::start(&bench.caused, |asked: &StoreRequest, caused| {
        if asked.header("authorization") != "Bearer word" || asked.path != "/v1/subscriptions/1/shop/query" {
            return Answer::status(403);
        }
        let columns = [
            "timestamp",
            "itemType",
            "id",
            "operation_Id",
            "operation_ParentId",
            "name",
            "duration",
            "type",
            "success",
            "cloud_RoleName",
            "message",
            "customDimensions",
        ];
        let columns: Vec<Value> =
            columns.iter().map(|name| json!({ "name": name, "type": "string" })).collect();
        let Some((trace, parent)) = caused.filter(|(trace, _)| asked.body.contains(trace.as_str())) else {
            return Answer::json(
                json!({ "tables": [{ "name": "PrimaryResult", "columns": columns, "rows": [] }] }),
            );
        };
        let row = |item: &str, id: &str, parent: &str, name: &str| {
            json!([
                now_text(),
                item,
                id,
                trace,
                parent,
                name,
                1.5,
                "",
                "False",
                "shop",
                "log line",
                json!({ "shop.id": "7" }).to_string()
            ])
        };
        let rows = [
            row("request", HANDLE, parent, "handle"),
            row("dependency", QUERY, HANDLE, "query"),
            row("trace", "", QUERY, ""),
            row("customEvent", "", QUERY, "clicked"),
            // Ids of an older library.
            row("dependency", &format!("|{trace}.2.1."), HANDLE, "pack"),
            row("dependency", &format!("|{trace}.00000000000000cc."), &format!("|{trace}.2.1."), "label"),
        ];
        Answer::json(json!({ "tables": [{ "name": "PrimaryResult", "columns": columns, "rows": rows }] }))
    })
    .await;
    let store = |token: &str| {
        let details = json!({ "accessToken": token, "connectionType": "direct",
            "resourceArmId": "/subscriptions/1/shop", "url": azure.url });
        json!({ "name": "A", "type": "azureappinsights", "azureappinsights": details })
    };
    bench.passes_with(&store("word")).await;
    let (trace, _) = bench.caused.lock().unwrap().clone().unwrap();
    let query = bench.get(&format!("/api/traces/{trace}/spans/{QUERY}")).await;
    assert_eq!(query["duration"], "1500000", "{query}");
    assert_eq!(query["events"][0]["name"], "log line", "{query}");
    assert_eq!(query["events"].as_array().unwrap().len(), 2, "{query}");
    let label = bench.get(&format!("/api/traces/{trace}/spans/00000000000000cc")).await;
    let pack = bench.get(&format!("/api/traces/{trace}/spans/{}", label["parentId"].as_str().unwrap())).await;
    assert_eq!((&pack["name"], &pack["parentId"]), (&json!("pack"), &json!(HANDLE)), "{pack}");
    let connection = bench.connection(&store("wrong")).await;
    assert_eq!(connection["authentication"]["status"], "failed", "{connection}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn rows_that_azure_calls_partial_are_no_trace() {
    let bench = Bench::start().await;
    let azure = StandIn::start(&bench.caused, |_: &StoreRequest, _| {
        let error = json!({ "code": "PartialError", "message": "There were some errors when processing your query." });
        Answer::json(json!({ "tables": [], "error": error }))
    })
    .await;
    let details = json!({ "useAzureActiveDirectoryAuth": false, "accessToken": "word", "connectionType": "direct",
        "resourceArmId": "/subscriptions/1/shop", "url": azure.url });
    bench.store(&json!({ "name": "A", "type": "azureappinsights", "azureappinsights": details })).await;
    let run = bench.run(&json!([])).await;
    assert_eq!(run["state"], "TRACE_FAILED", "{run}");
    assert!(run["lastErrorState"].as_str().unwrap_or_default().contains("PartialError"), "{run}");
    bench.server.shutdown().await;
}
