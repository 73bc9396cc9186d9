//! Traces from files: OTLP, Jaeger and Zipkin JSON.

use std::net::SocketAddr;

use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;
use serde_json::{Value, json};

struct Bench {
    server: Server,
    client: reqwest::Client,
    url: String,
}

impl Bench {
    async fn start(limits: Limits) -> Self {
        let http = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = Config { http, otlp_grpc: None, otlp_http: None, limits, ..Config::default() };
        let server = Server::start(config).await.unwrap();
        let url = format!("http://{}", server.addresses().http);
        Self { server, client: crate::client(), url }
    }

    async fn send(&self, query: &str, file: impl Into<String>) -> (u16, Value) {
        let request = self.client.post(format!("{}/api/traces{query}", self.url)).body(file.into());
        let sent = request.header("content-type", "application/json").send().await.unwrap();
        (sent.status().as_u16(), sent.json().await.unwrap())
    }

    async fn get(&self, path: &str, accept: &str) -> Value {
        let request = self.client.get(format!("{}{path}", self.url)).header("accept", accept);
        request.send().await.unwrap().json().await.unwrap()
    }
}

fn otlp(trace: &str) -> Value {
    let span = |id: &str, parent: &str, name: &str| {
        json!({ "traceId": trace, "spanId": id, "parentSpanId": parent, "name": name, "kind": 2,
            "startTimeUnixNano": "1700000000000000001", "endTimeUnixNano": "1700000000000000123",
            "attributes": [{ "key": "n", "value": { "intValue": "9007199254740993" } }],
            "events": [{ "timeUnixNano": "1700000000000000002", "name": "retry" }],
            "links": [{ "traceId": "000000000000000000000000000000ff", "spanId": "00000000000000ff" }],
            "status": { "code": 2, "message": "gone" } })
    };
    json!({ "resourceSpans": [{
        "resource": { "attributes": [{ "key": "service.name", "value": { "stringValue": "shop" } }] },
        "scopeSpans": [{ "scope": { "name": "lib" },
            "spans": [span("00000000000000aa", "", "page"), span("00000000000000bb", "00000000000000aa", "call")] }] }] })
}

#[tokio::test]
async fn files_are_stored_like_spans_that_arrive() {
    let bench = Bench::start(Limits::default()).await;
    let trace = |number: u8| format!("{number:032x}");
    // A file of the Collector: one request on each line, and a broken one in between.
    let lines = format!("{}\n{{\"resourceSpans\": [}}\n{}\n", otlp(&trace(1)), otlp(&trace(2)));
    let (status, stored) = bench.send("", lines).await;
    assert_eq!(status, 200, "{stored}");
    assert_eq!(
        (&stored["format"], &stored["spans"], &stored["refused"]),
        (&json!("otlp"), &json!(4), &json!(1))
    );
    assert_eq!(
        stored["traces"],
        json!([{ "traceId": trace(1), "spans": 2 }, { "traceId": trace(2), "spans": 2 }])
    );
    assert_eq!(stored["problems"][0]["location"], "line 2", "{stored}");

    // Nanoseconds, types, events, links and the status are those of the file.
    let detail =
        bench.get(&format!("/api/traces/{}/spans/00000000000000bb", trace(1)), "application/json").await;
    assert_eq!(
        (&detail["start"], &detail["duration"]),
        (&json!("1700000000000000001"), &json!("122")),
        "{detail}"
    );
    assert_eq!((&detail["parentId"], &detail["statusMessage"]), (&json!("00000000000000aa"), &json!("gone")));
    assert_eq!(detail["attributes"][0], json!({ "key": "n", "type": "int", "value": "9007199254740993" }));

    // What one server exports, another one takes.
    let other = Bench::start(Limits::default()).await;
    for (accept, format) in [("application/vnd.otlp+json", "otlp"), ("application/vnd.jaeger+json", "jaeger")]
    {
        let exported = bench.get(&format!("/api/traces/{}", trace(1)), accept).await;
        let (status, stored) = other.send("", exported.to_string()).await;
        assert_eq!(
            (status, &stored["format"], &stored["spans"]),
            (200, &json!(format), &json!(2)),
            "{stored}"
        );
    }
    let names = |shown: &Value| -> Vec<(String, u64)> {
        let spans = shown["spans"].as_array().unwrap().iter();
        spans
            .map(|span| (span["name"].as_str().unwrap().to_owned(), span["depth"].as_u64().unwrap()))
            .collect()
    };
    let shown = other.get(&format!("/api/traces/{}", trace(1)), "application/json").await;
    assert_eq!(names(&shown), [("page".to_owned(), 0), ("call".to_owned(), 1)]);

    let zipkin = json!([{ "traceId": "5", "id": "1", "name": "get", "kind": "CLIENT", "timestamp": 1_700_000_000_000_000_u64,
        "duration": 5, "localEndpoint": { "serviceName": "till" } }, { "traceId": "5", "id": "zz", "timestamp": 1 }]);
    let (status, stored) = other.send("?format=zipkin", zipkin.to_string()).await;
    assert_eq!(
        (status, &stored["spans"], &stored["traces"][0]["traceId"]),
        (200, &json!(1), &json!(trace(5))),
        "{stored}"
    );
    assert_eq!(stored["problems"][0]["location"], "[1]");
    let counted = other.get("/api/ingest/status", "application/json").await;
    assert_eq!(counted["spans"]["stored"], 5, "{counted}");
    // A file says nothing about how late its services deliver.
    let services = other.get("/api/services", "application/json").await;
    let till =
        services["items"].as_array().unwrap().iter().find(|service| service["name"] == "till").unwrap();
    assert_eq!((&till["heard"], &till["deliveries"], &till["spans"]), (&json!(false), &json!(0), &json!(1)));
    bench.server.shutdown().await;
    other.server.shutdown().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_refused_with_its_place() {
    let bench = Bench::start(Limits { spans_per_trace: 1, ..Limits::default() }).await;
    let trace = "0123456789abcdef0123456789abcdef";
    for (query, file, expected) in [
        ("", "{\"resourceSpans\": [\n nonsense]}".to_owned(), "line 2 column"),
        ("", "{\"data\": [{\"spans\": 5}]}".to_owned(), "column"),
        ("?format=jaeger", "[]".to_owned(), ""),
        ("?format=tempo", "{}".to_owned(), "write `otlp`, `jaeger` or `zipkin`"),
        ("", "{}".to_owned(), "no known format"),
        ("", "[]".to_owned(), "no spans"),
        ("", String::new(), "EOF"),
        ("", "[".repeat(100_000), ""),
    ] {
        let (status, answer) = bench.send(query, file).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(expected), "{answer}");
    }
    // The limits of the ingest are in force.
    let (status, stored) = bench.send("", otlp(trace).to_string()).await;
    assert_eq!((status, &stored["spans"], &stored["refused"]), (200, &json!(0), &json!(2)), "{stored}");
    assert!(stored["problems"][0]["reason"].as_str().unwrap().contains("limits.spansPerTrace"), "{stored}");
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_file_is_measured_before_it_is_decoded() {
    let limits = Limits { api_bytes: 16 << 20, ..Limits::default() };
    let bench = Bench::start(limits).await;
    let empty = vec!["{}"; 200_000].join(",");
    let resource = "r".repeat(100_000);
    // Spans of one process, each of another library, for which the process is repeated.
    let spans: Vec<String> = (1..=1_000)
        .map(|id| {
            format!(
                r#"{{"spanID":"{id:x}","startTime":1,"processID":"p","tags":[{{"key":"otel.scope.name","value":"{id}"}}]}}"#
            )
        })
        .collect();
    let (spans, process) = (spans.join(","), format!(r#"{{"p":{{"serviceName":"{resource}"}}}}"#));
    for (query, file) in [
        ("", format!(r#"{{"resourceSpans":[{empty}]}}"#)),
        (
            "",
            format!(r#"{{"resource_spans":[{{"scopeSpans":[{{"spans":[{{"attributes":[{empty}]}}]}}]}}]}}"#),
        ),
        ("", format!(r#"{{"data":[{{"traceID":"1","spans":[{spans}],"processes":{process}}}]}}"#)),
        ("", format!(r#"{{"data":[{{"traceID":"1","spans":[{{"spanID":"1","logs":[{empty}]}}]}}]}}"#)),
        ("?format=zipkin", format!(r#"[{{"traceId":"1","id":"2","annotations":[{empty}]}}]"#)),
    ] {
        let (status, told) = bench.send(query, file.clone()).await;
        // What grows while it is read meets the memory of its own body.
        assert!([413, 503].contains(&status), "{file:.60}: {told}");
        assert!(told["error"].as_str().unwrap().contains("limits.apiBytes"), "{told}");
    }
    // Items that are none are counted, and take nothing.
    let (status, told) = bench.send("?format=zipkin", format!("[{empty}]")).await;
    assert_eq!((status, &told["refused"]), (200, &json!(200_000)), "{told}");
    bench.server.shutdown().await;
}
