//! Results of runs, and lists of runs across tests.
//!
//! A row of `runs` has all that these lists show: neither events nor traces are read.

use std::collections::HashMap;

use qualitytrace_core::id::TraceId;
use qualitytrace_core::time::Timestamp;
use serde_json::{Map, Value};
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Row};

use super::chunks::{signed, unsigned};
use super::events::{StoredEvent, insert_events};
use super::runs::RUNS;
use super::trace_queries::placeholders;
use super::{Error, Store, failed};

/// The runs in the history of a test.
const HISTORY: u64 = 20;
/// The characters of a definition in which its name is looked for.
const HEAD: usize = 2_048;
/// The longest request whose metadata a list shows, in characters.
const LONGEST_REQUEST: usize = 16_384;

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunResult {
    /// The outcome in a word.
    pub outcome: &'static str,
    /// Assertions that passed.
    pub passed: u64,
    /// Assertions that failed.
    pub failed: u64,
    /// The spans that the verdict is based on, if known.
    pub spans: Option<u64>,
}

impl RunResult {
    /// The spans as they are stored.
    pub(super) fn spans(&self) -> i64 {
        self.spans.map_or(-1, signed)
    }
}

/// A run in the history of its test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastRun {
    /// The number of the run.
    pub number: u64,
    /// Its outcome in a word; empty until it ends.
    pub outcome: String,
    /// Nanoseconds from its request to its end.
    pub duration: Option<u64>,
}

/// Which runs to list.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// The tenant; empty for none.
    pub tenant: String,
    /// The stored id of a test.
    pub test: Option<String>,
    /// An outcome in a word; empty for runs that have not ended.
    pub outcome: Option<&'static str>,
    /// Requested then or later.
    pub from: Option<Timestamp>,
    /// Requested earlier.
    pub to: Option<Timestamp>,
    /// The source in the metadata.
    pub source: Option<String>,
    /// The branch in the metadata.
    pub branch: Option<String>,
    /// Only what comes behind this run.
    pub behind: Option<RunPosition>,
}

/// The position of a run in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPosition {
    /// When it was requested.
    pub created: Timestamp,
    /// The stored id of its test.
    pub test: String,
    /// Its number.
    pub number: u64,
}

/// A run in a list across tests.
#[derive(Debug, Clone)]
pub struct ListedRun {
    /// Its position in the list.
    pub position: RunPosition,
    /// The name of its test.
    pub test_name: String,
    /// Its state.
    pub state: String,
    /// Its outcome in a word; empty until it ends.
    pub outcome: String,
    /// Nanoseconds from its request to its end.
    pub duration: Option<u64>,
    /// The spans that the verdict is based on, if known.
    pub spans: Option<u64>,
    /// Assertions that passed.
    pub passed: u64,
    /// Assertions that failed.
    pub failed: u64,
    /// Its trace.
    pub trace: TraceId,
    /// Its metadata, unless its request is too long for a list.
    pub metadata: Map<String, Value>,
}

impl ListedRun {
    /// The most bytes of texts of one run.
    pub const LARGEST: u64 = (HEAD + LONGEST_REQUEST) as u64;
}

impl Store {
    /// Stores the result of a run of this owner that has ended, and how long it took if that is known elsewhere.
    pub async fn put_result(
        &self,
        test: &str,
        number: u64,
        owner: &str,
        result: &RunResult,
        duration: Option<u64>,
    ) -> Result<(), Error> {
        let text = format!(
            "UPDATE runs SET outcome = $1, passed = $2, failed = $3, spans = $4,
                 duration = CASE WHEN $5 < 0 THEN duration ELSE $5 END
             WHERE {}",
            RUNS.owned([6, 7, 8])
        );
        let change = sqlx::query(AssertSqlSafe(text))
            .bind(result.outcome)
            .bind(signed(result.passed))
            .bind(signed(result.failed))
            .bind(result.spans())
            .bind(duration.map_or(-1, signed))
            .bind(test)
            .bind(signed(number))
            .bind(owner);
        let changed = self.change_outcome(change, (test, number), result.outcome, &[]).await;
        changed.map(drop).map_err(failed("store the result of a run"))
    }

    /// Stores another outcome of a run of this owner, because its analysis changed.
    pub async fn put_outcome(
        &self,
        test: &str,
        number: u64,
        owner: &str,
        outcome: &str,
    ) -> Result<(), Error> {
        let text = format!("UPDATE runs SET outcome = $1 WHERE {}", RUNS.owned([2, 3, 4]));
        let change =
            sqlx::query(AssertSqlSafe(text)).bind(outcome).bind(test).bind(signed(number)).bind(owner);
        let changed = self.change_outcome(change, (test, number), outcome, &[]).await;
        changed.map(drop).map_err(failed("store the outcome of a run"))
    }

    /// Changes a run that has this outcome from now on, and appends events. `false` when the change finds no such run;
    /// nothing is written then.
    pub(super) async fn change_outcome(
        &self,
        change: Query<'_, sqlx::Any, AnyArguments>,
        (test, number): (&str, u64),
        outcome: &str,
        events: &[StoredEvent],
    ) -> Result<bool, sqlx::Error> {
        let mut transaction = self.writers.begin().await?;
        if change.execute(&mut *transaction).await?.rows_affected() == 0 {
            return Ok(false);
        }
        insert_events(&mut transaction, RUNS, (test, number), events).await?;
        sqlx::query("UPDATE run_numbers SET ended = $1, outcome = $2 WHERE test_id = $3 AND ended <= $1")
            .bind(signed(number))
            .bind(outcome)
            .bind(test)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Returns the latest runs of each of these tests, newest first, in the order of the tests.
    pub async fn past_runs(&self, tests: &[&str]) -> Result<Vec<Vec<PastRun>>, Error> {
        let failed = failed("list the latest runs of tests");
        if tests.is_empty() {
            return Ok(Vec::new());
        }
        // Only numbered placeholders become part of this SQL.
        let text = format!(
            "SELECT r.test_id, r.number, r.outcome, r.duration FROM run_numbers n
             JOIN runs r ON r.test_id = n.test_id AND r.number >= COALESCE((
                 SELECT l.number FROM runs l WHERE l.test_id = n.test_id
                 ORDER BY l.number DESC LIMIT 1 OFFSET {}), 0)
             WHERE n.test_id IN ({}) ORDER BY r.test_id, r.number DESC",
            HISTORY - 1,
            placeholders(tests)
        );
        let query = sqlx::query(AssertSqlSafe(text));
        let query = tests.iter().fold(query, |query, test| query.bind(*test));
        let mut found: HashMap<String, Vec<PastRun>> = HashMap::new();
        for row in query.fetch_all(&self.read).await.map_err(&failed)? {
            let (test, run) = past(&row).map_err(&failed)?;
            found.entry(test).or_default().push(run);
        }
        Ok(tests.iter().map(|test| found.get(*test).cloned().unwrap_or_default()).collect())
    }

    /// Lists runs across tests, newest first.
    pub async fn runs_across(&self, filter: &RunFilter, take: u64) -> Result<Vec<ListedRun>, Error> {
        let failed = failed("list runs across tests");
        let query = sqlx::query(AssertSqlSafe(filter.text(take)));
        // In the order in which `RunFilter::text` numbers them.
        let query = query.bind(&filter.tenant);
        let query = [&filter.test, &filter.source, &filter.branch]
            .into_iter()
            .flatten()
            .fold(query, sqlx::query::Query::bind);
        let times = [filter.from, filter.to].into_iter().flatten();
        let query = times.fold(query, |query, at| query.bind(signed(at.as_nanos())));
        let query = match (&filter.behind, &filter.test) {
            (None, _) => query,
            (Some(behind), Some(_)) => query.bind(signed(behind.number)),
            (Some(behind), None) => {
                query.bind(signed(behind.created.as_nanos())).bind(&behind.test).bind(signed(behind.number))
            }
        };
        let rows = query.fetch_all(&self.read).await.map_err(&failed)?;
        rows.iter().map(listed).collect::<Result<_, _>>().map_err(&failed)
    }
}

impl RunFilter {
    /// The SQL of one page. Only words of ours, numbers and numbered placeholders become part of it.
    fn text(&self, take: u64) -> String {
        let mut conditions = vec!["r.tenant = $1".to_owned()];
        let mut next = 1;
        let mut numbered = |text: &str, is_wanted: bool| {
            if is_wanted {
                next += 1;
                conditions.push(format!("{text} ${next}"));
            }
        };
        numbered("r.test_id =", self.test.is_some());
        numbered("r.source =", self.source.is_some());
        numbered("r.branch =", self.branch.is_some());
        numbered("r.created >=", self.from.is_some());
        numbered("r.created <", self.to.is_some());
        numbered("r.number <", self.test.is_some() && self.behind.is_some());
        if self.test.is_none() && self.behind.is_some() {
            let cursor = format!("${}, ${}, ${}", next + 1, next + 2, next + 3);
            conditions.push(format!("(r.created, r.test_id, r.number) < ({cursor})"));
        }
        // The runs of one test are read by their number, all others by their time.
        let order = match self.test {
            Some(_) => "r.number DESC",
            None => "r.created DESC, r.test_id DESC, r.number DESC",
        };
        match self.outcome {
            None => {}
            // The index of the runs that did not pass is used if the statement repeats its condition.
            Some(word @ ("" | "passed")) => conditions.push(format!("r.outcome = '{word}'")),
            Some(word) => {
                conditions
                    .push(format!("r.outcome = '{word}' AND r.outcome <> '' AND r.outcome <> 'passed'"));
            }
        }
        format!(
            "SELECT r.test_id, r.number, r.trace_id, r.state, r.outcome, r.created, r.duration, r.spans, r.passed,
                 r.failed, t.name, SUBSTR(t.spec, 1, {HEAD}) AS head,
                 CASE WHEN LENGTH(r.request) <= {LONGEST_REQUEST} THEN r.request ELSE '' END AS request
             FROM runs r JOIN resources t ON t.kind = 'Test' AND t.id = r.test_id
             WHERE {} ORDER BY {order} LIMIT {take}",
            conditions.join(" AND ")
        )
    }
}

fn past(row: &AnyRow) -> Result<(String, PastRun), sqlx::Error> {
    let run = PastRun {
        number: unsigned(row.try_get("number")?),
        outcome: row.try_get("outcome")?,
        duration: known(row.try_get("duration")?),
    };
    Ok((row.try_get("test_id")?, run))
}

fn listed(row: &AnyRow) -> Result<ListedRun, sqlx::Error> {
    let trace: Vec<u8> = row.try_get("trace_id")?;
    let trace = TraceId::from_slice(&trace)
        .ok_or_else(|| sqlx::Error::Decode("a stored trace id has not sixteen bytes".into()))?;
    let (head, request): (String, String) = (row.try_get("head")?, row.try_get("request")?);
    Ok(ListedRun {
        position: RunPosition {
            created: Timestamp::from_nanos(unsigned(row.try_get("created")?)),
            test: row.try_get("test_id")?,
            number: unsigned(row.try_get("number")?),
        },
        test_name: match name(&head) {
            Some(name) => name,
            None => row.try_get("name")?,
        },
        state: row.try_get("state")?,
        outcome: row.try_get("outcome")?,
        duration: known(row.try_get("duration")?),
        spans: known(row.try_get("spans")?),
        passed: unsigned(row.try_get("passed")?),
        failed: unsigned(row.try_get("failed")?),
        trace,
        metadata: metadata(&request),
    })
}

/// A stored number; negative ones are unknown.
fn known(number: i64) -> Option<u64> {
    u64::try_from(number).ok()
}

/// The name in the beginning of a definition's JSON. The column `name` is in lower case.
fn name(head: &str) -> Option<String> {
    let mut id = serde_json::Deserializer::from_str(head.strip_prefix("{\"id\":")?).into_iter::<String>();
    id.next()?.ok()?;
    let rest = head.get("{\"id\":".len() + id.byte_offset()..)?.strip_prefix(",\"name\":")?;
    serde_json::Deserializer::from_str(rest).into_iter().next()?.ok()
}

fn metadata(request: &str) -> Map<String, Value> {
    let mut request: Value = serde_json::from_str(request).unwrap_or_default();
    match request.get_mut("metadata").map(Value::take) {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    }
}

/// The source and the branch in the metadata of a request; empty for none.
pub(super) fn labels(request: &str) -> (String, String) {
    let metadata = metadata(request);
    let label = |name: &str| match metadata.get(name) {
        // Not every database accepts NUL.
        Some(Value::String(text)) => text.replace('\0', ""),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => String::new(),
    };
    (label("source"), label("branch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_read_from_the_beginning_of_a_definition() {
        assert_eq!(name(r#"{"id":"a","name":"Größe \"1\"","trigger":{"ty"#).as_deref(), Some("Größe \"1\""));
        assert_eq!(name(r#"{"id":"a","name":"cut o"#), None);
        assert_eq!(name(r#"{"id":"a","trigger":{"name":"nested"}}"#), None);
        assert_eq!(name("{}"), None);
    }

    #[test]
    fn labels_are_texts_of_the_metadata() {
        let request = r#"{"metadata":{"source":"cli","branch":7,"step":"1"}}"#;
        assert_eq!(labels(request), ("cli".to_owned(), "7".to_owned()));
        assert_eq!(labels(r#"{"metadata":{"source":["a"]}}"#), (String::new(), String::new()));
        assert_eq!(labels("nonsense"), (String::new(), String::new()));
    }
}
