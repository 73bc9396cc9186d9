//! The queue of runs: enqueueing, claiming, user commands, and takeover of runs whose server is gone.
//!
//! Every step is one compare-and-set statement, so that servers that share the tables need no other coordination.

use std::time::Duration;

use qualitytrace_core::run::State;
use qualitytrace_core::time::Timestamp;
use sqlx::{AssertSqlSafe, Row};

use super::chunks::{signed, unsigned};
use super::events::insert_events;
use super::history::{RunResult, labels};
use super::runs::{RUNS, SUITE_RUNS, StepOf, move_state, next_number, stored};
use super::scope::tenant_of;
use super::{Error, NewRun, Store, StoredEvent, StoredRun, failed};

/// How far a run is queued behind the previous run of the same test. A client that requests a thousand runs at once
/// is overtaken by another test that comes this much later.
const SPACING: Duration = Duration::from_secs(1);

/// How far clients below their fair share may exceed the bound of the queue, as a multiple of it.
const OVERFLOW: u64 = 2;

/// The longest run whose late spans another server goes on watching for when its server is gone.
const LONGEST_RUN: Duration = Duration::from_hours(1);

/// The states of a run in progress.
const UNDER_WAY: &str = "('EXECUTING', 'AWAITING_TRACE', 'ANALYZING_TRACE', 'AWAITING_TEST_RESULTS')";

/// The outcome of inserting a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// The run is stored with this number.
    Number(u64),
    /// The test was deleted.
    NoTest,
    /// The suite run that it is a step of was deleted, or belongs to another owner.
    NoSuiteRun,
    /// The queue is full.
    QueueFull,
}

/// A run that this server has claimed for execution.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The run.
    pub run: StoredRun,
    /// The sequence number of its last event.
    pub seq: u64,
}

/// A run in progress whose server is gone.
#[derive(Debug, Clone)]
pub struct Orphan {
    /// The run.
    pub run: StoredRun,
    /// The sequence number of its last event.
    pub seq: u64,
    /// The server that had it.
    pub owner: String,
    /// Whether its trigger may have been sent.
    pub triggered: bool,
}

/// A judged run whose server is gone.
#[derive(Debug, Clone)]
pub struct JudgedOrphan {
    /// The run.
    pub run: StoredRun,
    /// The sequence number of its last event.
    pub seq: u64,
    /// The server that had it.
    pub owner: String,
    /// When its last event happened.
    pub ended: Timestamp,
}

/// What is written at the end of a run.
#[derive(Debug)]
pub struct RunEnd {
    /// The final state.
    pub state: &'static str,
    /// Its result.
    pub result: RunResult,
    /// When it ended.
    pub at: Timestamp,
    /// Secret outputs: a JSON object with sealed values; empty for none.
    pub secrets: String,
    /// Its last events.
    pub events: Vec<StoredEvent>,
}

/// A user's command to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunCommand {
    /// Stops waiting for more spans.
    Skip,
    /// Stops the run.
    Stop,
}

impl RunCommand {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Stop => "stop",
        }
    }

    fn named(word: &str) -> Option<Self> {
        [Self::Skip, Self::Stop].into_iter().find(|command| command.as_str() == word)
    }
}

impl Store {
    /// Stores a new run and its first event. A run that has to queue is refused when `bound` others wait and its
    /// client has its fair share of them: a queue that one client fills stays open for the others, up to
    /// `OVERFLOW` times the bound.
    pub async fn insert_run(&self, run: &NewRun, bound: u64) -> Result<Inserted, Error> {
        let failed = failed("store a run");
        let created = signed(run.created.as_nanos());
        let mut transaction = self.writers.begin().await.map_err(&failed)?;
        if let Some(StepOf { suite, number, owner }) = run.step_of.as_ref().filter(|_| self.is_shared()) {
            // Waits for a transaction that deletes the suite run or takes it over. These lock it before the tests of
            // its steps, too.
            let text =
                format!("SELECT number FROM suite_runs WHERE {} FOR SHARE", SUITE_RUNS.owned([1, 2, 3]));
            let query = sqlx::query(AssertSqlSafe(text)).bind(suite).bind(signed(*number)).bind(owner);
            if query.fetch_optional(&mut *transaction).await.map_err(&failed)?.is_none() {
                return Ok(Inserted::NoSuiteRun);
            }
        }
        let known = sqlx::query("UPDATE resources SET last_run = $1 WHERE kind = 'Test' AND id = $2")
            .bind(created)
            .bind(&run.test)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        if known.rows_affected() == 0 {
            return Ok(Inserted::NoTest);
        }
        // The row lock above serializes inserts, so that no number is given twice.
        let number = next_number(&mut transaction, RUNS, &run.test).await.map_err(&failed)?;
        // SQLite prepares a statement anew for each value that is bound to a `LIMIT`.
        let (bound, overflow) = (signed(bound), signed(bound.saturating_mul(OVERFLOW)));
        let text = format!(
            "INSERT INTO runs
                 (test_id, number, test_version, trace_id, state, created, variables, request, owner, turn, client,
                  tenant, source, branch)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9,
                 CASE WHEN MAX(turn) + $10 > $6 THEN MAX(turn) + $10 ELSE $6 END, $11, $12, $13, $14
             FROM runs WHERE test_id = $1 AND state = 'CREATED'
             HAVING $5 <> 'CREATED'
                 OR (SELECT COUNT(*) FROM (SELECT 1 FROM runs WHERE state = 'CREATED' LIMIT {bound}) waiting) < {bound}
                 OR ((SELECT COUNT(*) FROM (SELECT 1 FROM runs WHERE state = 'CREATED' LIMIT {overflow}) waiting) < {overflow}
                     AND (SELECT COUNT(*) FROM runs WHERE state = 'CREATED' AND client = $11)
                         * (1 + (SELECT COUNT(DISTINCT client) FROM runs WHERE state = 'CREATED' AND client <> $11))
                         < {bound})"
        );
        let (source, branch) = labels(&run.request);
        let stored = sqlx::query(AssertSqlSafe(text))
            .bind(&run.test)
            .bind(number)
            .bind(signed(run.test_version))
            .bind(run.trace.to_bytes().to_vec())
            .bind(run.state)
            .bind(created)
            .bind(&run.variables)
            .bind(&run.request)
            .bind(&run.owner)
            .bind(signed(nanos(SPACING)))
            .bind(&run.client)
            .bind(tenant_of(&run.test))
            .bind(source)
            .bind(branch)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        if stored.rows_affected() == 0 {
            return Ok(Inserted::QueueFull);
        }
        sqlx::query("INSERT INTO run_events (test_id, number, seq, at, body) VALUES ($1, $2, 1, $3, $4)")
            .bind(&run.test)
            .bind(number)
            .bind(created)
            .bind(&run.event)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        if let Some(step_of) = &run.step_of {
            let text = format!(
                "INSERT INTO suite_run_steps (suite_id, number, test_id, run)
                 SELECT suite_id, number, $4, $5 FROM suite_runs WHERE {}",
                SUITE_RUNS.owned([1, 2, 3])
            );
            let noted = sqlx::query(AssertSqlSafe(text))
                .bind(&step_of.suite)
                .bind(signed(step_of.number))
                .bind(&step_of.owner)
                .bind(&run.test)
                .bind(number)
                .execute(&mut *transaction)
                .await
                .map_err(&failed)?;
            if noted.rows_affected() == 0 {
                return Ok(Inserted::NoSuiteRun);
            }
        }
        transaction.commit().await.map_err(&failed)?;
        Ok(Inserted::Number(unsigned(number)))
    }

    /// The test and number of every queued run.
    pub async fn queued_runs(&self) -> Result<Vec<(String, u64)>, Error> {
        let failed = failed("read the queue");
        let rows = sqlx::query("SELECT test_id, number FROM runs WHERE state = 'CREATED'")
            .fetch_all(&self.read)
            .await
            .map_err(&failed)?;
        let run = |row: &sqlx::any::AnyRow| Ok((row.try_get("test_id")?, unsigned(row.try_get("number")?)));
        rows.iter().map(run).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Claims up to `most` queued runs in order of their turn. Where several clients wait, those with the fewest
    /// runs in progress come first.
    pub async fn claim_runs(&self, owner: &str, most: usize) -> Result<Vec<Claimed>, Error> {
        let failed = failed("claim runs");
        // Rows that another server is claiming are skipped, not waited for.
        let lock = if self.is_shared() { "FOR UPDATE OF runs SKIP LOCKED" } else { "" };
        let next = if self.answered(self.several_clients_wait()).await.map_err(&failed)? {
            format!(
                "ranked AS (
                     SELECT test_id, number, turn, COALESCE(busy.runs, 0)
                         + ROW_NUMBER() OVER (PARTITION BY runs.client ORDER BY turn) AS place
                     FROM runs LEFT JOIN (
                         SELECT client, COUNT(*) AS runs FROM runs WHERE state IN {UNDER_WAY} GROUP BY client
                     ) busy ON busy.client = runs.client
                     WHERE state = 'CREATED'
                 ), next AS (
                     SELECT runs.test_id, runs.number
                     FROM runs JOIN ranked ON ranked.test_id = runs.test_id AND ranked.number = runs.number
                     WHERE runs.state = 'CREATED' ORDER BY ranked.place, ranked.turn LIMIT $1 {lock}
                 )"
            )
        } else {
            format!(
                "next AS (SELECT test_id, number FROM runs WHERE state = 'CREATED' ORDER BY turn LIMIT $1 {lock})"
            )
        };
        let text = format!(
            "WITH {next}
             UPDATE runs SET state = 'EXECUTING', owner = $2
             WHERE (test_id, number) IN (SELECT test_id, number FROM next) AND state = 'CREATED'
             RETURNING test_id, number, test_version, trace_id, state, created, variables, request, turn,
                 (SELECT COALESCE(MAX(seq), 0) FROM run_events
                  WHERE run_events.test_id = runs.test_id AND run_events.number = runs.number) AS seq"
        );
        let claim = sqlx::query(AssertSqlSafe(text)).bind(signed(most as u64)).bind(owner);
        let rows = self.answered(claim.fetch_all(&self.write)).await.map_err(&failed)?;
        let claimed = |row: &sqlx::any::AnyRow| {
            let turn: i64 = row.try_get("turn")?;
            Ok((turn, Claimed { run: stored(row)?, seq: unsigned(row.try_get("seq")?) }))
        };
        let mut claimed: Vec<(i64, Claimed)> =
            rows.iter().map(claimed).collect::<Result<_, _>>().map_err(&failed)?;
        claimed.sort_by_key(|(turn, _)| *turn);
        Ok(claimed.into_iter().map(|(_, claimed)| claimed).collect())
    }

    async fn several_clients_wait(&self) -> Result<bool, sqlx::Error> {
        let row = sqlx::query(
            "SELECT (SELECT MIN(client) FROM runs WHERE state = 'CREATED') AS first,
                 (SELECT MAX(client) FROM runs WHERE state = 'CREATED') AS last",
        )
        .fetch_one(&self.read)
        .await?;
        let (first, last): (Option<String>, Option<String>) = (row.try_get("first")?, row.try_get("last")?);
        Ok(first != last)
    }

    /// Marks the trigger as about to be sent, appends events, and returns the user's command so far. `None` when the
    /// run belongs to another owner now: the trigger must not be sent then, and no event is written.
    pub async fn mark_triggered(
        &self,
        test: &str,
        number: u64,
        owner: &str,
        events: &[StoredEvent],
    ) -> Result<Option<Option<RunCommand>>, Error> {
        let failed = failed("note that a trigger is sent");
        let mut transaction = self.writers.begin().await.map_err(&failed)?;
        let text = format!(
            "UPDATE runs SET triggered = 1 WHERE {} AND state = 'EXECUTING' AND triggered = 0 RETURNING wish",
            RUNS.owned([1, 2, 3])
        );
        let command: Option<String> = sqlx::query_scalar(AssertSqlSafe(text))
            .bind(test)
            .bind(signed(number))
            .bind(owner)
            .fetch_optional(&mut *transaction)
            .await
            .map_err(&failed)?;
        let Some(word) = command else { return Ok(None) };
        insert_events(&mut transaction, RUNS, (test, number), events).await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        Ok(Some(RunCommand::named(&word)))
    }

    /// Whether this owner has marked the trigger as sent.
    pub async fn is_triggered(&self, test: &str, number: u64, owner: &str) -> Result<bool, Error> {
        let text = format!(
            "SELECT triggered FROM runs WHERE {} AND state = 'EXECUTING' AND triggered = 1",
            RUNS.owned([1, 2, 3])
        );
        let found: Option<i64> = sqlx::query_scalar(AssertSqlSafe(text))
            .bind(test)
            .bind(signed(number))
            .bind(owner)
            .fetch_optional(&self.read)
            .await
            .map_err(failed("look whether a trigger was sent"))?;
        Ok(found.is_some())
    }

    /// Stores a user's command; a stop is not replaced by a skip. Returns the owner of the run, empty while it is queued; `None` when it has ended.
    pub async fn put_command(
        &self,
        test: &str,
        number: u64,
        command: RunCommand,
    ) -> Result<Option<String>, Error> {
        // Only names of states become part of this SQL.
        let text = format!(
            "UPDATE runs SET wish = CASE WHEN wish = 'stop' THEN wish ELSE $1 END
             WHERE test_id = $2 AND number = $3 AND (state = 'CREATED' OR state IN {UNDER_WAY}) RETURNING owner"
        );
        sqlx::query_scalar(AssertSqlSafe(text))
            .bind(command.as_str())
            .bind(test)
            .bind(signed(number))
            .fetch_optional(&self.write)
            .await
            .map_err(failed("store a run command"))
    }

    /// Lists the user commands for the runs of this owner.
    pub async fn commands(&self, owner: &str) -> Result<Vec<(String, u64, RunCommand)>, Error> {
        let failed = failed("read run commands");
        let text = format!(
            "SELECT test_id, number, wish FROM runs WHERE state IN {UNDER_WAY} AND owner = $1 AND wish <> ''"
        );
        let rows =
            sqlx::query(AssertSqlSafe(text)).bind(owner).fetch_all(&self.read).await.map_err(&failed)?;
        let mut commands = Vec::new();
        for row in rows {
            let (test, number): (String, i64) =
                (row.try_get("test_id").map_err(&failed)?, row.try_get("number").map_err(&failed)?);
            let word: String = row.try_get("wish").map_err(&failed)?;
            commands.extend(RunCommand::named(&word).map(|command| (test, unsigned(number), command)));
        }
        Ok(commands)
    }

    /// Moves a run from one owner and state to another. `false` when another server was faster.
    pub async fn take_run(
        &self,
        test: &str,
        number: u64,
        from: (&str, State),
        to: (&str, State),
    ) -> Result<bool, Error> {
        let text =
            format!("UPDATE runs SET owner = $1, state = $2 WHERE {} AND state = $6", RUNS.owned([3, 4, 5]));
        let done = sqlx::query(AssertSqlSafe(text))
            .bind(to.0)
            .bind(to.1.as_str())
            .bind(test)
            .bind(signed(number))
            .bind(from.0)
            .bind(from.1.as_str())
            .execute(&self.write)
            .await
            .map_err(failed("take a run"))?;
        Ok(done.rows_affected() == 1)
    }

    /// Moves a run of this owner from one state to another and appends events. `false` when it was not in the first
    /// state, or belongs to another owner; no event is written then.
    pub async fn change_state(
        &self,
        test: &str,
        number: u64,
        owner: &str,
        states: (&str, &str),
        events: &[StoredEvent],
    ) -> Result<bool, Error> {
        let change = move_state(RUNS, (test, number), owner, states);
        self.change_with_events(change, RUNS, (test, number), events)
            .await
            .map_err(failed("change the state of a run"))
    }

    /// Ends a run in progress of this owner, or a queued one, which has none. `false` when it has ended or belongs to
    /// another owner; nothing is written then.
    pub async fn end_run(&self, test: &str, number: u64, owner: &str, end: &RunEnd) -> Result<bool, Error> {
        let text = format!(
            "UPDATE runs SET state = $1, passed = $2, failed = $3, secrets = $4, outcome = $5, spans = $6,
                 duration = CASE WHEN $7 > created THEN $7 - created ELSE 0 END
             WHERE {} AND (state = 'CREATED' OR state IN {UNDER_WAY})",
            RUNS.owned([8, 9, 10])
        );
        let change = sqlx::query(AssertSqlSafe(text))
            .bind(end.state)
            .bind(signed(end.result.passed))
            .bind(signed(end.result.failed))
            .bind(&end.secrets)
            .bind(end.result.outcome)
            .bind(end.result.spans())
            .bind(signed(end.at.as_nanos()))
            .bind(test)
            .bind(signed(number))
            .bind(owner);
        let changed = self.change_outcome(change, (test, number), end.result.outcome, &end.events).await;
        changed.map_err(failed("end a run"))
    }

    /// Puts a run back into the queue whose trigger was not sent. `false` when it was, or when another server was
    /// faster.
    pub async fn requeue(
        &self,
        test: &str,
        number: u64,
        owner: &str,
        event: &StoredEvent,
    ) -> Result<bool, Error> {
        let text = format!(
            "UPDATE runs SET owner = '', state = 'CREATED' WHERE {} AND state = 'EXECUTING' AND triggered = 0",
            RUNS.owned([1, 2, 3])
        );
        let change = sqlx::query(AssertSqlSafe(text)).bind(test).bind(signed(number)).bind(owner);
        let events = std::slice::from_ref(event);
        let changed = self.change_with_events(change, RUNS, (test, number), events).await;
        changed.map_err(failed("put a run back into the queue"))
    }

    /// Lists runs in progress whose server is gone.
    pub async fn orphans(&self) -> Result<Vec<Orphan>, Error> {
        self.orphans_where(&format!("state IN {UNDER_WAY} AND owner NOT IN (SELECT id FROM servers)"), "")
            .await
    }

    /// Lists runs that a server has claimed and not sent.
    pub async fn unsent(&self, owner: &str) -> Result<Vec<Orphan>, Error> {
        self.orphans_where("state = 'EXECUTING' AND triggered = 0 AND owner = $1", owner).await
    }

    /// Lists runs by a condition on their table, in which `$1` is the owner; nothing else in it comes from outside.
    async fn orphans_where(&self, condition: &str, owner: &str) -> Result<Vec<Orphan>, Error> {
        let failed = failed("look for runs without a server");
        let text = format!(
            "SELECT test_id, number, test_version, trace_id, state, created, variables, request, owner, triggered,
                 (SELECT COALESCE(MAX(seq), 0) FROM run_events
                  WHERE run_events.test_id = runs.test_id AND run_events.number = runs.number) AS seq
             FROM runs WHERE {condition}"
        );
        let query = sqlx::query(AssertSqlSafe(text));
        let query = if owner.is_empty() { query } else { query.bind(owner) };
        let rows = query.fetch_all(&self.read).await.map_err(&failed)?;
        let orphan = |row: &sqlx::any::AnyRow| {
            Ok(Orphan {
                run: stored(row)?,
                seq: unsigned(row.try_get("seq")?),
                owner: row.try_get("owner")?,
                triggered: row.try_get::<i64, _>("triggered")? != 0,
            })
        };
        rows.iter().map(orphan).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Lists runs that were judged, or ended without a trace, less than `window` ago by a server that is gone.
    pub async fn judged_orphans(&self, now: Timestamp, window: Duration) -> Result<Vec<JudgedOrphan>, Error> {
        let failed = failed("look for judged runs without a server");
        let rows = sqlx::query(
            "SELECT test_id, number, test_version, trace_id, state, created, variables, request, owner,
                 (SELECT COALESCE(MAX(seq), 0) FROM run_events
                  WHERE run_events.test_id = runs.test_id AND run_events.number = runs.number) AS seq,
                 (SELECT COALESCE(MAX(at), 0) FROM run_events
                  WHERE run_events.test_id = runs.test_id AND run_events.number = runs.number) AS ended
             FROM runs WHERE state IN ('FINISHED', 'TRACE_FAILED') AND created > $1 AND owner NOT IN (SELECT id FROM servers)",
        )
        .bind(signed(now.as_nanos().saturating_sub(nanos(window + LONGEST_RUN))))
        .fetch_all(&self.read)
        .await
        .map_err(&failed)?;
        let orphan = |row: &sqlx::any::AnyRow| {
            Ok(JudgedOrphan {
                run: stored(row)?,
                seq: unsigned(row.try_get("seq")?),
                owner: row.try_get("owner")?,
                ended: Timestamp::from_nanos(unsigned(row.try_get("ended")?)),
            })
        };
        let mut orphans: Vec<JudgedOrphan> =
            rows.iter().map(orphan).collect::<Result<_, _>>().map_err(&failed)?;
        orphans.retain(|orphan| now.since(orphan.ended) < window);
        Ok(orphans)
    }

    /// Lists the traces of the runs in progress on other servers.
    pub async fn traces_elsewhere(&self, owner: &str) -> Result<Vec<qualitytrace_core::id::TraceId>, Error> {
        let failed = failed("look for traces that other servers wait for");
        let text = format!("SELECT trace_id FROM runs WHERE state IN {UNDER_WAY} AND owner <> $1");
        let ids: Vec<Vec<u8>> = sqlx::query_scalar(AssertSqlSafe(text))
            .bind(owner)
            .fetch_all(&self.read)
            .await
            .map_err(&failed)?;
        Ok(ids.iter().filter_map(|id| qualitytrace_core::id::TraceId::from_slice(id)).collect())
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
