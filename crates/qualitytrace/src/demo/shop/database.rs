//! A service's own SQLite database in memory, with a span for every statement.

use std::sync::Arc;

use anyhow::Context as _;
use opentelemetry::trace::SpanKind;
use opentelemetry::{Context, KeyValue};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};

use super::instrument::Telemetry;

/// A statement of the shop, with the attributes of its span.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statement {
    pub(super) operation: &'static str,
    pub(super) table: &'static str,
    pub(super) text: &'static str,
}

/// One database of one service.
#[derive(Debug, Clone)]
pub(super) struct Database {
    telemetry: Arc<Telemetry>,
    namespace: &'static str,
    pub(super) pool: SqlitePool,
}

impl Database {
    /// Opens an empty database and creates its tables.
    pub(super) async fn open(
        telemetry: Arc<Telemetry>,
        namespace: &'static str,
        schema: &'static str,
    ) -> anyhow::Result<Self> {
        // An in-memory database lives as long as its connection: exactly one, which is never closed.
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(SqliteConnectOptions::new().in_memory(true))
            .await
            .with_context(|| format!("failed to open the {namespace} database of the shop"))?;
        sqlx::raw_sql(schema)
            .execute(&pool)
            .await
            .with_context(|| format!("failed to create the {namespace} database of the shop"))?;
        Ok(Self { telemetry, namespace, pool })
    }

    /// Runs `query`, which executes `statement`, inside a client span.
    pub(super) async fn traced<T>(
        &self,
        context: &Context,
        statement: Statement,
        query: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        let span = self.telemetry.start(
            context,
            SpanKind::Client,
            format!("{} {}", statement.operation, statement.table),
            vec![
                KeyValue::new("db.system.name", "sqlite"),
                KeyValue::new("db.namespace", self.namespace),
                KeyValue::new("db.operation.name", statement.operation),
                KeyValue::new("db.collection.name", statement.table),
                KeyValue::new("db.query.text", statement.text),
            ],
        );
        query.await.inspect_err(|error| span.fail("sqlx::Error", error))
    }
}
