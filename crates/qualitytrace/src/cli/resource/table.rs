//! Tables of resources, with the columns of each kind.

use qualitytrace_core::definition::Kind;
use serde_json::Value;

use crate::report::visible;
use crate::terminal::columns;

/// Renders the table; `page` is the address of the page for browsers, if there is one.
pub(crate) fn table(kind: Kind, items: &[Value], page: Option<&str>) -> String {
    let columns: Vec<Column> = columns(kind)
        .iter()
        .copied()
        .filter(|(_, cell)| page.is_some() || !matches!(cell, Cell::TestPage))
        .collect();
    let base = page.unwrap_or_default();
    let rows: Vec<Vec<String>> = items
        .iter()
        .map(|item| columns.iter().map(|(_, cell)| text(*cell, &item["spec"], base)).collect())
        .collect();
    let titles: Vec<String> = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| {
            let cells = rows.iter().chain([&titles]).flat_map(|row| row[at].lines());
            cells.map(columns::width).max().unwrap_or_default() + 2
        })
        .collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut out = written(&titles, &widths);
    out.push_str(&rule.join(" "));
    out.push('\n');
    for row in &rows {
        out.push_str(&written(row, &widths));
    }
    out
}

/// Renders a row: a cell may have several lines.
fn written(row: &[String], widths: &[usize]) -> String {
    let height = row.iter().map(|cell| cell.lines().count()).max().unwrap_or_default().max(1);
    let mut out = String::new();
    for line in 0..height {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| {
                let text = cell.lines().nth(line).unwrap_or_default();
                format!(" {}", columns::padded(text, width - 1))
            })
            .collect();
        out.push_str(&cells.join(" "));
        out.push('\n');
    }
    out
}

/// The content of a cell.
#[derive(Debug, Clone, Copy)]
enum Cell {
    /// The value at this JSON pointer.
    At(&'static str),
    /// A timestamp; empty when it is not set.
    Time(&'static str),
    /// The number of items.
    Count(&'static str),
    /// The items, a line each.
    Lines(&'static str),
    /// A star where it is true.
    Star(&'static str),
    /// The address of a test's page.
    TestPage,
}

fn text(cell: Cell, spec: &Value, base: &str) -> String {
    let at = |pointer: &str| spec.pointer(pointer).unwrap_or(&Value::Null);
    let items = |pointer: &str| at(pointer).as_array().cloned().unwrap_or_default();
    match cell {
        Cell::At(pointer) => plain(at(pointer)),
        Cell::Time(pointer) => {
            // `2026-11-15T02:21:32.58Z` is shown as `2026-11-15 02:21:32`.
            let time = plain(at(pointer));
            let is_there = !time.starts_with("0001-");
            time.get(..19).filter(|_| is_there).map_or_else(String::new, |time| time.replace('T', " "))
        }
        Cell::Count(pointer) => items(pointer).len().to_string(),
        Cell::Lines(pointer) => {
            items(pointer).iter().map(|item| format!("- {}", plain(item))).collect::<Vec<_>>().join("\n")
        }
        Cell::Star(pointer) => if at(pointer) == true { "*" } else { "" }.to_owned(),
        Cell::TestPage => format!("{base}/test/{}", plain(at("/id"))),
    }
}

/// A value on one line.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => visible::text(text),
        other => other.to_string(),
    }
}

type Column = (&'static str, Cell);

const fn columns(kind: Kind) -> &'static [Column] {
    const ID: Column = ("ID", Cell::At("/id"));
    const NAME: Column = ("NAME", Cell::At("/name"));
    const VERSION: Column = ("VERSION", Cell::At("/version"));
    const RUNS: Column = ("RUNS", Cell::At("/summary/runs"));
    const TIME: Column = ("LAST RUN TIME", Cell::Time("/summary/lastRun/time"));
    const GOOD: Column = ("LAST RUN SUCCESSES", Cell::At("/summary/lastRun/passes"));
    const BAD: Column = ("LAST RUN FAILURES", Cell::At("/summary/lastRun/fails"));
    match kind {
        Kind::Test => &[
            ID,
            NAME,
            VERSION,
            ("TRIGGER TYPE", Cell::At("/trigger/type")),
            RUNS,
            TIME,
            GOOD,
            BAD,
            ("URL", Cell::TestPage),
        ],
        Kind::TestSuite => &[ID, NAME, VERSION, ("STEPS", Cell::Count("/steps")), RUNS, TIME, GOOD, BAD],
        Kind::VariableSet => &[ID, NAME, ("DESCRIPTION", Cell::At("/description"))],
        Kind::DataStore => &[ID, NAME, ("DEFAULT", Cell::Star("/default"))],
        Kind::PollingProfile => &[ID, NAME, ("STRATEGY", Cell::At("/strategy"))],
        Kind::Analyzer => &[
            ID,
            NAME,
            ("ENABLED", Cell::At("/enabled")),
            ("MINIMUM SCORE", Cell::At("/minimumScore")),
            ("PLUGINS", Cell::Count("/plugins")),
        ],
        Kind::TestRunner => &[ID, NAME, ("REQUIRED GATES", Cell::Lines("/requiredGates"))],
        Kind::Config => &[ID, NAME, ("ANALYTICS ENABLED", Cell::At("/analyticsEnabled"))],
        Kind::Demo => &[ID, NAME, ("TYPE", Cell::At("/type")), ("ENABLED", Cell::At("/enabled"))],
    }
}
