//! Verdicts on a real system whose spans come up to three seconds late, in several batches, out of order and twice.
//! `cargo xtask bench waiting` does the same with a thousand runs.

use std::time::Duration;

use futures_util::future::join_all;

use crate::late_spans_load::client::Client;
use crate::late_spans_load::program::Served;
use crate::late_spans_load::system::{Deliveries, Leaf, System};
use crate::late_spans_load::waiting::{Load, Tally, measure};
use crate::program;

async fn start(leaf: Leaf) -> (Served, Client, System) {
    let server = Served::start(program(), "sqlite::memory:", &[]).await;
    let client = Client::new(server.url(""));
    let system =
        System::start(vec![server.url("")], Deliveries { delay: Duration::from_secs(3), leaf }).await;
    (server, client, system)
}

#[tokio::test]
async fn no_verdict_is_wrong_when_spans_come_late() {
    let (_server, client, system) = start(Leaf::Comes).await;
    let tally = measure(&client, &system, Load { tests: 4, runs: 44, parallel: 40 }).await;
    assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n"));
    assert_eq!((tally.gave_up, tally.first.len(), tally.known.len()), (2, 4, 38));
    println!(
        "from the last span to the verdict: first runs {:?}, known tests {:?} (p50), {:?} (p99)",
        Tally::at(&tally.first, 50),
        Tally::at(&tally.known, 50),
        Tally::at(&tally.known, 99)
    );
}

#[tokio::test]
async fn no_run_passes_without_the_span_that_it_needs() {
    let (_server, client, system) = start(Leaf::Withheld).await;
    client.put_test("t", &system.url).await;
    let runs = join_all((0..5).map(|_| client.start("t", false, false))).await;
    for run in &runs {
        let events = client.events(run).await;
        assert_eq!(events.verdict(), "inconclusive", "{events:?}");
    }
}

#[tokio::test]
async fn a_span_that_comes_ten_seconds_late_corrects_the_verdict() {
    let (_server, client, system) = start(Leaf::Late(Duration::from_secs(10))).await;
    client.put_test("t", &system.url).await;
    let runs = join_all((0..5).map(|_| client.start("t", false, false))).await;
    for run in &runs {
        let events = client.events(run).await;
        assert_eq!(events.verdict(), "inconclusive", "{events:?}");
        assert_eq!(client.corrected(run, Duration::from_mins(1)).await.as_deref(), Some("passed"));
    }
}
