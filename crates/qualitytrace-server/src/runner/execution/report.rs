//! Reports of a wait to the clients that watch it: what the run owes, and how its specs stand.

use std::time::Duration;

use qualitytrace_core::time::Timestamp;
use qualitytrace_core::wait::{OpenSpec, Policy, Progress, SpecStatus, forecast};
use tokio::time::Instant;

use super::log::Log;
use crate::runner::learning::Learning;
use crate::wire::owed::{EarlyOutcome, EarlySpec, FirstSeen, WaitStatus};

/// The shortest time between two reports.
const INTERVAL: Duration = Duration::from_millis(250);
/// Specs are evaluated for a report after so many times the time that the last evaluation took.
const PAUSE: u32 = 10;

/// What was reported of a wait.
#[derive(Debug, Default)]
pub(super) struct Report {
    last: Option<Instant>,
    first_seen: FirstSeen,
    /// The specs when this many spans were here.
    specs: (usize, Vec<(EarlySpec, Option<Duration>)>),
    /// When the specs may be evaluated again.
    evaluate_at: Option<Instant>,
}

impl Report {
    /// Reports what the run owes now, or returns when it is time to. `early` evaluates the specs.
    pub(super) fn tell(
        &mut self,
        policy: &Policy,
        progress: &Progress,
        learning: &Learning,
        log: &Log,
        early: impl FnOnce() -> Vec<(EarlySpec, Option<Duration>)>,
        now: Timestamp,
    ) -> Option<Instant> {
        let started = Instant::now();
        if let Some(next) = self.last.map(|last| last + INTERVAL).filter(|next| *next > started) {
            return Some(next);
        }
        self.last = Some(started);
        let spans = progress.spans();
        let is_new = self.specs.0 != spans || self.evaluate_at.is_none();
        if is_new && self.evaluate_at.is_none_or(|at| at <= started) {
            self.specs = (spans, early());
            self.evaluate_at = Some(Instant::now() + started.elapsed() * PAUSE);
        }
        let failing = self.specs.1.iter().filter(|(spec, _)| spec.outcome == EarlyOutcome::Failing);
        let undecided = failing.map(|(spec, within)| OpenSpec {
            name: spec.name.clone(),
            services: Vec::new(),
            lacks_spans: false,
            within: *within,
        });
        let standing = SpecStatus { undecided: undecided.collect(), is_final: false };
        let forecast = forecast(policy, progress, &learning.services(), &standing, now);
        let specs = (spans, self.specs.1.iter().map(|(spec, _)| spec.clone()).collect());
        log.publish(WaitStatus::of(&forecast, specs, &mut self.first_seen, log.redactor(), now));
        None
    }
}
