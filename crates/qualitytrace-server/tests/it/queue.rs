//! The queue of runs in the store: order, claims, and recovery of the runs of a dead server.

use std::time::Duration;

use qualitytrace_core::definition::{Format, Kind};
use qualitytrace_core::id::TraceId;
use qualitytrace_core::run::State;
use qualitytrace_core::time::Timestamp;
use qualitytrace_server::storage::store::{
    Inserted, Mode, NewDefinition, NewRun, RunCommand, RunEnd, RunResult, Store, StoredEvent,
};

use crate::databases::{Database, on_every_database};

on_every_database!(
    another_test_does_not_wait_behind_a_thousand_runs,
    a_full_queue_refuses,
    runs_are_claimed_once,
    a_trigger_is_sent_by_the_owner_only_and_once,
    what_a_dead_server_had_is_found,
    a_queued_run_is_ended_unless_it_is_claimed_first,
    a_command_finds_the_owner,
    a_silent_server_is_given_up_once,
    writers_that_come_together_are_stored_or_refused_each_for_itself,
);

const SECOND: u64 = 1_000_000_000;

async fn with_tests(database: &Database, ids: &[&str]) -> Store {
    let store = database.open().await;
    for id in ids {
        let new = NewDefinition {
            kind: Kind::Test,
            id: (*id).to_owned(),
            tenant: "",
            name: (*id).to_owned(),
            description: String::new(),
            sort_kind: String::new(),
            format: Format::Json,
            text: "{}",
            spec: "{}".to_owned(),
        };
        store.put(&new, Mode::Create, Timestamp::from_nanos(1)).await.unwrap();
    }
    store
}

async fn insert(store: &Store, test: &str, created: u64, bound: u64) -> Inserted {
    let run = NewRun {
        test: test.to_owned(),
        test_version: 1,
        trace: TraceId::from_bytes([7; 16]).unwrap(),
        state: "CREATED",
        created: Timestamp::from_nanos(created),
        variables: "{}".to_owned(),
        request: "{}".to_owned(),
        owner: String::new(),
        client: String::new(),
        step_of: None,
        event: r#"{"what":"created"}"#.to_owned(),
    };
    store.insert_run(&run, bound).await.unwrap()
}

async fn claim(store: &Store, owner: &str, most: usize) -> Vec<(String, u64)> {
    let claimed = store.claim_runs(owner, most).await.unwrap();
    claimed.into_iter().map(|claimed| (claimed.run.test, claimed.run.number)).collect()
}

async fn another_test_does_not_wait_behind_a_thousand_runs(database: &Database) {
    let store = with_tests(database, &["many", "one"]).await;
    let now = 1_000 * SECOND;
    for number in 0..20 {
        insert(&store, "many", now + number, 1_000).await;
    }
    insert(&store, "one", now + 2 * SECOND + 1, 1_000).await;
    let mut order = claim(&store, "a", 3).await;
    order.extend(claim(&store, "a", 2).await);
    let named: Vec<String> = order.iter().map(|(test, number)| format!("{test} {number}")).collect();
    assert_eq!(named, ["many 1", "many 2", "many 3", "one 1", "many 4"]);
}

async fn a_full_queue_refuses(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    assert_eq!(insert(&store, "t", 1, 2).await, Inserted::Number(1));
    assert_eq!(insert(&store, "t", 2, 2).await, Inserted::Number(2));
    assert_eq!(insert(&store, "t", 3, 2).await, Inserted::QueueFull);
    assert_eq!(claim(&store, "a", 1).await, [("t".to_owned(), 1)]);
    assert_eq!(insert(&store, "t", 4, 2).await, Inserted::Number(3));
}

async fn runs_are_claimed_once(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    for number in 0..60 {
        insert(&store, "t", number, 1_000).await;
    }
    let claimers = (0..6).map(|owner| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let claimed = claim(&store, &format!("owner {owner}"), 4).await;
                if claimed.is_empty() {
                    return mine;
                }
                mine.extend(claimed);
            }
        })
    });
    let mut claimed = Vec::new();
    for claimer in claimers.collect::<Vec<_>>() {
        claimed.extend(claimer.await.unwrap());
    }
    // A claim that finds all rows locked may return before the others commit; no run may be claimed twice.
    claimed.extend(claim(&store, "last", 60).await);
    claimed.sort();
    assert_eq!(claimed, (1..=60).map(|number| ("t".to_owned(), number)).collect::<Vec<_>>());
}

async fn a_trigger_is_sent_by_the_owner_only_and_once(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    insert(&store, "t", 1, 10).await;
    claim(&store, "a", 1).await;
    assert_eq!(store.mark_triggered("t", 1, "b", &[]).await.unwrap(), None);
    assert_eq!(store.mark_triggered("t", 1, "a", &[]).await.unwrap(), Some(None));
    assert_eq!(store.mark_triggered("t", 1, "a", &[]).await.unwrap(), None);
    assert!(!store.requeue("t", 1, "a", &event(2)).await.unwrap());
}

fn event(seq: u64) -> StoredEvent {
    StoredEvent { seq, at: Timestamp::from_nanos(seq), body: "{}".to_owned() }
}

async fn what_a_dead_server_had_is_found(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    store.enter("dead").await.unwrap();
    for number in 0..3 {
        insert(&store, "t", number, 10).await;
    }
    claim(&store, "dead", 2).await;
    store.mark_triggered("t", 2, "dead", &[]).await.unwrap();
    assert!(store.orphans().await.unwrap().is_empty());

    store.leave("dead").await.unwrap();
    let orphans = store.orphans().await.unwrap();
    let found: Vec<_> =
        orphans.iter().map(|orphan| (orphan.run.number, orphan.triggered, orphan.seq)).collect();
    assert_eq!(found, [(1, false, 1), (2, true, 1)]);
    assert!(store.requeue("t", 1, "dead", &event(2)).await.unwrap());
    assert!(!store.requeue("t", 1, "dead", &event(2)).await.unwrap());
    let (before, after) = (("dead", State::Executing), ("heir", State::Executing));
    assert!(store.take_run("t", 2, before, after).await.unwrap());
    assert!(!store.take_run("t", 2, before, after).await.unwrap());

    // Late writes of the dead server, which was only frozen, have no effect.
    assert_eq!(store.mark_triggered("t", 1, "dead", &[]).await.unwrap(), None);
    assert!(!store.change_state("t", 2, "dead", ("EXECUTING", "AWAITING_TRACE"), &[]).await.unwrap());
    let before = store.run("t", 2).await.unwrap();
    store.set_trace("t", 2, "dead", TraceId::from_bytes([8; 16]).unwrap()).await.unwrap();
    store.put_outcome("t", 2, "dead", "failed").await.unwrap();
    store.put_result("t", 2, "dead", &RESULT, None).await.unwrap();
    assert_eq!(store.run("t", 2).await.unwrap(), before);
    assert_eq!(store.past_runs(&["t"]).await.unwrap()[0][1].outcome, "");
    assert!(store.put_series("t", 2, "heir", "", "{}").await.unwrap());
    assert!(!store.put_series("t", 2, "dead", "", "[]").await.unwrap());
    assert_eq!(store.series("t", 2).await.unwrap().as_deref(), Some("{}"));
    assert_eq!(claim(&store, "heir", 9).await, [("t".to_owned(), 1), ("t".to_owned(), 3)]);
}

const RESULT: RunResult = RunResult { outcome: "stopped", passed: 0, failed: 0, spans: None };

async fn a_queued_run_is_ended_unless_it_is_claimed_first(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    for number in 1..=2 {
        insert(&store, "t", number, 10).await;
    }
    claim(&store, "a", 1).await;
    let stopped = RunEnd {
        state: "STOPPED",
        result: RESULT,
        at: Timestamp::from_nanos(9),
        secrets: String::new(),
        events: vec![event(2)],
    };
    for (number, is_queued, state, events) in [(1, false, "EXECUTING", 1), (2, true, "STOPPED", 2)] {
        assert_eq!(store.end_run("t", number, "", &stopped).await.unwrap(), is_queued);
        assert_eq!(store.run("t", number).await.unwrap().unwrap().state, state);
        assert_eq!(store.events("t", number, 0).await.unwrap().len(), events);
    }
    assert_eq!(claim(&store, "a", 1).await, []);
}

async fn a_command_finds_the_owner(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    insert(&store, "t", 1, 10).await;
    assert_eq!(store.put_command("t", 1, RunCommand::Skip).await.unwrap().as_deref(), Some(""));
    claim(&store, "a", 1).await;
    assert_eq!(store.put_command("t", 1, RunCommand::Stop).await.unwrap().as_deref(), Some("a"));
    // A stop is not undone.
    assert_eq!(store.put_command("t", 1, RunCommand::Skip).await.unwrap().as_deref(), Some("a"));
    assert_eq!(store.commands("a").await.unwrap(), [("t".to_owned(), 1, RunCommand::Stop)]);
    assert_eq!(store.mark_triggered("t", 1, "a", &[]).await.unwrap(), Some(Some(RunCommand::Stop)));
    assert!(store.change_state("t", 1, "a", ("EXECUTING", "STOPPED"), &[]).await.unwrap());
    assert_eq!(store.put_command("t", 1, RunCommand::Stop).await.unwrap(), None);
    assert_eq!(store.commands("a").await.unwrap(), []);
}

async fn a_silent_server_is_given_up_once(database: &Database) {
    let store = database.open().await;
    store.enter("a").await.unwrap();
    assert!(store.heartbeat("a", Duration::from_millis(7)).await.unwrap());
    let [seen] = &store.peers("b").await.unwrap()[..] else { panic!("one server was expected") };
    assert_eq!(seen.backlog, Duration::from_millis(7));
    assert!(store.heartbeat("a", Duration::ZERO).await.unwrap());
    assert!(!store.give_up(seen).await.unwrap(), "it has shown a sign of life since");
    let [seen] = &store.peers("b").await.unwrap()[..] else { panic!("one server was expected") };
    assert!(store.give_up(seen).await.unwrap());
    assert!(!store.give_up(seen).await.unwrap());
    assert!(!store.heartbeat("a", Duration::ZERO).await.unwrap());
}

async fn writers_that_come_together_are_stored_or_refused_each_for_itself(database: &Database) {
    let store = with_tests(database, &["t", "given up"]).await;
    let begin = |test: &'static str, bound: u64| {
        let store = store.clone();
        tokio::spawn(async move { insert(&store, test, 1, bound).await })
    };
    let writers: Vec<_> =
        (0..40).map(|_| (begin("t", 1_000), begin("t", 0), begin("no test", 1_000))).collect();
    let abandoned: Vec<_> = (0..40).map(|_| begin("given up", 1_000)).collect();
    for (at, writer) in abandoned.iter().enumerate() {
        // Some have not begun, some are in the middle of it.
        for _ in 0..at {
            tokio::task::yield_now().await;
        }
        writer.abort();
    }
    let mut numbers = Vec::new();
    for (stored, full, missing) in writers {
        assert_eq!(full.await.unwrap(), Inserted::QueueFull);
        assert_eq!(missing.await.unwrap(), Inserted::NoTest);
        let Inserted::Number(number) = stored.await.unwrap() else { panic!("the queue has room") };
        numbers.push(number);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<u64>>(), "a refused run takes no number");
    assert_eq!(insert(&store, "t", 2, 1_000).await, Inserted::Number(41));
    let (count, runs) = store.runs("given up", 100, 0).await.unwrap();
    assert_eq!(count, runs.len() as u64);
    for run in runs {
        assert_eq!(store.events(&run.test, run.number, 0).await.unwrap().len(), 1, "all or nothing");
    }
}
