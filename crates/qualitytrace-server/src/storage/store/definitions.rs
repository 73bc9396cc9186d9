//! Definitions: every version, with the text as the user wrote it.

use qualitytrace_core::definition::{Format, Kind};
use qualitytrace_core::time::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::chunks::{signed, unsigned};
use super::{Error, Store, failed, sealing};

/// The latest version of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResource {
    /// The id with its tenant.
    pub id: String,
    /// The version, from 1.
    pub version: u64,
    /// When version 1 was stored.
    pub created: Timestamp,
    /// The parsed definition as JSON.
    pub spec: String,
}

/// One version of a resource, as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDefinition {
    /// The id with its tenant.
    pub id: String,
    /// The version, from 1.
    pub version: u64,
    /// When version 1 was stored.
    pub created: Timestamp,
    /// The format of the text: `yaml` or `json`.
    pub format: String,
    /// The definition, as the user wrote it.
    pub definition: String,
}

impl StoredDefinition {
    /// Returns the format of the text.
    pub fn format(&self) -> Format {
        if self.format == "json" { Format::Json } else { Format::Yaml }
    }
}

/// One version of a test.
pub type StoredTest = StoredDefinition;

impl Store {
    /// Loads the latest version of a resource.
    pub async fn resource(&self, kind: Kind, id: &str) -> Result<Option<StoredResource>, Error> {
        let row = sqlx::query("SELECT id, version, created, spec FROM resources WHERE kind = $1 AND id = $2")
            .bind(kind.as_str())
            .bind(id)
            .fetch_optional(&self.read)
            .await
            .map_err(failed("load a definition"))?;
        row.map(|row| self.opened(kind, &row)).transpose()
    }

    /// Loads the latest versions of some resources; missing ones are left out.
    pub async fn resources(&self, kind: Kind, ids: &[&str]) -> Result<Vec<StoredResource>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let failed = failed("load definitions");
        let marks: Vec<String> = (2..ids.len() + 2).map(|at| format!("${at}")).collect();
        // Only numbered placeholders become part of this SQL.
        let text = format!(
            "SELECT id, version, created, spec FROM resources WHERE kind = $1 AND id IN ({})",
            marks.join(", ")
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(text)).bind(kind.as_str());
        let query = ids.iter().fold(query, |query, id| query.bind(*id));
        let rows = query.fetch_all(&self.read).await.map_err(&failed)?;
        rows.iter().map(|row| self.opened(kind, row)).collect()
    }

    /// Loads a version of a resource as the user wrote it; the latest by default.
    pub async fn definition(
        &self,
        kind: Kind,
        id: &str,
        version: Option<u64>,
    ) -> Result<Option<StoredDefinition>, Error> {
        let failed = failed("load a definition");
        let row = sqlx::query(
            "SELECT d.id, d.version, r.created, d.format, d.text
             FROM definitions d JOIN resources r ON r.kind = d.kind AND r.id = d.id
             WHERE d.kind = $1 AND d.id = $2 AND ($3 = 0 OR d.version = $3) ORDER BY d.version DESC LIMIT 1",
        )
        .bind(kind.as_str())
        .bind(id)
        .bind(signed(version.unwrap_or(0)))
        .fetch_optional(&self.read)
        .await
        .map_err(&failed)?;
        let Some(row) = row else { return Ok(None) };
        let mut stored = written(&row).map_err(&failed)?;
        stored.definition = self.unseal(&sealing::place(kind, id), stored.definition)?;
        Ok(Some(stored))
    }

    /// Reads the resource in a row and opens its secrets.
    pub(super) fn opened(&self, kind: Kind, row: &AnyRow) -> Result<StoredResource, Error> {
        let mut stored = resource(row).map_err(failed("load a definition"))?;
        stored.spec = self.unseal(&sealing::place(kind, &stored.id), stored.spec)?;
        Ok(stored)
    }

    /// Loads a version of a test; the latest by default.
    pub async fn test(&self, id: &str, version: Option<u64>) -> Result<Option<StoredDefinition>, Error> {
        self.definition(Kind::Test, id, version).await
    }
}

fn written(row: &AnyRow) -> Result<StoredDefinition, sqlx::Error> {
    Ok(StoredDefinition {
        id: row.try_get("id")?,
        version: unsigned(row.try_get("version")?),
        created: Timestamp::from_nanos(unsigned(row.try_get("created")?)),
        format: row.try_get("format")?,
        definition: row.try_get("text")?,
    })
}

fn resource(row: &AnyRow) -> Result<StoredResource, sqlx::Error> {
    Ok(StoredResource {
        id: row.try_get("id")?,
        version: unsigned(row.try_get("version")?),
        created: Timestamp::from_nanos(unsigned(row.try_get("created")?)),
        spec: row.try_get("spec")?,
    })
}
