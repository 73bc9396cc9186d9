//! Upserts of definitions: every change is a new version.

mod secrets;

use qualitytrace_core::definition::secrets::MaskError;
use qualitytrace_core::definition::{self, Format, Kind, Resource, Stored};
use qualitytrace_core::time::Timestamp;
use sqlx::{Any, Transaction};

use super::chunks::signed;
use super::{Error, Store, StoredResource, facets, failed};

/// The id of resources that exist once per server.
pub const CURRENT: &str = "current";
/// Stored as the last run of a resource that never ran: clients take it for later than all others.
pub(super) const NEVER_RUN: i64 = i64::MAX;
/// The error text for an invalid id.
pub(crate) const NO_ID: &str =
    "an id has at most 256 bytes and no control characters, and is neither `.` nor `..`; choose another";
/// The longest id in bytes. Ids are part of request paths, where an escaped byte takes three characters.
const LONGEST_ID: usize = 256;

/// The longest sort key in bytes: PostgreSQL refuses rows of an index beyond 2,704.
const LONGEST_SORT_KEY: usize = 1_024;

/// Whether a text is a valid id.
pub(crate) fn is_id(id: &str) -> bool {
    id.len() <= LONGEST_ID && !matches!(id, "" | "." | "..") && !id.chars().any(char::is_control)
}

/// A resource to be stored.
#[derive(Debug, Clone)]
pub struct NewDefinition<'a> {
    /// The kind of resource.
    pub kind: Kind,
    /// The id within its tenant.
    pub id: String,
    /// The tenant; empty for none.
    pub tenant: &'a str,
    /// For searches and sorting.
    pub name: String,
    /// For searches.
    pub description: String,
    /// For sorting: the type of a demo, empty for all else.
    pub sort_kind: String,
    /// The format of the text.
    pub format: Format,
    /// The definition, as the user wrote it.
    pub text: &'a str,
    /// The parsed definition as JSON. A change of it makes a new version.
    pub spec: String,
}

impl<'a> NewDefinition<'a> {
    /// A resource with this id and definition text, without a tenant.
    pub fn of(resource: &Resource, id: &str, format: Format, text: &'a str) -> Self {
        let spec =
            definition::to_spec_json(resource, &Stored { id: Some(id.to_owned()), ..Stored::default() });
        let of = |key: &str| spec[key].as_str().unwrap_or_default().to_owned();
        let kind = resource.kind();
        Self {
            kind,
            id: id.to_owned(),
            tenant: "",
            name: of("name"),
            description: of("description"),
            sort_kind: if kind == Kind::Demo { of("type") } else { String::new() },
            format,
            text,
            spec: spec.to_string(),
        }
    }
}

/// Whether the resource must exist, must not exist, or either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Must not exist.
    Create,
    /// Must exist.
    Update,
    /// May exist.
    Upsert,
}

/// The versions that a writer expects to replace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Expected {
    /// Any, and none.
    #[default]
    Anything,
    /// Any that is stored.
    Stored,
    /// One of these; 0 is that of a resource that is not stored.
    OneOf(Vec<u64>),
}

impl Expected {
    fn holds(&self, version: u64) -> bool {
        match self {
            Self::Anything => true,
            Self::Stored => version > 0,
            Self::OneOf(versions) => versions.contains(&version),
        }
    }
}

/// The outcome of an upsert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    /// The resource is new.
    Created(StoredResource),
    /// The resource has a new version.
    Updated(StoredResource),
    /// The stored resource has the same meaning.
    Same(StoredResource),
    /// The resource exists, and [`Mode::Create`] was given.
    Exists,
    /// The resource does not exist, and [`Mode::Update`] was given.
    Missing,
    /// The definition holds a redaction mask for which no secret is stored.
    Masked(MaskError),
    /// The stored version is not an expected one; 0 if none is stored.
    Conflict {
        /// The stored version.
        version: u64,
    },
}

impl Store {
    /// Stores a resource: a new one as version 1, a changed one as its next version.
    ///
    /// A text with the same meaning replaces the stored text without a new version, unless it is JSON and the
    /// stored text is YAML: then a program converted what a user wrote.
    pub async fn put(&self, new: &NewDefinition<'_>, mode: Mode, now: Timestamp) -> Result<Put, Error> {
        self.put_expecting(new, mode, &Expected::Anything, now).await
    }

    /// Stores a resource if the stored version is an expected one. Of concurrent writers that expect the same version
    /// only one succeeds, provided that it stores another version.
    pub async fn put_expecting(
        &self,
        new: &NewDefinition<'_>,
        mode: Mode,
        expected: &Expected,
        now: Timestamp,
    ) -> Result<Put, Error> {
        self.mark_key_for(std::slice::from_ref(new)).await?;
        let failed = failed("store a definition");
        let mut transaction = self.write.begin().await.map_err(&failed)?;
        let put = self.put_in(&mut transaction, new, mode, expected, now).await?;
        if put.is_stored() {
            transaction.commit().await.map_err(&failed)?;
        }
        Ok(put)
    }

    /// Stores resources and the document of this name, all or none. Returns the index of the first resource that
    /// cannot be stored, and why.
    pub async fn put_all(
        &self,
        new: &[NewDefinition<'_>],
        document: &str,
        now: Timestamp,
    ) -> Result<Result<(), (usize, Put)>, Error> {
        self.mark_key_for(new).await?;
        let failed = failed("store definitions");
        let mut transaction = self.write.begin().await.map_err(&failed)?;
        for (at, new) in new.iter().enumerate() {
            let put = self.put_in(&mut transaction, new, Mode::Upsert, &Expected::Anything, now).await?;
            if !put.is_stored() {
                return Ok(Err((at, put)));
            }
        }
        super::documents::put(&mut *transaction, document, "true").await.map_err(&failed)?;
        transaction.commit().await.map_err(&failed)?;
        Ok(Ok(()))
    }

    async fn put_in(
        &self,
        transaction: &mut Transaction<'_, Any>,
        new: &NewDefinition<'_>,
        mode: Mode,
        expected: &Expected,
        now: Timestamp,
    ) -> Result<Put, Error> {
        loop {
            // The row is locked from here on: no other writer can change the version that is compared.
            let latest = self.taken(transaction, new).await?;
            let is_missing = mode == Mode::Update && latest.is_none();
            let version = latest.as_ref().map_or(0, |latest| latest.version);
            if !is_missing && !expected.holds(version) {
                return Ok(Put::Conflict { version });
            }
            let (text, spec) = match secrets::filled(new, latest.as_ref()) {
                Ok(filled) => filled,
                Err(unknown) => return Ok(Put::Masked(unknown)),
            };
            let new = &NewDefinition { text: &text, spec, ..new.clone() };
            return Ok(match (latest, mode) {
                (Some(_), Mode::Create) => Put::Exists,
                (None, Mode::Update) => Put::Missing,
                (None, Mode::Create | Mode::Upsert) => match self.insert(transaction, new, now).await? {
                    Some(stored) => Put::Created(stored),
                    // Another transaction inserted it first: load it and try again.
                    None => continue,
                },
                (Some(known), Mode::Update | Mode::Upsert) if known.spec == new.spec => {
                    self.replace_text(transaction, new, known.version).await?;
                    Put::Same(known)
                }
                (Some(known), Mode::Update | Mode::Upsert) => {
                    Put::Updated(self.advance(transaction, new, known).await?)
                }
            });
        }
    }

    /// Loads the latest version of a resource and locks its row until the transaction ends: concurrent writers wait
    /// instead of losing a race.
    async fn taken(
        &self,
        transaction: &mut Transaction<'_, Any>,
        new: &NewDefinition<'_>,
    ) -> Result<Option<StoredResource>, Error> {
        let row = sqlx::query(
            "UPDATE resources SET version = version WHERE kind = $1 AND id = $2 RETURNING id, version, created, spec",
        )
        .bind(new.kind.as_str())
        .bind(&new.id)
        .fetch_optional(&mut **transaction)
        .await
        .map_err(failed("load a definition"))?;
        row.map(|row| self.opened(new.kind, &row)).transpose()
    }

    /// `None` when another transaction took the id.
    async fn insert(
        &self,
        transaction: &mut Transaction<'_, Any>,
        new: &NewDefinition<'_>,
        now: Timestamp,
    ) -> Result<Option<StoredResource>, Error> {
        let (text, spec) = self.kept(new)?;
        let done = sqlx::query(
            "INSERT INTO resources
             (kind, id, tenant, version, created, name, description, sort_name, sort_kind, last_run, spec)
             VALUES ($1, $2, $3, 1, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING",
        )
        .bind(new.kind.as_str())
        .bind(&new.id)
        .bind(new.tenant)
        .bind(signed(now.as_nanos()))
        .bind(new.name.to_lowercase())
        .bind(new.description.to_lowercase())
        .bind(sort_key(&new.name))
        .bind(sort_key(&new.sort_kind))
        .bind(NEVER_RUN)
        .bind(&*spec)
        .execute(&mut **transaction)
        .await
        .map_err(failed("store a definition"))?;
        if done.rows_affected() == 0 {
            return Ok(None);
        }
        insert_text(transaction, new, 1, &text).await?;
        facets::replace(transaction, new.kind, &new.id, &new.spec)
            .await
            .map_err(failed("store a definition"))?;
        Ok(Some(StoredResource { id: new.id.clone(), version: 1, created: now, spec: new.spec.clone() }))
    }

    async fn advance(
        &self,
        transaction: &mut Transaction<'_, Any>,
        new: &NewDefinition<'_>,
        known: StoredResource,
    ) -> Result<StoredResource, Error> {
        let version = known.version + 1;
        let (text, spec) = self.kept(new)?;
        sqlx::query(
            "UPDATE resources SET version = $1, name = $2, description = $3, sort_name = $4, sort_kind = $5, spec = $6
             WHERE kind = $7 AND id = $8",
        )
        .bind(signed(version))
        .bind(new.name.to_lowercase())
        .bind(new.description.to_lowercase())
        .bind(sort_key(&new.name))
        .bind(sort_key(&new.sort_kind))
        .bind(&*spec)
        .bind(new.kind.as_str())
        .bind(&new.id)
        .execute(&mut **transaction)
        .await
        .map_err(failed("store a definition"))?;
        insert_text(transaction, new, version, &text).await?;
        facets::replace(transaction, new.kind, &new.id, &new.spec)
            .await
            .map_err(failed("store a definition"))?;
        Ok(StoredResource { version, spec: new.spec.clone(), ..known })
    }

    async fn replace_text(
        &self,
        transaction: &mut Transaction<'_, Any>,
        new: &NewDefinition<'_>,
        version: u64,
    ) -> Result<(), Error> {
        let (text, _) = self.kept(new)?;
        sqlx::query(
            "UPDATE definitions SET format = $1, text = $2
             WHERE kind = $3 AND id = $4 AND version = $5 AND text <> $2 AND (format <> 'yaml' OR $1 = 'yaml')",
        )
        .bind(word(new.format))
        .bind(&*text)
        .bind(new.kind.as_str())
        .bind(&new.id)
        .bind(signed(version))
        .execute(&mut **transaction)
        .await
        .map_err(failed("store a definition"))?;
        Ok(())
    }
}

impl Put {
    fn is_stored(&self) -> bool {
        match self {
            Self::Created(_) | Self::Updated(_) | Self::Same(_) => true,
            Self::Exists | Self::Missing | Self::Masked(_) | Self::Conflict { .. } => false,
        }
    }
}

async fn insert_text(
    transaction: &mut Transaction<'_, Any>,
    new: &NewDefinition<'_>,
    version: u64,
    text: &str,
) -> Result<(), Error> {
    sqlx::query("INSERT INTO definitions (kind, id, version, format, text) VALUES ($1, $2, $3, $4, $5)")
        .bind(new.kind.as_str())
        .bind(&new.id)
        .bind(signed(version))
        .bind(word(new.format))
        .bind(text)
        .execute(&mut **transaction)
        .await
        .map_err(failed("store a definition"))?;
    Ok(())
}

const fn word(format: Format) -> &'static str {
    match format {
        Format::Yaml => "yaml",
        Format::Json => "json",
    }
}

/// The sort key of a name: letters and digits first, case-insensitive, then all the rest.
fn sort_key(name: &str) -> Vec<u8> {
    let letters: String =
        name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let mut key = letters.into_bytes();
    key.push(0);
    // Lower case sorts before upper case where nothing else differs.
    key.extend(
        name.chars().filter(|letter| letter.is_alphanumeric()).map(|letter| u8::from(letter.is_uppercase())),
    );
    key.push(0);
    key.extend(name.bytes());
    key.truncate(LONGEST_SORT_KEY);
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
