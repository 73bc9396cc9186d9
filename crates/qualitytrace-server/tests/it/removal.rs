//! Deletion of resources with everything that belongs to them, and retention of runs.

use std::time::Duration;

use qualitytrace_core::definition::Kind;
use qualitytrace_core::time::Timestamp;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::serve::retention;
use qualitytrace_server::storage::store::{
    Inserted, Mode, NewChunk, NewDefinition, NewRun, NewSuiteRun, Signal, StepOf, Store, StoredEvent,
};

use crate::databases::{Database, on_every_database};
use crate::store::{chunk, definition, inserted, run, trace, with_tests};

on_every_database!(
    what_is_deleted_leaves_no_row_behind,
    what_a_suite_started_goes_with_its_run_and_with_the_suite,
    what_is_created_again_counts_its_runs_on,
    a_trace_goes_with_the_last_run_that_is_about_it,
    old_and_surplus_runs_go_a_few_at_a_time,
    old_and_surplus_runs_of_suites_go_with_their_steps,
);

async fn what_is_deleted_leaves_no_row_behind(database: &Database) {
    let store = with_tests(database, &["gone", "stays"]).await;
    let before = store.row_counts().await.unwrap();
    let log = NewChunk { signal: Signal::Logs, ..chunk(trace(1), 12, b"log") };
    store
        .append_chunks(&mut [chunk(trace(1), 10, b"own"), chunk(trace(2), 11, b"shared"), log])
        .await
        .unwrap();
    for (test, id) in [("gone", 1), ("gone", 2), ("stays", 2)] {
        inserted(&store, &run(test, trace(id))).await;
        store.put_history(test, "{}").await.unwrap();
    }
    assert!(store.delete(Kind::Test, "gone").await.unwrap());
    let counts = store.row_counts().await.unwrap();
    // A trace that belongs to a run of another test stays.
    let left = ["chunks", "resources", "definitions", "runs", "run_numbers", "run_events", "histories"];
    assert_eq!(left.map(|table| counts[table]), [1, 1, 1, 1, 1, 1, 1], "{counts:?}");
    assert!(store.delete_run("stays", 1).await.unwrap());
    assert!(store.delete(Kind::Test, "stays").await.unwrap());
    let counts = store.row_counts().await.unwrap();
    assert!(counts.values().all(|count| *count == 0) && before["resources"] == 2, "{counts:?}");
    assert_eq!(store.retained_bytes().await.unwrap(), 0);
}

async fn old_and_surplus_runs_go_a_few_at_a_time(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    for id in 1..=6 {
        let created = Timestamp::from_nanos(u64::from(id) * 1_000);
        // The second run is under way and stays, however old it is.
        let state = if id == 2 { "EXECUTING" } else { "FINISHED" };
        inserted(&store, &NewRun { created, state, ..run("t", trace(id)) }).await;
        store.append_chunks(&mut [chunk(trace(id), u64::from(id), b"span")]).await.unwrap();
    }
    let limits = |age, per_test| Limits {
        run_retention: std::time::Duration::from_nanos(age),
        runs_per_test: per_test,
        ..Limits::default()
    };
    let now = Timestamp::from_nanos(10_000);
    let left = async || {
        let (_, runs) = store.runs("t", 10, 0).await.unwrap();
        runs.iter().map(|run| run.number).collect::<Vec<_>>()
    };
    assert_eq!(retention::step(&store, &limits(0, 1_000), now).await.unwrap(), 0);
    assert_eq!(retention::step(&store, &limits(6_500, 1_000), now).await.unwrap(), 2);
    assert_eq!(left().await, [6, 5, 4, 2]);
    assert_eq!(retention::step(&store, &limits(0, 1), now).await.unwrap(), 2);
    assert_eq!(left().await, [6, 2]);
    assert_eq!(retention::step(&store, &limits(0, 1), now).await.unwrap(), 0);
    assert_eq!(store.row_counts().await.unwrap()["chunks"], 2);
}

/// Inserts a run of the suite `s` created at this time, with one step, a series, an event and a trace.
async fn suite_run(store: &Store, created: u64, byte: u8) -> u64 {
    let new = NewSuiteRun {
        suite: "s".to_owned(),
        version: 1,
        state: "FINISHED",
        created: Timestamp::from_nanos(created),
        variables: "{}".to_owned(),
        request: "{}".to_owned(),
        owner: "me".to_owned(),
    };
    let number = store.insert_suite_run(&new).await.unwrap().unwrap();
    let event = StoredEvent { seq: 1, at: Timestamp::from_nanos(created), body: "{}".to_owned() };
    store.append_suite_events("s", number, "me", &[event]).await.unwrap();
    let step = NewRun {
        created: Timestamp::from_nanos(created + 1),
        state: "FINISHED",
        step_of: Some(step_of(number, "me")),
        ..run("t", trace(byte))
    };
    let Inserted::Number(first) = inserted(store, &step).await else { panic!("refused") };
    store.put_series("t", first, "me", "passed", "{}").await.unwrap();
    store.append_chunks(&mut [chunk(trace(byte), created, b"span")]).await.unwrap();
    number
}

fn step_of(number: u64, owner: &str) -> StepOf {
    StepOf { suite: "s".to_owned(), number, owner: owner.to_owned() }
}

async fn with_suite(database: &Database) -> Store {
    let store = with_tests(database, &["t"]).await;
    let suite = NewDefinition { kind: Kind::TestSuite, ..definition("s", "S", "{}") };
    store.put(&suite, Mode::Create, Timestamp::from_nanos(1)).await.unwrap();
    inserted(&store, &NewRun { state: "FINISHED", ..run("t", trace(99)) }).await;
    store
}

async fn what_a_suite_started_goes_with_its_run_and_with_the_suite(database: &Database) {
    let store = with_suite(database).await;
    let before = store.row_counts().await.unwrap();
    for byte in 1..=3 {
        suite_run(&store, 10, byte).await;
    }
    let with_three = store.row_counts().await.unwrap();
    for table in ["chunks", "series", "suite_runs", "suite_run_events", "suite_run_steps"] {
        assert_eq!(with_three[table], 3, "{table}");
    }
    assert!(store.delete_suite_run("s", 2).await.unwrap());
    assert!(!store.delete_suite_run("s", 2).await.unwrap());
    let mut with_two = store.row_counts().await.unwrap();
    for table in ["chunks", "series", "suite_runs", "suite_run_events", "suite_run_steps"] {
        assert_eq!(with_two.remove(table), Some(2), "{table}");
    }
    assert_eq!((with_two["runs"], with_two["run_events"]), (3, 3), "{with_two:?}");
    // A step that was about to start is refused, and leaves no orphaned run behind.
    // The same holds for a server from which the suite run was taken.
    for (number, owner) in [(2, "me"), (3, "given up")] {
        let too_late = NewRun { step_of: Some(step_of(number, owner)), ..run("t", trace(98)) };
        assert_eq!(inserted(&store, &too_late).await, Inserted::NoSuiteRun);
    }
    assert_eq!(store.row_counts().await.unwrap()["runs"], 3);

    // Runs of the test without the suite stay.
    assert!(store.delete(Kind::TestSuite, "s").await.unwrap());
    let mut left = before.clone();
    for table in ["resources", "definitions"] {
        *left.get_mut(table).unwrap() -= 1;
    }
    assert_eq!(store.row_counts().await.unwrap(), left);
    assert_eq!(store.retained_bytes().await.unwrap(), 0);

    assert!(store.delete(Kind::Test, "t").await.unwrap());
    let counts = store.row_counts().await.unwrap();
    assert!(counts.values().all(|count| *count == 0), "{counts:?}");
}

async fn what_is_created_again_counts_its_runs_on(database: &Database) {
    let store = with_suite(database).await;
    assert_eq!(suite_run(&store, 10, 1).await, 1, "its step is the second run of the test");
    for round in 1..=2 {
        for (kind, id) in [(Kind::Test, "t"), (Kind::TestSuite, "s")] {
            assert!(store.delete(kind, id).await.unwrap());
            let again = NewDefinition { kind, ..definition(id, id, "{}") };
            store.put(&again, Mode::Create, Timestamp::from_nanos(20)).await.unwrap();
        }
        assert_eq!(suite_run(&store, 30, 2).await, 1 + round);
        let (count, runs) = store.runs("t", 10, 0).await.unwrap();
        let numbers: Vec<u64> = runs.iter().map(|run| run.number).collect();
        assert_eq!((count, numbers), (1, vec![2 + round]));
    }
}

async fn a_trace_goes_with_the_last_run_that_is_about_it(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    let ids = 1..=20;
    for id in ids.clone() {
        store.append_chunks(&mut [chunk(trace(id), u64::from(id), b"span")]).await.unwrap();
        for _ in 0..2 {
            inserted(&store, &run("t", trace(id))).await;
        }
    }
    // Both runs of each trace are deleted concurrently: one of them must delete the trace.
    let deletes = (1..=2 * u64::from(*ids.end())).map(|number| {
        let store = store.clone();
        tokio::spawn(async move { store.delete_run("t", number).await.unwrap() })
    });
    for delete in deletes.collect::<Vec<_>>() {
        assert!(delete.await.unwrap());
    }
    assert_eq!(store.row_counts().await.unwrap()["chunks"], 0);
    assert_eq!(store.retained_bytes().await.unwrap(), 0);
}

async fn old_and_surplus_runs_of_suites_go_with_their_steps(database: &Database) {
    let store = with_suite(database).await;
    for id in 1..=5 {
        suite_run(&store, u64::from(id) * 1_000, id).await;
    }
    let limits = |age, most| Limits {
        run_retention: Duration::from_nanos(age),
        runs_per_test: most,
        ..Limits::default()
    };
    let now = Timestamp::from_nanos(10_000);
    let left = async || {
        let (_, runs) = store.suite_runs("s", 10, 0).await.unwrap();
        runs.iter().map(|run| run.number).collect::<Vec<_>>()
    };
    assert_eq!(retention::step(&store, &limits(0, 1_000), now).await.unwrap(), 0);
    // Two runs of the suite, and the old run of the test.
    assert_eq!(retention::step(&store, &limits(7_500, 1_000), now).await.unwrap(), 3);
    assert_eq!(left().await, [5, 4, 3]);
    assert_eq!(retention::step(&store, &limits(0, 1), now).await.unwrap(), 2);
    assert_eq!(left().await, [5]);
    let counts = store.row_counts().await.unwrap();
    for table in ["chunks", "runs", "series", "suite_run_events", "suite_run_steps"] {
        assert_eq!(counts[table], 1, "{table}");
    }
}
