//! Storing what users define: each change a version, none of them lost.

use qualitytrace_core::definition::secrets::Unknown;
use qualitytrace_core::definition::{self, Format, Kind, Resource, Stored};
use qualitytrace_core::time::Timestamp;
use sqlx::{Any, Transaction};

use super::chunks::signed;
use super::{Error, Store, StoredResource, failed, sealing};

/// The id of what a server has one of.
pub const CURRENT: &str = "current";
/// In place of the time of its last run, where there is none: clients know such as later than all others.
pub(super) const NEVER_RUN: i64 = i64::MAX;
/// What is said of a text that cannot be an id.
pub(crate) const NO_ID: &str =
    "an id has at most 256 bytes and no control characters, and is neither `.` nor `..`; choose another";
/// Bytes of an id. Everything that has one is asked for by a path that holds it, three letters for each byte.
const LONGEST_ID: usize = 256;

/// Whether a text can be an id.
pub(crate) fn is_id(id: &str) -> bool {
    id.len() <= LONGEST_ID && !matches!(id, "" | "." | "..") && !id.chars().any(char::is_control)
}

/// A resource on its way into the store.
#[derive(Debug, Clone)]
pub struct NewDefinition<'a> {
    /// What it is.
    pub kind: Kind,
    /// Names it, within its tenant.
    pub id: String,
    /// Whose it is; empty for nobody's.
    pub tenant: &'a str,
    /// For searches and sorting.
    pub name: String,
    /// For searches.
    pub description: String,
    /// For sorting: the type of a demo, empty for all else.
    pub sort_kind: String,
    /// How the text is written.
    pub format: Format,
    /// The definition, as the user wrote it.
    pub text: &'a str,
    /// What it means, as JSON. A version is a new meaning.
    pub spec: String,
}

impl<'a> NewDefinition<'a> {
    /// A resource that its user knows by this id and wrote like this. It is nobody's.
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
    /// It was there, just so.
    Same(StoredResource),
    /// It is there and was not to be.
    Exists,
    /// It is not there and was to be.
    Missing,
    /// It holds a mask that stands for nothing.
    Masked(Unknown),
}

impl Store {
    /// Stores a resource: a new one as version 1, a changed one as its next version.
    ///
    /// A text that means the same as the stored one takes its place without a new version, unless a program made JSON
    /// of what somebody wrote in YAML.
    pub async fn put(&self, new: &NewDefinition<'_>, mode: Mode, now: Timestamp) -> Result<Put, Error> {
        self.mark_key_for(std::slice::from_ref(new)).await?;
        let failed = failed("store a definition");
        let mut transaction = self.write.begin().await.map_err(&failed)?;
        let put = self.put_in(&mut transaction, new, mode, now).await?;
        if put.is_stored() {
            transaction.commit().await.map_err(&failed)?;
        }
        Ok(put)
    }

    /// Stores resources and the document of this name, all or none of them. Answers with the place of the first that
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
            let put = self.put_in(&mut transaction, new, Mode::Upsert, now).await?;
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
        now: Timestamp,
    ) -> Result<Put, Error> {
        loop {
            let latest = self.taken(transaction, new).await?;
            let (text, spec) = match sealing::filled(new, latest.as_ref()) {
                Ok(filled) => filled,
                Err(unknown) => return Ok(Put::Masked(unknown)),
            };
            let new = &NewDefinition { text: &text, spec, ..new.clone() };
            return Ok(match (latest, mode) {
                (Some(_), Mode::Create) => Put::Exists,
                (None, Mode::Update) => Put::Missing,
                (None, Mode::Create | Mode::Upsert) => match self.insert(transaction, new, now).await? {
                    Some(stored) => Put::Created(stored),
                    // Somebody else was faster: look again.
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

    /// The latest version of a resource, which nobody else can change before the transaction ends: whoever comes
    /// meanwhile waits instead of losing a race.
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

    /// `None` when the id was taken meanwhile.
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
            Self::Exists | Self::Missing | Self::Masked(_) => false,
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
