//! Benchmark of verdicts on real systems whose spans come up to three seconds late, in several batches, out of order
//! and twice, or whose exporters are slow, silent or unavailable: a JSON line for each kind of load.
//! `cargo xtask bench waiting`; `--runs N` does fewer than the thousand of each, and `--only TEXT` only those of the
//! second kind with this text in their name.

#![expect(clippy::print_stdout, reason = "a program that prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a measurement that fails is worth nothing")]

mod evidence;
mod fleet;
mod lane;
#[path = "../../tests/late_spans_load/load.rs"]
#[expect(dead_code, reason = "tests and other measurements use the rest")]
mod late_spans_load;

use std::time::Duration;

use futures_util::{StreamExt, stream};
use late_spans_load::client::Client;
use late_spans_load::program::{Served, beside};
use late_spans_load::system::{Deliveries, Leaf, System};
use late_spans_load::waiting::{Load, Tally, measure};
use serde_json::json;

const DELAY: Duration = Duration::from_secs(3);
const LATE: Duration = Duration::from_secs(10);

fn main() {
    // This program is the benchmark or one of its services; as a service it needs no runtime.
    if !fleet::serve_if_asked() {
        tokio::runtime::Runtime::new().unwrap().block_on(measure_all());
    }
}

async fn measure_all() {
    // Fails when a provider is installed already, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let words: Vec<String> = std::env::args().collect();
    let runs = words.iter().skip_while(|word| *word != "--runs").nth(1);
    let runs: usize = runs.map_or(1_000, |runs| runs.parse().expect("`--runs` needs a number"));
    let only = words.iter().skip_while(|word| *word != "--only").nth(1);
    if only.is_none() {
        delays(runs).await;
    }
    for line in evidence::measure(runs, only.map_or("", String::as_str)).await {
        println!("{line}");
    }
}

/// Late spans, and spans that never come.
async fn delays(runs: usize) {
    let tests = (runs / 50).max(2);
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite://{}", folder.path().join("waiting.db").display());
    let server = Served::start(&beside(), &database, &["--runs.concurrency", "100"]).await;
    let client = Client::new(server.url(""));

    let system = System::start(vec![server.url("")], Deliveries { delay: DELAY, leaf: Leaf::Comes }).await;
    let tally = measure(&client, &system, Load { tests, runs, parallel: 100 }).await;
    for wrong in &tally.wrong {
        println!("{wrong}");
    }
    line("first run of a test", tests, tally.wrong.len(), 0, &tally.first);
    line("known test", runs - tests, tally.wrong.len(), tally.gave_up, &tally.known);

    for (name, leaf) in [("a span never comes", Leaf::Withheld), ("a span comes 10 s late", Leaf::Late(LATE))]
    {
        let system = System::start(vec![server.url("")], Deliveries { delay: DELAY, leaf }).await;
        let test = name.replace(' ', "-");
        client.put_test(&test, &system.url).await;
        let each = (0..runs).map(|_| one(&client, &test, leaf));
        let wrong: Vec<String> =
            stream::iter(each).buffer_unordered(100).filter_map(async |wrong| wrong).collect().await;
        for wrong in &wrong {
            println!("{wrong}");
        }
        line(name, runs, wrong.len(), 0, &[]);
    }
}

/// What is wrong with a run whose verdict depends on a span that is late or missing.
async fn one(client: &Client, test: &str, leaf: Leaf) -> Option<String> {
    let run = client.start(test, false, false).await;
    let events = client.events(&run).await;
    let verdict = events.verdict();
    let (is_right, later) = match leaf {
        // Once the span is known to come this late, the run waits for it.
        Leaf::Late(_) if verdict == "passed" => (true, None),
        Leaf::Late(_) => {
            let later = client.corrected(&run, LATE + Duration::from_secs(30)).await;
            (later.as_deref() == Some("passed"), later)
        }
        Leaf::Comes | Leaf::Withheld => (verdict != "passed", None),
    };
    (!is_right).then(|| format!("run {} of {test} is {verdict} and later {later:?}", run.number))
}

fn line(load: &str, runs: usize, wrong: usize, gave_up: usize, sorted: &[Duration]) {
    let at = |percent| match sorted {
        [] => json!(null),
        sorted => json!(Tally::at(sorted, percent).as_millis()),
    };
    let found = json!({
        "load": load, "runs": runs, "wrong verdicts": wrong, "gave up, rightly": gave_up,
        "p50 ms after the last span": at(50), "p90 ms": at(90), "p99 ms": at(99),
        "p50 ms after the evidence": null, "p99 ms after it": null,
        "failed by absence: p90 ms after the proof": null,
    });
    println!("{found}");
}
