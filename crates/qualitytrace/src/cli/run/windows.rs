//! The windows of a wait as flags.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use qualitytrace_core::wait::Policy;
use serde_json::{Map, Value};

use crate::cli::run::durations::duration;

/// How to wait, whatever a polling profile says.
#[derive(Debug, Clone, Args)]
pub(super) struct Windows {
    /// Silence that ends a wait when nothing is owed, like 150ms; for less output, there is -q
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    quiet: Option<Duration>,
    /// Silence that ends a wait although spans may still arrive, like 6s
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    settle: Option<Duration>,
    /// The longest wait for a trace, like 1m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// How long after the rest of a trace the spans of a spec may end that says nothing about it, like 30s
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    within: Option<Duration>,
}

impl Windows {
    pub(super) fn policy(&self) -> Policy {
        Policy {
            quiet: self.quiet.unwrap_or(Policy::DEFAULT.quiet),
            settle: self.settle.unwrap_or(Policy::DEFAULT.settle),
            timeout: self.timeout.unwrap_or(Policy::DEFAULT.timeout),
            within: self.within.or(Policy::DEFAULT.within),
        }
    }

    /// The settle window of first runs whose services deliver promptly, which health checks can prove; `None` where the
    /// user has set one.
    pub(super) fn prompt_settle(&self, has_health_checks: bool) -> Option<Duration> {
        (has_health_checks && self.settle.is_none()).then_some(Policy::PROMPT.settle)
    }

    /// Fails on windows that contradict each other. The defaults of another server are not known here.
    pub(super) fn check(&self, is_own: bool) -> anyhow::Result<()> {
        let settle = self.settle.or(is_own.then_some(Policy::DEFAULT.settle));
        if let Some((quiet, settle)) = self.quiet.zip(settle).filter(|(quiet, settle)| quiet > settle) {
            bail!(
                "--quiet {quiet:?} is longer than --settle {settle:?}: a wait that owes nothing would take longer than one \
                 that does; give a shorter --quiet or a longer --settle"
            );
        }
        Ok(())
    }

    /// Puts them into a polling profile.
    pub(super) fn put_into(&self, profile: &mut Map<String, Value>) {
        let text = |time: Duration| match time.subsec_nanos() % 1_000_000 {
            0 => format!("{}ms", time.as_millis()),
            _ => format!("{}ns", time.as_nanos()),
        };
        let periodic = profile.entry("periodic").or_insert_with(|| Value::Object(Map::new()));
        for (name, window) in self.given() {
            if let Some(window) = window {
                periodic[name] = text(window).into();
            }
        }
    }

    pub(super) fn are_given(&self) -> bool {
        self.given().iter().any(|(_, window)| window.is_some())
    }

    /// The windows by their names in a polling profile.
    fn given(&self) -> [(&'static str, Option<Duration>); 4] {
        let Self { quiet, settle, timeout, within } = *self;
        [("quiet", quiet), ("settle", settle), ("timeout", timeout), ("within", within)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_a_profile() {
        let mut profile = Map::new();
        profile.insert("periodic".to_owned(), serde_json::json!({ "settle": "9s", "timeout": "20s" }));
        let windows =
            Windows { quiet: None, settle: Some(Duration::from_secs(1)), timeout: None, within: None };
        windows.put_into(&mut profile);
        assert_eq!(profile["periodic"], serde_json::json!({ "settle": "1000ms", "timeout": "20s" }));
    }
}
