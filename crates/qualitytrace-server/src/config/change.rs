//! Configuration changes while the server runs.
//!
//! Only live settings are applied. A file that merely changed cannot remove protection: it may be half written, or a
//! line may have got lost. SIGHUP applies such a change, because it is an explicit request.

use super::{Config, Safety};
use crate::http::access::Access;

/// A setting that was not changed by a reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnchangedSetting {
    /// Its key, or the prefix of its keys.
    pub key: &'static str,
    /// Why it was kept, and how to apply it.
    pub why: String,
}

impl UnchangedSetting {
    /// Whether this is about the setting with this key.
    pub fn covers(&self, key: &str) -> bool {
        key.strip_prefix(self.key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl std::fmt::Display for UnchangedSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} stays as it was: {}", self.key, self.why)
    }
}

impl Config {
    /// Returns this configuration with the live settings taken from another one, and those that were not taken. `asked`
    /// is true for an explicit request to reload. Certificates are replaced by the listeners.
    pub(crate) fn changed(&self, wanted: Self, asked: bool) -> (Self, Vec<UnchangedSetting>) {
        let mut next = Self {
            limits: wanted.limits,
            redact_headers: wanted.redact_headers,
            safety: Safety {
                access: Access { tokens: wanted.safety.access.tokens, otlp: self.safety.access.otlp },
                hosts: wanted.safety.hosts,
                data_store_files: wanted.safety.data_store_files,
                ..self.safety.clone()
            },
            ..self.clone()
        };
        let kept = if asked { Vec::new() } else { next.protect(self) };
        (next, kept)
    }

    /// Reverts changes that would remove protection.
    fn protect(&mut self, before: &Self) -> Vec<UnchangedSetting> {
        let mut kept = Vec::new();
        let mut keep = |key, what: &str| {
            kept.push(UnchangedSetting {
                key,
                why: format!("the changed file {what}; SIGHUP or a restart applies that"),
            });
        };
        let (tokens, had) = (&mut self.safety.access.tokens, &before.safety.access.tokens);
        if tokens.is_empty() && !had.is_empty() {
            keep("auth.tokens", "no longer has a token");
            tokens.clone_from(had);
        }
        if let Some(lost) = lost(before.limits.deny.written(), self.limits.deny.written()) {
            keep("trigger.deny", &lost);
            self.limits.deny = before.limits.deny.clone();
        }
        if before.limits.verify_certificates && !self.limits.verify_certificates {
            keep("trigger.verifyCertificates", "no longer requires it");
            self.limits.verify_certificates = true;
        }
        let names = |config: &Self| config.redact_headers.clone();
        if let Some(lost) =
            lost(names(before).iter().map(String::as_str), names(self).iter().map(String::as_str))
        {
            keep("redact.headers", &lost);
            self.redact_headers = names(before);
        }
        kept
    }
}

/// Describes the items that are missing from a list now.
fn lost<'t>(before: impl Iterator<Item = &'t str>, now: impl Iterator<Item = &'t str>) -> Option<String> {
    let now: Vec<&str> = now.collect();
    let lost: Vec<&str> = before.filter(|item| !now.contains(item)).collect();
    (!lost.is_empty()).then(|| format!("no longer lists {}", lost.join(", ")))
}
