//! A run of a suite: its events, and its shape in Tracetest's API.

use std::collections::BTreeMap;

use qualitytrace_core::suite::Role;
use qualitytrace_core::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fold::{sorted, variable_set};
use super::request::RunRequest;
use super::run::{Run, VariableSet, is_blank};
use super::series::Outcome;
use super::time::{UNFINISHED, rfc3339};
use crate::storage::store::StoredSuiteRun;

/// An event of a run of a suite.
pub type Event = super::Event<SuiteEventKind>;

/// The kinds of events of a run of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Suite")]
#[serde(tag = "what", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SuiteEventKind {
    /// The run was created, with these steps.
    Planned {
        /// The steps, in the order of the definition.
        steps: Vec<Step>,
    },
    /// A run of a step's test started.
    StepStarted {
        /// The index of the step.
        step: usize,
        /// The number of the attempt, counted from 1; more than 1 for a repetition or a retry.
        attempt: usize,
        /// The number of the test's run.
        run: u64,
        /// The trace of that run.
        trace_id: String,
    },
    /// A step ended.
    StepEnded {
        /// The index of the step.
        step: usize,
        /// Its outcome.
        outcome: Outcome,
        /// Whether every repetition passed in the end, although not every run did.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        recovered: bool,
        /// Why there is no result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Its outputs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outputs: Vec<(String, String)>,
    },
    /// Steps are skipped.
    StepsSkipped {
        /// Their indices.
        steps: Vec<usize>,
    },
    /// The user stops the run.
    Stopping,
    /// The run ended.
    Ended {
        /// Whether every step passed.
        passed: bool,
        /// Why it ended early.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The server stopped during the run; the run is resumed.
    Resumed,
    /// The server stopped during the run, and the run cannot be resumed.
    Interrupted,
}

/// A step of a run of a suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SuiteStep")]
pub struct Step {
    /// Its name.
    pub name: String,
    /// The id of its test.
    pub test: String,
    /// The title of its test.
    pub title: String,
    /// The version of its test; 0 if it is not known.
    #[serde(default)]
    pub version: u64,
    /// Retries of a repetition that does not pass.
    #[serde(default)]
    pub retries: u32,
    /// The number of repetitions.
    #[serde(default)]
    pub repeat: u32,
    /// The part of the suite: `setup`, `step` or `teardown`.
    pub role: Part,
    /// The row of the suite's table, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<usize>,
    /// The values of that row, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<(String, String)>,
}

/// The parts of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SuitePart")]
pub enum Part {
    /// Prepares the tests.
    Setup,
    /// Tests.
    Step,
    /// Cleans up.
    Teardown,
}

impl From<Role> for Part {
    fn from(role: Role) -> Self {
        match role {
            Role::Setup => Self::Setup,
            Role::Step => Self::Step,
            Role::Teardown => Self::Teardown,
        }
    }
}

/// Why an interrupted run of a suite has no result, and what to do.
pub const INTERRUPTED: &str = "the server was restarted during the run of the suite, and its definition is no longer known: run it again";

/// The state of a run of a suite, folded from its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuiteProgress {
    /// The planned steps.
    pub steps: Vec<Step>,
    /// The latest run of each step that has started.
    pub runs: BTreeMap<usize, u64>,
    /// The outputs of the steps, in the order in which the steps ended.
    pub outputs: Vec<(String, String)>,
    /// When it ended.
    pub completed: Option<Timestamp>,
    /// Why it ended early.
    pub error: Option<String>,
    /// Whether all steps passed, once it has ended.
    pub passed: Option<bool>,
}

impl SuiteProgress {
    /// Folds events, in their order.
    pub fn of(events: &[Event]) -> Self {
        let mut facts = Self::default();
        for event in events {
            let ends = |facts: &mut Self, error: Option<String>| {
                facts.completed = Some(Timestamp::from_nanos(event.at));
                facts.error = error;
            };
            match &event.what {
                SuiteEventKind::Planned { steps } => facts.steps.clone_from(steps),
                SuiteEventKind::StepStarted { step, run, .. } => drop(facts.runs.insert(*step, *run)),
                SuiteEventKind::StepEnded { outputs, .. } => facts.outputs.extend(outputs.iter().cloned()),
                SuiteEventKind::Ended { message, passed } => {
                    ends(&mut facts, message.clone());
                    facts.passed = Some(*passed);
                }
                SuiteEventKind::Interrupted => {
                    ends(&mut facts, Some(INTERRUPTED.to_owned()));
                }
                SuiteEventKind::StepsSkipped { .. } | SuiteEventKind::Stopping | SuiteEventKind::Resumed => {}
            }
        }
        facts
    }
}

impl SuiteProgress {
    /// Whether every step passed its required gates. If runs of steps were deleted since, the outcome at the end
    /// counts.
    fn gates_passed(&self, steps: &[Run]) -> bool {
        let is_over = self.completed.is_some();
        match self.passed {
            Some(passed) if steps.len() < self.runs.len() => passed,
            _ => (is_over || !steps.is_empty()) && steps.iter().all(|step| step.required_gates_result.passed),
        }
    }
}

/// A run of a suite.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SuiteRun {
    /// Its number among the runs of its suite.
    pub id: u64,
    /// The version of the suite that was run.
    pub version: u64,
    /// When it was created.
    pub created_at: String,
    /// When it ended.
    pub completed_at: String,
    /// `CREATED`, `EXECUTING`, `FINISHED` or `FAILED`.
    pub state: String,
    /// The runs of its tests.
    #[serde(skip_serializing_if = "is_blank")]
    pub steps: Vec<Run>,
    /// The given variables, updated with the outputs of the steps.
    pub variable_set: VariableSet,
    /// Free-form metadata.
    #[serde(skip_serializing_if = "is_blank")]
    pub metadata: Map<String, Value>,
    /// The number of steps that passed.
    #[serde(skip_serializing_if = "is_blank")]
    pub pass: u64,
    /// The number of steps that did not pass.
    #[serde(skip_serializing_if = "is_blank")]
    pub fail: u64,
    /// Whether every step passed its required gates.
    #[serde(skip_serializing_if = "is_blank")]
    pub all_steps_required_gates_passed: bool,
    /// Why it ended early.
    #[serde(skip_serializing_if = "is_blank")]
    pub last_error_state: String,
}

/// Builds the run of a suite as clients see it. `steps` are the runs of its tests.
pub fn suite_run(stored: &StoredSuiteRun, facts: &SuiteProgress, steps: Vec<Run>) -> SuiteRun {
    let asked: RunRequest = serde_json::from_str(&stored.request).unwrap_or_default();
    let made = facts.outputs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    SuiteRun {
        id: stored.number,
        version: stored.version,
        created_at: rfc3339(stored.created),
        completed_at: facts.completed.map_or_else(|| UNFINISHED.to_owned(), rfc3339),
        state: stored.state.clone(),
        all_steps_required_gates_passed: facts.error.is_none() && facts.gates_passed(&steps),
        steps,
        variable_set: variable_set(&stored.variables, &asked, made),
        metadata: sorted(asked.metadata),
        pass: stored.passed,
        fail: stored.failed,
        last_error_state: facts.error.clone().unwrap_or_default(),
    }
}
