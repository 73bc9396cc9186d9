//! Two servers on one PostgreSQL, of which one is cut off from it for a while.

use std::time::Duration;

use futures_util::future::join_all;
use qualitytrace_testing::{DEADLINE, Line, Outage, eventually};
use reqwest::StatusCode;
use serde_json::json;

use crate::full_queue::{Gate, put};
use crate::kill::fresh_database;
use crate::late_spans_load::client::{Client, Events};
use crate::late_spans_load::program::Served;
use crate::late_spans_load::system::{Deliveries, Leaf, System};
use crate::program;

const RUNS: usize = 60;
const MANNER: Deliveries = Deliveries { delay: Duration::from_millis(300), leaf: Leaf::Comes };

/// Stores variable sets until it is told to stop, and returns those that were acknowledged.
async fn store_sets(
    server: String,
    name: &'static str,
    stop: tokio::sync::watch::Receiver<bool>,
) -> Vec<String> {
    let (client, mut stored) = (crate::client(), Vec::new());
    for number in 0.. {
        if *stop.borrow() {
            break;
        }
        let id = format!("{name}{number}");
        let set = json!({ "type": "VariableSet", "spec": { "id": id, "name": id, "values": [] } });
        let put = client.put(format!("{server}/api/variablesets")).json(&set).send().await;
        match put.map(|answer| answer.status()) {
            Ok(StatusCode::CREATED) => stored.push(id),
            // Whether it is stored is not known.
            Ok(StatusCode::SERVICE_UNAVAILABLE) | Err(_) => {}
            Ok(other) => panic!("{id}: {other}"),
        }
    }
    stored
}

#[tokio::test]
async fn a_server_whose_network_was_away_sends_nothing_twice() {
    comes_back(Outage::Held).await;
}

#[tokio::test]
async fn a_server_whose_connections_were_closed_sends_nothing_twice() {
    comes_back(Outage::Closed).await;
}

/// The other server takes over; when the first one is back, it does nothing that the other one did.
async fn comes_back(outage: Outage) {
    let Some(database) = fresh_database().await else { return };
    let line = Line::to(&database, outage).await;
    let limits = ["--runs.concurrency", "10", "--runs.waiting", "10"];
    let mut first = Served::start(program(), &line.url, &limits).await;
    let mut second = Served::start(program(), &database, &limits).await;
    let clients = [Client::new(first.url("")), Client::new(second.url(""))];
    // Spans reach the server that stays: an exporter at the other one would wait with them.
    let system = System::start(vec![second.url("")], MANNER).await;
    clients[1].put_settle("3s").await;
    clients[1].put_test("t", &system.url).await;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let sets = [(first.url(""), "first"), (second.url(""), "second")]
        .map(|(server, name)| tokio::spawn(store_sets(server, name, stopped.clone())));
    let mut started = Vec::new();
    while started.len() < RUNS {
        started.extend(join_all(clients.iter().map(|client| client.start("t", false, false))).await);
    }
    let streams: Vec<_> = started
        .iter()
        .map(|run| {
            let (client, run) = (clients[1].clone(), run.clone());
            tokio::spawn(async move { client.events(&run).await })
        })
        .collect();
    eventually(DEADLINE, "a tenth of the runs has ended", async || {
        streams.iter().filter(|stream| stream.is_finished()).count() >= RUNS / 10
    })
    .await;
    line.cut();
    second.logged("another server shows no sign of life and is given up").await;
    let ended: Vec<Events> = join_all(streams).await.into_iter().map(Result::unwrap).collect();
    line.restore();
    first.logged("other servers have given this one up").await;
    // It works again, after all that it still had to do.
    let next = clients[0].start("t", false, false).await;
    clients[0].events(&next).await;
    assert_eq!(system.known(&next.trace).requests, 1);
    stop.send_replace(true);

    let (mut carried_out, mut interrupted) = (0, 0);
    for (run, events) in started.iter().zip(&ended) {
        let requests = system.known(&run.trace).requests;
        match (clients[0].state(run).await.as_str(), events.all("interrupted").count()) {
            // Without a trace where a busy machine delivers it too late.
            ("FINISHED" | "TRACE_FAILED", 0) => {
                assert_eq!(requests, 1, "run {}", run.number);
                carried_out += 1;
            }
            ("FAILED", 1) => {
                assert!(requests <= 1, "run {} was sent {requests} times", run.number);
                interrupted += 1;
            }
            other => panic!("run {} ended as {other:?}", run.number),
        }
    }
    assert_eq!(carried_out + interrupted, RUNS);
    assert!(interrupted <= 10, "{interrupted} runs were interrupted; only those in progress there may be");
    check_sets(sets, [&first, &second]).await;
}

/// Every acknowledged set is there, at both servers.
async fn check_sets(sets: [tokio::task::JoinHandle<Vec<String>>; 2], servers: [&Served; 2]) {
    let client = crate::client();
    for stored in join_all(sets).await {
        let stored = stored.unwrap();
        assert!(!stored.is_empty());
        for (at, id) in stored.iter().enumerate() {
            let url = servers[at % 2].url(&format!("/api/variablesets/{id}"));
            assert_eq!(client.get(url).send().await.unwrap().status(), StatusCode::OK, "{id}");
        }
    }
}

fn spans(trace: u128) -> serde_json::Value {
    let span = json!({
        "traceId": format!("{trace:032x}"), "spanId": "00f067aa0ba902b7", "name": "work", "kind": 2,
        "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000100000000",
    });
    json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] })
}

#[tokio::test]
async fn a_server_that_is_cut_off_within_a_transaction_holds_up_no_other() {
    let Some(database) = fresh_database().await else { return };
    let line = Line::to(&database, Outage::Silent).await;
    let first = Served::start(program(), &line.url, &[]).await;
    let second = Served::start(program(), &database, &[]).await;
    let client = crate::client();
    // It has counted the bytes, and other servers that store spans wait for that row.
    line.cut_after("INSERT INTO chunks");
    let lost = tokio::spawn(client.post(first.url("/v1/traces")).json(&spans(1)).send());
    line.is_cut().await;
    let sent = client.post(second.url("/v1/traces")).json(&spans(2)).send().await.unwrap();
    assert_eq!(sent.status(), StatusCode::OK);
    // Its sender is told to come again, and the server works when the database is there.
    let answer = lost.await.unwrap().unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "{}", answer.text().await.unwrap());
    line.restore();
    eventually(DEADLINE, "the first server stores again", async || {
        let sent = client.post(first.url("/v1/traces")).json(&spans(3)).send().await.unwrap();
        if sent.status() == StatusCode::OK { Ok(()) } else { Err(sent.status().to_string()) }
    })
    .await;
    for trace in [2, 3] {
        let got = client.get(second.url(&format!("/api/traces/{trace:032x}"))).send().await.unwrap();
        assert_eq!(got.status(), StatusCode::OK, "trace {trace}");
    }
}

#[tokio::test]
async fn a_run_whose_claim_was_not_answered_is_sent_once() {
    let Some(database) = fresh_database().await else { return };
    let line = Line::to(&database, Outage::Closed).await;
    let server = Served::start(program(), &line.url, &[]).await;
    let (client, gate) = (crate::client(), Gate::start().await);
    gate.answers.add_permits(2);
    put(&client, &server, &gate.test("t")).await;
    // The state of a run that was just claimed.
    line.cut_before_answer("EXECUTING");
    // Whether its answer arrives does not matter: the run is stored.
    let _ = client.post(server.url("/api/tests/t/run")).json(&json!({})).send().await;
    line.is_cut().await;
    line.restore();
    eventually(DEADLINE, "the run ends", async || {
        let shown = client.get(server.url("/api/tests/t/run/1")).send().await.unwrap();
        let shown: serde_json::Value = shown.json().await.unwrap();
        if shown["state"] == "FINISHED" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    assert_eq!(gate.times(), 1);
}
