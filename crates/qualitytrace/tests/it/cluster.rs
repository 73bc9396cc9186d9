//! Several servers on one PostgreSQL.

use std::time::Duration;

use futures_util::future::join_all;
use qualitytrace_testing::{DEADLINE, eventually};

use crate::kill::fresh_database;
use crate::late_spans_load::client::{Client, Events, Started};
use crate::late_spans_load::program::Served;
use crate::late_spans_load::system::{Deliveries, Leaf, System};
use crate::program;

const RUNS: usize = 100;
/// With this window, spans come early enough for a first run to get the right verdict.
const SETTLE: &str = "3s";
const MANNER: Deliveries = Deliveries { delay: Duration::from_millis(400), leaf: Leaf::Comes };

/// Two servers on a new database, and a system that delivers to both; `None` without PostgreSQL.
async fn two_servers(arguments: &[&str]) -> Option<(Served, Served, System)> {
    let database = fresh_database().await?;
    let first = Served::start(program(), &database, arguments).await;
    let second = Served::start(program(), &database, arguments).await;
    let client = Client::new(second.url(""));
    let system = System::start(vec![first.url(""), second.url("")], MANNER).await;
    client.put_settle(SETTLE).await;
    client.put_test("t", &system.url).await;
    Some((first, second, system))
}

#[tokio::test]
async fn no_run_is_lost_or_triggered_twice_when_a_server_is_killed() {
    let limits = ["--runs.concurrency", "20", "--runs.waiting", "20"];
    let Some((mut doomed, survivor, system)) = two_servers(&limits).await else { return };
    let clients = [Client::new(doomed.url("")), Client::new(survivor.url(""))];
    let start = async |number: usize| {
        let bug = number.is_multiple_of(3);
        (clients[number % 2].start("t", bug, false).await, bug)
    };
    let started: Vec<(Started, bool)> = join_all((0..RUNS).map(start)).await;
    // Streams at the server that stays, wherever the run is.
    let streams = started.iter().map(|(run, _)| {
        let (client, run) = (clients[1].clone(), run.clone());
        tokio::spawn(async move { client.events(&run).await })
    });
    let streams: Vec<_> = streams.collect();
    eventually(DEADLINE, "a tenth of the runs has ended", async || {
        streams.iter().filter(|stream| stream.is_finished()).count() >= RUNS / 10
    })
    .await;
    doomed.child.kill().await.unwrap();

    let ended: Vec<Events> = join_all(streams).await.into_iter().map(Result::unwrap).collect();
    let (mut judged, mut resumed, mut interrupted, mut requeued) = (0, 0, 0, 0);
    for ((run, bug), events) in started.iter().zip(&ended) {
        let endings = |what| events.all(what).count();
        let state = clients[1].state(run).await;
        assert!(system.known(&run.trace).requests <= 1, "run {} was triggered twice", run.number);
        match (state.as_str(), endings("judged"), endings("interrupted")) {
            ("FINISHED", 1, 0) => {
                assert_eq!(events.verdict(), if *bug { "failed" } else { "passed" }, "{events:?}");
                assert_eq!(system.known(&run.trace).requests, 1);
                judged += 1;
            }
            ("FAILED", 0, 1) => interrupted += 1,
            other => panic!("run {} ended as {other:?}: {events:?}", run.number),
        }
        requeued += endings("requeued");
        resumed += endings("resumed");
    }
    println!(
        "{judged} judged, {resumed} of them resumed, {interrupted} interrupted, {requeued} taken over before their trigger"
    );
    assert_eq!(judged + interrupted, RUNS);
    assert!(resumed > 0, "the server was killed while none of its runs waited for a trace");
    assert!(interrupted + resumed <= 20, "only runs that the dead server had under way may be taken over");
}

#[tokio::test]
async fn every_server_follows_stops_and_skips_runs_of_the_other() {
    let Some((first, second, system)) = two_servers(&["--runs.concurrency", "1"]).await else { return };
    let (here, there) = (Client::new(first.url("")), Client::new(second.url("")));
    there.put_hanging_test("hanging", &system.url).await;
    let run = |client: &Client| {
        let client = client.clone();
        async move { client.start("hanging", false, false).await }
    };
    // One run for each server, and two that wait.
    let mut runs: Vec<Started> = Vec::new();
    for _ in 0..4 {
        runs.push(run(&here).await);
    }
    eventually(DEADLINE, "each server has a run", async || under_way(&there, &runs).await >= 2).await;
    // It makes no difference where a run was started and where it runs; one that waits ends at once.
    for (at, run) in runs.iter().enumerate().rev() {
        let client = if at % 2 == 0 { &here } else { &there };
        client.ask(run, "stop").await;
        let events = client.events(run).await;
        assert_eq!(events.all("stopped").count(), 1, "{events:?}");
        assert_eq!(there.state(run).await, "STOPPED");
    }

    let waiting = here.start("t", false, true).await;
    eventually(DEADLINE, "the run waits for its trace", async || {
        here.state(&waiting).await == "AWAITING_TRACE"
    })
    .await;
    here.ask(&waiting, "skipPolling").await;
    there.ask(&waiting, "skipPolling").await;
    let events = there.events(&waiting).await;
    assert_eq!(events.all("waitSkipped").count(), 1, "{events:?}");
}

async fn under_way(client: &Client, runs: &[Started]) -> usize {
    let mut count = 0;
    for run in runs {
        count += usize::from(client.state(run).await == "EXECUTING");
    }
    count
}
