//! Reruns: judging a stored trace without a trigger; and imported runs.

use std::sync::Arc;

use qualitytrace_core::definition::Test;
use qualitytrace_core::lang::Generator;
use qualitytrace_core::run::State;
use qualitytrace_core::trace::Trace;
use qualitytrace_core::wait::Absence;
use serde_json::{Map, Value};

use super::execute::{read, recorded};
use super::judging::Judge;
use super::log::body;
use super::{Execution, random_trace_id};
use crate::client::Client;
use crate::clock;
use crate::observability::Caller;
use crate::runner::{Error, RunId, spans};
use crate::store::{NewRun, StoredRun, StoredTest};
use crate::variables::Variables;
use crate::wire::fold::RunState;
use crate::wire::request::RunRequest;
use crate::wire::run::{Pair, Run};
use crate::wire::{Event, RunEventKind, Verdict};

/// Judges a trace by the specs of a test. `missing` says what the trace lacks.
pub(in crate::runner) fn judge(
    test: &Test,
    variables: &Variables,
    trace: &Trace,
    missing: Vec<String>,
) -> Verdict {
    let generator = Generator::in_utc(clock::now(), rand::random());
    let absences = missing.into_iter().map(Absence::of_anyone).collect();
    Judge::compile(test, variables, generator).verdict(trace, absences, None)
}

impl Execution {
    /// Judges the trace of an earlier run by this version of its test, as a new run.
    pub(in crate::runner) async fn rerun(
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
            request: request_text(&standalone_request(&earlier.request)),
            owner: me.to_string(),
            client: Client::current_key(),
            step_of: None,
            event: body(&RunEventKind::Again { of: earlier.number, events: before_judging }),
        };
        let run = self.insert(&new).await?;
        let span = spans::run(&Caller::current(), &run, test.version, earlier.trace);
        spans::note_rerun(&span, earlier.number);
        let mut log = self.log(&run, me, 1).with_trace(earlier.trace);
        log.set_span(span.clone());
        let Some(trace) = trace else {
            let message = format!("run {} has no trace to judge", earlier.number);
            log.end(State::TraceFailed, &RunEventKind::NoTrace { message }).await?;
            return Ok(run);
        };
        if RunState::of(events).obtained.is_none() {
            // The earlier run ended before it had a trace.
            log.buffer(&RunEventKind::WaitSkipped { debts: Vec::new(), expected: Vec::new() });
        }
        log.buffer(&RunEventKind::Judging);
        // The stored trigger and the trace are both redacted, so the variables must be too.
        let variables = Variables::shown(&earlier.variables);
        let test = read(test)?;
        spans::note_test(&span, &test);
        let began = clock::now();
        let verdict =
            recorded(&span, log.redactor(), || judge(&test, &variables, trace, missing(events))).await;
        span.in_scope(|| self.recorder.phase("judge", clock::now().since(began)));
        log.end(State::Finished, &RunEventKind::Judged { verdict }).await?;
        drop(span);
        self.watch_again(&run, log).await?;
        Ok(run)
    }
}

impl Execution {
    /// Stores a run that another server executed, as it was there.
    pub(in crate::runner) async fn import(&self, test: &StoredTest, run: Run) -> Result<RunId, Error> {
        let named = run.trace_id.parse().ok();
        let variables: Map<String, Value> = run
            .variable_set
            .values
            .iter()
            .map(|Pair { key, value }| (key.clone(), Value::from(value.as_str())))
            .collect();
        let imported = RunRequest {
            metadata: run.metadata.clone(),
            required_gates: run.required_gates_result.required.clone(),
            variables: variables.keys().cloned().collect(),
            ..RunRequest::default()
        };
        let of_specs = run.result.results.iter().flat_map(|spec| &spec.results);
        let results: Vec<_> = of_specs.flat_map(|assertion| &assertion.span_results).collect();
        let passed = results.iter().filter(|result| result.passed).count();
        let failed = (results.len() - passed).max(usize::from(!run.missing.is_empty()));
        let new = NewRun {
            test: test.id.clone(),
            test_version: test.version,
            trace: named.unwrap_or_else(random_trace_id),
            state: State::Finished.as_str(),
            created: clock::now(),
            variables: Value::Object(variables).to_string(),
            request: request_text(&imported),
            owner: self.cluster.id().to_string(),
            client: Client::current_key(),
            step_of: None,
            event: body(&RunEventKind::Imported { run: Box::new(run) }),
        };
        let id = self.insert(&new).await?;
        self.store.count_assertions(&id.test, id.number, passed as u64, failed as u64).await?;
        Ok(id)
    }
}

/// What was missing of the trace when an earlier run was judged.
fn missing(events: &[Event]) -> Vec<String> {
    let state = RunState::of(events);
    let elsewhere = state.imported.or(state.earlier).map(|run| run.missing);
    state.verdict.map(|verdict| verdict.missing).or(elsewhere).unwrap_or_default()
}

/// The request of an earlier run, without the suite and series that it was part of.
fn standalone_request(request: &str) -> RunRequest {
    let request: RunRequest = serde_json::from_str(request).unwrap_or_default();
    RunRequest { suite: None, series: None, ..request }
}

fn request_text(request: &RunRequest) -> String {
    serde_json::to_string(request).unwrap_or_default()
}

fn is_verdict(what: &RunEventKind) -> bool {
    matches!(what, RunEventKind::Judging | RunEventKind::Judged { .. } | RunEventKind::Late { .. })
}
