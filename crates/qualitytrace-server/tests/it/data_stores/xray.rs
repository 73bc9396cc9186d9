//! AWS X-Ray: a stand-in that checks signatures, and answers with pages of segment documents.

use serde_json::{Value, json};

use super::Bench;
use super::sigv4::Signed;
use super::stand_in::{Answer, StandIn, StoreRequest};

const HANDLE: &str = "00000000000000aa";
const QUERY: &str = "00000000000000bb";
const CALLED: &str = "00000000000000cc";

/// The time in seconds; the same for every answer, like that of a finished segment.
const START: f64 = 1_700_000_000.125;

/// The segment of a service, with a call of a database inside of it.
fn shop(id: &str, parent: &str) -> Value {
    let exception = json!({ "id": "e1", "type": "Timeout", "message": "too slow", "remote": true,
        "stack": [{ "path": "pay.js", "line": 7, "label": "pay" }] });
    let query = json!({ "id": QUERY, "name": "query", "namespace": "remote", "start_time": START + 0.01,
        "end_time": START + 0.02, "fault": true, "cause": { "exceptions": [exception] },
        "sql": { "url": "postgresql://db:5432/shop?ssl=true", "database_type": "PostgreSQL",
            "sanitized_query": "SELECT ?", "driver_version": "42" } });
    json!({ "id": HANDLE, "name": "handle", "trace_id": id, "parent_id": parent, "start_time": START,
        "end_time": START + 0.5, "service": { "version": "1.2" }, "user": "ann", "origin": "AWS::ECS::Container",
        "http": { "request": { "method": "GET", "url": "http://shop/" },
            "response": { "status": 503, "content_length": 12 } },
        "aws": { "account_id": "123", "retries": 2, "ecs": { "container": "c1" } },
        "annotations": { "shop.id": 7 },
        "links": [{ "trace_id": "1-00000000-000000000000000000000000", "id": "0000000000000000" }],
        "metadata": { "default": { "otel.resource.team": "blue", "shop.cart": true }, "debug": { "a": 1 } },
        "subsegments": [query] })
}

/// What X-Ray infers of the called database: it has no segment of its own.
fn database() -> Value {
    json!({ "id": CALLED, "name": "shop@db", "parent_id": QUERY, "start_time": START + 0.01, "in_progress": true,
        "inferred": true, "namespace": "remote" })
}

fn refused(message: &str) -> Answer {
    let body = json!({ "message": message }).to_string().into_bytes();
    Answer { body, ..Answer::status(403) }
}

/// Answers `BatchGetTraces`: at first the trace is not processed, then it comes in two pages.
fn answer(asked: &StoreRequest, session: &str, trace: Option<&(String, String)>) -> Answer {
    let StoreRequest { method, path, query, headers, body } = asked;
    let signed = Signed { method, path, query, headers, body };
    if let Err(cause) = signed.verify("AKID", "secret", "eu-central-1", "xray") {
        return refused(cause);
    }
    if asked.header("x-amz-security-token") != session {
        return refused("The security token included in the request is invalid.");
    }
    if method != "POST" || path != "/proxy/Traces" {
        return Answer::status(404);
    }
    let wanted: Value = serde_json::from_str(body).unwrap();
    let nothing =
        |id: &Value| Answer::json(json!({ "Traces": [], "UnprocessedTraceIds": [id], "NextToken": null }));
    let id = &wanted["TraceIds"][0];
    let Some((trace, parent)) = trace else { return nothing(id) };
    let expected = format!("1-{}-{}", &trace[..8], &trace[8..]);
    if *id != expected {
        return nothing(id);
    }
    let page = |document: Value, next: Option<&str>| {
        let document = json!({ "Id": document["id"], "Document": document.to_string() });
        Answer::json(json!({ "Traces": [{ "Id": expected, "Duration": 1.0, "Segments": [document] }],
            "UnprocessedTraceIds": [], "NextToken": next }))
    };
    match wanted["NextToken"].as_str() {
        None => page(shop(&expected, parent), Some("more")),
        Some("more") => page(database(), None),
        Some(_) => Answer::status(400),
    }
}

fn store(url: &str, keys: &Value) -> Value {
    let mut details = json!({ "region": "eu-central-1", "url": format!("{url}/proxy") });
    details.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    json!({ "name": "X", "type": "awsxray", "awsxray": details })
}

#[tokio::test]
async fn a_run_reads_its_trace_from_xray_page_by_page() {
    let bench = Bench::start().await;
    let xray = StandIn::start(&bench.caused, |asked, caused| answer(asked, "session", caused)).await;
    let keys = json!({ "accessKeyId": "AKID", "secretAccessKey": "secret", "sessionToken": "session" });
    bench.passes_with(&store(&xray.url, &keys)).await;
    let (trace, parent) = bench.caused.lock().unwrap().clone().unwrap();
    // Agents drop a trace whose id does not begin with a time of today.
    let seconds = u64::from_str_radix(&trace[..8], 16).unwrap();
    assert!(
        seconds.abs_diff(qualitytrace_server::base::clock::now().as_nanos() / 1_000_000_000) < 60,
        "{trace}"
    );

    let mut spans = Vec::new();
    for id in [HANDLE, QUERY, CALLED] {
        spans.push(bench.get(&format!("/api/traces/{trace}/spans/{id}")).await);
    }
    let brief: Vec<Value> = spans.iter().map(brief).collect();
    assert_eq!(
        brief[0],
        json!({ "parent": parent, "kind": "server", "status": "unset", "message": "",
        "start": "1700000000125000000", "end": "1700000000625000000", "events": [],
        "resource": { "team": "blue", "service.name": "handle", "service.version": "1.2" },
        "attributes": { "http.method": "GET", "http.url": "http://shop/", "http.status_code": 503,
            "http.response_content_length": 12, "aws.account_id": "123", "aws.xray.retries": 2,
            "aws.ecs.container": "c1", "enduser.id": "ann", "aws.xray.origin": "AWS::ECS::Container", "shop.id": 7,
            "shop.cart": true, "aws.xray.metadata.debug": "{\"a\":1}",
            "aws.xray.metadata.default": "{\"otel.resource.team\":\"blue\",\"shop.cart\":true}" } })
    );
    assert_eq!(
        brief[1],
        json!({ "parent": HANDLE, "kind": "client", "status": "error", "message": "too slow",
        "start": "1700000000135000000", "end": "1700000000145000000",
        "events": [{ "exception.type": "Timeout", "exception.message": "too slow",
            "exception.stacktrace": "Timeout: too slow\n\tat pay (pay.js:7)", "aws.xray.exception.id": "e1",
            "aws.xray.exception.remote": true }],
        "resource": { "team": "blue", "service.name": "handle", "service.version": "1.2" },
        "attributes": { "db.connection_string": "postgresql://db:5432", "db.name": "shop", "db.system": "PostgreSQL",
            "db.statement": "SELECT ?", "db.driver_version": "42", "aws.xray.namespace": "remote",
            "aws.xray.fault": true } })
    );
    assert_eq!(brief[2]["end"], Value::Null, "{}", brief[2]);
    assert_eq!(brief[2]["attributes"]["aws.xray.inferred"], true, "{}", brief[2]);
    bench.server.shutdown().await;
}

#[tokio::test]
async fn a_trace_that_xray_has_truncated_is_no_trace() {
    let bench = Bench::start().await;
    let xray = StandIn::start(&bench.caused, |asked, caused| {
        let mut answer = answer(asked, "", caused);
        if let Ok(mut page) = serde_json::from_slice::<Value>(&answer.body)
            && let Some(trace) = page["Traces"].get_mut(0)
        {
            trace["LimitExceeded"] = json!(true);
            answer.body = page.to_string().into_bytes();
        }
        answer
    })
    .await;
    bench.store(&store(&xray.url, &json!({ "accessKeyId": "AKID", "secretAccessKey": "secret" }))).await;
    let run = bench.run(&json!([])).await;
    assert_eq!(run["state"], "TRACE_FAILED", "{run}");
    assert!(run["lastErrorState"].as_str().unwrap_or_default().contains("`LimitExceeded`"), "{run}");
    bench.server.shutdown().await;
}

/// The parts of a span that X-Ray has.
fn brief(span: &Value) -> Value {
    fn attributes(of: &Value) -> Value {
        let pairs = of["attributes"].as_array().unwrap().iter();
        pairs.map(|pair| (pair["key"].as_str().unwrap().to_owned(), pair["value"].clone())).collect()
    }
    json!({ "parent": span["parentId"], "kind": span["kind"], "status": span["status"],
        "message": span["statusMessage"], "start": span["start"], "end": span["end"],
        "events": span["events"].as_array().unwrap().iter().map(attributes).collect::<Vec<_>>(),
        "resource": attributes(&span["resource"]), "attributes": attributes(span) })
}

#[tokio::test]
async fn wrong_keys_of_xray_are_told() {
    let bench = Bench::start().await;
    let xray = StandIn::start(&bench.caused, |asked, caused| answer(asked, "", caused)).await;
    let wrong = "The request signature we calculated";
    let keys = |id: &str, secret: &str| json!({ "accessKeyId": id, "secretAccessKey": secret });
    for (keys, step, told) in [
        (keys("AKID", "wrong"), "authentication", wrong),
        (
            keys("another", "secret"),
            "authentication",
            "The security token included in the request is invalid",
        ),
        (keys("AKID", ""), "connectivity", "has no `accessKeyId` and `secretAccessKey`"),
    ] {
        let connection = bench.connection(&store(&xray.url, &keys)).await;
        assert_eq!(connection[step]["status"], "failed", "{connection}");
        assert!(connection[step]["error"].as_str().unwrap().contains(told), "{connection}");
    }
    let right = bench.connection(&store(&xray.url, &keys("AKID", "secret"))).await;
    assert_eq!(right["fetchTraces"]["status"], "passed", "{right}");
    bench.store(&store(&xray.url, &keys("AKID", "wrong"))).await;
    let run = bench.run(&json!([])).await;
    let error = run["lastErrorState"].as_str().unwrap_or_default();
    assert!(error.contains("AWS X-Ray") && error.contains(wrong), "{error}");
    let no_region = json!({ "name": "X", "type": "awsxray", "awsxray": keys("AKID", "secret") });
    let connection = bench.connection(&no_region).await;
    assert!(connection["connectivity"]["error"].as_str().unwrap().contains("`region`"), "{connection}");
    bench.server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_of_many_runs_share_requests() {
    const RUNS: usize = 12;
    let bench = Bench::start().await;
    let xray = StandIn::start(&bench.caused, |asked, _| {
        // As slow as a service on the internet: meanwhile others wait.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let wanted: Value = serde_json::from_str(&asked.body).unwrap();
        let trace = |id: &Value| {
            let document =
                json!({ "id": HANDLE, "name": "handle", "start_time": START, "end_time": START + 0.5 });
            json!({ "Id": id, "Segments": [{ "Id": HANDLE, "Document": document.to_string() }] })
        };
        let traces: Vec<Value> = wanted["TraceIds"].as_array().unwrap().iter().map(trace).collect();
        Answer::json(json!({ "Traces": traces, "UnprocessedTraceIds": [] }))
    })
    .await;
    bench.store(&store(&xray.url, &json!({ "accessKeyId": "AKID", "secretAccessKey": "secret" }))).await;
    let specs = json!([{ "selector": "span[name = \"handle\"]",
        "assertions": ["attr:tracetest.selected_spans.count = 1"] }]);
    let runs = futures_util::future::join_all((0..RUNS).map(|_| bench.run(&specs))).await;
    for run in runs {
        assert_eq!(run["result"]["allPassed"], true, "{run}");
    }
    let count = |asked: &StoreRequest| {
        serde_json::from_str::<Value>(&asked.body).unwrap()["TraceIds"].as_array().unwrap().len()
    };
    let most = xray.asked().iter().map(count).max().unwrap();
    assert!((2..=5).contains(&most), "{most}");
    bench.server.shutdown().await;
}
