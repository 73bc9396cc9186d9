//! What the server's settings say about a run.

use qualitytrace_core::definition::settings::Strategy;
use qualitytrace_core::definition::{
    self, Analyzer, Format, Kind, PollingProfile, Resource, Stored, Test, Trigger,
};
use qualitytrace_core::wait::Policy;

use super::{Error, Runner};
use crate::store::CURRENT;

impl Runner {
    /// How to wait for the trace of a test: as the current polling profile says, where a user has stored one.
    pub(super) async fn policy(&self, _test: &Test) -> Result<Policy, Error> {
        let Some(Resource::PollingProfile(profile)) = self.setting(Kind::PollingProfile).await? else {
            return Ok(self.policy);
        };
        Ok(policy(&self.policy, &profile))
    }

    /// What the analyzer looks at.
    pub(super) async fn analyzer(&self) -> Result<Analyzer, Error> {
        match self.setting(Kind::Analyzer).await? {
            Some(Resource::Analyzer(analyzer)) => Ok(analyzer),
            _ => Ok(Analyzer::default()),
        }
    }

    /// What a user has stored of this kind.
    async fn setting(&self, kind: Kind) -> Result<Option<Resource>, Error> {
        let Some(stored) = self.store.resource(kind, CURRENT).await? else {
            return Ok(None);
        };
        let text = format!("{{\"spec\":{}}}", stored.spec);
        let reading = definition::read_as(&text, Format::Json, kind);
        Ok(reading.documents.into_iter().next().map(|document| document.resource))
    }
}

/// The policy with what a profile says put in.
fn policy(base: &Policy, profile: &PollingProfile) -> Policy {
    let mut policy = *base;
    if profile.strategy == Strategy::Periodic && profile.is_periodic_given {
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
