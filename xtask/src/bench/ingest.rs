//! Benchmark: spans that a system acknowledges per second on one core.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    Options,
    record::{Record, median, thousands},
    subject::{Load, Programs, Running, Subject},
};

const LOADS: [Load; 3] = [
    Load { http: false, gzip: false, rate: None },
    Load { http: false, gzip: true, rate: None },
    Load { http: true, gzip: false, rate: None },
];

pub(super) fn run(options: &Options) -> Result<Record> {
    let programs = Programs::get()?;
    let mut raw = Vec::new();
    // Rounds outside, systems inside: a slow minute of the machine affects all systems alike.
    for round in 1..=options.rounds {
        for load in LOADS {
            for subject in Subject::ALL {
                let running = Running::start(&programs, subject)?;
                let mut counted = programs.load(&running, options, &load)?;
                counted["subject"] = json!(subject.to_string());
                counted["load"] = json!(load.to_string());
                counted["round"] = json!(round);
                println!(
                    "{round}/{} {subject:<26} {load:<10} {} spans/s",
                    options.rounds,
                    thousands(rate(&counted))
                );
                raw.push(counted);
            }
        }
    }
    let mut rows = Vec::new();
    for load in LOADS {
        let collector = middle(&raw, Subject::Collector, &load)?;
        for subject in Subject::ALL {
            rows.push(row(subject, &load, middle(&raw, subject, &load)?, rate(collector)));
        }
    }
    let header = [
        "system",
        "wire",
        "spans/s",
        "of the Collector",
        "refused",
        "errors",
        "p99 ms",
        "CPU %",
        "RSS peak MiB",
        "other CPU %",
    ];
    let bytes = raw.first().map_or(Value::Null, |one| one["bytes_per_span"].clone());
    let notes = vec![format!(
        "1,000 spans of {bytes} B per request, 8 requests in flight, each system on one core; \
         the median of {} rounds of {} s.",
        options.rounds, options.seconds
    )];
    Ok(Record { name: "ingest", header: header.map(str::to_owned).to_vec(), rows, notes, raw })
}

/// The round with the median rate.
fn middle<'a>(raw: &'a [Value], subject: Subject, load: &Load) -> Result<&'a Value> {
    let of = |one: &&Value| one["subject"] == subject.to_string() && one["load"] == load.to_string();
    let rates = raw.iter().filter(of).map(rate).collect();
    let median = median(rates);
    raw.iter().filter(of).find(|one| rate(one).total_cmp(&median).is_eq()).context("nothing was measured")
}

fn row(subject: Subject, load: &Load, counted: &Value, collector: f64) -> Vec<String> {
    let errors: u64 =
        counted["errors"].as_object().into_iter().flat_map(|of| of.values()).filter_map(Value::as_u64).sum();
    vec![
        subject.to_string(),
        load.to_string(),
        thousands(rate(counted)),
        format!("{:.2}x", rate(counted) / collector),
        thousands(number(&counted["refused_spans"])),
        errors.to_string(),
        format!("{:.0}", number(&counted["latency_ms"]["p99"])),
        format!("{:.0}", number(&counted["cpu_percent"])),
        format!("{:.0}", number(&counted["rss_peak_mib"])),
        format!("{:.0}", number(&counted["other_cpu_percent"])),
    ]
}

/// Acknowledged spans per second.
pub(super) fn rate(counted: &Value) -> f64 {
    number(&counted["spans_per_second"])
}

/// A number from the generator; a missing one is zero.
pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}
