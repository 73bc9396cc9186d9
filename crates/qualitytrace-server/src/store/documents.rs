//! Small documents of which there is one each.

use super::{Error, Store, failed};

impl Store {
    /// The document of this name, as JSON.
    pub async fn document(&self, name: &str) -> Result<Option<String>, Error> {
        sqlx::query_scalar("SELECT body FROM documents WHERE name = $1")
            .bind(name)
            .fetch_optional(&self.read)
            .await
            .map_err(failed("load a document"))
    }

    /// Keeps the document of this name, unless there is one.
    pub(crate) async fn add_document(&self, name: &str, body: &str) -> Result<(), Error> {
        sqlx::query("INSERT INTO documents (name, body) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(name)
            .bind(body)
            .execute(&self.write)
            .await
            .map_err(failed("store a document"))?;
        Ok(())
    }

    /// Keeps the document of this name.
    pub async fn put_document(&self, name: &str, body: &str) -> Result<(), Error> {
        put(&self.write, name, body).await.map_err(failed("store a document"))
    }
}

/// Keeps the document of this name as part of what else is written.
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
