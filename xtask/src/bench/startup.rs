//! Benchmark: startup time, and memory when idle.

use std::{fs, thread, time::Duration};

use anyhow::Result;
use serde_json::json;

use super::{
    Options,
    record::{Record, median},
    subject::{Programs, Running, Subject},
};

/// Starts per round: a single one is too short to say much.
const STARTS: u32 = 5;
/// Idle time before memory is read.
const IDLE: Duration = Duration::from_secs(2);

pub(super) fn run(options: &Options) -> Result<Record> {
    let programs = Programs::get()?;
    let (mut raw, mut rows) = (Vec::new(), Vec::new());
    for subject in Subject::ALL {
        // The first start reads the program from disk; later ones do not.
        drop(Running::start(&programs, subject)?);
        let mut ready = Vec::new();
        for _ in 0..options.rounds * STARTS {
            ready.push(Running::start(&programs, subject)?.ready_in.as_secs_f64() * 1000.0);
        }
        let idle = {
            let running = Running::start(&programs, subject)?;
            thread::sleep(IDLE);
            running.rss_mib()?
        };
        let program = if subject == Subject::Collector { &programs.collector } else { &programs.ours };
        #[expect(clippy::cast_precision_loss, reason = "the size of a program")]
        let size = fs::metadata(program)?.len() as f64 / 1024.0 / 1024.0;
        let (fastest, slowest) = (extreme(&ready, f64::min), extreme(&ready, f64::max));
        rows.push(vec![
            subject.to_string(),
            format!("{:.0}", median(ready.clone())),
            format!("{fastest:.0}-{slowest:.0}"),
            format!("{idle:.1}"),
            format!("{size:.1}"),
        ]);
        raw.push(json!({ "subject": subject.to_string(), "ready_ms": ready, "idle_rss_mib": idle, "binary_mib": size }));
    }
    let header = ["system", "ready ms (median)", "ready ms (range)", "idle RSS MiB", "binary MiB"];
    let notes = vec![format!(
        "{} starts each, on one core. Ready: both OTLP ports accept connections and, for ours, `/readyz` answers. \
         Idle: {} s after the start.",
        options.rounds * STARTS,
        IDLE.as_secs()
    )];
    Ok(Record { name: "startup", header: header.map(str::to_owned).to_vec(), rows, notes, raw })
}

fn extreme(values: &[f64], choose: fn(f64, f64) -> f64) -> f64 {
    values.iter().copied().reduce(choose).unwrap_or(0.0)
}
