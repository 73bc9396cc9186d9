//! Consistency checks of the tables at the end of a stress test.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _, Row as _};

use super::{Acknowledged, Report, SECRET, SHARED};

/// Every reference: a table and its columns, and the table and columns that must have the same values.
const REFERENCES: [(&str, &str, &str, &str); 14] = [
    ("definitions", "kind, id", "resources", "kind, id"),
    ("facets", "kind, id", "resources", "kind, id"),
    ("runs", "kind, test_id", "resources", "kind, id"),
    ("run_numbers", "kind, test_id", "resources", "kind, id"),
    ("run_events", "test_id, number", "runs", "test_id, number"),
    ("histories", "kind, test_id", "resources", "kind, id"),
    ("series", "test_id, first", "runs", "test_id, number"),
    ("suite_runs", "kind, suite_id", "resources", "kind, id"),
    ("suite_run_numbers", "kind, suite_id", "resources", "kind, id"),
    ("suite_run_events", "suite_id, number", "suite_runs", "suite_id, number"),
    ("suite_run_steps", "suite_id, number", "suite_runs", "suite_id, number"),
    ("suite_run_steps", "test_id, run", "runs", "test_id, number"),
    // Clients send spans of existing runs, and delete the run afterwards.
    ("chunks", "trace_id", "runs", "trace_id"),
    // A run refers to a version that was stored.
    ("runs", "kind, test_id, test_version", "definitions", "kind, id, version"),
];
/// Tables without references.
const FREE: [&str; 7] =
    ["audit", "resources", "documents", "retired_numbers", "servers", "totals", "_sqlx_migrations"];
/// Columns in which a secret could be readable.
const TEXTS: [(&str, &str); 12] = [
    ("definitions", "text"),
    ("resources", "spec"),
    ("resources", "description"),
    ("runs", "variables"),
    ("runs", "request"),
    ("run_events", "body"),
    ("histories", "body"),
    ("series", "body"),
    ("suite_runs", "variables"),
    ("suite_runs", "request"),
    ("suite_run_events", "body"),
    ("documents", "body"),
];
/// States of unfinished runs.
const UNDER_WAY: &str =
    "('CREATED', 'EXECUTING', 'AWAITING_TRACE', 'ANALYZING_TRACE', 'AWAITING_TEST_RESULTS')";

pub(super) struct Census {
    connection: AnyConnection,
    is_sqlite: bool,
}

impl Census {
    pub(super) async fn open(url: &str) -> Result<Self, String> {
        sqlx::any::install_default_drivers();
        let connection = AnyConnection::connect(url).await.map_err(|error| error.to_string())?;
        Ok(Self { connection, is_sqlite: url.starts_with("sqlite") })
    }

    /// Counts unfinished runs of tests and suites, and series.
    pub(super) async fn under_way(&mut self) -> Result<i64, String> {
        let mut found = 0;
        for table in ["runs", "suite_runs"] {
            found += self.count(&format!("SELECT COUNT(*) FROM {table} WHERE state IN {UNDER_WAY}")).await?;
        }
        Ok(found + self.count("SELECT COUNT(*) FROM series WHERE outcome = ''").await?)
    }

    /// Compares the stored data with the acknowledged changes.
    pub(super) async fn compare(&mut self, seen: &Acknowledged, report: &mut Report) -> Result<(), String> {
        for (kind, words) in &seen.shared {
            let stored = self.shared_words(kind).await?;
            let _ = writeln!(
                report.text,
                "{kind} shared by all: {} changes acknowledged, {} stored",
                words.len(),
                stored.len()
            );
            let lost: Vec<&String> = words.difference(&stored).collect();
            if !lost.is_empty() {
                report.wrong.push(format!("{} changes of the shared {kind} are lost: {lost:?}", lost.len()));
            }
        }
        let broken = "SELECT COUNT(*) FROM resources r WHERE r.version <>
             (SELECT COUNT(*) FROM definitions d WHERE d.kind = r.kind AND d.id = r.id)";
        self.none("resources whose versions have gaps", broken, report).await?;
        self.compare_own(seen, report).await?;
        self.compare_runs(seen, report).await
    }

    async fn shared_words(&mut self, kind: &str) -> Result<BTreeSet<String>, String> {
        let sql = format!("SELECT text FROM definitions WHERE kind = '{kind}' AND id = '{SHARED}'");
        let texts = self.rows(&sql).await?;
        let words = |row: &AnyRow| {
            let text: Value = serde_json::from_str(row.get(0)).unwrap_or_default();
            text["spec"]["description"].as_str().unwrap_or_default().to_owned()
        };
        Ok(texts.iter().map(words).collect())
    }

    async fn compare_own(&mut self, seen: &Acknowledged, report: &mut Report) -> Result<(), String> {
        let rows = self.rows("SELECT kind, id, description FROM resources").await?;
        let stored: BTreeMap<(String, String), String> =
            rows.iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect();
        let mut wrong = Vec::new();
        for ((kind, id), words) in &seen.own {
            let found = stored.get(&((*kind).to_owned(), id.clone()));
            if found != words.as_ref() {
                wrong.push(format!("{kind} {id} is {found:?} instead of {words:?}"));
            }
        }
        let _ = writeln!(report.text, "{} things that one client had for itself", seen.own.len());
        report.wrong.extend(wrong);
        Ok(())
    }

    async fn compare_runs(&mut self, seen: &Acknowledged, report: &mut Report) -> Result<(), String> {
        let mut stored: BTreeSet<(&str, String, u64)> = BTreeSet::new();
        for (kind, sql) in [
            ("Test", "SELECT test_id, number FROM runs"),
            ("TestSuite", "SELECT suite_id, number FROM suite_runs"),
        ] {
            let rows = self.rows(sql).await?;
            stored.extend(rows.iter().map(|row| {
                (kind, row.get::<String, _>(0), u64::try_from(row.get::<i64, _>(1)).unwrap_or(0))
            }));
        }
        let mut acknowledged = 0;
        for ((kind, id), numbers) in &seen.runs {
            acknowledged += numbers.len();
            let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
            if distinct.len() < numbers.len() {
                report.wrong.push(format!("a number was given twice to runs of {kind} {id}"));
            }
            let is_gone = matches!(seen.own.get(&(*kind, id.clone())), Some(None));
            for number in distinct {
                let run = (*kind, id.clone(), number);
                let is_expected = !is_gone && !seen.deleted.contains(&run);
                if stored.contains(&run) != is_expected {
                    let what = if is_expected { "lost" } else { "still there" };
                    report.wrong.push(format!("run {number} of {kind} {id} is {what}"));
                }
            }
        }
        let _ = writeln!(report.text, "{acknowledged} runs acknowledged, {} runs stored", stored.len());
        Ok(())
    }

    /// Searches for orphaned rows, wrong sums, and readable secrets.
    pub(super) async fn orphans(&mut self, report: &mut Report) -> Result<(), String> {
        for (table, columns, other, others) in REFERENCES {
            let same: Vec<String> = columns
                .split(", ")
                .zip(others.split(", "))
                .map(|(column, other)| format!("p.{other} = c.{column}"))
                .collect();
            let sql = format!(
                "SELECT COUNT(*) FROM {table} c WHERE NOT EXISTS (SELECT 1 FROM {other} p WHERE {})",
                same.join(" AND ")
            );
            self.none(&format!("rows of {table} ({columns}) without {other}"), &sql, report).await?;
        }
        let sql = "SELECT COUNT(*) FROM totals WHERE name = 'retained_bytes'
             AND value <> (SELECT COALESCE(SUM(size), 0) FROM chunks)";
        self.none("wrong sums of what is retained", sql, report).await?;
        for (numbers, id, runs) in
            [("run_numbers", "test_id", "runs"), ("suite_run_numbers", "suite_id", "suite_runs")]
        {
            let sql = format!(
                "SELECT COUNT(*) FROM {numbers} n WHERE n.stored <>
                 (SELECT COUNT(*) FROM {runs} r WHERE r.{id} = n.{id})"
            );
            self.none(&format!("wrong numbers of {runs}"), &sql, report).await?;
        }
        self.none("servers that did not sign off", "SELECT COUNT(*) FROM servers", report).await?;
        for (table, column) in TEXTS {
            let sql = format!("SELECT COUNT(*) FROM {table} WHERE {column} LIKE '%{SECRET}%'");
            self.none(&format!("readable secrets in {table}.{column}"), &sql, report).await?;
        }
        for table in self.tables().await? {
            let is_known =
                FREE.contains(&table.as_str()) || REFERENCES.iter().any(|(of, ..)| *of == table.as_str());
            if !is_known {
                report.wrong.push(format!("the rows of {table} have no owner in REFERENCES or FREE"));
            }
        }
        Ok(())
    }

    async fn tables(&mut self) -> Result<Vec<String>, String> {
        let sql = if self.is_sqlite {
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        } else {
            "SELECT CAST(table_name AS TEXT) FROM information_schema.tables WHERE table_schema = 'public'"
        };
        Ok(self.rows(sql).await?.iter().map(|row| row.get(0)).collect())
    }

    /// Reports an error if the count is not zero.
    async fn none(&mut self, what: &str, sql: &str, report: &mut Report) -> Result<(), String> {
        let found = self.count(sql).await?;
        let _ = writeln!(report.text, "{found} {what}");
        if found > 0 {
            report.wrong.push(format!("{found} {what}"));
        }
        Ok(())
    }

    async fn count(&mut self, sql: &str) -> Result<i64, String> {
        Ok(self.rows(sql).await?.first().map_or(0, |row| row.get(0)))
    }

    async fn rows(&mut self, sql: &str) -> Result<Vec<AnyRow>, String> {
        let rows = sqlx::query(AssertSqlSafe(sql.to_owned())).fetch_all(&mut self.connection).await;
        rows.map_err(|error| format!("{sql}: {error}"))
    }
}
