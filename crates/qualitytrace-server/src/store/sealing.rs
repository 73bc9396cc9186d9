//! Sealing of definitions with secrets: text and spec are sealed as a whole when stored, and opened when read.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use qualitytrace_core::definition::secrets::{Unknown, secrets, unmasked};
use qualitytrace_core::definition::{Format, Kind};

use super::{Error, NewDefinition, Store, StoredResource};

/// The document that marks the key of a database.
pub(super) const MARK: &str = "secrets";
/// Its content before it is sealed.
pub(super) const MARKED: &str = "the key of this database";

impl Store {
    /// Fails when the key is not the one of this database, before anything is sealed with it.
    pub(super) async fn check_key(&self) -> Result<(), Error> {
        if let Some(mark) = self.document(MARK).await? {
            self.vault.unseal(MARK, mark)?;
            self.is_key_marked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Stores the key mark before the first secret is sealed.
    async fn mark_key(&self) -> Result<(), Error> {
        if !self.is_key_marked.load(Ordering::Relaxed) {
            let mark = self.vault.seal(MARK, MARKED)?;
            self.add_document(MARK, &mark).await?;
            // Another server on the same database may have marked another key first.
            self.check_key().await?;
        }
        Ok(())
    }

    /// Stores the key mark if these definitions hold a secret.
    pub(super) async fn mark_key_for(&self, new: &[NewDefinition<'_>]) -> Result<(), Error> {
        if new.iter().any(has_secrets) { self.mark_key().await } else { Ok(()) }
    }

    /// Opens a text that may be sealed.
    pub(super) fn unseal(&self, belongs_to: &str, text: String) -> Result<String, Error> {
        Ok(self.vault.unseal(belongs_to, text)?)
    }

    /// Seals a secret variable of a run.
    pub async fn seal_variable(&self, test: &str, value: &str) -> Result<String, Error> {
        self.mark_key().await?;
        Ok(self.vault.seal(&run_place(test), value)?)
    }

    /// Opens a secret variable of a run.
    pub fn unseal_variable(&self, test: &str, sealed: &str) -> Result<String, Error> {
        self.unseal(&run_place(test), sealed.to_owned())
    }

    /// Returns text and spec as they are stored: sealed if they hold secrets. The key must be marked before.
    pub(super) fn kept<'n>(&self, new: &'n NewDefinition<'_>) -> Result<(Cow<'n, str>, Cow<'n, str>), Error> {
        if !has_secrets(new) {
            return Ok((Cow::Borrowed(new.text), Cow::Borrowed(&new.spec)));
        }
        let place = place(new.kind, &new.id);
        Ok((self.vault.seal(&place, new.text)?.into(), self.vault.seal(&place, &new.spec)?.into()))
    }
}

/// The text is checked as well: a secret under a mistyped name is not in the spec.
fn has_secrets(new: &NewDefinition<'_>) -> bool {
    !secrets(&in_envelope(&new.spec), Format::Json, new.kind).is_empty()
        || !secrets(new.text, new.format, new.kind).is_empty()
}

/// The context that a definition is sealed with.
pub(super) fn place(kind: Kind, id: &str) -> String {
    format!("{}/{id}", kind.as_str())
}

pub(super) fn run_place(test: &str) -> String {
    format!("runs of {test}")
}

/// Replaces the masks in text and spec with the stored secrets.
pub(super) fn filled(
    new: &NewDefinition<'_>,
    stored: Option<&StoredResource>,
) -> Result<(String, String), Unknown> {
    let known =
        stored.map_or_else(Vec::new, |stored| secrets(&in_envelope(&stored.spec), Format::Json, new.kind));
    let fill = |text: &str, format| unmasked(text, format, new.kind, &known).map(Cow::into_owned);
    let spec = fill(&in_envelope(&new.spec), Format::Json)?;
    let spec = spec.strip_prefix(ENVELOPE.0).and_then(|spec| spec.strip_suffix(ENVELOPE.1));
    Ok((fill(new.text, new.format)?, spec.unwrap_or(&new.spec).to_owned()))
}

const ENVELOPE: (&str, &str) = ("{\"spec\":", "}");

fn in_envelope(spec: &str) -> String {
    format!("{}{spec}{}", ENVELOPE.0, ENVELOPE.1)
}
