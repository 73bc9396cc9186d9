//! Tests, every version of them.

use qualitytrace_core::time::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::chunks::{signed, unsigned};
use super::{Error, Store, failed};

/// A test on its way into the store.
#[derive(Debug, Clone, Copy)]
pub struct NewTest<'a> {
    /// Names the test.
    pub id: &'a str,
    /// For lists.
    pub name: &'a str,
    /// How the definition is written: `yaml` or `json`.
    pub format: &'a str,
    /// The definition, as the user wrote it.
    pub definition: &'a str,
}

/// One version of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTest {
    /// As the user wrote it, or as it was generated.
    pub id: String,
    /// Counts from 1.
    pub version: u64,
    /// When version 1 was stored.
    pub created: Timestamp,
    /// For lists.
    pub name: String,
    /// How the definition is written: `yaml` or `json`.
    pub format: String,
    /// The definition, as the user wrote it.
    pub definition: String,
}

impl Store {
    /// Stores a test: a new one as version 1, a changed one as its next version, an unchanged one not at all.
    ///
    /// Answers with what is stored now and whether the id was new.
    pub async fn put_test(&self, test: NewTest<'_>, now: Timestamp) -> Result<(StoredTest, bool), Error> {
        loop {
            let latest = self.test(test.id, None).await?;
            if let Some(known) = latest
                .as_ref()
                .filter(|known| known.definition == test.definition)
            {
                return Ok((known.clone(), false));
            }
            let next = StoredTest {
                id: test.id.to_owned(),
                version: latest.as_ref().map_or(1, |known| known.version + 1),
                created: latest.as_ref().map_or(now, |known| known.created),
                name: test.name.to_owned(),
                format: test.format.to_owned(),
                definition: test.definition.to_owned(),
            };
            if self.insert_test(&next).await? {
                return Ok((next, latest.is_none()));
            }
        }
    }

    /// Whether this version was free to take. Whoever comes second sees the newer version and tries again.
    async fn insert_test(&self, test: &StoredTest) -> Result<bool, Error> {
        let done = sqlx::query(
            "INSERT INTO tests (id, version, created, name, format, definition) VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT DO NOTHING",
        )
        .bind(&test.id)
        .bind(signed(test.version))
        .bind(signed(test.created.as_nanos()))
        .bind(&test.name)
        .bind(&test.format)
        .bind(&test.definition)
        .execute(&self.write)
        .await
        .map_err(failed("store a test"))?;
        Ok(done.rows_affected() == 1)
    }

    /// A version of a test; the latest when none is named.
    pub async fn test(&self, id: &str, version: Option<u64>) -> Result<Option<StoredTest>, Error> {
        let row = sqlx::query(
            "SELECT id, version, created, name, format, definition FROM tests
             WHERE id = $1 AND ($2 = 0 OR version = $2) ORDER BY version DESC LIMIT 1",
        )
        .bind(id)
        .bind(signed(version.unwrap_or(0)))
        .fetch_optional(&self.read)
        .await
        .map_err(failed("load a test"))?;
        row.map(|row| stored(&row))
            .transpose()
            .map_err(failed("load a test"))
    }
}

fn stored(row: &AnyRow) -> Result<StoredTest, sqlx::Error> {
    Ok(StoredTest {
        id: row.try_get("id")?,
        version: unsigned(row.try_get("version")?),
        created: Timestamp::from_nanos(unsigned(row.try_get("created")?)),
        name: row.try_get("name")?,
        format: row.try_get("format")?,
        definition: row.try_get("definition")?,
    })
}
