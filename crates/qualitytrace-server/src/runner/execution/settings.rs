//! Settings that apply to a run: polling profile and analyzer.

use std::sync::Arc;
use std::time::Duration;

use qualitytrace_core::analyzer::{Analyzer, analyze};
use qualitytrace_core::definition::settings::Strategy;
use qualitytrace_core::definition::{
    self, Format, Kind, PollingProfile, Profile, Reading, Resource, Stored, Test, Trigger,
};
use qualitytrace_core::trace::Trace;
use qualitytrace_core::wait::{Policy, UninstrumentedPeers};
use serde_json::{Map, Value};

use super::Execution;
use crate::runner::Error;
use crate::runner::retry::retry_while_unavailable;
use crate::storage::store::{CURRENT, beside};
use crate::wire::request::RunSettings;
use crate::wire::run;

/// How to wait for a trace.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) policy: Policy,
    /// The settle window of a first run whose services deliver promptly, unless the profile sets one.
    pub(super) prompt_settle: Option<Duration>,
    /// Whether the verdict waits for the trace; otherwise it is judged as it arrives.
    pub(super) is_awaited: bool,
    /// Services that send no spans.
    pub(super) uninstrumented: Arc<UninstrumentedPeers>,
    /// How long a failure by absence is rechecked before it is reported, if the profile says so.
    pub(super) confirm: Option<Duration>,
}

impl Execution {
    /// Returns how to wait for the trace of a test: by its own polling profile, or by the current one, if stored.
    /// `None` when no trace is collected.
    pub(super) async fn waiting(
        &self,
        id: &str,
        test: &Test,
        own: &RunSettings,
    ) -> Result<Option<Waiting>, Error> {
        if test.skip_trace_collection {
            return Ok(None);
        }
        let profile = match &test.polling_profile {
            Some(Profile::Own(profile)) => Some(PollingProfile::clone(profile)),
            Some(Profile::Named(_)) | None => match self.setting(Kind::PollingProfile, id, own).await? {
                Some(Resource::PollingProfile(profile)) => Some(profile),
                _ => None,
            },
        };
        let limits = &self.config.get().limits;
        let of_all = limits.uninstrumented.clone();
        let has_settle = profile.as_ref().is_some_and(|profile| profile.settle.is_some());
        let of_profile = profile.iter().flat_map(|profile| &profile.uninstrumented);
        let of_test = test.uninstrumented.iter().chain(&own.uninstrumented);
        let uninstrumented = of_all.iter().chain(of_profile).chain(of_test).cloned().collect();
        Ok(Some(Waiting {
            prompt_settle: limits.prompt_settle.filter(|_| !has_settle),
            is_awaited: profile.as_ref().is_none_or(|profile| profile.strategy != Strategy::NoPolling),
            policy: profile.as_ref().map_or(self.policy, |profile| policy(&self.policy, profile)),
            uninstrumented: Arc::new(uninstrumented),
            confirm: profile.and_then(|profile| profile.confirm).map(|confirm| confirm.duration),
        }))
    }

    /// Loads the analyzer configuration for traces of this test.
    async fn analyzer(&self, id: &str, own: &RunSettings) -> Result<Analyzer, Error> {
        match self.setting(Kind::Analyzer, id, own).await? {
            Some(Resource::Analyzer(analyzer)) => Ok(analyzer),
            _ => Ok(Analyzer::default()),
        }
    }

    /// Analyzes a trace of this test; `None` when the analyzer is disabled.
    pub(super) async fn analysis(
        &self,
        id: &str,
        trace: &Trace,
        own: &RunSettings,
    ) -> Result<Option<run::Linter>, Error> {
        let report = analyze(&self.analyzer(id, own).await?, trace);
        Ok(report.map(|report| run::analysis(&report)))
    }

    /// Loads a setting: from the run's request, or else from the tenant of the test.
    async fn setting(&self, kind: Kind, test: &str, own: &RunSettings) -> Result<Option<Resource>, Error> {
        if let Some(spec) = own.of(kind) {
            return Ok(resource(kind, &Value::Object(spec.clone()).to_string()));
        }
        let id = beside(test, CURRENT);
        let stored = retry_while_unavailable(|| async { Ok(self.store.resource(kind, &id).await?) }).await?;
        let Some(stored) = stored else { return Ok(None) };
        Ok(resource(kind, &stored.spec))
    }
}

/// Parses the `spec` of a setting, which is JSON.
pub(crate) fn read(kind: Kind, spec: &str) -> Reading {
    definition::read_as(&format!("{{\"spec\":{spec}}}"), Format::Json, kind)
}

fn resource(kind: Kind, spec: &str) -> Option<Resource> {
    read(kind, spec).documents.into_iter().next().map(|document| document.resource)
}

impl RunSettings {
    /// The setting of this kind.
    fn of(&self, kind: Kind) -> Option<&Map<String, Value>> {
        self.given().find(|(given, _)| *given == kind).map(|(_, spec)| spec)
    }

    /// Every setting in the run's request.
    pub(crate) fn given(&self) -> impl Iterator<Item = (Kind, &Map<String, Value>)> {
        let settings = [(Kind::Analyzer, &self.analyzer), (Kind::PollingProfile, &self.polling_profile)];
        settings.into_iter().filter_map(|(kind, spec)| Some((kind, spec.as_ref()?)))
    }
}

/// The policy, overridden by a profile.
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
    if let Some(within) = &profile.within {
        policy.within = Some(within.duration);
    }
    // A short timeout also bounds the settle time: its user prefers an early verdict.
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
