//! Named singleton documents.

use super::{Error, Store, failed};

impl Store {
    /// Loads the document of this name, as JSON.
    pub async fn document(&self, name: &str) -> Result<Option<String>, Error> {
        sqlx::query_scalar("SELECT body FROM documents WHERE name = $1")
            .bind(name)
            .fetch_optional(&self.read)
            .await
            .map_err(failed("load a document"))
    }

    /// Stores the document of this name, unless it exists.
    pub(crate) async fn add_document(&self, name: &str, body: &str) -> Result<(), Error> {
        sqlx::query("INSERT INTO documents (name, body) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(name)
            .bind(body)
            .execute(&self.write)
            .await
            .map_err(failed("store a document"))?;
        Ok(())
    }

    /// Upserts the document of this name.
    pub async fn put_document(&self, name: &str, body: &str) -> Result<(), Error> {
        put(&self.write, name, body).await.map_err(failed("store a document"))
    }
}

/// Upserts the document of this name, within the caller's transaction.
pub(super) async fn put<'e>(
    executor: impl sqlx::Executor<'e, Database = sqlx::Any>,
    name: &str,
    body: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO documents (name, body) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET body = excluded.body",
    )
    .bind(name)
    .bind(body)
    .execute(executor)
    .await?;
    Ok(())
}
