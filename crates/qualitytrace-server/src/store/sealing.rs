//! Which texts hold secrets, and how they are kept: sealed as a whole, and opened where they are read.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use qualitytrace_core::definition::secrets::{secrets, unmasked};
use qualitytrace_core::definition::{Format, Kind};

use super::{Error, NewDefinition, Store, StoredResource};

/// The document by which a database knows its key.
const MARK: &str = "secrets";
/// What it says.
const MARKED: &str = "the key of this database";

impl Store {
    /// Refuses a key that is not the one of this database, before anything is sealed with it.
    pub(super) async fn check_key(&self) -> Result<(), Error> {
        if let Some(mark) = self.document(MARK).await? {
            self.vault.unseal(MARK, mark)?;
            self.is_key_marked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Seals a text that belongs to something.
    pub(super) async fn seal(&self, belongs_to: &str, text: &str) -> Result<String, Error> {
        if !self.is_key_marked.load(Ordering::Relaxed) {
            let mark = self.vault.seal(MARK, MARKED)?;
            self.add_document(MARK, &mark).await?;
            // Another server on the same database may have been faster, with another key.
            self.check_key().await?;
        }
        Ok(self.vault.seal(belongs_to, text)?)
    }

    /// Opens a text that may be sealed.
    pub(super) fn unseal(&self, belongs_to: &str, text: String) -> Result<String, Error> {
        Ok(self.vault.unseal(belongs_to, text)?)
    }

    /// Seals a secret that a run of a test was given.
    pub async fn seal_variable(&self, test: &str, value: &str) -> Result<String, Error> {
        self.seal(&run_place(test), value).await
    }

    /// Opens such a secret.
    pub fn unseal_variable(&self, test: &str, sealed: &str) -> Result<String, Error> {
        self.unseal(&run_place(test), sealed.to_owned())
    }

    /// The definition and its meaning as they are kept.
    pub(super) async fn kept<'n>(
        &self,
        new: &'n NewDefinition<'_>,
    ) -> Result<(Cow<'n, str>, Cow<'n, str>), Error> {
        if secrets(&in_envelope(&new.spec), Format::Json, new.kind).is_empty() {
            return Ok((Cow::Borrowed(new.text), Cow::Borrowed(&new.spec)));
        }
        let place = place(new.kind, new.id);
        Ok((self.seal(&place, new.text).await?.into(), self.seal(&place, &new.spec).await?.into()))
    }
}

/// What a definition is sealed as.
pub(super) fn place(kind: Kind, id: &str) -> String {
    format!("{}/{id}", kind.as_str())
}

fn run_place(test: &str) -> String {
    format!("runs of {test}")
}

/// Text and meaning of a definition with the stored secrets in place of their masks; the name of one that is not
/// stored.
pub(super) fn filled(
    new: &NewDefinition<'_>,
    stored: Option<&StoredResource>,
) -> Result<(String, String), String> {
    let known =
        stored.map_or_else(Vec::new, |stored| secrets(&in_envelope(&stored.spec), Format::Json, new.kind));
    let format = if new.format == "json" { Format::Json } else { Format::Yaml };
    let fill = |text: &str, format| {
        unmasked(text, format, new.kind, &known).map(Cow::into_owned).map_err(|unknown| unknown.name)
    };
    let spec = fill(&in_envelope(&new.spec), Format::Json)?;
    let spec = spec.strip_prefix(ENVELOPE.0).and_then(|spec| spec.strip_suffix(ENVELOPE.1));
    Ok((fill(new.text, format)?, spec.unwrap_or(&new.spec).to_owned()))
}

const ENVELOPE: (&str, &str) = ("{\"spec\":", "}");

fn in_envelope(spec: &str) -> String {
    format!("{}{spec}{}", ENVELOPE.0, ENVELOPE.1)
}
