//! A configuration file that loses security settings, by mistake or because it is half written.

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::StatusCode;
use serde_json::json;

use crate::full_queue::{Gate, put, start};
use crate::reload::{BASE, Bench, signal, write};

const TOKEN: &str = "full-token-0123456789";
const SAFE: &str = "auth: {tokens: ['full:full-token-0123456789'], otlp: true}\n\
                    trigger: {deny: [127.0.0.0/8, 10.0.0.0/8]}\n\
                    redact: {headers: [x-mine]}\n";

/// The status codes for an unauthenticated client, from the API and from OTLP.
async fn strangers(bench: &Bench) -> [StatusCode; 2] {
    let api = bench.client.get(bench.served.url("/api/tests"));
    let otlp = bench.client.post(bench.served.url("/v1/traces")).json(&json!({}));
    [api.send().await.unwrap().status(), otlp.send().await.unwrap().status()]
}

const SHUT: [StatusCode; 2] = [StatusCode::UNAUTHORIZED; 2];

#[tokio::test]
async fn a_file_that_is_saved_in_place_opens_nothing() {
    let bench = Bench::start(SAFE).await;
    for _ in 0..100 {
        drop(std::fs::File::create(bench.file()).unwrap());
        assert_eq!(strangers(&bench).await, SHUT);
        std::fs::write(bench.file(), format!("{BASE}{SAFE}")).unwrap();
        assert_eq!(strangers(&bench).await, SHUT);
    }
}

#[tokio::test]
async fn a_shortened_file_removes_no_protection_before_a_sighup() {
    let mut bench = Bench::start(SAFE).await;
    std::fs::write(bench.file(), format!("{BASE}limits: {{bodyBytes: 4KiB}}\n")).unwrap();
    let line = bench.served.logged("reloaded the configuration").await;
    assert!(line.contains("applied=\"limits.bodyBytes=4KiB\""), "{line}");
    for (key, why) in [
        ("auth.tokens", "no longer has a token"),
        ("trigger.deny", "no longer lists 127.0.0.0/8, 10.0.0.0/8"),
        ("redact.headers", "no longer lists x-mine"),
    ] {
        let line = bench.served.logged(&format!("{key} stays as it was")).await;
        assert!(line.contains(" WARN ") && line.contains(why), "{line}");
        assert!(line.contains("SIGHUP or a restart applies that"), "{line}");
    }
    assert_eq!(strangers(&bench).await, SHUT);

    signal(&bench.served, "-HUP");
    let line = bench.served.logged("reloaded the configuration").await;
    assert!(line.contains("auth.tokens=, trigger.deny=, "), "{line}");
    // That one needs a restart.
    let line = bench.served.logged("restart the server").await;
    assert!(line.contains("auth.otlp=false"), "{line}");
    assert_eq!(strangers(&bench).await, [StatusCode::OK; 2]);
}

#[tokio::test]
async fn one_address_less_waits_and_one_more_counts_at_once() {
    let gate = Gate::start().await;
    let mut bench = Bench::start("trigger: {deny: [10.0.0.0/8, 10.1.1.1]}\n").await;
    put(&bench.client, &bench.served, &gate.test("t")).await;
    write(&bench.file(), "trigger: {deny: [10.0.0.0/8]}\n");
    let line = bench.served.logged("trigger.deny stays as it was").await;
    assert!(line.contains("no longer lists 10.1.1.1"), "{line}");
    write(&bench.file(), "trigger: {deny: [10.1.1.1, 10.0.0.0/8, 127.0.0.0/8]}\n");
    bench.served.logged("reloaded the configuration").await;
    start(&bench.client, &bench.served, "t").await;
    eventually(DEADLINE, "the run fails", async || bench.state(1).await == "TRIGGER_FAILED").await;
    assert_eq!(gate.times(), 0);
}

#[tokio::test]
async fn auth_otlp_stays_until_the_restart_that_is_asked_for() {
    let mut bench = Bench::start(SAFE).await;
    write(&bench.file(), &SAFE.replace("otlp: true", "otlp: false"));
    let line = bench.served.logged("restart the server").await;
    assert!(line.contains("auth.otlp=false"), "{line}");
    assert_eq!(strangers(&bench).await, SHUT);
    let known = bench.client.post(bench.served.url("/v1/traces")).json(&json!({})).bearer_auth(TOKEN);
    assert_eq!(known.send().await.unwrap().status(), StatusCode::OK);
}
