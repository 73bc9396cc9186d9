//! The store on three kinds of database.

use std::time::Duration;

use bytes::Bytes;
use qualitytrace_core::definition::{Format, Kind};
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_server::storage::store::{
    Expected, Inserted, Listing, Mode, NewChunk, NewDefinition, NewRun, Order, Packed, Put, Signal, Store,
    StoredEvent,
};

use crate::databases::{Database, on_every_database};

on_every_database!(
    chunks_come_back_as_they_were,
    many_chunks_are_one_commit,
    eviction_spares_what_belongs_to_a_run,
    eviction_removes_no_more_than_makes_room,
    a_test_gets_a_version_for_each_change,
    no_update_is_lost_under_concurrency,
    of_writers_that_expect_one_version_only_one_succeeds,
    lists_are_found_sorted_and_paged,
    a_name_of_any_length_is_stored,
    a_deleted_test_takes_everything_with_it,
    the_number_of_a_deleted_run_is_not_used_again,
    run_numbers_are_unique_under_concurrency,
    one_of_two_state_changes_wins,
    events_come_back_in_order_and_once,
    history_is_replaced,
    a_cancelled_query_leaves_the_pool_usable,
);

pub(crate) fn trace(byte: u8) -> TraceId {
    TraceId::from_bytes([byte; 16]).unwrap()
}

pub(crate) fn chunk(trace: TraceId, arrived: u64, data: &'static [u8]) -> NewChunk {
    let arrived = Timestamp::from_nanos(arrived);
    NewChunk { trace, signal: Signal::Spans, arrived, items: 1, data: Packed::new(data) }
}

pub(crate) fn run(test: &str, trace: TraceId) -> NewRun {
    NewRun {
        test: test.to_owned(),
        test_version: 1,
        trace,
        state: "CREATED",
        created: Timestamp::from_nanos(5),
        variables: "{}".to_owned(),
        request: "{}".to_owned(),
        owner: String::new(),
        client: String::new(),
        step_of: None,
        event: "{}".to_owned(),
    }
}

pub(crate) async fn inserted(store: &Store, run: &NewRun) -> Inserted {
    store.insert_run(run, 1_000).await.unwrap()
}

pub(crate) fn definition<'a>(id: &str, name: &str, text: &'a str) -> NewDefinition<'a> {
    NewDefinition {
        kind: Kind::Test,
        id: id.to_owned(),
        tenant: "",
        name: name.to_owned(),
        description: String::new(),
        sort_kind: String::new(),
        format: Format::Json,
        text,
        spec: text.trim().to_owned(),
    }
}

/// Opens a store with these tests.
pub(crate) async fn with_tests(database: &Database, ids: &[&str]) -> Store {
    let store = database.open().await;
    for id in ids {
        let put = store.put(&definition(id, id, "{}"), Mode::Create, Timestamp::from_nanos(1)).await.unwrap();
        assert!(matches!(put, Put::Created(_)));
    }
    store
}

async fn chunks_come_back_as_they_were(database: &Database) {
    let store = database.open().await;
    let log = NewChunk { signal: Signal::Logs, ..chunk(trace(1), 25, b"log") };
    store
        .append_chunks(&mut [chunk(trace(1), 30, b"\x00\xffb"), chunk(trace(2), 40, b"x"), log])
        .await
        .unwrap();
    store.append_chunks(&mut [chunk(trace(1), 20, b"")]).await.unwrap();
    let load = async |signal, after| {
        let chunks = store.chunks(trace(1), signal, Timestamp::from_nanos(after)).await.unwrap();
        chunks.into_iter().map(|chunk| (chunk.arrived.as_nanos(), chunk.data)).collect::<Vec<_>>()
    };
    assert_eq!(load(Signal::Spans, 0).await, [(20, Bytes::new()), (30, Bytes::from_static(b"\x00\xffb"))]);
    assert_eq!(load(Signal::Spans, 20).await, [(30, Bytes::from_static(b"\x00\xffb"))]);
    assert_eq!(load(Signal::Logs, 0).await, [(25, Bytes::from_static(b"log"))]);
    assert_eq!(store.span_count(trace(1)).await.unwrap(), 2);
}

async fn many_chunks_are_one_commit(database: &Database) {
    let store = database.open().await;
    let mut chunks: Vec<NewChunk> = (1..=1_333).map(|at| chunk(trace(7), at, b"abc")).collect();
    let retained = store.append_chunks(&mut chunks).await.unwrap();
    assert_eq!(store.chunks(trace(7), Signal::Spans, Timestamp::default()).await.unwrap().len(), 1_333);
    assert_eq!(store.retained_bytes().await.unwrap(), retained);
}

async fn eviction_spares_what_belongs_to_a_run(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    store
        .append_chunks(&mut [
            chunk(trace(1), 10, b"old"),
            chunk(trace(2), 11, b"kept"),
            chunk(trace(3), 90, b"new"),
        ])
        .await
        .unwrap();
    inserted(&store, &run("t", trace(2))).await;
    let (retained, more) = store.evict(Timestamp::from_nanos(50), u64::MAX).await.unwrap();
    assert!(more);
    let left = async |id| store.chunks(trace(id), Signal::Spans, Timestamp::default()).await.unwrap().len();
    assert_eq!([left(1).await, left(2).await, left(3).await], [0, 1, 1]);
    assert_eq!(store.evict(Timestamp::from_nanos(50), u64::MAX).await.unwrap(), (retained, false));
}

async fn eviction_removes_no_more_than_makes_room(database: &Database) {
    let store = database.open().await;
    let mut chunks: Vec<NewChunk> = (1..=9).map(|at| chunk(trace(7), at, b"abc")).collect();
    let before = store.append_chunks(&mut chunks).await.unwrap();
    let (retained, more) = store.evict(Timestamp::from_nanos(50), before / 9 + 1).await.unwrap();
    assert_eq!((retained, more), (before / 9 * 7, true));
    let left = store.chunks(trace(7), Signal::Spans, Timestamp::default()).await.unwrap();
    assert_eq!(left.first().unwrap().arrived, Timestamp::from_nanos(3));
}

async fn a_test_gets_a_version_for_each_change(database: &Database) {
    let store = database.open().await;
    let put = async |text: &str, mode, at| match store
        .put(&definition("t", "T", text), mode, Timestamp::from_nanos(at))
        .await
        .unwrap()
    {
        Put::Created(stored) => (true, stored.version, stored.created.as_nanos()),
        Put::Updated(stored) | Put::Same(stored) => (false, stored.version, stored.created.as_nanos()),
        Put::Exists => (false, 0, 1),
        Put::Missing | Put::Masked { .. } | Put::Conflict { .. } => (false, 0, 0),
    };
    assert_eq!(put("{1}", Mode::Update, 5).await, (false, 0, 0));
    assert_eq!(put("{1}", Mode::Upsert, 10).await, (true, 1, 10));
    assert_eq!(put("{1}", Mode::Create, 15).await, (false, 0, 1));
    assert_eq!(put("{1} ", Mode::Update, 20).await, (false, 1, 10));
    assert_eq!(put("{2}", Mode::Upsert, 30).await, (false, 2, 10));
    let text = async |version| store.test("t", version).await.unwrap().map(|test| test.definition);
    assert_eq!(text(Some(1)).await.as_deref(), Some("{1} "));
    assert_eq!(text(None).await.as_deref(), Some("{2}"));
    assert_eq!(store.test("u", None).await.unwrap(), None);
}

async fn no_update_is_lost_under_concurrency(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    let updates = (0..30).map(|at| {
        let store = store.clone();
        tokio::spawn(async move {
            let text = format!("{{{at}}}");
            store.put(&definition("t", "T", &text), Mode::Update, Timestamp::from_nanos(9)).await.unwrap()
        })
    });
    for update in updates.collect::<Vec<_>>() {
        update.await.unwrap();
    }
    assert_eq!(store.test("t", None).await.unwrap().unwrap().version, 31);
    let mut texts = Vec::new();
    for version in 2..=31 {
        texts.push(store.test("t", Some(version)).await.unwrap().unwrap().definition);
    }
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 30);
}

async fn of_writers_that_expect_one_version_only_one_succeeds(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    for version in 1..=5 {
        let writers = (0..8).map(|at| {
            let store = store.clone();
            tokio::spawn(async move {
                let text = format!("{{{version}-{at}}}");
                let (new, expected) = (definition("t", "T", &text), Expected::OneOf(vec![version]));
                store.put_expecting(&new, Mode::Update, &expected, Timestamp::from_nanos(9)).await.unwrap()
            })
        });
        let mut updated = 0;
        for writer in writers.collect::<Vec<_>>() {
            match writer.await.unwrap() {
                Put::Updated(stored) => {
                    assert_eq!(stored.version, version + 1);
                    updated += 1;
                }
                lost => assert_eq!(lost, Put::Conflict { version: version + 1 }),
            }
        }
        assert_eq!(updated, 1);
    }
}

async fn lists_are_found_sorted_and_paged(database: &Database) {
    let store = with_tests(database, &["b", "A", "c%", "a"]).await;
    let ids = async |query, order, ascending, take, skip| {
        let (outcome, trigger, tag) = (None, None, None);
        let listing = Listing { tenant: "", query, outcome, trigger, tag, order, ascending, take, skip };
        let page = store.list(&[Kind::Test], &listing).await.unwrap();
        let items = store.load(&page).await.unwrap();
        (page.count, items.iter().map(|(_, item)| item.id.clone()).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(ids("", Order::Name, true, 9, 0).await, (4, "a A b c%".to_owned()));
    assert_eq!(ids("", Order::Name, false, 2, 1).await, (4, "b A".to_owned()));
    assert_eq!(ids("A", Order::Name, true, 9, 0).await, (2, "a A".to_owned()));
    assert_eq!(ids("'", Order::Name, true, 9, 0).await, (0, String::new()));
    assert_eq!(ids("\\", Order::Created, true, 9, 0).await, (0, String::new()));
}

async fn a_name_of_any_length_is_stored(database: &Database) {
    let store = database.open().await;
    // Nothing that compresses.
    let name: String = (0..6_000_u32).filter_map(|at| char::from_u32(0x4e00 + at * 7 % 20_000)).collect();
    let put = store.put(&definition("t", &name, "{}"), Mode::Create, Timestamp::from_nanos(1)).await.unwrap();
    assert!(matches!(put, Put::Created(_)));
}

async fn a_deleted_test_takes_everything_with_it(database: &Database) {
    let store = with_tests(database, &["t", "u"]).await;
    store.append_chunks(&mut [chunk(trace(1), 10, b"spans"), chunk(trace(2), 11, b"others")]).await.unwrap();
    let before = store.retained_bytes().await.unwrap();
    assert_eq!(inserted(&store, &run("t", trace(1))).await, Inserted::Number(1));
    inserted(&store, &run("u", trace(2))).await;
    let number = 1;
    let event = StoredEvent { seq: 2, at: Timestamp::from_nanos(1), body: "{}".to_owned() };
    store.append_events("t", number, "", std::slice::from_ref(&event)).await.unwrap();
    store.put_history("t", "{}").await.unwrap();
    assert!(store.delete(Kind::Test, "t").await.unwrap());
    assert!(!store.delete(Kind::Test, "t").await.unwrap());
    assert_eq!(store.run("t", number).await.unwrap(), None);
    assert_eq!(store.events("t", number, 0).await.unwrap(), []);
    assert_eq!(store.history("t").await.unwrap(), None);
    assert_eq!(store.span_count(trace(1)).await.unwrap(), 0);
    assert_eq!(store.span_count(trace(2)).await.unwrap(), 1);
    assert!(store.retained_bytes().await.unwrap() < before);
    // Writes of a run that is still under way leave nothing behind.
    store.append_events("t", number, "", std::slice::from_ref(&event)).await.unwrap();
    store.put_history("t", "{}").await.unwrap();
    assert_eq!(store.events("t", number, 0).await.unwrap(), []);
    assert_eq!(store.history("t").await.unwrap(), None);
    assert_eq!(inserted(&store, &run("t", trace(1))).await, Inserted::NoTest);
}

async fn the_number_of_a_deleted_run_is_not_used_again(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    for number in 1..=2 {
        assert_eq!(inserted(&store, &run("t", trace(1))).await, Inserted::Number(number));
    }
    assert!(store.delete_run("t", 2).await.unwrap());
    assert!(!store.delete_run("t", 2).await.unwrap());
    assert_eq!(inserted(&store, &run("t", trace(1))).await, Inserted::Number(3));
    let (count, runs) = store.runs("t", 1, 0).await.unwrap();
    assert_eq!((count, runs[0].number), (2, 3));
}

async fn run_numbers_are_unique_under_concurrency(database: &Database) {
    let store = with_tests(database, &["t", "other"]).await;
    let inserts = (0..40).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { inserted(&store, &run("t", trace(1))).await })
    });
    let mut numbers = Vec::new();
    for insert in inserts.collect::<Vec<_>>() {
        let Inserted::Number(number) = insert.await.unwrap() else { panic!("refused") };
        numbers.push(number);
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
    assert_eq!(inserted(&store, &run("other", trace(1))).await, Inserted::Number(1));
}

async fn one_of_two_state_changes_wins(database: &Database) {
    let store = with_tests(database, &["t", "other"]).await;
    assert_eq!(inserted(&store, &run("t", trace(9))).await, Inserted::Number(1));
    assert!(!store.change_state("t", 1, "another server", ("CREATED", "EXECUTING"), &[]).await.unwrap());
    let (a, b) = tokio::join!(
        store.change_state("t", 1, "", ("CREATED", "EXECUTING"), &[]),
        store.change_state("t", 1, "", ("CREATED", "STOPPED"), &[]),
    );
    assert!(a.unwrap() ^ b.unwrap());
    assert_ne!(store.run("t", 1).await.unwrap().unwrap().state, "CREATED");
}

async fn events_come_back_in_order_and_once(database: &Database) {
    let store = with_tests(database, &["t", "other"]).await;
    let event =
        |seq: u64, body: &str| StoredEvent { seq, at: Timestamp::from_nanos(seq), body: body.to_owned() };
    inserted(&store, &run("t", trace(1))).await;
    for event in [event(3, "b"), event(2, "a"), event(3, "late"), event(4, "c")] {
        store.append_events("t", 1, "", std::slice::from_ref(&event)).await.unwrap();
    }
    store.append_events("t", 1, "another server", &[event(5, "foreign")]).await.unwrap();
    assert_eq!(store.events("t", 1, 2).await.unwrap(), [event(3, "b"), event(4, "c")]);
    assert_eq!(store.events("t", 2, 0).await.unwrap(), []);
}

async fn history_is_replaced(database: &Database) {
    let store = with_tests(database, &["t", "other"]).await;
    assert_eq!(store.history("t").await.unwrap(), None);
    store.put_history("t", "one").await.unwrap();
    store.put_history("t", "two").await.unwrap();
    assert_eq!(store.history("t").await.unwrap().as_deref(), Some("two"));
}

async fn a_cancelled_query_leaves_the_pool_usable(database: &Database) {
    let store = with_tests(database, &["t"]).await;
    for limit in (0..300).map(Duration::from_micros) {
        let _ = tokio::time::timeout(limit, store.test("t", None)).await;
        let _ = tokio::time::timeout(limit, inserted(&store, &run("t", trace(1)))).await;
        let asked = store.test("t", None).await;
        assert!(asked.is_ok_and(|test| test.is_some()), "{limit:?}");
    }
    let number = inserted(&store, &run("t", trace(1))).await;
    let (count, _) = store.runs("t", 1, 0).await.unwrap();
    assert_eq!(number, Inserted::Number(count));
}
