//! The status of a server's sinks as a table.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::terminal::columns;

const HEADS: [&str; 10] = [
    "SINK",
    "SIGNAL",
    "CIRCUIT",
    "CREATED",
    "SAMPLED OUT",
    "EXPORTED",
    "REJECTED",
    "DROPPED",
    "QUEUED",
    "IN FLIGHT",
];

/// Renders one aligned line for each sink and signal, then the problems.
pub(super) fn table(status: &Value) -> String {
    let rows: Vec<Vec<String>> =
        ledgers(status).map(|(sink, signal, ledger)| row(sink, signal, ledger)).collect();
    if rows.is_empty() {
        return format!(
            "no sinks; name one in the configuration, see docs/telemetry.md\n{}",
            orphans(status)
        );
    }
    let heads = HEADS.map(str::to_owned).to_vec();
    let all: Vec<&Vec<String>> = std::iter::once(&heads).chain(&rows).collect();
    let width = |column: usize| all.iter().map(|row| columns::width(&row[column])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let mut out = String::new();
    for row in &all {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            // Words are aligned left, numbers right.
            if column < 3 { columns::padded(cell, *width) } else { format!("{cell:>width$}") }
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    for sink in sinks(status) {
        for problem in sink["problems"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            out.push_str(&[&*text(&sink["id"]), ": ", problem, "\n"].concat());
        }
    }
    out.push_str(&orphans(status));
    out
}

/// Orphaned disk queues, a line for each.
fn orphans(status: &Value) -> String {
    let line = |orphan: &Value| {
        let of = orphan["sink"].as_str().map(|sink| format!(" of {sink}")).unwrap_or_default();
        format!(
            "spool{of} without a sink: {} bytes in {}, removed {}; name the sink again to deliver them\n",
            number(&orphan["bytes"]),
            text(&orphan["path"]),
            remaining(number(&orphan["expires_ms"])),
        )
    };
    status["orphans"].as_array().into_iter().flatten().map(line).collect()
}

/// The remaining time, in whole hours or minutes.
fn remaining(until_ms: u64) -> String {
    let until = UNIX_EPOCH + Duration::from_millis(until_ms);
    let left = until.duration_since(SystemTime::now()).unwrap_or_default().as_secs();
    if left >= 3_600 { format!("in {} h", left / 3_600) } else { format!("in {} min", left / 60) }
}

/// Whether anything was dropped, rejected by its receiver, or destroyed on disk.
pub(super) fn has_losses(status: &Value) -> bool {
    ledgers(status).any(|(_, _, ledger)| dropped(ledger) + number(&ledger["rejected"]) > 0)
        || sinks(status).any(|sink| number(&sink["spool"]["damaged_bytes"]) > 0)
}

fn sinks(status: &Value) -> impl Iterator<Item = &Value> {
    ["sinks", "retired"].into_iter().flat_map(|list| status[list].as_array().into_iter().flatten())
}

fn ledgers(status: &Value) -> impl Iterator<Item = (&Value, &String, &Value)> {
    sinks(status).flat_map(|sink| {
        let signals = sink["ledger"].as_object().into_iter().flatten();
        signals.map(move |(signal, ledger)| (sink, signal, ledger))
    })
}

fn row(sink: &Value, signal: &str, ledger: &Value) -> Vec<String> {
    // Items that an earlier process left count as created.
    let created = number(&ledger["created"]) + number(&ledger["recovered"]);
    let words = [text(&sink["id"]), signal.to_owned(), text(&sink["health"]["circuit"])];
    let field = |name: &str| number(&ledger[name]);
    let numbers = [
        created,
        field("sampled_out"),
        field("exported"),
        field("rejected"),
        dropped(ledger),
        field("queued"),
        field("in_flight"),
    ];
    words.into_iter().chain(numbers.map(|number| number.to_string())).collect()
}

fn dropped(ledger: &Value) -> u64 {
    ledger["dropped"].as_object().into_iter().flatten().map(|(_, count)| number(count)).sum()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_losses_are_found() {
        let ledger = |exported: u64, lost: u64| {
            json!({
                "created": exported, "recovered": 1, "sampled_out": 0, "exported": exported, "rejected": 0,
                "dropped": { "queue_full": lost, "expired": 0 }, "queued": 1, "in_flight": 0,
            })
        };
        let sink = |id: &str, ledger: Value| json!({ "id": id, "health": { "circuit": "closed" }, "problems": [], "ledger": { "traces": ledger } });
        let mut status = json!({ "sinks": [sink("tracer.a", ledger(123_456, 0))], "retired": [] });
        assert!(!has_losses(&status));
        status["retired"] = json!([sink("b", ledger(7, 2))]);
        status["retired"][0]["problems"] = json!(["2 spans were lost"]);
        assert!(has_losses(&status));
        assert_eq!(
            table(&status),
            "SINK      SIGNAL  CIRCUIT  CREATED  SAMPLED OUT  EXPORTED  REJECTED  DROPPED  QUEUED  IN FLIGHT\n\
             tracer.a  traces  closed    123457            0    123456         0        0       1          0\n\
             b         traces  closed         8            0         7         0        2       1          0\n\
             b: 2 spans were lost\n"
        );
        let mut none = json!({ "sinks": [], "retired": [] });
        assert_eq!(table(&none).lines().count(), 1);
        none["orphans"] = json!([{ "path": "/d/0", "sink": "tracer.a", "bytes": 741, "expires_ms": 0 }]);
        let orphan = "spool of tracer.a without a sink: 741 bytes in /d/0, removed in 0 min; name the sink again to deliver them";
        assert_eq!(table(&none).lines().last(), Some(orphan));
    }
}
