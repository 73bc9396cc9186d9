//! What users define, every version of it, as they wrote it.

use qualitytrace_core::definition::Kind;
use qualitytrace_core::time::Timestamp;
use sqlx::Row;
use sqlx::any::AnyRow;

use super::chunks::{signed, unsigned};
use super::{Error, Store, failed, sealing};

/// A resource on its way into the store.
#[derive(Debug, Clone)]
pub struct NewDefinition<'a> {
    /// What it is.
    pub kind: Kind,
    /// Names it, within its tenant.
    pub id: &'a str,
    /// Whose it is; empty for nobody's.
    pub tenant: &'a str,
    /// For searches and sorting.
    pub name: &'a str,
    /// For searches.
    pub description: &'a str,
    /// For sorting: the type of a demo, empty for all else.
    pub sort_kind: &'a str,
    /// How the text is written: `yaml` or `json`.
    pub format: &'a str,
    /// The definition, as the user wrote it.
    pub text: &'a str,
    /// What it means, as JSON. A version is a new meaning.
    pub spec: String,
}

/// Whether a resource may be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It must not be there.
    Create,
    /// It must be there.
    Update,
    /// Both will do.
    Upsert,
}

/// What came of storing a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// It is new.
    Created(StoredResource),
    /// It was there and is now this.
    Updated(StoredResource),
    /// It is there and was not to be.
    Exists,
    /// It is not there and was to be.
    Missing,
    /// It holds the mask of a secret that is not stored.
    Masked {
        /// What names the secret.
        name: String,
    },
}

/// The latest version of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResource {
    /// With its tenant.
    pub id: String,
    /// Counts from 1.
    pub version: u64,
    /// When version 1 was stored.
    pub created: Timestamp,
    /// What it means, as JSON.
    pub spec: String,
}

/// One version of a resource, as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDefinition {
    /// With its tenant.
    pub id: String,
    /// Counts from 1.
    pub version: u64,
    /// When version 1 was stored.
    pub created: Timestamp,
    /// How the text is written: `yaml` or `json`.
    pub format: String,
    /// The definition, as the user wrote it.
    pub definition: String,
}

/// One version of a test.
pub type StoredTest = StoredDefinition;

impl Store {
    /// Stores a resource: a new one as version 1, a changed one as its next version.
    ///
    /// A text that means the same as the stored one takes its place without a new version.
    pub async fn put(&self, new: &NewDefinition<'_>, mode: Mode, now: Timestamp) -> Result<Put, Error> {
        loop {
            let latest = self.resource(new.kind, new.id).await?;
            let (text, spec) = match sealing::filled(new, latest.as_ref()) {
                Ok(filled) => filled,
                Err(name) => return Ok(Put::Masked { name }),
            };
            let new = &NewDefinition { text: &text, spec, ..new.clone() };
            match (latest, mode) {
                (Some(_), Mode::Create) => return Ok(Put::Exists),
                (None, Mode::Update) => return Ok(Put::Missing),
                (None, Mode::Create | Mode::Upsert) => {
                    if let Some(stored) = self.insert(new, now).await? {
                        return Ok(Put::Created(stored));
                    }
                }
                (Some(known), Mode::Update | Mode::Upsert) if known.spec == new.spec => {
                    self.replace_text(new, known.version).await?;
                    return Ok(Put::Updated(known));
                }
                (Some(known), Mode::Update | Mode::Upsert) => {
                    if let Some(stored) = self.advance(new, &known).await? {
                        return Ok(Put::Updated(stored));
                    }
                }
            }
            // Somebody else was faster: look again.
        }
    }

    /// `None` when the id was taken meanwhile.
    async fn insert(&self, new: &NewDefinition<'_>, now: Timestamp) -> Result<Option<StoredResource>, Error> {
        let failed = failed("store a definition");
        let (text, spec) = self.kept(new).await?;
        let mut transaction = self.write.begin().await.map_err(&failed)?;
        let done = sqlx::query(
            "INSERT INTO resources
             (kind, id, tenant, version, created, name, description, sort_name, sort_kind, last_run, spec)
             VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8, 0, $9) ON CONFLICT DO NOTHING",
        )
        .bind(new.kind.as_str())
        .bind(new.id)
        .bind(new.tenant)
        .bind(signed(now.as_nanos()))
        .bind(new.name.to_lowercase())
        .bind(new.description.to_lowercase())
        .bind(sort_key(new.name))
        .bind(sort_key(new.sort_kind))
        .bind(&*spec)
        .execute(&mut *transaction)
        .await
        .map_err(&failed)?;
        if done.rows_affected() == 0 {
            return Ok(None);
        }
        insert_text(&mut transaction, new, 1, &text).await?;
        transaction.commit().await.map_err(&failed)?;
        Ok(Some(StoredResource { id: new.id.to_owned(), version: 1, created: now, spec: new.spec.clone() }))
    }

    /// `None` when the resource changed meanwhile.
    async fn advance(
        &self,
        new: &NewDefinition<'_>,
        known: &StoredResource,
    ) -> Result<Option<StoredResource>, Error> {
        let failed = failed("store a definition");
        let version = known.version + 1;
        let (text, spec) = self.kept(new).await?;
        let mut transaction = self.write.begin().await.map_err(&failed)?;
        let done = sqlx::query(
            "UPDATE resources SET version = $1, name = $2, description = $3, sort_name = $4, sort_kind = $5, spec = $6
             WHERE kind = $7 AND id = $8 AND version = $9",
        )
        .bind(signed(version))
        .bind(new.name.to_lowercase())
        .bind(new.description.to_lowercase())
        .bind(sort_key(new.name))
        .bind(sort_key(new.sort_kind))
        .bind(&*spec)
        .bind(new.kind.as_str())
        .bind(new.id)
        .bind(signed(known.version))
        .execute(&mut *transaction)
        .await
        .map_err(&failed)?;
        if done.rows_affected() == 0 {
            return Ok(None);
        }
        insert_text(&mut transaction, new, version, &text).await?;
        transaction.commit().await.map_err(&failed)?;
        Ok(Some(StoredResource { version, spec: new.spec.clone(), ..known.clone() }))
    }

    async fn replace_text(&self, new: &NewDefinition<'_>, version: u64) -> Result<(), Error> {
        let (text, _) = self.kept(new).await?;
        sqlx::query(
            "UPDATE definitions SET format = $1, text = $2
             WHERE kind = $3 AND id = $4 AND version = $5 AND text <> $2",
        )
        .bind(new.format)
        .bind(&*text)
        .bind(new.kind.as_str())
        .bind(new.id)
        .bind(signed(version))
        .execute(&self.write)
        .await
        .map_err(failed("store a definition"))?;
        Ok(())
    }

    /// The latest version of a resource.
    pub async fn resource(&self, kind: Kind, id: &str) -> Result<Option<StoredResource>, Error> {
        let row = sqlx::query("SELECT id, version, created, spec FROM resources WHERE kind = $1 AND id = $2")
            .bind(kind.as_str())
            .bind(id)
            .fetch_optional(&self.read)
            .await
            .map_err(failed("load a definition"))?;
        row.map(|row| self.opened(kind, &row)).transpose()
    }

    /// The latest versions of some resources; those that are not there are left out.
    pub async fn resources(&self, kind: Kind, ids: &[&str]) -> Result<Vec<StoredResource>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let failed = failed("load definitions");
        let marks: Vec<String> = (2..ids.len() + 2).map(|at| format!("${at}")).collect();
        // Nothing but numbered marks becomes part of this text.
        let text = format!(
            "SELECT id, version, created, spec FROM resources WHERE kind = $1 AND id IN ({})",
            marks.join(", ")
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(text)).bind(kind.as_str());
        let query = ids.iter().fold(query, |query, id| query.bind(*id));
        let rows = query.fetch_all(&self.read).await.map_err(&failed)?;
        rows.iter().map(resource).collect::<Result<_, _>>().map_err(&failed)
    }

    /// A version of a resource as the user wrote it; the latest when none is named.
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

    /// The resource in a row, with its secrets.
    pub(super) fn opened(&self, kind: Kind, row: &AnyRow) -> Result<StoredResource, Error> {
        let mut stored = resource(row).map_err(failed("load a definition"))?;
        stored.spec = self.unseal(&sealing::place(kind, &stored.id), stored.spec)?;
        Ok(stored)
    }

    /// A version of a test; the latest when none is named.
    pub async fn test(&self, id: &str, version: Option<u64>) -> Result<Option<StoredDefinition>, Error> {
        self.definition(Kind::Test, id, version).await
    }

    /// Removes a resource and all that belongs to it. `false` when it was not there.
    pub async fn delete(&self, kind: Kind, id: &str) -> Result<bool, Error> {
        let failed = failed("delete a definition");
        let mut transaction = self.write.begin().await.map_err(&failed)?;
        if kind == Kind::Test {
            let gone: Vec<i64> = sqlx::query_scalar(
                "DELETE FROM chunks WHERE trace_id IN (SELECT trace_id FROM runs WHERE test_id = $1)
                 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.trace_id = chunks.trace_id AND runs.test_id <> $1)
                 RETURNING size",
            )
            .bind(id)
            .fetch_all(&mut *transaction)
            .await
            .map_err(&failed)?;
            super::runs::release(&mut transaction, &gone).await?;
        }
        if kind == Kind::TestSuite {
            super::suites::delete_step_runs(&mut transaction, id, 0).await?;
        }
        // Versions, runs, events and histories go with it: the tables say so.
        let done = sqlx::query("DELETE FROM resources WHERE kind = $1 AND id = $2")
            .bind(kind.as_str())
            .bind(id)
            .execute(&mut *transaction)
            .await
            .map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        Ok(done.rows_affected() == 1)
    }
}

async fn insert_text(
    transaction: &mut sqlx::Transaction<'_, sqlx::Any>,
    new: &NewDefinition<'_>,
    version: u64,
    text: &str,
) -> Result<(), Error> {
    sqlx::query("INSERT INTO definitions (kind, id, version, format, text) VALUES ($1, $2, $3, $4, $5)")
        .bind(new.kind.as_str())
        .bind(new.id)
        .bind(signed(version))
        .bind(new.format)
        .bind(text)
        .execute(&mut **transaction)
        .await
        .map_err(failed("store a definition"))?;
    Ok(())
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

/// Bytes in the order in which people expect names: letters and digits first, whatever their case, then all the rest.
fn sort_key(name: &str) -> Vec<u8> {
    let letters: String =
        name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let mut key = letters.into_bytes();
    key.push(0);
    // Lower case comes before upper case where nothing else differs.
    key.extend(
        name.chars().filter(|letter| letter.is_alphanumeric()).map(|letter| u8::from(letter.is_uppercase())),
    );
    key.push(0);
    key.extend(name.bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_letters_then_case_then_the_rest() {
        let mut names = ["one-more-env", "Beta", "beta", ".env", "another-env", "", "alpha 2", "alpha 10"];
        names.sort_by_key(|name| sort_key(name));
        assert_eq!(names, ["", "alpha 10", "alpha 2", "another-env", "beta", "Beta", ".env", "one-more-env"]);
    }
}
