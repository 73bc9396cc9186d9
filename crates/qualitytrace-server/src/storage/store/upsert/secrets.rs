//! Secrets of a definition to be stored: text and spec are sealed as a whole, and masks are replaced with what is stored.

use std::borrow::Cow;

use qualitytrace_core::definition::Format;
use qualitytrace_core::definition::secrets::{Destination, MaskError, StoredSecrets, secrets, unmasked};

use super::super::sealing::place;
use super::super::{Error, Store, StoredResource};
use super::NewDefinition;

impl Store {
    /// Stores the key mark if these definitions hold a secret.
    pub(super) async fn mark_key_for(&self, new: &[NewDefinition<'_>]) -> Result<(), Error> {
        if new.iter().any(has_secrets) { self.mark_key().await } else { Ok(()) }
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

/// Replaces the masks in text and spec with the stored secrets.
pub(super) fn filled(
    new: &NewDefinition<'_>,
    stored: Option<&StoredResource>,
) -> Result<(String, String), MaskError> {
    let known = stored.map(|stored| StoredSecrets::of(&stored.spec, new.kind)).unwrap_or_default();
    let destination = Destination::of(&new.spec, new.kind);
    let fill =
        |text: &str, format| unmasked(text, format, new.kind, &known, &destination).map(Cow::into_owned);
    let spec = fill(&in_envelope(&new.spec), Format::Json)?;
    let spec = spec.strip_prefix(ENVELOPE.0).and_then(|spec| spec.strip_suffix(ENVELOPE.1));
    Ok((fill(new.text, new.format)?, spec.unwrap_or(&new.spec).to_owned()))
}

const ENVELOPE: (&str, &str) = ("{\"spec\":", "}");

fn in_envelope(spec: &str) -> String {
    format!("{}{spec}{}", ENVELOPE.0, ENVELOPE.1)
}
