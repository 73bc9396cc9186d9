//! The events of a run, under their names in Tracetest's API.

use schemars::JsonSchema;
use serde::Serialize;

use super::connection::Connection;
use crate::outbound::trigger::Reason;
use crate::wire::event::{Event, INTERRUPTED, RunEventKind};
use crate::wire::run::is_blank;
use crate::wire::time::rfc3339;
use crate::wire::verdict::Verdict;

/// An event of a run, under its name in Tracetest's API.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunEvent {
    #[serde(rename = "type")]
    kind: &'static str,
    /// `trigger`, `trace` or `test`.
    stage: &'static str,
    title: String,
    description: String,
    created_at: String,
    test_id: String,
    run_id: u64,
    data_store_connection: Connection,
    polling: Polling,
}

/// A check for new spans.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Polling {
    #[serde(rename = "type", skip_serializing_if = "is_blank")]
    kind: &'static str,
    #[serde(skip_serializing_if = "is_blank")]
    is_complete: bool,
    periodic: Periodic,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "PollingPeriodic")]
struct Periodic {
    #[serde(skip_serializing_if = "is_blank")]
    number_spans: usize,
    #[serde(skip_serializing_if = "is_blank")]
    number_iterations: u64,
}

/// An event without the fields that all events of a run share.
struct EventParts {
    kind: &'static str,
    stage: &'static str,
    title: String,
    description: String,
    polling: Polling,
}

/// Converts the events of a run, oldest first. One event here can be several there.
pub fn catalogue(test: &str, run: u64, events: &[Event]) -> Vec<RunEvent> {
    let mut iterations = 0;
    let mut out = Vec::new();
    for event in events {
        out.extend(known(&event.what, &mut iterations).into_iter().map(|known| RunEvent {
            kind: known.kind,
            stage: known.stage,
            title: known.title,
            description: known.description,
            created_at: rfc3339(event.at()),
            test_id: test.to_owned(),
            run_id: run,
            data_store_connection: Connection::default(),
            polling: known.polling,
        }));
    }
    out
}

fn event(kind: &'static str, stage: &'static str, title: &str, description: impl Into<String>) -> EventParts {
    EventParts {
        kind,
        stage,
        title: title.to_owned(),
        description: description.into(),
        polling: Polling::default(),
    }
}

const TRIGGER: &str = "trigger";
const TRACE: &str = "trace";
const TEST: &str = "test";
const PERIODIC: &str = "periodic";

fn known(what: &RunEventKind, iterations: &mut u64) -> Vec<EventParts> {
    match what {
        RunEventKind::Created => {
            vec![event("CREATED_INFO", TRIGGER, "Trigger created", "The run was asked for")]
        }
        RunEventKind::Again { .. } | RunEventKind::Imported { .. } => Vec::new(),
        RunEventKind::Resolving => vec![event(
            "RESOLVE_START",
            TRIGGER,
            "Resolving trigger details started",
            "Variables are being put into the trigger",
        )],
        RunEventKind::Resolved { warning, .. } => vec![event(
            "RESOLVE_SUCCESS",
            TRIGGER,
            "Resolving trigger details succeeded",
            warning.as_deref().unwrap_or("The trigger is complete"),
        )],
        RunEventKind::NotResolved { message } => {
            vec![event("RESOLVE_ERROR", TRIGGER, "Resolving trigger details failed", message)]
        }
        RunEventKind::Triggering { .. } => {
            vec![event("EXECUTION_START", TRIGGER, "Trigger execution started", "The trigger is on its way")]
        }
        RunEventKind::Triggered { .. } => {
            vec![event(
                "EXECUTION_SUCCESS",
                TRIGGER,
                "Trigger execution succeeded",
                "The trigger was answered",
            )]
        }
        RunEventKind::TriggerFailed {
            reason,
            message,
            connection,
            targets_localhost,
            running_on_container,
        } => {
            let unreachable = connection.then(|| {
                event("HTTP_UNREACHABLE_HOST_ERROR", TRIGGER, "Unreachable host in the trigger", message)
            });
            // A failed TLS handshake shows that the host is reachable.
            let is_unreachable = *connection && reason != Reason::Tls.as_str();
            let own_container = (is_unreachable && *targets_localhost && *running_on_container).then(|| {
                event("DOCKER_COMPOSE_HOST_MISMATCH_ERROR", TRIGGER, "Docker compose mismatch error", message)
            });
            unreachable
                .into_iter()
                .chain(own_container)
                .chain([event("EXECUTION_ERROR", TRIGGER, "Trigger execution failed", message)])
                .collect()
        }
        other => after_the_trigger(other, iterations),
    }
}

/// Converts the events of the wait for the trace.
fn after_the_trigger(what: &RunEventKind, iterations: &mut u64) -> Vec<EventParts> {
    match what {
        RunEventKind::Waiting { timeout, .. } => {
            let limit = format!("Spans are awaited for at most {timeout} ms");
            vec![
                event("FETCHING_START", TRACE, "Trace fetching started", "The trace is being collected"),
                EventParts {
                    polling: Polling { kind: PERIODIC, ..Polling::default() },
                    ..event("POLLING_START", TRACE, "Trace polling started", limit)
                },
            ]
        }
        RunEventKind::Arrived { new, spans } => {
            *iterations += 1;
            let title = "OTLP server endpoint received spans";
            vec![
                event("OTLP_SERVER_RECEIVED_SPANS", TRACE, title, format!("{new} spans arrived")),
                iteration(*spans, *iterations, false),
            ]
        }
        RunEventKind::WaitEnded {
            reason, spans, complete, debts, undecided, first, quiet, settle, ..
        } => {
            *iterations += 1;
            let unknown = first.then_some("no earlier run says what to expect");
            let left: Vec<&str> = debts.iter().chain(undecided).map(String::as_str).chain(unknown).collect();
            let windows = format!("quiet window {quiet} ms, settle window {settle} ms");
            let left = if left.is_empty() { "nothing".to_owned() } else { left.join("; ") };
            let reason = format!("{reason} ({windows}); left open: {left}");
            if *spans == 0 && !complete {
                return vec![iteration(*spans, *iterations, false)];
            }
            vec![
                iteration(*spans, *iterations, true),
                event("POLLING_SUCCESS", TRACE, "Trace polling strategy succeeded", reason),
                event(
                    "FETCHING_SUCCESS",
                    TRACE,
                    "Trace fetching succeeded",
                    format!("{spans} spans are here"),
                ),
            ]
        }
        RunEventKind::WaitSkipped { .. } => vec![
            event("POLLING_SKIPPED", TRACE, "Trace polling has been skipped", "Spans are no longer awaited"),
            event(
                "POLLING_SUCCESS",
                TRACE,
                "Trace polling strategy succeeded",
                "There is nothing to wait for",
            ),
            event("FETCHING_SUCCESS", TRACE, "Trace fetching succeeded", "The trace is what is here"),
        ],
        RunEventKind::NoTrace { message } => vec![
            event("POLLING_ERROR", TRACE, "Trace polling strategy failed", message),
            event("FETCHING_ERROR", TRACE, "Trace fetching failed", message),
        ],
        other => after_the_wait(other),
    }
}

/// Converts the events of the judgement and of the end.
fn after_the_wait(what: &RunEventKind) -> Vec<EventParts> {
    match what {
        RunEventKind::Analyzed { .. } => vec![
            event("TRACE_LINTER_START", TRACE, "Trace linter started", "The analyzer looks at the trace"),
            event("TRACE_LINTER_SUCCESS", TRACE, "Trace linter succeeded", "The analyzer is done"),
        ],
        RunEventKind::AnalysisSkipped => {
            vec![event("TRACE_LINTER_SKIPPED", TRACE, "Trace linter skipped", "The analyzer is switched off")]
        }
        RunEventKind::Judging => {
            vec![event("TEST_SPECS_RUN_START", TEST, "Test specs started", "The specs are being judged")]
        }
        RunEventKind::Judged { verdict } => {
            let mut known = warnings(verdict);
            known.push(event(
                "TEST_SPECS_RUN_SUCCESS",
                TEST,
                "Test specs succeeded",
                "The specs were judged",
            ));
            known
        }
        RunEventKind::Late { spans, before, verdict } => {
            let (before, after) = (before.as_str(), verdict.outcome.as_str());
            let told = format!("{spans} spans came after the verdict: it was {before} and is now {after}");
            vec![event("LATE_SPANS", TEST, "Late spans", told)]
        }
        RunEventKind::Stopped => {
            vec![event("STOPPED_INFO", TRACE, "Test run stopped", "The user ended the run")]
        }
        RunEventKind::Interrupted => {
            vec![event("TEST_SPECS_RUN_ERROR", TEST, "Test specs failed", INTERRUPTED)]
        }
        RunEventKind::Broken { message } => {
            vec![event("TEST_SPECS_RUN_ERROR", TEST, "Test specs failed", message)]
        }
        RunEventKind::Created
        | RunEventKind::Requeued
        | RunEventKind::Resumed
        | RunEventKind::Settling
        | RunEventKind::Again { .. }
        | RunEventKind::Imported { .. }
        | RunEventKind::Resolving
        | RunEventKind::Resolved { .. }
        | RunEventKind::NotResolved { .. }
        | RunEventKind::Triggering { .. }
        | RunEventKind::Triggered { .. }
        | RunEventKind::Confirmed
        | RunEventKind::Waiting { .. }
        | RunEventKind::Arrived { .. }
        | RunEventKind::WaitEnded { .. }
        | RunEventKind::WaitSkipped { .. }
        | RunEventKind::NoTrace { .. }
        | RunEventKind::TriggerFailed { .. } => Vec::new(),
    }
}

fn iteration(spans: usize, number: u64, is_complete: bool) -> EventParts {
    let periodic = Periodic { number_spans: spans, number_iterations: number };
    EventParts {
        polling: Polling { kind: PERIODIC, is_complete, periodic },
        ..event(
            "POLLING_ITERATION_INFO",
            "trace",
            "Trace polling iteration executed",
            format!("{spans} spans are here"),
        )
    }
}

/// Returns warnings about outputs and assertions that could not be evaluated.
fn warnings(verdict: &Verdict) -> Vec<EventParts> {
    let outputs = verdict.outputs.iter().filter_map(|output| {
        let title = format!("Output '{}' not generated", output.name);
        Some(event("OUTPUT_GENERATION_WARNING", "test", &title, output.error.clone()?))
    });
    let assertions = verdict.specs.iter().flat_map(|spec| &spec.assertions).filter_map(|assertion| {
        // A comparison that does not hold is a result, not a warning.
        let error = assertion
            .results
            .iter()
            .find_map(|result| result.error.as_ref().filter(|text| *text != "no match"))?;
        let title = format!("Assertion '{}' failed", assertion.assertion);
        Some(event("TEST_SPECS_ASSERTION_WARNING", "test", &title, error))
    });
    outputs.chain(assertions).collect()
}
