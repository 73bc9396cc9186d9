//! Learned state: stored in a file, and used to shorten waits.

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::trace::SpanKind;
use qualitytrace_core::wait::{History, Learned, Policy, Register};

use super::script::{Script, describe, play_all};
use super::spans::{Maker, service};
use super::system::{MS, START};

const SHOP: &str = "
    20 3<2 gateway/client/GET http.request.method=GET end=18
    20 4<3 shop/server/GET end=17
    20 5<4 shop/internal/stock end=16
    20 2<1 gateway/server/GET end=19";

const WITH_TAIL: &str = "
    20 3<2 gateway/client/GET http.request.method=GET end=18
    20 4<3 shop/server/GET end=17
    20 5<4 shop/internal/stock end=16
    20 2<1 gateway/server/GET end=19
    620 6<2 gateway/internal/mail end=615";

fn learn(runs: &[&str]) -> Learned {
    let (mut history, mut lags) = (Arc::new(History::default()), Register::default());
    for (run, text) in (0..).zip(runs) {
        Script::read(text).play(&Policy::DEFAULT, &mut history, &mut lags, run);
    }
    Learned { tests: [("shop".to_owned(), Arc::unwrap_or_clone(history))].into(), services: lags }
}

fn play_next(mut learned: Learned, run: &str) -> String {
    let mut history = Arc::new(learned.tests.remove("shop").unwrap_or_default());
    let (at, end) = Script::read(run).play(&Policy::DEFAULT, &mut history, &mut learned.services, 1_000);
    describe(at, &end)
}

#[test]
fn knowledge_is_a_file_that_people_can_read() {
    let text = learn(&[SHOP]).to_json();
    let expected = r#"{
  "version": 2,
  "services": {
    "gateway": {
      "flushes": 1,
      "largestLagMs": 2,
      "disorderMs": 0,
      "calls": [
        "shop"
      ]
    },
    "shop": {
      "flushes": 1,
      "largestLagMs": 4,
      "disorderMs": 0
    }
  },
  "tests": {
    "shop": {
      "runs": 1,
      "awaitedRuns": 1,
      "quietDoublings": 0,
      "cleanRuns": 1,
      "longestMs": 20,
      "silentCaller": false,
      "spans": [
        {
          "service": "gateway",
          "kind": "server",
          "name": "GET",
          "each": 1,
          "most": 1,
          "lateMs": 19
        },
        {
          "below": 0,
          "service": "gateway",
          "kind": "client",
          "name": "GET",
          "each": 1,
          "most": 1,
          "endsBeforeParent": true,
          "answer": "comes",
          "lateMs": 18
        },
        {
          "below": 1,
          "service": "shop",
          "kind": "server",
          "name": "GET",
          "each": 1,
          "most": 1,
          "lateMs": 17
        },
        {
          "below": 2,
          "service": "shop",
          "kind": "internal",
          "name": "stock",
          "each": 1,
          "most": 1,
          "endsBeforeParent": true,
          "lateMs": 16
        }
      ]
    }
  }
}
"#;
    assert_eq!(text, expected);
}

#[test]
fn knowledge_survives_the_file() {
    let runs = [WITH_TAIL, WITH_TAIL, SHOP, WITH_TAIL, SHOP];
    let learned = learn(&runs);
    let read = Learned::from_json(&learned.to_json()).unwrap();
    assert_eq!(read.to_json(), learned.to_json());
    assert_eq!(play_next(read, WITH_TAIL), play_next(learned, WITH_TAIL));
}

#[test]
fn a_missed_message_is_kept_once_all_consumers_have_delivered() {
    let send = "shop/producer/send messaging.system=kafka messaging.destination.name=orders";
    let consumed = |run: u64| {
        let message = 10 + 2 * run;
        format!(
            "20 {message}<2 {send} end=10
            20 {}<{message} worker/consumer/process end=15
            20 2<1 shop/server/POST end=19",
            message + 1
        )
    };
    let missed = format!(
        "20 3<2 {send} end=10
        20 4<2 {send} end=11
        20 2<1 shop/server/POST end=19
        120 5<4 worker/consumer/process end=110"
    );
    let runs: Vec<String> = (0..20).map(consumed).chain([missed]).collect();
    let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
    let learned: serde_json::Value = serde_json::from_str(&learn(&runs).to_json()).expect("it is JSON");
    assert_eq!(learned["addresses"]["orders"]["calls"], format!("{}-+", "+".repeat(20)));
}

#[test]
fn a_file_that_is_no_knowledge_is_refused_with_the_reason() {
    let order = r#"{"version":1,"tests":{"t":{"runs":1,"spans":[
        {"below":0,"service":"a","kind":"server","name":"n","each":1,"most":1}]}}}"#;
    for (text, reason) in [
        ("", "failed to read the history"),
        ("[]", "failed to read the history"),
        (r#"{"version":1,"tests":{"t":{}}}"#, "failed to read the history"),
        (
            r#"{"version":7}"#,
            "history has version 7, and this program reads version 2: delete it to start again",
        ),
        (order, "history of test `t` puts span 0 below span 0, which does not come before it"),
    ] {
        assert_eq!(Learned::from_json(text).unwrap_err().to_string(), reason);
    }
}

#[test]
fn after_twenty_runs_the_settle_window_follows_what_was_seen() {
    let complaint = "nothing more came for a settle window; Judge
the internal span `mail` (gateway) below `GET` of earlier runs has not arrived";
    let mut runs = vec![WITH_TAIL; 19];
    runs.push(SHOP);
    // Twice as late as it ever ended, 2 s more before the 20th run, a quarter more than 20 ms of lag, and 100 ms.
    assert_eq!(play_all(&runs), format!("3374 ms: ready, {complaint}"));
    runs.insert(0, WITH_TAIL);
    assert_eq!(play_all(&runs), format!("1374 ms: ready, {complaint}"));
}

const MISSING: &str = "nothing more came for a settle window; Judge
the internal span `stock` (shop) below `GET` of earlier runs has not arrived";

#[test]
fn a_synchronous_span_is_not_waited_for_once_its_service_is_known_to_deliver_in_order() {
    let hit = "
        20 3<2 gateway/client/GET http.request.method=GET end=18
        20 4<3 shop/server/GET end=17
        20 2<1 gateway/server/GET end=19";
    let mut runs = vec![SHOP; 10];
    runs.push(hit);
    // It may end 2 s later than it did while fewer than 20 runs are known.
    assert_eq!(play_all(&runs), format!("2180 ms: ready, {MISSING}"));
    let mut runs = vec![SHOP; 20];
    runs.push(hit);
    assert_eq!(play_all(&runs), format!("176 ms: ready, {MISSING}"));
}

/// How a run ends on a new server that has read the file of two runs.
fn on_a_new_server(run: &str) -> String {
    play_next(Learned::from_json(&learn(&[SHOP, SHOP]).to_json()).expect("it can be read"), run)
}

#[test]
fn what_a_spec_asks_for_is_absent_soon_where_the_spans_above_it_are_here() {
    let refused = |error: &str| {
        format!(
            "20 3<2 gateway/client/GET http.request.method=GET {error} end=18
            20 2<1 gateway/server/GET end=19
            undecided the stock is asked of shop"
        )
    };
    let left = |spec: &str| format!("spec `{spec}` cannot be decided with the spans that are here");
    let asked = left("the stock is asked");
    let settled = "ready, nothing more came for a settle window; Judge";
    for error in ["error.type=ConnectionRefusedError", "!java.net.ConnectException"] {
        assert_eq!(on_a_new_server(&refused(error)), format!("170 ms: {settled}\n{asked}"));
    }
    let hit = "
        20 3<2 gateway/client/GET http.request.method=GET end=18
        20 4<3 shop/server/GET end=17
        20 2<1 gateway/server/GET end=19
        undecided the stock is looked up of shop";
    let looked_up = left("the stock is looked up");
    let stock = "the internal span `stock` (shop) below `GET` of earlier runs has not arrived";
    assert_eq!(on_a_new_server(hit), format!("6020 ms: {settled}\n{stock}\n{looked_up}"));
}

#[test]
fn a_service_whose_spans_overtake_each_other_is_given_a_settle_window() {
    let late = "
        20 3<2 gateway/client/GET http.request.method=GET end=18
        20 4<3 shop/server/GET end=17
        60 5<4 shop/internal/stock end=16
        20 2<1 gateway/server/GET end=19";
    let hit = "
        20 3<2 gateway/client/GET http.request.method=GET end=18
        20 4<3 shop/server/GET end=17
        20 2<1 gateway/server/GET end=19";
    let mut runs = vec![late; 20];
    runs.push(hit);
    // Where order is disturbed, a verdict does not pass because a span that was always there is only likely to be
    // absent.
    assert_eq!(play_all(&runs), format!("1020 ms: ready, {MISSING}"));
}

#[test]
fn lags_need_enough_flushes_and_forget_instances_that_are_gone() {
    let mut lags = Register::default();
    let maker = Maker::new();
    let mut deliver = |name: &str, second: u64, lag: u64| {
        let end = START + second * 1_000 * MS;
        let span = maker.span(2, 1, &service(name), SpanKind::Server, &"GET".into(), (end, end));
        lags.arrived(&span, Timestamp::from_nanos(end + lag * MS));
        (lags.largest(name), lags.forgotten())
    };
    for second in 0..19 {
        assert_eq!(deliver("shop", second, second), (None, 0));
    }
    assert_eq!(deliver("shop", 19, 3), (Some(Duration::from_millis(18)), 0));
    for other in 0..5_000 {
        deliver(&format!("other-{other}"), 20 + other, 1);
    }
    let (lag, forgotten) = deliver("shop", 10_000, 1);
    assert_eq!(lag, None, "it was forgotten and begins anew");
    assert!(forgotten > 3_000, "{forgotten}");
}

#[test]
fn the_settle_window_grows_for_a_service_that_delivers_later() {
    let slow = "
        20 2<1 gateway/server/GET end=19
        5000 4<2 shop/internal/count end=4999
        10000 3<2 shop/internal/mail end=1000";
    let lost = "
        20 2<1 gateway/server/GET end=19
        5000 4<2 shop/internal/count end=4999";
    let mut runs = vec![slow; 9];
    runs.push(lost);
    // Two deliveries of the shop per run; the mail came 9 s after its end, and ended 1 s after the answer. It may be a
    // quarter later, and later by as much as it was overtaken by.
    let ended = play_all(&runs);
    assert!(ended.starts_with("24348 ms: ready, nothing more came for a settle window; Judge"), "{ended}");
}
