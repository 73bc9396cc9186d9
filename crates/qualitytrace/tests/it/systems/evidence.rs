//! What one process says about another, with real SDKs: a replica without an SDK or with a dead exporter, a root that is not
//! sampled, a count beside a silent service, and work that nothing announces.

use std::path::{Path, PathBuf};

use super::fleet::{Fleet, Variable, examples, installed};
use super::{NO_RECEIPT, ProgramRun, run, run_on, served};

/// A replica of stock whose exporter reaches nobody.
const DEAD_EXPORTER: Variable = ("stock", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
/// A replica of billing that makes no spans.
const NO_SDK: Variable = ("billing", "OTEL_SDK_DISABLED", "true");

/// Sends six orders to a system of which one service has a second, mute process; each answers every other call.
async fn with_a_mute_replica(installed: &Path, mute: Variable, bug: Option<Variable>) {
    let server = served().await;
    let bugs: Vec<Variable> = bug.into_iter().collect();
    let mut fleet = Fleet::start(installed, &server.url(""), &bugs).await;
    let of_replica: Vec<Variable> = bugs.iter().copied().chain([mute]).collect();
    fleet.replicate(mute.0, &of_replica).await;
    let mut codes = Vec::new();
    for number in 1..=6 {
        let arguments = ["--server", &server.url(""), "--timeout", "15s", "--confirm", "0s"];
        let came = run(&fleet, "order.yaml", &arguments).await;
        let what = format!("{} has a mute replica, bug {bug:?}, run {number}", mute.0);
        came.is_not_wrong(&what, bug.is_some(), &[mute.0, "billing"]);
        codes.push(came.code);
    }
    assert!(codes.contains(&Some(4)), "the mute process answered every other call: {codes:?}");
    assert!(bug.is_some() || codes.contains(&Some(0)), "the other one sends its spans: {codes:?}");
}

#[tokio::test]
async fn no_verdict_is_wrong_beside_a_replica_with_a_dead_exporter() {
    let Some(installed) = installed() else { return };
    with_a_mute_replica(&installed, DEAD_EXPORTER, None).await;
}

#[tokio::test]
async fn no_verdict_is_wrong_beside_a_replica_without_an_sdk() {
    let Some(installed) = installed() else { return };
    tokio::join!(
        with_a_mute_replica(&installed, NO_SDK, None),
        with_a_mute_replica(&installed, NO_SDK, Some(NO_RECEIPT)),
    );
}

/// Checks that nothing is said about spans of a trace that was not sampled.
fn is_no_verdict(came: &ProgramRun, what: &str) {
    assert!(came.code == Some(4) || came.text.contains("1 broken"), "{what}: {:?}\n{}", came.code, came.text);
    assert!(came.text.contains("OTEL_TRACES_SAMPLER"), "{what}: the sampler is not named\n{}", came.text);
}

#[tokio::test]
async fn a_trace_that_is_not_sampled_neither_passes_nor_fails() {
    let Some(installed) = installed() else { return };
    let server = served().await;
    let there = ["--server", &server.url(""), "--timeout", "15s", "--confirm", "0s"];
    let sampled = |service| {
        [(service, "OTEL_TRACES_SAMPLER", "traceidratio"), (service, "OTEL_TRACES_SAMPLER_ARG", "0")]
    };
    let node = Fleet::start(&installed, &server.url(""), &sampled("orders")).await;
    for number in 1..=2 {
        let came = run(&node, "order.yaml", &there).await;
        is_no_verdict(&came, &format!("orders samples nothing, run {number}"));
    }
    let python = Fleet::of(&installed, &server.url(""), &["billing"], &sampled("billing")).await;
    let invoice = examples().join("python/tests/invoice.yaml");
    is_no_verdict(&run_on(&python, "billing", &invoice, &there).await, "billing samples nothing");
}

/// A test of how many services answered an order.
fn server_spans(folder: &Path, count: usize) -> PathBuf {
    let order = std::fs::read_to_string(examples().join("node/tests/order.yaml")).unwrap();
    let (trigger, _) = order.split_once("  specs:").unwrap();
    let file = folder.join(format!("{count}.yaml"));
    let spec = format!(
        "  specs:\n    - selector: span[kind=\"server\"]\n      assertions: [attr:tracetest.selected_spans.count = {count}]\n"
    );
    std::fs::write(&file, trigger.replace("orders-order", &format!("order-{count}")) + &spec).unwrap();
    file
}

#[tokio::test]
async fn a_count_is_open_beside_a_service_that_answered_without_a_span() {
    let Some(installed) = installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    for mute in [DEAD_EXPORTER, NO_SDK] {
        let server = served().await;
        let fleet = Fleet::start(&installed, &server.url(""), &[mute]).await;
        let there = ["--server", &server.url(""), "--timeout", "15s", "--confirm", "0s"];
        let came = run_on(&fleet, "orders", &server_spans(folder.path(), 3), &there).await;
        assert_eq!(came.code, Some(4), "one more span would make it hold, {} is mute\n{}", mute.0, came.text);
        let came = run_on(&fleet, "orders", &server_spans(folder.path(), 1), &there).await;
        assert_eq!(came.code, Some(2), "no span makes it hold\n{}", came.text);
    }
}

#[tokio::test]
async fn work_that_nothing_announces_is_open_until_the_spec_says_how_long_it_takes() {
    let Some(installed) = installed() else { return };
    let tests = [("billing", "python/tests/invoice.yaml"), ("mail", "java/tests/mail.yaml")];
    for (service, test) in tests {
        let test = examples().join(test);
        for (bug, within, expected) in [
            ("", None, 4),
            ("", Some("8s"), 0),
            (if service == "mail" { "no-delivery" } else { "no-receipt" }, Some("8s"), 2),
        ] {
            // What an earlier run has shown is known: each begins anew.
            let server = served().await;
            let prompt = [(service, "OTEL_BSP_SCHEDULE_DELAY", "100"), (service, "BUG", bug)];
            let fleet = Fleet::of(&installed, &server.url(""), &[service], &prompt).await;
            let there = ["--server", &server.url(""), "--settle", "500ms", "--confirm", "0s"];
            let allowed = within.map(|within| ["--within", within]);
            let arguments: Vec<&str> = there.iter().copied().chain(allowed.into_iter().flatten()).collect();
            let calls = super::probe(fleet.url(service));
            let came = tokio::select! {
                () = calls => unreachable!("it never ends"),
                came = run_on(&fleet, service, &test, &arguments) => came,
            };
            let what = format!("{service}, bug `{bug}`, within {within:?}");
            assert_eq!(came.code, Some(expected), "{what}\n{}", came.text);
            let says = came.text.contains("say `within: 30s` on the spec");
            assert_eq!(says, expected == 4, "{what}\n{}", came.text);
        }
    }
}
