//! The key of a database: its mark, and what is sealed with it.

use std::sync::atomic::Ordering;

use qualitytrace_core::definition::Kind;

use super::{Error, Store};

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
    pub(super) async fn mark_key(&self) -> Result<(), Error> {
        if !self.is_key_marked.load(Ordering::Relaxed) {
            let mark = self.vault.seal(MARK, MARKED)?;
            self.add_document(MARK, &mark).await?;
            // Another server on the same database may have marked another key first.
            self.check_key().await?;
        }
        Ok(())
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
}

/// The context that a definition is sealed with.
pub(super) fn place(kind: Kind, id: &str) -> String {
    format!("{}/{id}", kind.as_str())
}

pub(super) fn run_place(test: &str) -> String {
    format!("runs of {test}")
}
