//! Database spans from the events of `sqlx`, which reports a statement when it has ended.
//!
//! They have the level of the event: `debug`, and `warn` for slow ones.

use std::fmt;

use opentelemetry::trace::SpanKind;
use tracing::{
    Event,
    field::{Field, Visit},
};

use super::State;
use crate::{
    attributes::Value,
    config::{Level, Role},
    span::Span,
};

/// The target of these events.
pub(super) const TARGET: &str = "sqlx::query";

/// The fields of an event about a statement.
#[derive(Default)]
struct Statement {
    summary: String,
    text: String,
    seconds: f64,
    rows: u64,
}

impl Visit for Statement {
    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "summary" => value.clone_into(&mut self.summary),
            "db.statement" => value.trim().clone_into(&mut self.text),
            _ => {}
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "rows_returned" {
            self.rows = value;
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "elapsed_secs" {
            self.seconds = value;
        }
    }
}

/// The span of a statement that ended at `end`, as a child of `parent`.
pub(super) fn span(
    event: &Event<'_>,
    end: u64,
    level: Level,
    parent: &State,
    ids: super::Ids,
    system: &str,
) -> Span {
    let mut statement = Statement::default();
    event.record(&mut statement);
    // A statement that fits into the summary has no text of its own.
    let text = if statement.text.is_empty() { &statement.summary } else { &statement.text };
    let (operation, table) = subject(text);
    let name = table.map_or_else(|| operation.clone(), |table| format!("{operation} {table}"));
    // A statement never begins before its parent.
    let start = end.saturating_sub(nanos(statement.seconds)).max(parent.start);
    let mut span = Span::new(Role::Server, level, ids, name.into(), start);
    span.target = TARGET;
    span.end = end;
    span.kind = SpanKind::Client;
    span.parents = parent.for_child();
    span.remote = parent.remote;
    span.trace_state.clone_from(&parent.vendor);
    span.attributes.put("db.system.name", &Value::text(system));
    span.attributes.put("db.operation.name", &Value::text(&operation));
    span.attributes.put("db.query.text", &Value::text(text));
    if let Some(table) = table {
        span.attributes.put("db.collection.name", &Value::text(table));
    }
    if let Ok(rows) = i64::try_from(statement.rows) {
        span.attributes.put("db.response.returned_rows", &Value::Int(rows));
    }
    span
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "no statement takes centuries")]
fn nanos(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9) as u64
}

/// The operation of a statement, and the first table that it names.
fn subject(sql: &str) -> (String, Option<&str>) {
    let mut words = sql.split_whitespace();
    let operation = words.next().unwrap_or("statement").trim_end_matches(';').to_ascii_uppercase();
    let before = |word: &str| ["from", "into", "update"].iter().any(|other| word.eq_ignore_ascii_case(other));
    let mut table = if before(&operation) { words.next() } else { None };
    while table.is_none() {
        let Some(word) = words.next() else { break };
        if before(word) {
            table = words.next();
        }
    }
    let is_part = |c: char| c.is_alphanumeric() || "_.".contains(c);
    let table = table.map(|table| table.split(|c| !is_part(c)).next().unwrap_or_default());
    (operation, table.filter(|table| !table.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::subject;

    #[test]
    fn a_statement_is_named_after_its_operation_and_table() {
        for (sql, operation, table) in [
            ("select a, b from runs where x", "SELECT", Some("runs")),
            ("INSERT INTO chunks(trace, body) VALUES ($1, $2)", "INSERT", Some("chunks")),
            ("update runs set state = 1", "UPDATE", Some("runs")),
            ("DELETE FROM events;", "DELETE", Some("events")),
            ("WITH old AS (SELECT id FROM a) DELETE FROM b", "WITH", Some("a")),
            ("COMMIT;", "COMMIT", None),
            ("select count(*) from (select 1)", "SELECT", None),
        ] {
            assert_eq!(subject(sql), (operation.to_owned(), table), "{sql}");
        }
    }
}
