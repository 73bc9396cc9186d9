//! Benchmark: three times the load that a system can take. Memory must stay bounded, and every span accepted or
//! refused.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    Options,
    ingest::{number, rate},
    record::{Record, thousands},
    subject::{Load, Programs, Running, Subject},
};

const FACTOR: f64 = 3.0;
const LOADS: [Load; 2] =
    [Load { http: false, gzip: true, rate: None }, Load { http: true, gzip: false, rate: None }];

pub(super) fn run(options: &Options) -> Result<Record> {
    let programs = Programs::get()?;
    let (mut raw, mut rows) = (Vec::new(), Vec::new());
    for load in LOADS {
        for subject in [Subject::Collector, Subject::OursInFile] {
            let alone = {
                let running = Running::start(&programs, subject)?;
                programs.load(&running, options, &load)?
            };
            let running = Running::start(&programs, subject)?;
            let offered = rate(&alone) * FACTOR;
            let mut over = programs.load(&running, options, &Load { rate: Some(offered), ..load })?;
            let after = programs.load(&running, options, &load)?;
            println!("{subject:<26} {load:<10} {} of {} spans/s", thousands(rate(&over)), thousands(offered));
            over["subject"] = json!(subject.to_string());
            over["load"] = json!(load.to_string());
            over["alone_spans_per_second"] = json!(rate(&alone));
            over["after_spans_per_second"] = json!(rate(&after));
            rows.push(row(subject, &load, &over));
            raw.push(over);
        }
    }
    let header = [
        "system",
        "wire",
        "alone spans/s",
        "offered",
        "sent",
        "taken",
        "refused",
        "errors",
        "RSS peak MiB",
        "afterwards spans/s",
    ];
    let notes = vec![format!(
        "Offered: {FACTOR} times the rate of the closed loop, by the clock, for {} s. Sent: what the generator could \
         hand over with 128 requests in flight. Refused: answers that tell the sender to try again.",
        options.seconds
    )];
    Ok(Record { name: "overload", header: header.map(str::to_owned).to_vec(), rows, notes, raw })
}

fn row(subject: Subject, load: &Load, over: &Value) -> Vec<String> {
    let seconds = number(&over["seconds"]);
    let of = |counts: &Value| -> f64 {
        counts.as_object().into_iter().flat_map(|of| of.values()).map(number).sum()
    };
    let refused = number(&over["refused_spans"]) / seconds;
    let errors = of(&over["errors"]);
    let failed = errors * number(&over["spans_per_request"]) / seconds;
    vec![
        subject.to_string(),
        load.to_string(),
        thousands(number(&over["alone_spans_per_second"])),
        thousands(number(&over["offered_spans_per_second"])),
        thousands(rate(over) + refused + failed),
        thousands(rate(over)),
        thousands(refused),
        thousands(errors),
        thousands(number(&over["rss_peak_mib"])),
        thousands(number(&over["after_spans_per_second"])),
    ]
}
