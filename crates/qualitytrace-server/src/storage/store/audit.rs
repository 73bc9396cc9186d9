//! The audit log: who changed what, and when.

use qualitytrace_core::time::Timestamp;
use sqlx::Row as _;

use super::chunks::{signed, unsigned};
use super::{Error, Store, failed};
use crate::base::clock;

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// When it was made.
    pub at: Timestamp,
    /// The scope of the token and the first characters of its hash; empty without tokens.
    pub who: String,
    /// The address of the client; empty for the server itself.
    pub address: String,
    /// The action.
    pub action: String,
    /// The kind of what was changed.
    pub kind: String,
    /// The id of what was changed.
    pub id: String,
    /// The id of the request.
    pub request: String,
}

impl Change {
    /// A change by the server itself, or by a command beside it.
    pub(super) fn own(action: &str, kind: &str, id: &str) -> Self {
        Self {
            at: clock::now(),
            who: String::new(),
            address: String::new(),
            action: action.to_owned(),
            kind: kind.to_owned(),
            id: id.to_owned(),
            request: String::new(),
        }
    }

    /// Inserts the entry.
    pub(super) async fn insert<'e>(
        &self,
        database: impl sqlx::Executor<'e, Database = sqlx::Any>,
    ) -> Result<(), sqlx::Error> {
        sqlx::query(
            "INSERT INTO audit (at, entry, who, address, action, kind, id, request)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(signed(self.at.as_nanos()))
        .bind(format!("{:016x}", rand::random::<u64>()))
        .bind(self.who.clone())
        .bind(self.address.clone())
        .bind(self.action.clone())
        .bind(self.kind.clone())
        .bind(self.id.clone())
        .bind(self.request.clone())
        .execute(database)
        .await?;
        Ok(())
    }
}

impl Store {
    /// Appends an entry.
    pub async fn audit(&self, change: &Change) -> Result<(), Error> {
        let failed = failed("write a change down");
        let mut write = self.writers.statement().await.map_err(&failed)?;
        change.insert(&mut *write).await.map_err(&failed)?;
        write.commit().await.map_err(&failed)
    }

    /// Appends a change by the server itself, or by a command beside it.
    pub async fn audit_own(&self, action: &str, kind: &str, id: &str) -> Result<(), Error> {
        self.audit(&Change::own(action, kind, id)).await
    }

    /// Lists entries before a cursor, newest first, each with its own cursor.
    pub async fn changes(
        &self,
        before: Option<(u64, &str)>,
        take: u64,
    ) -> Result<Vec<((u64, String), Change)>, Error> {
        let failed = failed("list changes");
        let (at, entry) = before.map_or((i64::MAX, ""), |(at, entry)| (signed(at), entry));
        let rows = sqlx::query(
            "SELECT at, entry, who, address, action, kind, id, request FROM audit
             WHERE (at, entry) < ($1, $2) ORDER BY at DESC, entry DESC LIMIT $3",
        )
        .bind(at)
        .bind(entry)
        .bind(signed(take))
        .fetch_all(&self.read)
        .await
        .map_err(&failed)?;
        let change = |row: &sqlx::any::AnyRow| {
            let at = unsigned(row.try_get("at")?);
            let change = Change {
                at: Timestamp::from_nanos(at),
                who: row.try_get("who")?,
                address: row.try_get("address")?,
                action: row.try_get("action")?,
                kind: row.try_get("kind")?,
                id: row.try_get("id")?,
                request: row.try_get("request")?,
            };
            Ok(((at, row.try_get("entry")?), change))
        };
        rows.iter().map(change).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Deletes entries older than `before`, and all but the latest `most`. Returns how many.
    pub async fn forget_changes(&self, before: Timestamp, most: u64) -> Result<u64, Error> {
        let failed = failed("remove old changes");
        let old = sqlx::query("DELETE FROM audit WHERE at < $1").bind(signed(before.as_nanos()));
        let old = old.execute(&self.write).await.map_err(&failed)?.rows_affected();
        let surplus = sqlx::query(
            "DELETE FROM audit WHERE (at, entry) <=
                 (SELECT at, entry FROM audit ORDER BY at DESC, entry DESC LIMIT 1 OFFSET $1)",
        )
        .bind(signed(most));
        Ok(old + surplus.execute(&self.write).await.map_err(&failed)?.rows_affected())
    }
}
