//! Work that may have been done by services that sent no spans, or at addresses that are not known to be theirs.

use std::time::Duration;

use super::system::{CALL, COUNT, LEAF, ROOT, Sent, run, run_test, test};
use crate::suites::holds;

const ANALYZER: &str = "type: Analyzer
spec:
  name: Keys
  enabled: true
  plugins:
  - id: security
    enabled: true
    rules:
    - { id: no-api-key-leak, weight: 50, errorLevel: error }
    - { id: secure-https-protocol, weight: 50, errorLevel: disabled }
";
const GATES: [&str; 2] = ["--required-gates", "analyzer-rules,test-specs"];

#[tokio::test]
async fn a_gate_of_the_analyzer_is_not_passed_by_a_trace_that_lacks_an_answer() {
    let text = test("/", r#"span[name = "GET /"]"#, &format!("{COUNT} = 1"), "");
    let answer = Sent { service: "billing", id: 4, parent: 3, name: "pay", kind: 2, ..ROOT };
    let files = [("t.yaml", &*text), ("analyzer.yaml", ANALYZER)];
    let open: &[Sent] = &[ROOT, CALL];
    for (spans, code) in [(open, 4), (&[ROOT, CALL, answer], 0)] {
        let folder = tempfile::tempdir().unwrap();
        let ran = run(folder.path(), &files, &[("/", spans)], &GATES).await;
        assert_eq!(ran.code, Some(code), "{}", ran.text);
        if code == 4 {
            let told = "gate analyzer-rules: a span that is not here could break it: no service has answered a call to mail:25 yet";
            holds(&ran.text, &[told]);
        }
    }
    // Without the gate nothing is reported about it.
    let ran = run_test(&text, &[("/", open)], &[]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.text);
}

#[tokio::test]
async fn without_waiting_nothing_is_known_to_be_absent() {
    let profile = "  pollingProfile: { strategy: no-polling }\n";
    let leaf = test("/", r#"span[name = "leaf"]"#, &format!("{COUNT} = 0"), profile);
    let late = Sent { comes: Duration::from_secs(20), ..LEAF };
    let ran = run_test(&leaf, &[("/", &[ROOT, late])], &["--confirm", "0s"]).await;
    assert_eq!(ran.code, Some(4), "{}", ran.text);
    holds(&ran.text, &["the trace is not waited for (`strategy: no-polling`)"]);
    // The response of the trigger is known.
    let trigger = r#"span[name = "Tracetest trigger"]"#;
    let answered = test("/", trigger, "attr:tracetest.response.status = 200", profile);
    let ran = run_test(&answered, &[("/", &[ROOT, late])], &["--confirm", "0s"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.text);
}

#[tokio::test]
async fn a_service_may_answer_under_an_address_that_it_was_not_known_under() {
    let answer = Sent { service: "billing", id: 4, parent: 3, name: "pay", kind: 2, ..ROOT };
    let elsewhere = Sent { attributes: &[("rpc.system", "grpc"), ("server.address", "10.0.0.2")], ..CALL };
    let slow = Sent { comes: Duration::from_secs(20), ..answer };
    let plan: &[(_, &[Sent])] = &[("/known", &[ROOT, CALL, answer]), ("/new", &[ROOT, elsewhere, slow])];
    let billing = r#"span[service.name = "billing"]"#;
    let known = test("/known", billing, &format!("{COUNT} = 1"), "").replace("id: t", "id: a");
    let new = test("/new", billing, &format!("{COUNT} = 0"), "").replace("id: t", "id: b");
    let folder = tempfile::tempdir().unwrap();
    let files = [("a.yaml", &*known), ("b.yaml", &*new)];
    let ran = run(folder.path(), &files, plan, &["--parallel", "1", "--timeout", "5s"]).await;
    assert_eq!(ran.code, Some(4), "{}", ran.text);
    holds(&ran.text, &["no service has answered a call to 10.0.0.2 yet"]);
}

#[tokio::test]
async fn a_message_may_have_consumers_that_were_not_heard() {
    let attributes = &[("messaging.system", "kafka"), ("messaging.destination.name", "orders")];
    let publish = Sent { id: 3, parent: 1, name: "send orders", kind: 4, attributes, ..ROOT };
    let process =
        Sent { service: "worker", id: 4, parent: 3, name: "process orders", kind: 5, attributes, ..ROOT };
    let audit = Sent { service: "audit", id: 5, comes: Duration::from_secs(20), ..process };
    let text = test("/", r#"span[service.name = "audit"]"#, &format!("{COUNT} = 0"), "");
    let ran = run_test(&text, &[("/", &[ROOT, publish, process, audit])], &[]).await;
    assert_eq!(ran.code, Some(4), "{}", ran.text);
    holds(&ran.text, &["a message to orders may have consumers that were not heard yet: run once more"]);
}

#[tokio::test]
async fn what_this_server_refused_is_not_absent() {
    let lost = Sent { malformed: true, ..LEAF };
    let spans: &[Sent] = &[ROOT, lost];
    let leaf = test("/", r#"span[name = "leaf"]"#, &format!("{COUNT} = 0"), "");
    let ran = run_test(&leaf, &[("/", spans)], &[]).await;
    assert_eq!(ran.code, Some(4), "{}", ran.text);
    holds(&ran.text, &["a delivery of spans from 127.0.0.1 was refused meanwhile: "]);
    // Spans that were found are not in doubt.
    let root = test("/", r#"span[service.name = "shop"]"#, r#"attr:name = "GET /""#, "");
    let ran = run_test(&root, &[("/", spans)], &[]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.text);
}

#[tokio::test]
async fn work_of_a_test_that_is_not_known_is_looked_for_as_long_as_a_failure_is_confirmed() {
    // The service delivers all the time: what it ended within the settle window has arrived.
    let beats = (1..40).map(|at| {
        let after = Duration::from_millis(300 * at);
        Sent { id: 100 + at, strays: true, name: "beat", ends: after, comes: after, ..ROOT }
    });
    let job = Sent { ends: Duration::from_secs(5), comes: Duration::from_secs(5), ..LEAF };
    let spans: Vec<Sent> = [ROOT, job].into_iter().chain(beats).collect();
    let leaf = test("/", r#"span[name = "leaf"]"#, &format!("{COUNT} = 1"), "");
    let ran = run_test(&leaf, &[("/", &spans)], &[]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.text);
    holds(&ran.text, &["corrected: 1 more span came after the verdict, which was inconclusive"]);
}
