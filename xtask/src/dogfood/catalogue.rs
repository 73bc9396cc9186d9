//! The lists of spans and metrics in docs/telemetry.md, compared with what the Collector received, both ways.

use std::collections::BTreeSet;

use anyhow::{Result, bail};

use super::ledger::Received;

/// The page with the lists.
pub(crate) const PAGE: &str = "docs/telemetry.md";
/// Documented as a pattern: a method and a route.
const REQUEST: &str = "METHOD ROUTE";
/// Documented as a pattern: an operation of the database and, if it names one, a table.
const STATEMENT: &str = "OPERATION TABLE";

/// What the page lists.
#[derive(Debug, PartialEq, Eq)]
struct Catalogue {
    spans: BTreeSet<String>,
    /// Names with units.
    metrics: BTreeSet<(String, String)>,
}

impl Catalogue {
    /// Reads the tables whose first columns are `span` and `metric`.
    fn read(page: &str) -> Self {
        let rows = |head: &'static str| {
            let lines = page.lines().skip_while(move |line| !line.starts_with(head)).skip(2);
            lines
                .take_while(|line| line.starts_with('|'))
                .map(|line| line.split('|').skip(1).map(str::trim).collect::<Vec<_>>())
        };
        let spans = rows("| span |").flat_map(|row| quoted(row[0])).collect();
        let metrics = rows("| metric |")
            .flat_map(|row| {
                let unit = quoted(row[1]).into_iter().next().unwrap_or_default();
                quoted(row[0]).into_iter().map(move |name| (name, unit.clone()))
            })
            .collect();
        Self { spans, metrics }
    }
}

/// The texts in backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The documented name of a span: itself, or the pattern that it follows.
fn documented(span: &str) -> &str {
    let first = span.split(' ').next().unwrap_or_default();
    match first {
        "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "OPTIONS" | "HTTP" => REQUEST,
        // A method and an operation.
        "DELETE" if span.contains(" /") => REQUEST,
        "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "WITH" | "BEGIN" | "COMMIT" | "ROLLBACK" | "NOTIFY"
        | "LISTEN" | "SET" | "LOCK" | "CREATE" | "PRAGMA" | "SAVEPOINT" | "RELEASE" | "ANALYZE" => STATEMENT,
        _ => span,
    }
}

/// Fails with every difference between the page and what was received.
pub(crate) fn compare(page: &str, received: &Received) -> Result<()> {
    let Catalogue { spans, metrics } = Catalogue::read(page);
    let seen: BTreeSet<String> = received.names.iter().map(|name| documented(name).to_owned()).collect();
    let unit = |(name, unit): &(String, String)| format!("{name} ({unit})");
    let mut differences = Vec::new();
    differences.extend(seen.difference(&spans).map(|name| format!("the span {name} is not documented")));
    differences.extend(spans.difference(&seen).map(|name| format!("the span {name} was not received")));
    let undocumented = received.metrics.difference(&metrics);
    differences.extend(undocumented.map(|metric| format!("the metric {} is not documented", unit(metric))));
    let missing = metrics.difference(&received.metrics);
    differences.extend(missing.map(|metric| format!("the metric {} was not received", unit(metric))));
    if !differences.is_empty() {
        bail!("{PAGE} and the telemetry of the subject differ:\n{}", differences.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &str = "\
text
| span | when |
|---|---|
| `METHOD ROUTE` | a request |
| `Run test`, `Run suite` | runs |

| metric | unit | meaning |
|---|---|---|
| `runs` | `{run}` | runs |
| `workers` | | threads |
";

    fn received(names: &[&str], metrics: &[(&str, &str)]) -> Received {
        Received {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            metrics: metrics.iter().map(|(name, unit)| ((*name).to_owned(), (*unit).to_owned())).collect(),
            ..Received::default()
        }
    }

    #[test]
    fn both_ways_are_compared() {
        let all = ["GET /api/tests", "DELETE /api/tests/{id}", "Run test", "Run suite"];
        compare(SHORT, &received(&all, &[("runs", "{run}"), ("workers", "")])).unwrap();
        let found = compare(SHORT, &received(&["Run test", "Sing", "DELETE runs"], &[("runs", "s")]));
        let text = found.unwrap_err().to_string();
        for part in [
            "the span Sing is not documented",
            "the span OPERATION TABLE is not documented",
            "the span METHOD ROUTE was not received",
            "the span Run suite was not received",
            "the metric runs (s) is not documented",
            "the metric runs ({run}) was not received",
            "the metric workers () was not received",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
