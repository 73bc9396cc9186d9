//! Runs across tests: lists with filters, and the history of each test.

use qualitytrace_testing::{DEADLINE, eventually};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::{AnyConnection, Connection as _};

use crate::api::Bench;
use crate::databases::{Database, on_every_database};

on_every_database!(
    runs_are_listed_across_tests_by_every_filter,
    a_page_goes_on_where_the_last_one_ended,
    tenants_see_their_own_runs_only,
    a_test_shows_its_last_twenty_outcomes,
    the_outcome_of_a_run_follows_its_gates,
    tests_are_listed_by_outcome_trigger_and_tag,
);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// A test of the stored trace with this assertion.
fn test(id: &str, assertion: &str) -> Value {
    let trigger = json!({ "type": "traceid", "traceid": { "id": TRACE } });
    let specs = json!([{ "selector": "span[name = \"work\"]", "assertions": [assertion] }]);
    json!({ "type": "Test", "spec": { "id": id, "name": format!("Test {id}"), "trigger": trigger, "specs": specs } })
}

/// A test whose trigger reaches nothing.
fn broken(id: &str) -> Value {
    let trigger =
        json!({ "type": "http", "httpRequest": { "method": "GET", "url": "http://127.0.0.1:9/x" } });
    json!({ "type": "Test", "spec": { "id": id, "name": id, "trigger": trigger } })
}

impl Bench {
    /// Stores a trace of two spans.
    async fn deliver_trace(&self) {
        let span = |id: &str, parent: &str, name: &str| {
            json!({
                "traceId": TRACE, "spanId": id, "parentSpanId": parent, "name": name, "kind": 1,
                "startTimeUnixNano": "1700000000000000000", "endTimeUnixNano": "1700000000005000000",
            })
        };
        let spans =
            [span("00000000000000a1", "", "root"), span("00000000000000a2", "00000000000000a1", "work")];
        let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
        let headers = [("content-type", "application/json")];
        let got = self.send(Method::POST, "/v1/traces", &headers, &body.to_string()).await;
        assert_eq!(got.status, StatusCode::OK, "{}", got.text);
    }

    /// Runs a test and waits for its end.
    async fn finish(&self, test: &str, body: &Value, headers: &[(&str, &str)]) {
        let path = format!("/api/tests/{test}/run");
        let started = self.send(Method::POST, &path, headers, &body.to_string()).await;
        assert_eq!(started.status, StatusCode::OK, "{}", started.text);
        let run = format!("{path}/{}", started.json()["id"]);
        eventually(DEADLINE, "the run ends", async || {
            let run = self.send(Method::GET, &run, headers, "").await.json();
            let state = run["state"].as_str().unwrap_or_default().to_owned();
            if state.ends_with("FAILED") || state == "FINISHED" { Ok(()) } else { Err(state) }
        })
        .await;
    }

    /// The listed runs, each as its test and number.
    async fn listed(&self, query: &str) -> Vec<String> {
        let got = self.get(&format!("/api/runs{query}")).await;
        assert_eq!(got.status, StatusCode::OK, "{query}: {}", got.text);
        let name = |run: &Value| format!("{} {}", run["test"]["id"].as_str().unwrap(), run["run"]);
        got.json()["items"].as_array().unwrap().iter().map(name).collect()
    }
}

/// The ids of the tests on a page of a list, and the number of them in all.
async fn listed_tests(bench: &Bench, query: &str) -> (u64, String) {
    let got = bench.get(&format!("/api/tests{query}")).await;
    assert_eq!(got.status, StatusCode::OK, "{query}: {}", got.text);
    let list = got.json();
    let ids = list["items"].as_array().unwrap().iter().map(|item| item["spec"]["id"].as_str().unwrap());
    (list["count"].as_u64().unwrap(), ids.collect::<Vec<_>>().join(" "))
}

fn tagged(mut test: Value, tags: &[&str]) -> Value {
    test["spec"]["tags"] = json!(tags);
    test
}

async fn tests_are_listed_by_outcome_trigger_and_tag(database: &Database) {
    let bench = Bench::new(database).await;
    bench.deliver_trace().await;
    let long = "x".repeat(5_000);
    for definition in [
        tagged(test("good", "attr:name = \"work\""), &["smoke", "café"]),
        tagged(test("bad", "attr:name = \"play\""), &["smoke", "smoke", &long]),
        broken("lost"),
        broken("idle"),
    ] {
        let put = bench.put("/api/tests", &definition).await;
        assert_eq!(put.status, StatusCode::CREATED, "{}", put.text);
    }
    for id in ["lost", "bad", "good"] {
        bench.finish(id, &json!({}), &[]).await;
    }
    let all = [
        ("?sortBy=name&sortDirection=asc", 4, "idle lost bad good"),
        ("?outcome=passed", 1, "good"),
        ("?outcome=failed", 1, "bad"),
        ("?outcome=broken", 1, "lost"),
        ("?outcome=stopped", 0, ""),
        ("?trigger=http&sortBy=name&sortDirection=asc", 2, "idle lost"),
        ("?trigger=traceid&sortBy=name&sortDirection=asc&take=1", 2, "bad"),
        ("?trigger=traceid&sortBy=name&sortDirection=asc&take=1&skip=1", 2, "good"),
        ("?tag=smoke&sortBy=name&sortDirection=asc", 2, "bad good"),
        ("?tag=caf%C3%A9", 1, "good"),
        ("?tag=smoke&outcome=failed&trigger=traceid&query=test", 1, "bad"),
        ("?tag=smoke&outcome=broken", 0, ""),
        ("?tag=Smoke", 0, ""),
        ("?tag=%27", 0, ""),
    ];
    for (query, count, ids) in all {
        assert_eq!(listed_tests(&bench, query).await, (count, ids.to_owned()), "{query}");
    }
    let tags = bench.get("/api/tags").await.json();
    assert_eq!(
        tags["items"],
        json!([{ "name": "café", "tests": 1 }, { "name": "smoke", "tests": 2 }]),
        "{tags}"
    );
    for (path, problem) in [
        (
            "/api/tests?outcome=red",
            "outcome is `red`; it is one of passed, failed, inconclusive, broken, stopped",
        ),
        ("/api/tests?tag=%00", "tag holds the character U+0000"),
        ("/api/variablesets?tag=a", "VariableSet has no tag to filter by"),
        ("/api/testsuites?outcome=failed", "TestSuite has no outcome to filter by"),
    ] {
        let got = bench.get(path).await;
        assert_eq!(got.status, StatusCode::BAD_REQUEST, "{path}");
        assert!(got.text.contains(problem), "{path}: {}", got.text);
    }
    // The latest run that has ended counts: after its removal, the one before it.
    let version = tagged(test("bad", "attr:name = \"work\""), &["slow"]);
    assert_eq!(bench.put("/api/tests/bad", &version).await.status, StatusCode::OK);
    bench.finish("bad", &json!({}), &[]).await;
    assert_eq!(listed_tests(&bench, "?outcome=failed").await, (0, String::new()));
    assert_eq!(listed_tests(&bench, "?outcome=passed&tag=slow").await, (1, "bad".to_owned()));
    assert_eq!(listed_tests(&bench, "?tag=smoke").await, (1, "good".to_owned()));
    let gone = bench.send(Method::DELETE, "/api/tests/bad/run/2", &[], "").await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT, "{}", gone.text);
    assert_eq!(listed_tests(&bench, "?outcome=failed").await, (1, "bad".to_owned()));
    let gone = bench.send(Method::DELETE, "/api/tests/bad", &[], "").await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT, "{}", gone.text);
    assert_eq!(listed_tests(&bench, "?tag=slow").await, (0, String::new()));
}

#[tokio::test]
async fn what_was_stored_before_has_tags_after_the_next_start() {
    has_tags_after_the_next_start(&Database::file()).await;
    if let Some(database) = Database::postgres().await {
        has_tags_after_the_next_start(&database).await;
    }
}

async fn has_tags_after_the_next_start(database: &Database) {
    let bench = Bench::new(database).await;
    for at in 0..502 {
        let test = tagged(broken(&format!("t{at}")), if at == 501 { &["last"] } else { &["all"] });
        assert_eq!(bench.put("/api/tests", &test).await.status, StatusCode::CREATED);
    }
    bench.server.shutdown().await;
    sqlx::any::install_default_drivers();
    let mut connection = AnyConnection::connect(&database.url).await.unwrap();
    for statement in ["DELETE FROM facets", "DELETE FROM documents WHERE name = 'facets'"] {
        sqlx::query(statement).execute(&mut connection).await.unwrap();
    }
    connection.close().await.unwrap();
    let bench = Bench::new(database).await;
    assert_eq!(listed_tests(&bench, "?tag=last").await, (1, "t501".to_owned()));
    assert_eq!(listed_tests(&bench, "?tag=all&take=1").await.0, 501);
    assert_eq!(listed_tests(&bench, "?trigger=http&take=1").await.0, 502);
}

async fn runs_are_listed_across_tests_by_every_filter(database: &Database) {
    let bench = Bench::new(database).await;
    bench.deliver_trace().await;
    for definition in
        [test("good", "attr:name = \"work\""), test("bad", "attr:name = \"play\""), broken("lost")]
    {
        assert_eq!(bench.put("/api/tests", &definition).await.status, StatusCode::CREATED);
    }
    bench
        .finish("good", &json!({ "metadata": { "source": "cli", "branch": "main", "build": "7" } }), &[])
        .await;
    bench.finish("bad", &json!({ "metadata": { "source": "web" } }), &[]).await;
    bench.finish("lost", &json!({}), &[]).await;
    bench.finish("good", &json!({ "metadata": { "branch": "other" } }), &[]).await;
    assert_eq!(bench.listed("").await, ["good 2", "lost 1", "bad 1", "good 1"]);
    for (query, expected) in [
        ("?test=good", vec!["good 2", "good 1"]),
        ("?test=unknown", vec![]),
        ("?outcome=passed", vec!["good 2", "good 1"]),
        ("?outcome=failed", vec!["bad 1"]),
        ("?outcome=broken", vec!["lost 1"]),
        ("?outcome=inconclusive", vec![]),
        ("?outcome=running", vec![]),
        ("?source=cli", vec!["good 1"]),
        ("?branch=main&source=cli", vec!["good 1"]),
        ("?branch=main&source=web", vec![]),
        ("?from=2000-01-01T00:00:00Z&take=1", vec!["good 2"]),
        ("?to=2000-01-01T00:00:00Z", vec![]),
        ("?test=good&outcome=passed&branch=other&to=2200-01-01T00:00:00Z", vec!["good 2"]),
    ] {
        assert_eq!(bench.listed(query).await, expected, "{query}");
    }
    let all = bench.get("/api/runs").await.json();
    let (good, lost) = (&all["items"][3], &all["items"][1]);
    assert_eq!(good["test"], json!({ "id": "good", "name": "Test good" }));
    assert_eq!(good["traceId"], TRACE);
    assert_eq!((&good["outcome"], &good["state"]), (&json!("passed"), &json!("FINISHED")));
    assert_eq!((&good["passed"], &good["failed"], &good["spans"]), (&json!(1), &json!(0), &json!(2)));
    assert_eq!(good["metadata"], json!({ "source": "cli", "branch": "main", "build": "7" }));
    assert_eq!((&good["source"], &good["branch"]), (&json!("cli"), &json!("main")));
    let duration: u64 = good["duration"].as_str().unwrap().parse().unwrap();
    assert!(duration > 0 && duration < 60_000_000_000, "{duration}");
    assert!(good["started"].as_str().unwrap().ends_with('Z'), "{good}");
    assert_eq!((&lost["outcome"], &lost["state"]), (&json!("broken"), &json!("TRIGGER_FAILED")));
    assert_eq!((&lost["source"], &lost["metadata"]), (&Value::Null, &json!({})));
    for (query, told) in [
        (
            "?outcome=flaky",
            "`flaky` is no value of `outcome`; write passed, failed, inconclusive, broken, stopped or running",
        ),
        ("?from=yesterday", "`yesterday` is no value of `from`; write a time like 2026-01-31T12:00:00Z"),
        ("?take=many", "`many` is no value of `take`; write a number"),
        ("?next=7", "`7` is no value of `next`; write the `next` of an earlier page"),
    ] {
        let got = bench.get(&format!("/api/runs{query}")).await;
        assert_eq!((got.status, got.json()["error"].as_str()), (StatusCode::BAD_REQUEST, Some(told)));
    }
    bench.server.shutdown().await;
}

async fn a_page_goes_on_where_the_last_one_ended(database: &Database) {
    let bench = Bench::new(database).await;
    for id in ["a-b", "c"] {
        bench.put("/api/tests", &broken(id)).await;
        for _ in 0..3 {
            bench.finish(id, &json!({}), &[]).await;
        }
    }
    for filter in ["", "&outcome=broken", "&test=a-b"] {
        let all = bench.listed(&format!("?take=100{filter}")).await;
        assert_eq!(all.len(), if filter == "&test=a-b" { 3 } else { 6 });
        let (mut seen, mut next) = (Vec::new(), String::new());
        loop {
            let page = bench.get(&format!("/api/runs?take=2{filter}&next={next}")).await.json();
            for run in page["items"].as_array().unwrap() {
                seen.push(format!("{} {}", run["test"]["id"].as_str().unwrap(), run["run"]));
            }
            let Some(cursor) = page["next"].as_str() else { break };
            cursor.clone_into(&mut next);
        }
        assert_eq!(seen, all, "{filter}");
    }
    bench.server.shutdown().await;
}

async fn tenants_see_their_own_runs_only(database: &Database) {
    let bench = Bench::new(database).await;
    let tenant = [("x-tracetest-tenantid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8")];
    bench.put("/api/tests", &broken("t")).await;
    bench.send(Method::PUT, "/api/tests", &tenant, &broken("t").to_string()).await;
    bench.finish("t", &json!({}), &[]).await;
    bench.finish("t", &json!({}), &tenant).await;
    bench.finish("t", &json!({}), &tenant).await;
    assert_eq!(bench.listed("").await, ["t 1"]);
    for query in ["", "?test=t", "?outcome=broken"] {
        let own = bench.send(Method::GET, &format!("/api/runs{query}"), &tenant, "").await.json();
        let numbers: Vec<&Value> = own["items"].as_array().unwrap().iter().map(|run| &run["run"]).collect();
        assert_eq!(numbers, [&json!(2), &json!(1)], "{query}");
    }
    bench.server.shutdown().await;
}

async fn a_test_shows_its_last_twenty_outcomes(database: &Database) {
    let bench = Bench::new(database).await;
    bench.deliver_trace().await;
    bench.put("/api/tests", &broken("often")).await;
    bench.put("/api/tests", &test("once", "attr:name = \"work\"")).await;
    bench.put("/api/tests", &broken("never")).await;
    for _ in 0..22 {
        bench.finish("often", &json!({}), &[]).await;
    }
    // A deleted run leaves a gap.
    bench.send(Method::DELETE, "/api/tests/often/run/21", &[], "").await;
    bench.finish("once", &json!({}), &[]).await;
    let augmented = [("x-tracetest-augmented", "true")];
    let list =
        bench.send(Method::GET, "/api/tests?sortBy=name&sortDirection=asc", &augmented, "").await.json();
    let summary = |at: usize| &list["items"][at]["spec"]["summary"];
    let (never, often, once) = (summary(0), summary(1), summary(2));
    assert_eq!(never["history"], Value::Null, "{never}");
    assert_eq!(never["lastRun"]["outcome"], Value::Null);
    let runs: Vec<u64> =
        often["history"].as_array().unwrap().iter().map(|run| run["run"].as_u64().unwrap()).collect();
    assert_eq!(runs, std::iter::once(22).chain((2..=20).rev()).collect::<Vec<_>>());
    assert_eq!(often["history"][0]["outcome"], "broken");
    assert_eq!((&once["lastRun"]["outcome"], &once["history"][0]["run"]), (&json!("passed"), &json!(1)));
    assert!(once["history"][0]["duration"].as_str().unwrap().parse::<u64>().unwrap() > 0, "{once}");
    let one = bench.send(Method::GET, "/api/tests/once", &augmented, "").await.json();
    assert_eq!(&one["spec"]["summary"], once);
    let plain = bench.get("/api/tests/once").await.json();
    assert_eq!(plain["spec"]["summary"], Value::Null);
    bench.server.shutdown().await;
}

async fn the_outcome_of_a_run_follows_its_gates(database: &Database) {
    let bench = Bench::new(database).await;
    bench.deliver_trace().await;
    bench.put("/api/tests", &test("bad", "attr:name = \"play\"")).await;
    bench.finish("bad", &json!({ "requiredGates": ["test-specs"] }), &[]).await;
    bench.finish("bad", &json!({ "requiredGates": [] }), &[]).await;
    bench.post("/api/tests/bad/run/1/rerun", &json!({})).await;
    let list = bench.get("/api/runs").await.json();
    let outcomes: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|run| &run["outcome"]).collect();
    assert_eq!(outcomes, [&json!("failed"), &json!("passed"), &json!("failed")], "{list}");
    assert_eq!(list["items"][0]["spans"], 2, "{list}");
    bench.server.shutdown().await;
}
