//! What the server's settings say about a run.

use qualitytrace_core::analyzer::analyze;
use qualitytrace_core::definition::settings::Strategy;
use qualitytrace_core::definition::{
    self, Analyzer, Format, Kind, PollingProfile, Profile, Resource, Stored, Test, Trigger,
};
use qualitytrace_core::trace::Trace;
use qualitytrace_core::wait::Policy;

use super::patience::patiently;
use super::{Error, Runner};
use crate::store::{CURRENT, beside};
use crate::wire::run;

impl Runner {
    /// How to wait for the trace of a test: as its own polling profile says, or the current one, where a user has stored
    /// one. `None` when it is not to be waited for.
    pub(super) async fn policy(&self, id: &str, test: &Test) -> Result<Option<Policy>, Error> {
        if test.skip_trace_collection {
            return Ok(None);
        }
        let profile = match &test.polling_profile {
            Some(Profile::Own(profile)) => Some(PollingProfile::clone(profile)),
            Some(Profile::Named(_)) | None => match self.setting(Kind::PollingProfile, id).await? {
                Some(Resource::PollingProfile(profile)) => Some(profile),
                _ => None,
            },
        };
        Ok(match profile {
            Some(profile) if profile.strategy == Strategy::NoPolling => None,
            Some(profile) => Some(policy(&self.policy, &profile)),
            None => Some(self.policy),
        })
    }

    /// What the analyzer looks at in traces of this test.
    async fn analyzer(&self, id: &str) -> Result<Analyzer, Error> {
        match self.setting(Kind::Analyzer, id).await? {
            Some(Resource::Analyzer(analyzer)) => Ok(analyzer),
            _ => Ok(Analyzer::default()),
        }
    }

    /// What the analyzer says about a trace of this test; nothing when it is switched off.
    pub(super) async fn analysis(&self, id: &str, trace: &Trace) -> Result<Option<run::Linter>, Error> {
        let report = analyze(&self.analyzer(id).await?, trace);
        Ok(report.map(|report| run::analysis(&report)))
    }

    /// What the one who the test belongs to has stored of this kind.
    async fn setting(&self, kind: Kind, test: &str) -> Result<Option<Resource>, Error> {
        let id = beside(test, CURRENT);
        let stored = patiently(|| async { Ok(self.store.resource(kind, &id).await?) }).await?;
        let Some(stored) = stored else { return Ok(None) };
        let text = format!("{{\"spec\":{}}}", stored.spec);
        let reading = definition::read_as(&text, Format::Json, kind);
        Ok(reading.documents.into_iter().next().map(|document| document.resource))
    }
}

/// The policy with what a profile says put in.
fn policy(base: &Policy, profile: &PollingProfile) -> Policy {
    let mut policy = *base;
    if profile.is_periodic_given {
        policy.timeout = profile.timeout.duration;
    }
    if let Some(quiet) = &profile.quiet {
        policy.quiet = quiet.duration;
    }
    if let Some(settle) = &profile.settle {
        policy.settle = settle.duration;
    }
    // A user who wants an answer soon does not want to hear that it could have been another a little later.
    policy.settle = policy.settle.min(policy.timeout * 3 / 4);
    policy
}

/// A resolved trigger in the form of a definition.
pub(super) fn shown_trigger(test: &Test, trigger: &Trigger) -> serde_json::Value {
    let resolved =
        Test { trigger: Some(trigger.clone()), ..Test { name: test.name.clone(), ..Test::default() } };
    let mut spec = definition::to_spec_json(&Resource::Test(resolved), &Stored::default());
    spec["trigger"].take()
}
