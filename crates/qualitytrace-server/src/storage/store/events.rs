//! Events of runs and suite runs.

use std::collections::BTreeMap;

use qualitytrace_core::time::Timestamp;
use sqlx::any::AnyRow;
use sqlx::query::Query;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::chunks::{signed, unsigned};
use super::group::Writers;
use super::runs::{RUNS, SUITE_RUNS, Table};
use super::{Error, Store, failed, rows_written};

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The sequence number within the run, from 1.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The event as JSON.
    pub body: String,
}

impl Store {
    /// Appends events to a run of this owner. An existing event stays as it is.
    pub async fn append_events(
        &self,
        test: &str,
        number: u64,
        owner: &str,
        events: &[StoredEvent],
    ) -> Result<(), Error> {
        append(&self.writers, RUNS, (test, number, owner), events).await.map_err(failed("store events"))
    }

    /// Appends events to a suite run of this owner.
    pub async fn append_suite_events(
        &self,
        suite: &str,
        number: u64,
        owner: &str,
        events: &[StoredEvent],
    ) -> Result<(), Error> {
        append(&self.writers, SUITE_RUNS, (suite, number, owner), events)
            .await
            .map_err(failed("store events of a suite's run"))
    }

    /// Loads the events of a run after `after`, in order.
    pub async fn events(&self, test: &str, number: u64, after: u64) -> Result<Vec<StoredEvent>, Error> {
        self.events_in(RUNS, (test, number), after).await.map_err(failed("load the events of a run"))
    }

    /// Loads the events of a run up to number `last`, in order.
    pub(crate) async fn events_until(
        &self,
        test: &str,
        number: u64,
        last: u64,
    ) -> Result<Vec<StoredEvent>, Error> {
        let failed = failed("load the events of a run");
        let query = sqlx::query(
            "SELECT seq, at, body FROM run_events WHERE test_id = $1 AND number = $2 AND seq <= $3 ORDER BY seq",
        );
        let query = query.bind(test).bind(signed(number)).bind(signed(last));
        let rows = query.fetch_all(&self.read).await.map_err(&failed)?;
        rows.iter().map(event).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Loads the first bytes of every event of a run, in order: its kind, and all of it if it is short.
    pub(crate) async fn event_openings(&self, test: &str, number: u64) -> Result<Vec<StoredEvent>, Error> {
        let failed = failed("load the events of a run");
        let query = sqlx::query(
            "SELECT seq, at, substr(body, 1, 128) AS body FROM run_events WHERE test_id = $1 AND number = $2
             ORDER BY seq",
        );
        let rows = query.bind(test).bind(signed(number)).fetch_all(&self.read).await.map_err(&failed)?;
        rows.iter().map(event).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Loads the events of a suite run after `after`, in order.
    pub async fn suite_events(
        &self,
        suite: &str,
        number: u64,
        after: u64,
    ) -> Result<Vec<StoredEvent>, Error> {
        self.events_in(SUITE_RUNS, (suite, number), after)
            .await
            .map_err(failed("load the events of a suite's run"))
    }

    /// Loads the events of a range of runs of a test, in order, by run.
    pub async fn events_between(
        &self,
        test: &str,
        first: u64,
        last: u64,
    ) -> Result<BTreeMap<u64, Vec<StoredEvent>>, Error> {
        self.between(RUNS, test, (first, last)).await.map_err(failed("load the events of runs"))
    }

    /// Loads the events of a range of runs of a suite, in order, by run.
    pub async fn suite_events_between(
        &self,
        suite: &str,
        first: u64,
        last: u64,
    ) -> Result<BTreeMap<u64, Vec<StoredEvent>>, Error> {
        self.between(SUITE_RUNS, suite, (first, last))
            .await
            .map_err(failed("load the events of runs of a suite"))
    }

    async fn events_in(
        &self,
        Table { events, id, .. }: Table,
        (of, number): (&str, u64),
        after: u64,
    ) -> Result<Vec<StoredEvent>, sqlx::Error> {
        let text = format!(
            "SELECT seq, at, body FROM {events} WHERE {id} = $1 AND number = $2 AND seq > $3 ORDER BY seq"
        );
        let query = sqlx::query(AssertSqlSafe(text)).bind(of).bind(signed(number)).bind(signed(after));
        query.fetch_all(&self.read).await?.iter().map(event).collect()
    }

    /// Updates the row of a run and appends events in one transaction. `false` when the statement changes no row;
    /// no event is written then.
    pub(super) async fn change_with_events(
        &self,
        change: Query<'_, sqlx::Any, sqlx::any::AnyArguments>,
        table: Table,
        run: (&str, u64),
        events: &[StoredEvent],
    ) -> Result<bool, sqlx::Error> {
        let mut transaction = self.writers.begin().await?;
        if change.execute(&mut *transaction).await?.rows_affected() == 0 {
            return Ok(false);
        }
        insert_events(&mut transaction, table, run, events).await?;
        transaction.commit().await?;
        Ok(true)
    }

    async fn between(
        &self,
        Table { events, id, .. }: Table,
        of: &str,
        (first, last): (u64, u64),
    ) -> Result<BTreeMap<u64, Vec<StoredEvent>>, sqlx::Error> {
        let text = format!(
            "SELECT number, seq, at, body FROM {events} WHERE {id} = $1 AND number >= $2 AND number <= $3
             ORDER BY number, seq"
        );
        let query = sqlx::query(AssertSqlSafe(text)).bind(of).bind(signed(first)).bind(signed(last));
        let mut found: BTreeMap<u64, Vec<StoredEvent>> = BTreeMap::new();
        for row in query.fetch_all(&self.read).await? {
            found.entry(unsigned(row.try_get("number")?)).or_default().push(event(&row)?);
        }
        Ok(found)
    }
}

/// Inserts events of a run, if there are any.
pub(super) async fn insert_events(
    connection: &mut AnyConnection,
    Table { events: name, id, .. }: Table,
    run: (&str, u64),
    events: &[StoredEvent],
) -> Result<(), sqlx::Error> {
    if events.is_empty() {
        return Ok(());
    }
    let text = format!("INSERT INTO {name} ({id}, number, seq, at, body) {}", values(events.len()));
    with_events(text, run, events).execute(connection).await?;
    Ok(())
}

/// Appends events to a run of this owner. An existing event stays as it is.
async fn append(
    writers: &Writers,
    table: Table,
    (of, number, owner): (&str, u64, &str),
    events: &[StoredEvent],
) -> Result<(), sqlx::Error> {
    let Table { name, id, events: name_of_events, .. } = table;
    let text = format!(
        "INSERT INTO {name_of_events} ({id}, number, seq, at, body) SELECT * FROM ({}) AS event
         WHERE EXISTS (SELECT 1 FROM {name} WHERE {})
         ON CONFLICT DO NOTHING",
        values(events.len()),
        table.owned([1, 2, events.len() * 3 + 3]),
    );
    let mut write = writers.statement().await?;
    let done = with_events(text, (of, number), events).bind(owner).execute(&mut *write).await;
    rows_written(done)?;
    write.commit().await
}

/// The `VALUES` rows of events: the parameters are the run (once), then sequence number, time and body of each
/// event.
fn values(events: usize) -> String {
    let row = |at: usize| format!("($1, $2, ${}, ${}, ${})", at * 3 + 3, at * 3 + 4, at * 3 + 5);
    format!("VALUES {}", (0..events).map(row).collect::<Vec<_>>().join(", "))
}

fn with_events<'q>(
    text: String,
    (of, number): (&'q str, u64),
    events: &'q [StoredEvent],
) -> Query<'q, sqlx::Any, sqlx::any::AnyArguments> {
    let query = sqlx::query(AssertSqlSafe(text)).bind(of).bind(signed(number));
    events.iter().fold(query, |query, event| {
        query.bind(signed(event.seq)).bind(signed(event.at.as_nanos())).bind(&event.body)
    })
}

pub(super) fn event(row: &AnyRow) -> Result<StoredEvent, sqlx::Error> {
    Ok(StoredEvent {
        seq: unsigned(row.try_get("seq")?),
        at: Timestamp::from_nanos(unsigned(row.try_get("at")?)),
        body: row.try_get("body")?,
    })
}
