//! First runs of systems whose services have proven to deliver promptly do not wait for the whole settle window.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use qualitytrace_core::wait::Policy;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::Config;
use qualitytrace_server::serve::server::Server;
use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::Bench;

/// A server whose windows do not end during a test, except where services are prompt.
async fn bench() -> Bench {
    let hour = Duration::from_hours(1);
    let config = Config {
        http: SocketAddr::from(([127, 0, 0, 1], 0)),
        otlp_grpc: None,
        otlp_http: None,
        wait: Policy { settle: hour, timeout: hour, ..Policy::DEFAULT },
        limits: Limits { prompt_settle: Some(Policy::PROMPT.settle), ..Limits::default() },
        ..Config::default()
    };
    let server = Server::start(config).await.unwrap();
    let base = format!("http://{}", server.addresses().http);
    Bench { server, base, client: reqwest::Client::builder().timeout(DEADLINE).build().unwrap() }
}

impl Bench {
    /// Sends a span of a service that ended so long ago.
    async fn deliver(&self, service: &str, lag: Duration, mut span: Value) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let end = now.saturating_sub(lag).as_nanos().to_string();
        (span["startTimeUnixNano"], span["endTimeUnixNano"]) = (json!(end), json!(end));
        (span["kind"], span["spanId"]) = (json!(1), json!(format!("{:016x}", rand::random::<u64>() | 1)));
        let service = json!({ "key": "service.name", "value": { "stringValue": service } });
        let body = json!({ "resourceSpans": [{
            "resource": { "attributes": [service] }, "scopeSpans": [{ "spans": [span] }],
        }] });
        let headers = [("content-type", "application/json")];
        let sent = self.send(Method::POST, "/v1/traces", &headers, &body.to_string()).await;
        assert_eq!(sent.status, StatusCode::OK, "{}", sent.text);
    }

    /// Lets a service deliver until it is known, as health checks do.
    async fn known(&self, service: &str, lag: Duration) {
        eventually(DEADLINE, format!("{service} is known"), async || {
            let trace = format!("{:032x}", rand::random::<u128>() | 1);
            self.deliver(service, lag, json!({ "traceId": trace, "name": "GET /healthz" })).await;
            let known = self.get("/api/services").await.json();
            let known = known["items"].as_array().unwrap().iter().find(|known| known["name"] == service);
            if known.is_some_and(|known| known["deliveries"].as_u64() >= Some(5)) {
                Ok(())
            } else {
                Err("not heard five times yet")
            }
        })
        .await;
    }

    /// Starts a test of a trigger that is answered, whose trace has one span of a service.
    async fn begin(&self, id: &str, service: &str, selected: &str, lag: Duration) {
        let url = format!("{}/healthz", self.base);
        let spec = json!({
            "id": id, "name": id, "trigger": { "type": "http", "httpRequest": { "method": "GET", "url": url } },
            "specs": [{ "selector": selected, "assertions": ["attr:tracetest.selected_spans.count = 1"] }],
        });
        let stored = self.put("/api/tests", &json!({ "type": "Test", "spec": spec })).await;
        assert_eq!(stored.status, StatusCode::CREATED, "{}", stored.text);
        self.post(&format!("/api/tests/{id}/run"), &json!({})).await;
        let run = eventually(DEADLINE, "the run waits for its trace", async || {
            let run = self.get(&format!("/api/tests/{id}/run/1")).await.json();
            if run["state"] == "AWAITING_TRACE" { Ok(run) } else { Err(run) }
        })
        .await;
        let span = json!({ "traceId": run["traceId"], "parentSpanId": run["spanId"], "name": "work" });
        self.deliver(service, lag, span).await;
    }

    async fn state_of(&self, id: &str) -> String {
        let run = self.get(&format!("/api/tests/{id}/run/1")).await.json();
        run["state"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_first_run_ends_sooner_if_every_service_in_it_delivers_promptly() {
    let bench = bench().await;
    let (prompt, late) = (Duration::from_millis(100), Duration::from_secs(1));
    bench.known("prompt", prompt).await;
    bench.known("late", late).await;
    let work = "span[name=\"work\"]";
    // These begin first, and have longer been silent when the last one ends.
    bench.begin("of-late", "late", work, late).await;
    bench.begin("of-new", "new", work, prompt).await;
    bench.begin("lacks-spans", "prompt", "span[name=\"job\"]", prompt).await;
    bench.begin("of-prompt", "prompt", work, prompt).await;
    eventually(DEADLINE, "the run of the prompt service ends", async || {
        let state = bench.state_of("of-prompt").await;
        if state == "FINISHED" { Ok(()) } else { Err(state) }
    })
    .await;
    for id in ["of-late", "of-new", "lacks-spans"] {
        assert_eq!(bench.state_of(id).await, "AWAITING_TRACE", "{id}");
    }
    bench.server.shutdown().await;
}
