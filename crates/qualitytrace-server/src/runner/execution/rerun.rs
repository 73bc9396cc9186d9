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
use super::log::{ResultInputs, body};
use super::{Execution, random_trace_id};
use crate::base::clock;
use crate::http::client::Client;
use crate::observability::Caller;
use crate::runner::{Error, RunId, spans};
use crate::storage::store::{NewRun, RunResult, StoredRun, StoredTest};
use crate::storage::variables::Variables;
use crate::wire::fold::RunState;
use crate::wire::request::RunRequest;
use crate::wire::run::{Pair, Run};
use crate::wire::time::from_rfc3339;
use crate::wire::{Event, RunEventKind, Verdict, series};

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
        // Before the run is stored: a definition that cannot be read must not leave it unfinished.
        let judged_by = trace.map(|trace| Ok::<_, Error>((trace, read(test)?))).transpose()?;
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
            event: body(&RunEventKind::Again { of: earlier.number, events: before_judging(events) }),
        };
        let run = self.insert(&new).await?;
        let span = spans::run(&Caller::current(), &run, test.version, earlier.trace);
        spans::note_rerun(&span, earlier.number);
        let mut log = self.log(&run, me, 1).with_trace(earlier.trace);
        log.set_span(span.clone());
        let known = RunState::of(events);
        let analysis = (known.analysis.as_ref(), known.analysis_open.is_some());
        log.set_standing(ResultInputs::of(earlier).judged(analysis.0, analysis.1, None, 0));
        let Some((trace, test)) = judged_by else {
            let message = format!("run {} has no trace to judge", earlier.number);
            log.end(State::TraceFailed, &RunEventKind::NoTrace { message }).await?;
            return Ok(run);
        };
        // Its root is the span of the trigger.
        log.set_spans(trace.spans().len().saturating_sub(1));
        if known.obtained.is_none() {
            // The earlier run ended before it had a trace.
            log.buffer(&RunEventKind::WaitSkipped { debts: Vec::new(), expected: Vec::new() });
        }
        log.buffer(&RunEventKind::Judging);
        // The stored trigger and the trace are both redacted, so the variables must be too.
        let variables = Variables::shown(&earlier.variables);
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
        let result = RunResult {
            outcome: imported_outcome(&run, failed).as_str(),
            passed: passed as u64,
            failed: failed as u64,
            spans: None,
        };
        let duration = duration(&run);
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
        self.store.put_result(&id.test, id.number, &new.owner, &result, duration).await?;
        Ok(id)
    }
}

/// The outcome of a run on another server, of which only the results are known.
fn imported_outcome(run: &Run, failed: usize) -> series::Outcome {
    match State::named(&run.state) {
        Some(State::Stopped) => series::Outcome::Stopped,
        Some(State::Finished) if !run.missing.is_empty() => series::Outcome::Inconclusive,
        Some(State::Finished) if failed == 0 && run.required_gates_result.passed => series::Outcome::Passed,
        Some(State::Finished) => series::Outcome::Failed,
        _ => series::Outcome::Broken,
    }
}

/// How long a run on another server took, in nanoseconds.
fn duration(run: &Run) -> Option<u64> {
    let (start, end) = (from_rfc3339(&run.created_at)?, from_rfc3339(&run.completed_at)?);
    end.as_nanos().checked_sub(start.as_nanos())
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

/// The events of a run until it was judged. A rerun begins with an event that holds those of the earlier run; they take
/// its place, so that reruns of reruns do not nest.
fn before_judging(events: &[Event]) -> Vec<Event> {
    let mut before = Vec::new();
    for event in events.iter().filter(|event| !is_verdict(&event.what)) {
        if let RunEventKind::Again { events, .. } = &event.what {
            before.extend(before_judging(events));
        } else {
            before.push(event.clone());
        }
    }
    before
}

fn is_verdict(what: &RunEventKind) -> bool {
    matches!(what, RunEventKind::Judging | RunEventKind::Judged { .. } | RunEventKind::Late { .. })
}
