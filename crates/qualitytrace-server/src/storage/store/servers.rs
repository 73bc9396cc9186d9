//! Registration and heartbeats of the servers that share the database.

use std::time::Duration;

use sqlx::Row;

use super::chunks::{signed, unsigned};
use super::{Error, Store, failed};

/// A registered server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The id of the server.
    pub id: String,
    /// Its heartbeat counter, which grows while it is alive.
    pub beat: u64,
    /// How far its ingest lags behind.
    pub backlog: Duration,
}

impl Store {
    /// Registers a server. Where the database cannot be shared, all earlier ones are removed.
    pub async fn enter(&self, server: &str) -> Result<(), Error> {
        let failed = failed("register the server");
        if !self.is_shared() {
            sqlx::query("DELETE FROM servers").execute(&self.write).await.map_err(&failed)?;
        }
        sqlx::query("INSERT INTO servers (id, beat, backlog) VALUES ($1, 0, 0)")
            .bind(server)
            .execute(&self.write)
            .await
            .map_err(&failed)?;
        Ok(())
    }

    /// Writes a heartbeat. `false` when the other servers have removed this one.
    pub async fn heartbeat(&self, server: &str, backlog: Duration) -> Result<bool, Error> {
        let update = sqlx::query("UPDATE servers SET beat = beat + 1, backlog = $1 WHERE id = $2")
            .bind(signed(u64::try_from(backlog.as_millis()).unwrap_or(u64::MAX)))
            .bind(server);
        let done = self.answered(update.execute(&self.write)).await;
        Ok(done.map_err(failed("say that the server is alive"))?.rows_affected() == 1)
    }

    /// Lists every server but this one.
    pub async fn peers(&self, server: &str) -> Result<Vec<Peer>, Error> {
        let failed = failed("look for other servers");
        let query =
            sqlx::query("SELECT id, beat, backlog FROM servers WHERE id <> $1 ORDER BY id").bind(server);
        let rows = self.answered(query.fetch_all(&self.read)).await.map_err(&failed)?;
        let peer = |row: &sqlx::any::AnyRow| {
            Ok(Peer {
                id: row.try_get("id")?,
                beat: unsigned(row.try_get("beat")?),
                backlog: Duration::from_millis(unsigned(row.try_get("backlog")?)),
            })
        };
        rows.iter().map(peer).collect::<Result<_, _>>().map_err(&failed)
    }

    /// Removes a server whose heartbeat stands still. `false` when it is alive after all, or already removed.
    pub async fn give_up(&self, server: &Peer) -> Result<bool, Error> {
        let done = sqlx::query("DELETE FROM servers WHERE id = $1 AND beat = $2")
            .bind(&server.id)
            .bind(signed(server.beat))
            .execute(&self.write)
            .await
            .map_err(failed("give up a server"))?;
        Ok(done.rows_affected() == 1)
    }

    /// Unregisters a server that shuts down.
    pub async fn leave(&self, server: &str) -> Result<(), Error> {
        sqlx::query("DELETE FROM servers WHERE id = $1")
            .bind(server)
            .execute(&self.write)
            .await
            .map_err(failed("sign the server off"))?;
        Ok(())
    }
}
