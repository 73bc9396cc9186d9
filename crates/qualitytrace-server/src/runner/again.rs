//! Judging without running: specs on a trace that is here already.

use std::sync::Arc;

use qualitytrace_core::definition::Test;
use qualitytrace_core::lang::Generator;
use qualitytrace_core::run::State;
use qualitytrace_core::trace::Trace;

use super::execute::read;
use super::judging::Judge;
use super::{Error, RunId, Runner, log, random_trace_id};
use crate::clock;
use crate::store::{NewRun, StoredRun, StoredTest};
use crate::variables::Variables;
use crate::wire::run::Run;
use crate::wire::{Event, Verdict, What};

impl Runner {
    /// What the specs of a test say about a trace.
    pub fn judge_once(test: &Test, variables: &Variables, trace: &Trace) -> Verdict {
        let generator = Generator::in_utc(clock::now(), rand::random());
        Judge::compile(test, variables, generator).verdict(trace, Vec::new())
    }

    /// Judges the trace of an earlier run by this version of its test, as a run of its own.
    pub async fn rerun(
        self: &Arc<Self>,
        earlier: &StoredRun,
        events: &[Event],
        trace: Option<&Trace>,
        test: &StoredTest,
    ) -> Result<RunId, Error> {
        let me = self.cluster.id();
        let before_judging = events.iter().filter(|event| !is_verdict(&event.what)).cloned().collect();
        let new = NewRun {
            test: test.id.clone(),
            test_version: test.version,
            trace: earlier.trace,
            state: State::AwaitingTestResults.as_str(),
            created: clock::now(),
            variables: earlier.variables.clone(),
            request: earlier.request.clone(),
            owner: me.to_string(),
            step_of: None,
            event: log::body(&What::Again { of: earlier.number, events: before_judging }),
        };
        let run = self.insert(&new).await?;
        let mut log = self.log(&run, me, 1);
        let Some(trace) = trace else {
            let message = format!("run {} has no trace to judge", earlier.number);
            log.end(State::TraceFailed, &What::NoTrace { message }).await?;
            return Ok(run);
        };
        log.note(&What::Judging);
        // What was written down of the trigger has masks for secrets, and so has the trace: they fit together.
        let variables = Variables::shown(&earlier.variables);
        let verdict = Self::judge_once(&read(test)?, &variables, trace);
        log.end(State::Finished, &What::Judged { verdict }).await?;
        Ok(run)
    }
}

impl Runner {
    /// Keeps a run that another server carried out, as it was there.
    pub async fn import(&self, test: &StoredTest, run: Run) -> Result<RunId, Error> {
        let named = run.trace_id.parse().ok();
        let new = NewRun {
            test: test.id.clone(),
            test_version: test.version,
            trace: named.unwrap_or_else(random_trace_id),
            state: State::Finished.as_str(),
            created: clock::now(),
            variables: "{}".to_owned(),
            request: "{}".to_owned(),
            owner: self.cluster.id().to_string(),
            step_of: None,
            event: log::body(&What::Imported { run: Box::new(run) }),
        };
        self.insert(&new).await
    }
}

fn is_verdict(what: &What) -> bool {
    matches!(what, What::Judging | What::Judged { .. } | What::Late { .. })
}
