//! One suite, three databases.

use bytes::Bytes;
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_server::store::{NewChunk, NewRun, NewTest, Signal, StoredEvent};

use crate::databases::{Database, on_every_database};

on_every_database!(
    chunks_come_back_as_they_were,
    many_chunks_are_one_commit,
    eviction_spares_what_belongs_to_a_run,
    a_test_gets_a_version_for_each_change,
    run_numbers_are_unique_under_concurrency,
    one_of_two_state_changes_wins,
    events_come_back_in_order_and_once,
    history_is_replaced,
);

fn trace(byte: u8) -> TraceId {
    TraceId::from_bytes([byte; 16]).unwrap()
}

fn chunk(trace: TraceId, arrived: u64, data: &'static [u8]) -> NewChunk {
    let arrived = Timestamp::from_nanos(arrived);
    NewChunk {
        trace,
        signal: Signal::Spans,
        arrived,
        items: 1,
        data: Bytes::from_static(data),
    }
}

fn run(test: &str, trace: TraceId) -> NewRun {
    NewRun {
        test: test.to_owned(),
        test_version: 1,
        trace,
        state: "CREATED",
        created: Timestamp::from_nanos(5),
        variables: "{}".to_owned(),
    }
}

async fn chunks_come_back_as_they_were(database: &Database) {
    let store = database.open().await;
    let log = NewChunk {
        signal: Signal::Logs,
        ..chunk(trace(1), 25, b"log")
    };
    store
        .append_chunks(&[chunk(trace(1), 30, b"\x00\xffb"), chunk(trace(2), 40, b"x"), log])
        .await
        .unwrap();
    store.append_chunks(&[chunk(trace(1), 20, b"")]).await.unwrap();
    let load = async |signal, after| {
        let chunks = store
            .chunks(trace(1), signal, Timestamp::from_nanos(after))
            .await
            .unwrap();
        chunks
            .into_iter()
            .map(|chunk| (chunk.arrived.as_nanos(), chunk.data))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        load(Signal::Spans, 0).await,
        [(20, Bytes::new()), (30, Bytes::from_static(b"\x00\xffb"))]
    );
    assert_eq!(
        load(Signal::Spans, 20).await,
        [(30, Bytes::from_static(b"\x00\xffb"))]
    );
    assert_eq!(load(Signal::Logs, 0).await, [(25, Bytes::from_static(b"log"))]);
    assert_eq!(store.span_count(trace(1)).await.unwrap(), 2);
}

async fn many_chunks_are_one_commit(database: &Database) {
    let store = database.open().await;
    let chunks: Vec<NewChunk> = (1..=1_333).map(|at| chunk(trace(7), at, b"abc")).collect();
    let retained = store.append_chunks(&chunks).await.unwrap();
    assert_eq!(
        store
            .chunks(trace(7), Signal::Spans, Timestamp::default())
            .await
            .unwrap()
            .len(),
        1_333
    );
    assert_eq!(store.retained_bytes().await.unwrap(), retained);
}

async fn eviction_spares_what_belongs_to_a_run(database: &Database) {
    let store = database.open().await;
    store
        .append_chunks(&[
            chunk(trace(1), 10, b"old"),
            chunk(trace(2), 11, b"kept"),
            chunk(trace(3), 90, b"new"),
        ])
        .await
        .unwrap();
    store.insert_run(&run("t", trace(2))).await.unwrap();
    let (retained, more) = store.evict(Timestamp::from_nanos(50)).await.unwrap();
    assert!(more);
    let left = async |id| {
        store
            .chunks(trace(id), Signal::Spans, Timestamp::default())
            .await
            .unwrap()
            .len()
    };
    assert_eq!([left(1).await, left(2).await, left(3).await], [0, 1, 1]);
    assert_eq!(
        store.evict(Timestamp::from_nanos(50)).await.unwrap(),
        (retained, false)
    );
}

async fn a_test_gets_a_version_for_each_change(database: &Database) {
    let store = database.open().await;
    let put = async |definition: &str, at| {
        let (test, new) = store
            .put_test(
                NewTest {
                    id: "t",
                    name: "T",
                    format: "json",
                    definition,
                },
                Timestamp::from_nanos(at),
            )
            .await
            .unwrap();
        (test.version, test.created.as_nanos(), new)
    };
    assert_eq!(put("{1}", 10).await, (1, 10, true));
    assert_eq!(put("{1}", 20).await, (1, 10, false));
    assert_eq!(put("{2}", 30).await, (2, 10, false));
    assert_eq!(store.test("t", Some(1)).await.unwrap().unwrap().definition, "{1}");
    assert_eq!(store.test("t", None).await.unwrap().unwrap().definition, "{2}");
    assert_eq!(store.test("u", None).await.unwrap(), None);
}

async fn run_numbers_are_unique_under_concurrency(database: &Database) {
    let store = database.open().await;
    let inserts = (0..40).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.insert_run(&run("t", trace(1))).await.unwrap() })
    });
    let mut numbers = Vec::new();
    for insert in inserts.collect::<Vec<_>>() {
        numbers.push(insert.await.unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
    assert_eq!(store.insert_run(&run("other", trace(1))).await.unwrap(), 1);
}

async fn one_of_two_state_changes_wins(database: &Database) {
    let store = database.open().await;
    let number = store.insert_run(&run("t", trace(9))).await.unwrap();
    let (a, b) = tokio::join!(
        store.change_state("t", number, "CREATED", "EXECUTING"),
        store.change_state("t", number, "CREATED", "STOPPED"),
    );
    assert!(a.unwrap() ^ b.unwrap());
    assert_ne!(store.run("t", number).await.unwrap().unwrap().state, "CREATED");
    assert_eq!(store.runs_in_state("CREATED").await.unwrap(), []);
}

async fn events_come_back_in_order_and_once(database: &Database) {
    let store = database.open().await;
    let event = |seq: u64, body: &str| StoredEvent {
        seq,
        at: Timestamp::from_nanos(seq),
        body: body.to_owned(),
    };
    for event in [event(2, "b"), event(1, "a"), event(2, "late"), event(3, "c")] {
        store.append_event("t", 1, &event).await.unwrap();
    }
    assert_eq!(
        store.events("t", 1, 1).await.unwrap(),
        [event(2, "b"), event(3, "c")]
    );
    assert_eq!(store.events("t", 2, 0).await.unwrap(), []);
}

async fn history_is_replaced(database: &Database) {
    let store = database.open().await;
    assert_eq!(store.history("t").await.unwrap(), None);
    store.put_history("t", "one").await.unwrap();
    store.put_history("t", "two").await.unwrap();
    assert_eq!(store.history("t").await.unwrap().as_deref(), Some("two"));
}
