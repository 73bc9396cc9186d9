//! Many runs against a system whose spans come late: are the verdicts right, and how soon do they come?

use std::time::Duration;

use futures_util::{StreamExt, stream};
use qualitytrace_testing::{DEADLINE, eventually};

use super::client::{Client, Events, Started};
use super::system::System;

/// The number of runs and tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) tests: usize,
    pub(crate) runs: usize,
    pub(crate) parallel: usize,
}

/// The results of the runs.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) runs: usize,
    /// Runs with a wrong verdict, a sentence each.
    pub(crate) wrong: Vec<String>,
    /// Runs that were inconclusive, rightly.
    pub(crate) gave_up: usize,
    /// From the last span to the verdict: of the first run of each test, and of the others.
    pub(crate) first: Vec<Duration>,
    pub(crate) known: Vec<Duration>,
}

/// One run in this many loses a span that has a child: it cannot be decided.
const LOSES: usize = 20;
/// One run in this many has a bug.
const BUGS: usize = 3;

/// Runs the load, and compares every verdict with the truth.
pub(crate) async fn measure(client: &Client, system: &System, load: Load) -> Tally {
    let mut tally = Tally::default();
    let tests: Vec<String> = (0..load.tests).map(|number| format!("rough-{number}")).collect();
    for test in &tests {
        client.put_test(test, &system.url).await;
    }
    let first = tests.iter().map(|test| one(client, system, test, false, false));
    for (wait, wrong, _) in stream::iter(first).buffer_unordered(load.parallel).collect::<Vec<_>>().await {
        tally.first.push(wait);
        tally.wrong.extend(wrong);
    }
    let rest = (load.tests..load.runs).map(|number| {
        let loses = number % LOSES == 0;
        let test = &tests[number % load.tests];
        one(client, system, test, !loses && number % BUGS == 0, loses)
    });
    for (wait, wrong, gave_up) in stream::iter(rest).buffer_unordered(load.parallel).collect::<Vec<_>>().await
    {
        // A run that gives up waits for what does not come: that says nothing about how soon verdicts are.
        if gave_up {
            tally.gave_up += 1;
        } else {
            tally.known.push(wait);
        }
        tally.wrong.extend(wrong);
    }
    tally.runs = load.runs;
    tally.first.sort_unstable();
    tally.known.sort_unstable();
    tally
}

/// One run: how long after its last span the verdict came, what was wrong with it, and whether it gave up.
async fn one(
    client: &Client,
    system: &System,
    test: &str,
    bug: bool,
    loses: bool,
) -> (Duration, Option<String>, bool) {
    let run = client.start(test, bug, loses).await;
    let events = client.events(&run).await;
    eventually(DEADLINE, format!("the system has sent trace {}", run.trace), async || {
        system.known(&run.trace).under_way == 0
    })
    .await;
    let known = system.known(&run.trace);
    let wait = Duration::from_nanos(events.judged_at().saturating_sub(known.delivered));
    let expected = match (loses, bug) {
        (true, _) => "inconclusive",
        (false, true) => "failed",
        (false, false) => "passed",
    };
    let named = known.lost.as_ref().is_none_or(|lost| names(&events, lost));
    let is_right = events.verdict() == expected && named;
    let wrong = (!is_right).then(|| wrong(&run, expected, &events));
    (wait, wrong, events.verdict() == "inconclusive")
}

/// Whether the verdict says that this span is missing.
fn names(events: &Events, span: &str) -> bool {
    let mut judged = events.all("judged");
    judged.any(|event| event["verdict"]["missing"].to_string().contains(span))
}

fn wrong(run: &Started, expected: &str, events: &Events) -> String {
    let short: Vec<String> = events
        .0
        .iter()
        .filter(|event| event["what"] != "analyzed")
        .map(|event| {
            let text = event.to_string();
            text.chars().take(400).collect()
        })
        .collect();
    format!(
        "run {} of {} (trace {}) should be {expected} and is {}:\n  {}",
        run.number,
        run.test,
        run.trace,
        events.verdict(),
        short.join("\n  ")
    )
}

impl Tally {
    /// The time within which this percentage of the verdicts came.
    pub(crate) fn at(sorted: &[Duration], percent: usize) -> Duration {
        sorted
            .get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}
