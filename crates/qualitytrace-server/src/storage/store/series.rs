//! Series: runs of a test that were requested together.

use sqlx::Row;

use super::chunks::{signed, unsigned};
use super::{Error, Store, failed, rows_written};

/// The window of the flake rate, in runs of the test.
const FLAKE_WINDOW: i64 = 100;

/// How many of the latest series of a test were flaky.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flakiness {
    /// Series that have ended.
    pub series: u64,
    /// Those of them that were flaky.
    pub flaky: u64,
}

/// A series in progress whose server is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanSeries {
    /// The test.
    pub test: String,
    /// The number of its first run.
    pub first: u64,
    /// The server that is gone.
    pub owner: String,
    /// The series as JSON.
    pub body: String,
}

impl Store {
    /// Stores the state of a series of this owner. One that has ended is not reopened: `false` then, or when it
    /// belongs to another owner, or when its first run was deleted.
    pub async fn put_series(
        &self,
        test: &str,
        first: u64,
        owner: &str,
        outcome: &str,
        body: &str,
    ) -> Result<bool, Error> {
        let done = sqlx::query(
            "INSERT INTO series (test_id, first, owner, outcome, body)
             SELECT $1, $2, $3, $4, $5 WHERE EXISTS (SELECT 1 FROM runs WHERE test_id = $1 AND number = $2)
             ON CONFLICT (test_id, first) DO UPDATE SET outcome = excluded.outcome, body = excluded.body
             WHERE series.owner = excluded.owner AND (series.outcome = '' OR series.outcome = excluded.outcome)",
        )
        .bind(test)
        .bind(signed(first))
        .bind(owner)
        .bind(outcome)
        .bind(body)
        .execute(&self.write)
        .await;
        Ok(rows_written(done).map_err(failed("store a series of runs"))? > 0)
    }

    /// Ends a series in progress, if its body is still `before`. `false` when it has changed.
    pub async fn end_series(
        &self,
        test: &str,
        first: u64,
        before: &str,
        outcome: &str,
        after: &str,
    ) -> Result<bool, Error> {
        let done = sqlx::query(
            "UPDATE series SET outcome = $1, body = $2
             WHERE test_id = $3 AND first = $4 AND outcome = '' AND body = $5",
        )
        .bind(outcome)
        .bind(after)
        .bind(test)
        .bind(signed(first))
        .bind(before)
        .execute(&self.write)
        .await;
        Ok(done.map_err(failed("end a series of runs"))?.rows_affected() == 1)
    }

    /// Returns the series that begins with this run, as JSON.
    pub async fn series(&self, test: &str, first: u64) -> Result<Option<String>, Error> {
        sqlx::query_scalar("SELECT body FROM series WHERE test_id = $1 AND first = $2")
            .bind(test)
            .bind(signed(first))
            .fetch_optional(&self.read)
            .await
            .map_err(failed("load a series of runs"))
    }

    /// Takes over a series in progress from a server that is gone. `false` when another server did.
    pub async fn take_series(&self, orphan: &OrphanSeries, owner: &str) -> Result<bool, Error> {
        let done = sqlx::query(
            "UPDATE series SET owner = $1 WHERE test_id = $2 AND first = $3 AND owner = $4 AND outcome = ''",
        )
        .bind(owner)
        .bind(&orphan.test)
        .bind(signed(orphan.first))
        .bind(&orphan.owner)
        .execute(&self.write)
        .await;
        Ok(done.map_err(failed("take over a series of runs"))?.rows_affected() == 1)
    }

    /// Lists the series in progress whose server is gone.
    pub async fn orphan_series(&self) -> Result<Vec<OrphanSeries>, Error> {
        let failed = failed("look for series without a server");
        let rows = sqlx::query(
            "SELECT test_id, first, owner, body FROM series
             WHERE outcome = '' AND owner NOT IN (SELECT id FROM servers)",
        )
        .fetch_all(&self.read)
        .await
        .map_err(&failed)?;
        let series = |row: &sqlx::any::AnyRow| {
            Ok(OrphanSeries {
                test: row.try_get("test_id")?,
                first: unsigned(row.try_get("first")?),
                owner: row.try_get("owner")?,
                body: row.try_get("body")?,
            })
        };
        rows.iter().map(series).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Returns the flakiness of some tests, in the order of the tests.
    pub async fn flakiness(&self, tests: &[&str]) -> Result<Vec<Flakiness>, Error> {
        let failed = failed("sum up series of runs");
        let mut found = vec![Flakiness::default(); tests.len()];
        if tests.is_empty() {
            return Ok(found);
        }
        let marks: Vec<String> = (1..=tests.len()).map(|at| format!("${at}")).collect();
        // Only numbered placeholders become part of this SQL.
        let text = format!(
            "SELECT s.test_id, COUNT(*) AS series, SUM(CASE WHEN s.outcome = 'flaky' THEN 1 ELSE 0 END) AS flaky
             FROM series s JOIN run_numbers n ON n.test_id = s.test_id
             WHERE s.test_id IN ({}) AND s.first > n.number - {FLAKE_WINDOW} AND s.outcome <> '' GROUP BY s.test_id",
            marks.join(", ")
        );
        let mut query = sqlx::query(sqlx::AssertSqlSafe(text));
        for test in tests {
            query = query.bind(*test);
        }
        for row in query.fetch_all(&self.read).await.map_err(&failed)? {
            let test: String = row.try_get("test_id").map_err(&failed)?;
            let number = |column: &str| row.try_get::<i64, _>(column).map(unsigned).map_err(&failed);
            let flakiness = Flakiness { series: number("series")?, flaky: number("flaky")? };
            for (place, _) in found.iter_mut().zip(tests).filter(|(_, wanted)| **wanted == test) {
                *place = flakiness;
            }
        }
        Ok(found)
    }
}
