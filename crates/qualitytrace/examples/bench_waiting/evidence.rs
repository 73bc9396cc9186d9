//! Slow, silent and unavailable exporters, mute replicas, samplers, wrong clocks, long jobs, stopped and killed processes:
//! two thousand runs.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use qualitytrace_testing::instrumented::Bug;
use serde_json::{Value, json};

use crate::fleet::Difference;
use crate::lane::{Lane, LaneRun, Teller, Trouble};
use crate::late_spans_load::waiting::Tally;

/// Concurrent lanes: they wait most of the time.
const AT_A_TIME: usize = 36;
/// The default export interval.
const DEFAULT: Duration = Duration::from_secs(5);
const SLOW: Duration = Duration::from_secs(20);
const JOB: Duration = Duration::from_secs(8);

/// A kind of fault, with several lanes.
struct Scenario {
    name: &'static str,
    /// Runs if a thousand of each kind are asked for, and runs per lane.
    runs: usize,
    in_a_lane: usize,
    /// Which bugs the runs have.
    bugs: Bugs,
    of: fn(&mut Lane),
}

#[derive(Clone, Copy)]
enum Bugs {
    Never,
    Always,
    Sometimes,
    OfTheJob,
}

const SCENARIOS: [Scenario; 13] = [
    // The longest ones first.
    Scenario {
        name: "one exporter stops for good",
        runs: 120,
        in_a_lane: 6,
        bugs: Bugs::Sometimes,
        of: |lane| lane.difference.dies_after = Some(3),
    },
    Scenario {
        name: "one exporter at 20 s, no bug",
        runs: 150,
        in_a_lane: 15,
        bugs: Bugs::Never,
        of: |lane| lane.difference.every = SLOW,
    },
    Scenario {
        name: "one exporter at 20 s, a bug",
        runs: 150,
        in_a_lane: 15,
        bugs: Bugs::Always,
        of: |lane| lane.difference.every = SLOW,
    },
    Scenario {
        name: "a job of 8 s (`run`)",
        runs: 130,
        in_a_lane: 10,
        bugs: Bugs::OfTheJob,
        of: |lane| {
            lane.difference.job = Some(JOB);
            lane.teller = Teller::Program;
        },
    },
    Scenario {
        name: "back-off after a closed port",
        runs: 120,
        in_a_lane: 4,
        bugs: Bugs::Sometimes,
        of: |lane| {
            lane.trouble = Trouble::ClosedPort;
            // The connection of one of its exporters has been refused for long.
            lane.difference.pause = Duration::from_secs(rand::random_range(5..60));
        },
    },
    Scenario {
        name: "the server stops (SIGSTOP)",
        runs: 90,
        in_a_lane: 9,
        bugs: Bugs::Sometimes,
        of: |lane| lane.trouble = Trouble::ServerStops,
    },
    Scenario {
        name: "a service stops (SIGSTOP)",
        runs: 90,
        in_a_lane: 9,
        bugs: Bugs::Sometimes,
        of: |lane| lane.trouble = Trouble::SystemStops,
    },
    Scenario {
        name: "a peer without spans",
        runs: 150,
        in_a_lane: 15,
        bugs: Bugs::Sometimes,
        of: |lane| lane.difference.has_mute_peer = true,
    },
    Scenario {
        name: "one of two processes is mute",
        runs: 300,
        in_a_lane: 15,
        bugs: Bugs::Sometimes,
        of: |lane| lane.difference.has_mute_twin = true,
    },
    Scenario {
        name: "60% of the traces are sampled",
        runs: 200,
        in_a_lane: 10,
        bugs: Bugs::Sometimes,
        of: |lane| lane.difference.sampled = 60,
    },
    Scenario {
        name: "killed with its queue",
        runs: 200,
        in_a_lane: 10,
        bugs: Bugs::Sometimes,
        of: |lane| lane.trouble = Trouble::Killed,
    },
    Scenario {
        name: "a clock is 5 min ahead",
        runs: 150,
        in_a_lane: 15,
        bugs: Bugs::Sometimes,
        of: |lane| lane.difference.clock_ahead = 300,
    },
    Scenario {
        name: "a clock is 5 min behind",
        runs: 150,
        in_a_lane: 15,
        bugs: Bugs::Sometimes,
        of: |lane| lane.difference.clock_ahead = -300,
    },
];

/// Does `runs` runs in all, and returns a line for each scenario that has `only` in its name.
pub(crate) async fn measure(runs: usize, only: &str) -> Vec<Value> {
    let chosen = || SCENARIOS.iter().enumerate().filter(|(_, scenario)| scenario.name.contains(only));
    let lanes = chosen().flat_map(|(at, scenario)| {
        let wanted = (scenario.runs * runs).div_ceil(1000);
        let lanes = wanted.div_ceil(scenario.in_a_lane);
        (0..lanes).map(move |number| {
            let rest = wanted - number * scenario.in_a_lane;
            (at, scenario.lane(number, rest.min(scenario.in_a_lane)))
        })
    });
    let lanes: Vec<_> = lanes.collect();
    let each = lanes.into_iter().map(async |(at, lane)| (at, lane.run().await));
    let ended: Vec<(usize, Vec<LaneRun>)> = stream::iter(each).buffer_unordered(AT_A_TIME).collect().await;
    let mut lines = Vec::new();
    for (at, scenario) in chosen() {
        let came: Vec<&LaneRun> =
            ended.iter().filter(|(of, _)| *of == at).flat_map(|(_, came)| came).collect();
        lines.push(line(scenario.name, &came));
        for wrong in came.iter().filter(|came| came.is_wrong()) {
            let short: String = wrong.told.chars().take(2_000).collect();
            let said = format!(
                "{}: {:?}, run {}: {}: {short}",
                scenario.name, wrong.bug, wrong.number, wrong.verdict
            );
            lines.push(json!({ "note": said }));
        }
    }
    lines
}

impl Scenario {
    /// A lane of `runs` runs. Every second lane has another victim, and half of all are probed.
    fn lane(&self, number: usize, runs: usize) -> Lane {
        let victim = ["stock", "worker"][number % 2];
        let of_victim = match victim {
            "stock" => [Bug::NoLookUp, Bug::StockError, Bug::NoCall],
            _ => [Bug::NoPacking, Bug::WorkerError, Bug::NoMessage],
        };
        let bug = |run: usize| match self.bugs {
            Bugs::Never => Bug::None,
            Bugs::Always => of_victim[run % of_victim.len()],
            Bugs::Sometimes if run.is_multiple_of(2) => Bug::None,
            Bugs::Sometimes => of_victim[(number + run / 2) % of_victim.len()],
            Bugs::OfTheJob if (number + run).is_multiple_of(2) => Bug::None,
            Bugs::OfTheJob => Bug::NoJob,
        };
        let mut lane = Lane {
            difference: Difference {
                victim,
                every: DEFAULT,
                pause: Duration::from_secs(1),
                dies_after: None,
                has_mute_peer: false,
                job: None,
                has_mute_twin: false,
                sampled: 100,
                clock_ahead: 0,
            },
            trouble: Trouble::None,
            teller: Teller::Server,
            bugs: (0..runs).map(bug).collect(),
            is_probed: number % 4 < 2,
        };
        (self.of)(&mut lane);
        lane
    }
}

fn line(name: &str, came: &[&LaneRun]) -> Value {
    let decided = || came.iter().filter(|came| came.is_decided());
    let mut last: Vec<_> = decided().filter_map(|came| came.after_last).collect();
    let mut evidence: Vec<_> = decided().filter_map(|came| came.after_evidence).collect();
    let by_absence = decided().filter(|came| came.bug.absent_from().is_some());
    let mut proof: Vec<_> = by_absence.filter_map(|came| came.after_evidence).collect();
    last.sort_unstable();
    evidence.sort_unstable();
    proof.sort_unstable();
    let at = |sorted: &[Duration], percent| match sorted {
        [] => json!(null),
        sorted => json!(Tally::at(sorted, percent).as_millis()),
    };
    json!({
        "load": name,
        "runs": came.len(),
        "wrong verdicts": came.iter().filter(|came| came.is_wrong()).count(),
        "gave up, rightly": came.len() - decided().count(),
        "p50 ms after the last span": at(&last, 50), "p90 ms": at(&last, 90), "p99 ms": at(&last, 99),
        "p50 ms after the evidence": at(&evidence, 50), "p99 ms after it": at(&evidence, 99),
        "failed by absence: p90 ms after the proof": at(&proof, 90),
    })
}
