//! A run that was judged, and how settled its verdict is.

use std::time::Duration;

use qualitytrace_core::trace::Span;
use qualitytrace_core::wait::{CONFIRM, Policy, Reason};
use tokio::time::Instant;

use super::arrivals::{Arrivals, WaitOutcome};
use super::judging::Judge;
use crate::base::redact::Redactor;
use crate::wire::request::RunSettings;
use crate::wire::{Outcome, run};

/// A run that was judged, with what is needed to judge it again.
#[derive(Debug)]
pub(super) struct JudgedRun {
    pub(super) judge: Judge,
    pub(super) root: Span,
    pub(super) arrivals: Arrivals,
    pub(super) outcome: Outcome,
    /// Whether late spans matter.
    pub(super) has_trace: bool,
    /// Whether it ended without a verdict, because nothing arrived.
    pub(super) has_no_verdict: bool,
    pub(super) awaited: WaitExtent,
    /// Whether another server began the wait, and spans may be lost that were sent meanwhile.
    pub(super) is_resumed: bool,
    /// Redacts the trace before it is judged, because the stored trigger is redacted as well.
    pub(super) redactor: Redactor,
    /// Spans that the verdict is based on and that are still to be read.
    pub(super) already_counted: usize,
    /// Settings in the request, in place of the server's.
    pub(super) settings: RunSettings,
    /// The policy of the wait.
    pub(super) policy: Policy,
    /// How long a failure by absence is rechecked.
    pub(super) confirm: Duration,
    pub(super) confirmation: Confirmation,
    /// The result of the analyzer.
    pub(super) analysis: Option<run::Linter>,
    /// Why the analysis may not hold for the whole trace.
    pub(super) analysis_open: Option<String>,
}

/// How the trace of a judged run was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitExtent {
    /// The wait ended by itself: late spans show that it was too short.
    ToTheEnd,
    /// The user skipped the wait, or an earlier run waited.
    CutShort,
    /// The run was judged before its trace was complete. It still is not, and cannot be before `until` unless spans come.
    NotYet { until: Instant },
}

/// Whether a failure is still to be confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confirmation {
    /// It failed, and the missing spans may still arrive.
    Open,
    /// It did not fail, or was confirmed.
    Settled,
}

impl JudgedRun {
    /// A run that was just judged by this server.
    pub(super) fn just_now(
        judge: Judge,
        root: Span,
        arrivals: Arrivals,
        outcome: Outcome,
        waited: &WaitOutcome,
        policy: Policy,
    ) -> Self {
        let awaited = match waited {
            WaitOutcome::Ended(ended) if ended.reason == Reason::Skipped => WaitExtent::CutShort,
            WaitOutcome::Ended(_) => WaitExtent::ToTheEnd,
            WaitOutcome::Unreadable(_) => WaitExtent::CutShort,
            WaitOutcome::Skipped => WaitExtent::NotYet { until: Instant::now() },
        };
        Self {
            is_resumed: arrivals.is_resumed(),
            judge,
            root,
            arrivals,
            outcome,
            analysis: None,
            analysis_open: None,
            settings: RunSettings::default(),
            policy,
            confirm: CONFIRM,
            confirmation: if awaited == WaitExtent::ToTheEnd && outcome == Outcome::Failed {
                Confirmation::Open
            } else {
                Confirmation::Settled
            },
            has_trace: true,
            has_no_verdict: false,
            awaited,
            redactor: Redactor::default(),
            already_counted: 0,
        }
    }

    /// How long its failure is to be confirmed.
    pub(super) fn to_confirm(&self) -> Duration {
        match self.confirmation {
            Confirmation::Open => self.confirm,
            Confirmation::Settled => Duration::ZERO,
        }
    }

    /// Adds the result of the analyzer and the settings that it used.
    pub(super) fn with(self, has_trace: bool, analysis: Option<run::Linter>, settings: RunSettings) -> Self {
        Self { has_trace, settings, analysis, ..self }
    }
}
