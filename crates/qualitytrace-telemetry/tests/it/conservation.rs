//! The invariant of the ledger under random faults: nothing is lost; duplicates occur only where a response was lost.

use std::{collections::BTreeMap, time::Duration};

use qualitytrace_telemetry::{
    Telemetry,
    config::{Signal, Transport},
};

use crate::{
    basics::{config, sink, under},
    receiver::{Got, Receiver, number},
};

/// `QUALITYTRACE_SEEDS` and `QUALITYTRACE_ITEMS` make the run larger; the full run is 100 seeds of 10,000.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn nothing_is_lost_under_random_faults() {
    let items = i64::try_from(setting("QUALITYTRACE_ITEMS", 2_000)).unwrap();
    for seed in 0..setting("QUALITYTRACE_SEEDS", 4) {
        for transport in [Transport::Grpc, Transport::Http] {
            let receiver = Receiver::faulty(seed);
            let folder = tempfile::tempdir().unwrap();
            let mut faulty = sink("faulty", &receiver.url(), transport);
            faulty.delivery.batch_items = 100;
            faulty.delivery.timeout = Duration::from_secs(5);
            let telemetry = Telemetry::start(config(Some(folder.path()), vec![faulty])).unwrap();
            under(&telemetry, || {
                for n in 0..items {
                    let span = tracing::info_span!("s", n);
                    span.in_scope(|| tracing::info!(n = n + 1_000_000, "l"));
                }
            });
            assert!(telemetry.flush(Duration::from_mins(2)), "{}", telemetry.status().render());
            let status = telemetry.shutdown(Duration::from_secs(10));
            let got = receiver.stop();
            assert!(status.holds(), "seed {seed}: {}", status.render());
            let ledger = &status.sink("faulty").unwrap().ledger;
            let spans: Vec<i64> = got.spans.iter().filter_map(|span| number(&span.attributes)).collect();
            let logs: Vec<i64> = got.logs.iter().filter_map(|log| number(&log.attributes)).collect();
            for (signal, numbers, from) in [(Signal::Traces, spans, 0), (Signal::Logs, logs, 1_000_000)] {
                let balance = ledger[&signal];
                assert_eq!(balance.created, items.unsigned_abs(), "seed {seed}");
                assert_eq!(balance.dropped.total(), 0, "seed {seed}: {balance:?}");
                let seen = check(&got, &numbers, from..from + items, seed);
                assert_eq!(balance.exported + balance.rejected, items.unsigned_abs(), "seed {seed}");
                assert!(seen.total >= balance.exported, "seed {seed}");
                assert_eq!(balance.rejected, seen.rejected, "seed {seed}");
            }
        }
    }
}

struct ReceivedItems {
    total: u64,
    rejected: u64,
}

/// Checks that each number arrived or was rejected, and arrived twice only if the receiver once left the sender in
/// doubt.
fn check(got: &Got, numbers: &[i64], range: std::ops::Range<i64>, seed: u64) -> ReceivedItems {
    let mut times: BTreeMap<i64, usize> = BTreeMap::new();
    for n in numbers {
        *times.entry(*n).or_default() += 1;
    }
    let rejected = got.rejected.iter().filter(|n| range.contains(n)).count();
    for n in range {
        let came = times.get(&n).copied().unwrap_or(0);
        let refused = got.rejected.contains(&n);
        let doubts = got.unsure.get(&n).copied().unwrap_or(0);
        assert!(came > 0 || refused, "seed {seed}: {n} is missing");
        assert!(
            came + usize::from(refused) <= 1 + doubts,
            "seed {seed}: {n} came {came} times, {doubts} doubts"
        );
    }
    ReceivedItems { total: numbers.len() as u64, rejected: rejected as u64 }
}
