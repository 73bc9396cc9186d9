//! Missing spans: the real program beside a system that sends too little, too late, or to another server.

mod system;
mod unheard;

use std::time::Duration;

use qualitytrace_testing::{DEADLINE, eventually};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::late_spans_load::client::{Client, Started};
use crate::late_spans_load::program::Served;
use crate::suites::holds;
use system::{CALL, COUNT, LEAF, ROOT, Sent, System, now, run, run_test, test};

#[tokio::test]
async fn an_unanswered_call_hides_unheard_services_unless_its_peer_is_listed_as_uninstrumented() {
    let plan: &[(_, &[Sent])] = &[("/", &[ROOT, CALL])];
    let ledger = r#"span[service.name = "ledger"]"#;
    let plain = test("/", ledger, &format!("{COUNT} = 0"), "");
    let ran = run_test(&plain, plan, &[]).await;
    assert_eq!(ran.code, Some(4), "{}", ran.text);
    holds(
        &ran.text,
        &[
            "no service has answered a call to mail:25 yet; if it sends no spans, run once more or list it under `uninstrumented`",
        ],
    );
    let listed = test("/", ledger, &format!("{COUNT} = 0"), "  uninstrumented: ['mail:25']\n");
    for (test, arguments) in [(&listed, &[][..]), (&plain, &["--uninstrumented", "other,mail"])] {
        let ran = run_test(test, plan, arguments).await;
        assert_eq!(ran.code, Some(0), "{}", ran.text);
    }

    // A server that is named takes it for the run.
    let server = Served::start(crate::program(), "sqlite::memory:", &[]).await;
    let system = System::start(&server.http.to_string(), plan).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.yaml"), &plain).unwrap();
    let mut command = Command::new(crate::program());
    command.current_dir(folder.path()).args(["run", "t.yaml", "--settle", "400ms", "--quiet", "50ms"]);
    command.args(["--uninstrumented", "mail", "--server", &server.url("")]);
    let ran = command.args(["--var", &format!("URL={}", system.url)]).output().await.unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stdout));
}

#[tokio::test]
async fn an_unanswered_call_that_the_verdict_does_not_need_is_noted() {
    let test = test("/", r#"span[name = "GET /"]"#, &format!("{COUNT} = 1"), "");
    let ran = run_test(&test, &[("/", &[ROOT, CALL])], &[]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    holds(&ran.text, &["not needed: the call `POST` (shop, span 0000000000000003)"]);
    // Nothing is noted of a span that no call and no earlier run leads to expect.
    let stray = Sent { parent: 9, ..LEAF };
    let ran = run_test(&test, &[("/", &[ROOT, stray])], &[]).await;
    assert!(!ran.text.contains("not needed:"), "{}", ran.text);
}

#[tokio::test]
async fn a_failure_that_is_final_leaves_open_what_else_is_claimed() {
    let ledger =
        format!("  - selector: 'span[service.name = \"ledger\"]'\n    assertions: ['{COUNT} = 0']\n");
    let failing =
        test("/", r#"span[name = "Tracetest trigger"]"#, "attr:tracetest.response.status = 500", "");
    let ran = run_test(&(failing + &ledger), &[("/", &[ROOT, CALL])], &[]).await;
    assert_eq!(ran.code, Some(2), "{}", ran.text);
    holds(&ran.text, &["no service has answered a call to mail:25 yet"]);
}

#[tokio::test]
async fn a_later_span_of_another_replica_proves_nothing_about_the_answering_one() {
    let answer = Sent { service: "billing", id: 4, parent: 3, name: "pay", kind: 2, ..ROOT };
    let slow = Sent { comes: Duration::from_secs(20), ..answer };
    let plan: &[(_, &[Sent])] = &[("/prompt", &[ROOT, CALL, answer]), ("/slow", &[ROOT, CALL, slow])];
    let billing = r#"span[service.name = "billing"]"#;
    let named = |id: &str, text: String| text.replace("id: t", &format!("id: {id}"));
    let prompt = |id: &str| named(id, test("/prompt", billing, &format!("{COUNT} = 1"), ""));
    let slow = named("b", test("/slow", billing, &format!("{COUNT} = 0"), ""));
    let files = [("a.yaml", &*prompt("a")), ("b.yaml", &*slow), ("c.yaml", &*prompt("c"))];
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &files, plan, &["--parallel", "1", "--timeout", "5s"]).await;
    assert_eq!(ran.code, Some(4), "{}", ran.text);
    holds(&ran.text, &["answered a call and billing has sent no span for it"]);
}

#[tokio::test]
async fn secrets_are_not_learned() {
    let root = Sent { name: "GET /u/swordfish-topsecret", ..ROOT };
    let set = "type: VariableSet
spec:
  id: v
  name: v
  values: [{ key: PW, value: swordfish-topsecret, type: secret }]
";
    let text = test("/u/${var:PW}", r#"span[kind = "server"]"#, &format!("{COUNT} = 1"), "");
    let folder = tempfile::tempdir().unwrap();
    let plan: &[(_, &[Sent])] = &[("/u/swordfish-topsecret", &[root])];
    let files = [("t.yaml", &*text), ("v.yaml", set)];
    let ran = run(folder.path(), &files, plan, &["--learned", "learned.json"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    let learned = std::fs::read_to_string(folder.path().join("learned.json")).unwrap();
    assert!(learned.contains("GET /u/") && !learned.contains("swordfish"), "{learned}");
}

#[tokio::test]
async fn nothing_at_all_is_told_after_the_settle_window_with_where_to_send_it() {
    let leaf = test("/", r#"span[name = "leaf"]"#, &format!("{COUNT} = 1"), "");
    let ran = run_test(&leaf, &[], &["--confirm", "0"]).await;
    assert_eq!(ran.code, Some(2), "{}", ran.text);
    holds(
        &ran.text,
        &[
            "nothing at all has arrived since this server started",
            "it takes OTLP at http://127.0.0.1:",
            "(http/protobuf); check OTEL_EXPORTER_OTLP_ENDPOINT",
            "if it ran before this server, its exporter may have found the port closed",
        ],
    );
    assert!(ran.took < Duration::from_secs(40), "it took {:?}", ran.took);
}

#[tokio::test]
async fn a_span_of_the_same_moment_in_another_trace_is_named() {
    let stray = Sent {
        attributes: &[("http.request.method", "GET"), ("url.path", "/orders/7")],
        strays: true,
        name: "GET /orders/{id}",
        ..ROOT
    };
    let leaf = test("/orders/7", r#"span[name = "leaf"]"#, &format!("{COUNT} = 1"), "");
    // It is told after the settle window: no span of this trace will come.
    let arguments = ["--confirm", "0", "--timeout", "20m"];
    let ran = run_test(&leaf, &[("/orders/7", &[stray])], &arguments).await;
    assert_eq!(ran.code, Some(2), "{}", ran.text);
    holds(
        &ran.text,
        &[
            "the span `GET /orders/{id}` (shop) answers a request like this one, at the same moment, but in trace ",
            "does not take over the `traceparent` header",
            "OTEL_PROPAGATORS=tracecontext",
        ],
    );
    // One that has nothing to do with the request is not.
    let other = Sent { attributes: &[("http.request.method", "GET"), ("url.path", "/health")], ..stray };
    let ran = run_test(&leaf, &[("/orders/7", &[other])], &["--confirm", "0", "--timeout", "2s"]).await;
    holds(
        &ran.text,
        &["other traces came meanwhile (from shop), and none of their spans is about this request"],
    );
}

#[tokio::test]
async fn a_part_of_the_trace_that_was_lost_between_two_services_is_named() {
    // The client that is not instrumented shows nothing of its call.
    let root = Sent { ends: Duration::from_millis(200), ..ROOT };
    let lost = Sent {
        service: "billing",
        id: 9,
        strays: true,
        name: "POST /charges",
        attributes: &[("http.request.method", "POST"), ("url.path", "/charges")],
        begins: Duration::from_millis(50),
        ends: Duration::from_millis(150),
        ..ROOT
    };
    let charge = r#"span[name = "GET /"] span[service.name = "billing"]"#;
    let charge = test("/", charge, &format!("{COUNT} = 1"), "");
    let arguments = ["--confirm", "0", "-j", "report.xml"];
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &[("t.yaml", &charge)], &[("/", &[root, lost])], &arguments).await;
    assert_eq!(ran.code, Some(2), "{}", ran.text);
    let told = [
        "`POST /charges` (billing) is in trace ",
        ", which begins at the same moment: shop probably does not pass the `traceparent` header on to what it calls",
    ];
    holds(&ran.text, &told);
    let junit = std::fs::read_to_string(folder.path().join("report.xml")).unwrap();
    holds(&junit.replace("&#96;", "`"), &told);

    // A call without an answer says more.
    let call = Sent {
        id: 2,
        parent: 1,
        name: "POST",
        kind: 3,
        attributes: &[("http.request.method", "POST"), ("url.full", "http://billing:80/charges?x=1")],
        ..root
    };
    let ran = run_test(&charge, &[("/", &[root, call, lost])], &["--confirm", "0", "--timeout", "3s"]).await;
    holds(
        &ran.text,
        &[
            "`POST /charges` (billing) is in trace ",
            "which begins at the same moment, like an answer to `POST` (shop): shop does not pass the `traceparent`",
        ],
    );

    // A health check of that moment is no part of it.
    let health = Sent { name: "GET /health", attributes: &[("url.path", "/health")], ..lost };
    let receipt = test("/", r#"span[name = "receipt"]"#, &format!("{COUNT} = 1"), "");
    let ran = run_test(&receipt, &[("/", &[root, health])], &["--confirm", "0"]).await;
    assert!(!ran.text.contains("is in trace"), "{}", ran.text);
}

#[tokio::test]
async fn spans_of_others_without_those_of_the_answering_service_say_so() {
    let below = Sent { service: "billing", id: 5, parent: 4, name: "charge", ..ROOT };
    let leaf = test("/", r#"span[name = "leaf"]"#, &format!("{COUNT} = 0"), "");
    let ran = run_test(&leaf, &[("/", &[below])], &["--timeout", "3s"]).await;
    assert_eq!(ran.code, Some(4), "{}", ran.text);
    holds(
        &ran.text,
        &[
            "no span of the service that answered the request has arrived, only spans of billing that were called by it",
        ],
    );
}

const LATE: Sent = Sent { comes: Duration::from_secs(3), ends: Duration::from_secs(3), ..LEAF };

#[tokio::test]
async fn a_failure_by_absence_is_corrected_before_the_program_ends_and_learned() {
    let folder = tempfile::tempdir().unwrap();
    let leaf = test("/", r#"span[name = "leaf"]"#, &format!("{COUNT} = 1"), "");
    let arguments = ["--confirm", "30s", "--learned", "learned.json"];
    let ran = run(folder.path(), &[("t.yaml", &leaf)], &[("/", &[ROOT, LATE])], &arguments).await;
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    holds(&ran.text, &["corrected: 1 more span came after the verdict, which was inconclusive"]);
    assert!(ran.took < Duration::from_secs(25), "it took {:?}", ran.took);
    let learned: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("learned.json")).unwrap()).unwrap();
    assert!(learned["tests"]["t"]["longestMs"].as_u64().unwrap() >= 2_500, "{learned}");
}

#[tokio::test]
async fn a_run_without_a_trace_is_corrected_before_the_program_ends() {
    let late = Sent { comes: Duration::from_secs(3), ..ROOT };
    let root = test("/", r#"span[name = "GET /"]"#, &format!("{COUNT} = 1"), "");
    let ran = run_test(&root, &[("/", &[late])], &["--confirm", "30s"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    holds(
        &ran.text,
        &["nothing at all has arrived", "corrected: 1 span came after the run had ended without a trace"],
    );
}

#[tokio::test]
async fn a_failure_is_not_looked_at_any_longer_once_the_absence_is_proven() {
    // The service goes on with other work: what it ended before has been delivered.
    let beats: Vec<Sent> = (1..100)
        .map(|at| {
            let after = Duration::from_millis(300 * at);
            Sent { id: 100 + at, strays: true, name: "beat", ends: after, comes: after, ..ROOT }
        })
        .collect();
    let spans: Vec<Sent> = std::iter::once(ROOT).chain(beats).collect();
    let leaf = test("/", r#"span[name = "leaf"]"#, &format!("{COUNT} = 1"), "");
    let ran = run_test(&leaf, &[("/", &spans)], &["--confirm", "25s", "--within", "2s"]).await;
    assert_eq!(ran.code, Some(2), "{}", ran.text);
    assert!(ran.took < Duration::from_secs(20), "it took {:?}: {}", ran.took, ran.text);
}

#[tokio::test]
async fn how_long_a_failure_is_looked_at_again_is_a_matter_of_the_profile() {
    let profile = "  pollingProfile: { strategy: periodic, periodic: { retryDelay: 1s, timeout: 20s, settle: 300ms, confirm: 25s } }\n";
    let leaf = test("/", r#"span[name = "leaf"]"#, &format!("{COUNT} = 1"), profile);
    let late = Sent { comes: Duration::from_secs(13), ..LATE };
    // Longer than the default.
    let ran = run_test(&leaf, &[("/", &[ROOT, late])], &[]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    // The flag overrides it.
    let ran = run_test(&leaf, &[("/", &[ROOT, late])], &["--confirm", "0s"]).await;
    assert_eq!(ran.code, Some(4), "{}", ran.text);
}

#[tokio::test]
async fn a_failed_run_teaches_lateness_and_no_shape() {
    let folder = tempfile::tempdir().unwrap();
    let odd = Sent { id: 9, parent: 1, name: "odd", kind: 1, ..ROOT };
    let slow = Sent { ends: Duration::from_millis(1_200), comes: Duration::from_millis(200), ..LEAF };
    let plan: &[(_, &[Sent])] = &[("/good", &[ROOT, LEAF]), ("/bad", &[ROOT, slow, odd])];
    // Which span is the first may change: the failure is not final before the slow span came.
    let odd_free = test("/${var:WAY}", r#"span[name = "odd"]:first"#, &format!("{COUNT} = 0"), "");
    let learned = async |way: &str| -> (Option<i32>, Value) {
        let way = format!("WAY={way}");
        let arguments = ["--learned", "learned.json", "--var", &way];
        let ran = run(folder.path(), &[("t.yaml", &odd_free)], plan, &arguments).await;
        let text = std::fs::read_to_string(folder.path().join("learned.json")).unwrap();
        (ran.code, serde_json::from_str(&text).unwrap())
    };
    let late = |learned: &Value| {
        let spans = learned["tests"]["t"]["spans"].as_array().unwrap().clone();
        assert!(spans.iter().all(|span| span["name"] != "odd"), "{learned}");
        let leaf = spans.iter().find(|span| span["name"] == "leaf").expect("the leaf is known");
        (leaf["lateMs"].as_u64().unwrap_or_default(), learned["tests"]["t"]["runs"].as_u64().unwrap())
    };
    let (code, known) = learned("good").await;
    assert_eq!((code, late(&known).1), (Some(0), 1), "{known}");
    assert!(late(&known).0 < 1_000, "{known}");
    let (code, known) = learned("bad").await;
    assert_eq!((code, late(&known).1), (Some(2), 1), "{known}");
    assert!(late(&known).0 >= 1_000, "{known}");
}

/// A server, and a system that sends it the planned spans.
async fn serve(
    database: &str,
    arguments: &[&str],
    plan: &[(&'static str, &[Sent])],
) -> (Served, Client, System) {
    let server = Served::start(crate::program(), database, arguments).await;
    let client = Client::new(server.url(""));
    let system = System::start(&server.http.to_string(), plan).await;
    (server, client, system)
}

/// Stores a test with its own profile and starts it.
async fn start(server: &Served, system: &System, name: &str, periodic: &Value) -> Started {
    let trigger =
        json!({ "type": "http", "httpRequest": { "method": "GET", "url": format!("{}/", system.url) } });
    let selector = format!("span[name = \"{name}\"]");
    let spec = json!({
        "id": "t", "name": "T", "trigger": trigger,
        "specs": [{ "selector": selector, "assertions": [format!("{COUNT} = 1")] }],
        "pollingProfile": { "strategy": "periodic", "periodic": periodic },
    });
    let http = crate::client();
    let stored = http.put(server.url("/api/tests")).json(&json!({ "type": "Test", "spec": spec })).send();
    stored.await.unwrap().error_for_status().unwrap();
    // Settings of the run apply to its correction, too.
    let rule = |id: &str| json!({ "id": id, "weight": 25, "errorLevel": "error" });
    let rules = ["span-naming", "required-attributes", "attribute-naming", "no-empty-attributes"].map(rule);
    let plugin = json!({ "id": "standards", "enabled": true, "rules": rules });
    let analyzer = json!({ "name": "Strict", "enabled": true, "minimumScore": 97, "plugins": [plugin] });
    let asked = json!({ "settings": { "analyzer": analyzer } });
    let run = http.post(server.url("/api/tests/t/run")).json(&asked).send().await.unwrap();
    let run: Value = run.error_for_status().unwrap().json().await.unwrap();
    Started {
        test: "t".to_owned(),
        number: run["id"].as_u64().unwrap(),
        trace: run["traceId"].as_str().unwrap().to_owned(),
    }
}

async fn until_state(client: &Client, run: &Started, state: &str) {
    eventually(DEADLINE, format!("the run becomes {state}"), async || {
        let now = client.state(run).await;
        if now == state { Ok(()) } else { Err(now) }
    })
    .await;
}

#[tokio::test]
async fn a_run_without_a_trace_is_corrected_with_the_settings_that_it_brought() {
    let late = Sent { comes: Duration::from_secs(3), ..ROOT };
    let (server, client, system) = serve("sqlite::memory:", &[], &[("/", &[late])]).await;
    let run =
        start(&server, &system, "GET /", &json!({ "retryDelay": "1s", "timeout": "1s", "settle": "300ms" }))
            .await;
    let ended = client.events(&run).await;
    assert_eq!((ended.verdict(), ended.all("noTrace").count()), ("", 1), "{ended:?}");
    assert_eq!(client.corrected(&run, Duration::from_mins(1)).await.as_deref(), Some("passed"));
    assert_eq!(client.state(&run).await, "FINISHED");
    let shown: Value = reqwest::get(server.url("/api/tests/t/run/1")).await.unwrap().json().await.unwrap();
    assert_eq!(shown["linter"]["minimumScore"], 97, "{shown}");
}

#[tokio::test]
async fn a_run_without_a_trace_is_watched_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}", folder.path().join("test.db").display());
    let (mut server, client, system) = serve(&database, &[], &[]).await;
    let run =
        start(&server, &system, "GET /", &json!({ "retryDelay": "1s", "timeout": "1s", "settle": "300ms" }))
            .await;
    let context = system.asked().await;
    assert_eq!(client.events(&run).await.all("noTrace").count(), 1);
    server.child.kill().await.unwrap();

    let (server, client, _) = serve(&database, &[], &[]).await;
    let system = System::start(&server.http.to_string(), &[]).await;
    system.deliver(ROOT, &context, now()).await;
    assert_eq!(client.corrected(&run, Duration::from_secs(45)).await.as_deref(), Some("passed"));
    assert_eq!(client.state(&run).await, "FINISHED");
}

#[tokio::test]
async fn late_spans_are_looked_for_twice_as_long_as_the_latest_took() {
    let old = Sent { service: "slow", strays: true, ..ROOT };
    let late = Sent { comes: Duration::from_secs(6), ..LEAF };
    let (server, client, system) =
        serve("sqlite::memory:", &["--runs.lateWindow", "1s"], &[("/", &[ROOT, late])]).await;
    // A service delivers a span that ended ten seconds ago.
    system.deliver(old, "00-0-0000000000000001-01", now() - 10_000_000_000).await;
    let run =
        start(&server, &system, "leaf", &json!({ "retryDelay": "1s", "timeout": "3s", "settle": "300ms" }))
            .await;
    assert_ne!(client.events(&run).await.verdict(), "passed");
    assert_eq!(client.corrected(&run, Duration::from_secs(30)).await.as_deref(), Some("passed"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_that_stood_still_reads_first_what_its_sockets_hold() {
    let late = Sent { comes: Duration::from_secs(2), ..ROOT };
    let (server, client, system) = serve("sqlite::memory:", &[], &[("/", &[late])]).await;
    let run =
        start(&server, &system, "GET /", &json!({ "retryDelay": "1s", "timeout": "3s", "settle": "2500ms" }))
            .await;
    until_state(&client, &run, "AWAITING_TRACE").await;
    let signal = async |name: &str| {
        let pid = server.child.id().unwrap().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().await.unwrap().success());
    };
    signal("-STOP").await;
    // The process stands still for longer than the run may take, and than the spans take to come.
    tokio::time::sleep(Duration::from_secs(6)).await;
    signal("-CONT").await;
    let events = client.events(&run).await;
    assert_eq!(events.verdict(), "passed", "{events:?}");
}
