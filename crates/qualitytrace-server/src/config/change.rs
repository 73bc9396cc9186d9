//! What becomes of another configuration while the server runs.
//!
//! Only what can change then is taken over. A file that merely changed takes no protection away: it may be half written,
//! or a line may have got lost. Whoever asks for it with SIGHUP means it.

use super::{Config, Safety};
use crate::access::Access;

/// A setting that does not follow the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its key, or what its keys begin with.
    pub key: &'static str,
    /// What is in the way, and what helps.
    pub why: String,
}

impl Kept {
    /// Whether it is about the setting with this key.
    pub fn covers(&self, key: &str) -> bool {
        key.strip_prefix(self.key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} stays as it was: {}", self.key, self.why)
    }
}

impl Config {
    /// This configuration with what can change while the server runs taken from another one, and what was not taken.
    /// `asked` says that somebody told the server to read it. Certificates are the listeners' affair.
    pub(crate) fn changed(&self, wanted: Self, asked: bool) -> (Self, Vec<Kept>) {
        let mut next = Self {
            limits: wanted.limits,
            redact_headers: wanted.redact_headers,
            safety: Safety {
                access: Access { tokens: wanted.safety.access.tokens, otlp: self.safety.access.otlp },
                hosts: wanted.safety.hosts,
                ..self.safety.clone()
            },
            ..self.clone()
        };
        let kept = if asked { Vec::new() } else { next.protect(self) };
        (next, kept)
    }

    /// Takes back what would leave it with less protection than before.
    fn protect(&mut self, before: &Self) -> Vec<Kept> {
        let mut kept = Vec::new();
        let mut keep = |key, what: &str| {
            kept.push(Kept {
                key,
                why: format!("the changed file {what}; SIGHUP or a restart applies that"),
            });
        };
        let (tokens, had) = (&mut self.safety.access.tokens, &before.safety.access.tokens);
        if tokens.is_empty() && !had.is_empty() {
            keep("auth.tokens", "has no token any more");
            tokens.clone_from(had);
        }
        if let Some(lost) = lost(before.limits.deny.written(), self.limits.deny.written()) {
            keep("trigger.deny", &lost);
            self.limits.deny = before.limits.deny.clone();
        }
        if before.limits.verify_certificates && !self.limits.verify_certificates {
            keep("trigger.verifyCertificates", "does not demand it any more");
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

/// What a list has lost, in words.
fn lost<'t>(before: impl Iterator<Item = &'t str>, now: impl Iterator<Item = &'t str>) -> Option<String> {
    let now: Vec<&str> = now.collect();
    let lost: Vec<&str> = before.filter(|item| !now.contains(item)).collect();
    (!lost.is_empty()).then(|| format!("does not list {} any more", lost.join(", ")))
}
