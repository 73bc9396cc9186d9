//! The audit log, and the fair share of each client in the queue.

use std::net::SocketAddr;

use qualitytrace_core::definition::{Format, Kind};
use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use qualitytrace_server::base::limits::Limits;
use qualitytrace_server::config::{Config, Safety};
use qualitytrace_server::http::access::Access;
use qualitytrace_server::serve::server::Server;
use qualitytrace_server::storage::store::{Change, Inserted, Mode, NewDefinition, NewRun, Store};
use serde_json::{Value, json};

use crate::kill::fresh_database;

/// A test of the store on a SQLite file and on PostgreSQL.
macro_rules! on_both_databases {
    ($($test:ident),* $(,)?) => {
        mod file {
            $(#[tokio::test] async fn $test() {
                let folder = tempfile::tempdir().unwrap();
                super::$test(&format!("sqlite://{}", folder.path().join("t.db").display())).await;
            })*
        }
        mod postgres {
            $(#[tokio::test] async fn $test() {
                if let Some(database) = super::fresh_database().await {
                    super::$test(&database).await;
                }
            })*
        }
    };
}

on_both_databases!(
    a_queue_that_one_client_fills_stays_open_for_others,
    the_client_with_fewer_runs_under_way_is_next,
    old_changes_go_first,
);

async fn with_test(database: &str) -> Store {
    let store = Store::open(database).await.unwrap();
    let new = NewDefinition {
        kind: Kind::Test,
        id: "t".to_owned(),
        tenant: "",
        name: "t".to_owned(),
        description: String::new(),
        sort_kind: String::new(),
        format: Format::Json,
        text: "{}",
        spec: "{}".to_owned(),
    };
    store.put(&new, Mode::Create, Timestamp::from_nanos(1)).await.unwrap();
    store
}

async fn insert(store: &Store, client: &str, bound: u64) -> bool {
    let run = NewRun {
        test: "t".to_owned(),
        test_version: 1,
        trace: TraceId::from_bytes([7; 16]).unwrap(),
        state: "CREATED",
        created: Timestamp::from_nanos(1_000_000_000_000),
        variables: "{}".to_owned(),
        request: "{}".to_owned(),
        owner: String::new(),
        client: client.to_owned(),
        step_of: None,
        event: r#"{"what":"created"}"#.to_owned(),
    };
    store.insert_run(&run, bound).await.unwrap() != Inserted::QueueFull
}

async fn a_queue_that_one_client_fills_stays_open_for_others(database: &str) {
    let store = with_test(database).await;
    for _ in 0..6 {
        assert!(insert(&store, "flooder", 6).await);
    }
    assert!(!insert(&store, "flooder", 6).await);
    // Two clients share it: three each. A third one gets two, and all together get at most twice the bound.
    for (client, taken) in [("second", 3), ("third", 2), ("fourth", 1)] {
        let mut count = 0;
        while insert(&store, client, 6).await {
            count += 1;
        }
        assert!(count >= taken, "{client} got {count}");
        assert!(!insert(&store, "flooder", 6).await);
    }
    for client in 0..20 {
        insert(&store, &format!("stranger {client}"), 6).await;
    }
    assert_eq!(store.row_counts().await.unwrap()["runs"], 12);
}

async fn the_client_with_fewer_runs_under_way_is_next(database: &str) {
    let store = with_test(database).await;
    for _ in 0..10 {
        insert(&store, "flooder", 100).await;
    }
    // Runs 11 and 12 are the last and have the latest turns.
    insert(&store, "quiet", 100).await;
    insert(&store, "quiet", 100).await;
    let claim = async || {
        let claimed = store.claim_runs("a", 1).await.unwrap();
        claimed[0].run.number
    };
    let mut order = Vec::new();
    for _ in 0..5 {
        order.push(claim().await);
    }
    assert_eq!(order, [1, 11, 2, 12, 3]);
}

async fn old_changes_go_first(database: &str) {
    let store = Store::open(database).await.unwrap();
    for at in 1..=10 {
        let text = |text: &str| text.to_owned();
        let change = Change {
            at: Timestamp::from_nanos(at),
            who: text("full:sha256:00..."),
            address: text("127.0.0.1"),
            action: text("store"),
            kind: text("Test"),
            id: format!("t{at}"),
            request: text("r"),
        };
        store.audit(&change).await.unwrap();
    }
    store.forget_changes(Timestamp::from_nanos(3), 5).await.unwrap();
    let first = store.changes(None, 3).await.unwrap();
    let ids = |page: &[((u64, String), Change)]| -> Vec<String> {
        page.iter().map(|(_, change)| change.id.clone()).collect()
    };
    assert_eq!(ids(&first), ["t10", "t9", "t8"]);
    let (at, entry) = &first[2].0;
    let rest = store.changes(Some((*at, entry)), 10).await.unwrap();
    assert_eq!(ids(&rest), ["t7", "t6"]);
}

#[tokio::test]
async fn every_change_is_recorded_with_its_author() {
    const TOKEN: &str = "full-token-0123456789abcdef";
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let tokens = vec![format!("full:{TOKEN}").parse().unwrap()];
    let safety = Safety { access: Access { tokens, otlp: false }, ..Safety::default() };
    let config = Config {
        http: any,
        otlp_grpc: None,
        otlp_http: None,
        limits: Limits::default(),
        safety,
        ..Config::default()
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = Server::start(config).await.unwrap();
    let base = format!("http://{}", server.addresses().http);
    let client = crate::client();
    let value = json!({ "key": "K", "value": "hunter2-hunter2", "type": "secret" });
    let set = json!({ "type": "VariableSet", "spec": { "id": "set", "name": "s", "values": [value] } });
    let trigger = json!({ "type": "http", "httpRequest": { "method": "GET", "url": "http://127.0.0.1:9/" } });
    let test = json!({ "type": "Test", "spec": { "id": "t", "name": "t", "trigger": trigger } });
    for (method, path, body) in [
        ("PUT", "/api/variablesets", &set),
        ("POST", "/api/tests", &test),
        ("POST", "/api/tests/t/run", &json!({})),
        ("POST", "/api/expressions/resolve", &json!({ "expression": "1" })),
        ("DELETE", "/api/variablesets/none", &json!({})),
        ("DELETE", "/api/variablesets/set", &json!({})),
    ] {
        let request = client.request(method.parse().unwrap(), format!("{base}{path}"));
        request.bearer_auth(TOKEN).json(body).send().await.unwrap();
    }
    let get = async |query: &str| -> (Value, String) {
        let answer = client.get(format!("{base}/api/audit{query}")).bearer_auth(TOKEN).send().await.unwrap();
        let text = answer.text().await.unwrap();
        (serde_json::from_str(&text).unwrap(), text)
    };
    let (page, text) = get("").await;
    let entries: Vec<String> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| format!("{} {} {}", entry["action"], entry["kind"], entry["id"]).replace('"', ""))
        .collect();
    assert_eq!(
        entries,
        ["delete VariableSet set", "run Test t", "create Test t", "store VariableSet set"],
        "{text}"
    );
    let first = &page["items"][0];
    assert!(first["who"].as_str().unwrap().starts_with("full:sha256:"), "{first}");
    assert_eq!(first["address"], "127.0.0.1");
    assert!(!text.contains("hunter2") && !text.contains(TOKEN), "{text}");
    let (page, _) = get("?take=3").await;
    let next = page["next"].as_str().unwrap().to_owned();
    let (rest, _) = get(&format!("?before={next}")).await;
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    let wrong = client.get(format!("{base}/api/audit?before=x")).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(wrong.status(), 400);
    server.shutdown().await;
}
