//! Scheduling of a suite: which steps come next, and with which variables.
//!
//! Setup runs first, in order. Then the steps run, once per row of the suite's table: each waits for the steps
//! that it depends on, by default the one before it. A step that could not be run or judged ends its row; one that
//! failed its specs does not. Teardown runs last, in order, in any case.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use crate::definition::{Step, TestSuite, suite::waits_for};
use crate::series::Outcome;

/// Names and values, in order.
pub type Values = Vec<(String, String)>;

/// Every step that a run of a suite may start, in the order of the definition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Setup, then the steps of the first row, of the second and so on, then teardown.
    pub steps: Vec<Planned>,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its name.
    pub name: String,
    /// The test to run.
    pub test: String,
    /// The part of the suite that it belongs to.
    pub role: Role,
    /// The row that it belongs to, counted from 0; `None` when there is no table.
    pub row: Option<usize>,
    /// The values of that row.
    pub values: Values,
    /// The indices of the steps for which it waits.
    pub after: Vec<usize>,
    /// Its timeout.
    pub timeout: Option<Duration>,
}

/// The part of a suite that a step belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Setup, before the steps.
    Setup,
    /// A step of the suite itself.
    Step,
    /// Teardown, after the steps.
    Teardown,
}

/// The state of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepState {
    /// It has not started.
    #[default]
    Waiting,
    /// It is running.
    Running,
    /// It is running, its trigger was answered, all that its trace owes is here, and only the window is left in which
    /// spans may come that nothing announces. What it hands on to later steps is known.
    Settling,
    /// It has ended.
    Ended(Outcome),
    /// It will not run.
    Skipped,
}

impl StepState {
    /// Whether its state is final.
    const fn is_settled(self) -> bool {
        matches!(self, Self::Ended(_) | Self::Skipped)
    }

    /// Whether the steps after it may start: the windows of steps may overlap, their triggers do not.
    const fn lets_follow(self) -> bool {
        self.is_settled() || matches!(self, Self::Settling)
    }

    const fn is_good(self) -> bool {
        matches!(self, Self::Ended(outcome) if outcome.is_pass())
    }

    const fn is_broken(self) -> bool {
        matches!(self, Self::Ended(outcome) if outcome.is_broken())
    }
}

/// The next action of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Wait for running steps.
    Wait,
    /// Start these steps.
    Start(Vec<usize>),
    /// Record that these steps are skipped.
    Skip(Vec<usize>),
    /// The suite is complete.
    Done(SuiteEnding),
}

/// The outcome of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuiteEnding {
    /// It ran to its end.
    Finished {
        /// Whether every step passed.
        passed: bool,
    },
    /// It did not: a step could not be run or judged, setup did not pass, or it was stopped.
    Failed,
}

impl Plan {
    /// Plans a suite.
    pub fn of(suite: &TestSuite) -> Self {
        let mut plan = Self::default();
        plan.in_order(&suite.setup, Role::Setup);
        let rows: Vec<Option<Values>> = match &suite.data {
            None => vec![None],
            Some(data) => data.values().into_iter().map(Some).collect(),
        };
        let before = waits_for(&suite.steps);
        for (row, values) in rows.into_iter().enumerate() {
            let first = plan.steps.len();
            for (step, before) in suite.steps.iter().zip(&before) {
                let after = before.iter().map(|position| first + position).collect();
                let planned = planned(step, Role::Step, after);
                let row = values.is_some().then_some(row);
                plan.steps.push(Planned { row, values: values.clone().unwrap_or_default(), ..planned });
            }
        }
        plan.in_order(&suite.teardown, Role::Teardown);
        plan
    }

    fn in_order(&mut self, steps: &[Step], role: Role) {
        let first = self.steps.len();
        for (at, step) in steps.iter().enumerate() {
            let after = at.checked_sub(1).map(|before| first + before).into_iter().collect();
            self.steps.push(planned(step, role, after));
        }
    }

    /// Decides what to do with the steps in these states. `stopped` says that the suite is to be stopped.
    pub fn next(&self, standings: &[StepState], stopped: bool) -> Next {
        let overview = Overview::of(&self.steps, standings);
        let waiting = || (0..self.steps.len()).filter(|at| standings[*at] == StepState::Waiting);
        let is_pointless = |at: &usize| overview.makes_pointless(&self.steps[*at], stopped);
        let skipped: Vec<usize> = waiting().filter(is_pointless).collect();
        if !skipped.is_empty() {
            return Next::Skip(skipped);
        }
        let is_ready = |at: &usize| {
            let step = &self.steps[*at];
            // The steps of setup and teardown depend on how the one before them ended.
            let lets_follow = |before: &usize| match step.role {
                Role::Step => standings[*before].lets_follow(),
                Role::Setup | Role::Teardown => standings[*before].is_settled(),
            };
            overview.gives_turn(step) && step.after.iter().all(lets_follow)
        };
        let ready: Vec<usize> = waiting().filter(is_ready).collect();
        if !ready.is_empty() {
            return Next::Start(ready);
        }
        if !standings.iter().all(|standing| standing.is_settled()) {
            return Next::Wait;
        }
        if stopped || overview.has_setup_failed || standings.iter().any(|standing| standing.is_broken()) {
            return Next::Done(SuiteEnding::Failed);
        }
        Next::Done(SuiteEnding::Finished { passed: standings.iter().all(|standing| standing.is_good()) })
    }

    /// Merges the variables of a step: those given to the suite, the outputs of setup, the values of its row, and
    /// the outputs of the steps before it, in the order of the definition. Of two values for one name, the latest
    /// counts.
    ///
    /// Teardown sees the outputs of all steps.
    pub fn variables(&self, at: usize, given: &[(String, String)], outputs: &[Values]) -> Values {
        let step = &self.steps[at];
        let setup =
            (0..self.steps.len()).filter(|other| *other < at && self.steps[*other].role == Role::Setup);
        let before = match step.role {
            Role::Setup => Vec::new(),
            Role::Step => self.before(at),
            Role::Teardown => (0..at).collect(),
        };
        let mut merged = Values::new();
        set_all(&mut merged, given);
        for other in setup {
            set_all(&mut merged, &outputs[other]);
        }
        set_all(&mut merged, &step.values);
        for other in before {
            set_all(&mut merged, &outputs[other]);
        }
        merged
    }

    /// Returns every step for which a step waits, also transitively, in order.
    fn before(&self, at: usize) -> Vec<usize> {
        let mut before = BTreeSet::new();
        let mut open = self.steps[at].after.clone();
        while let Some(next) = open.pop() {
            if before.insert(next) {
                open.extend(&self.steps[next].after);
            }
        }
        before.into_iter().collect()
    }
}

/// The row whose steps may run; a suite without a table has one row without a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum CurrentRow {
    #[default]
    NotFound,
    Found(Option<usize>),
}

/// A summary of the steps' states, computed in one pass.
#[derive(Debug, Default)]
struct Overview {
    /// Whether a step of setup has ended and did not pass.
    has_setup_failed: bool,
    is_setup_open: bool,
    are_steps_open: bool,
    /// The first row with steps that later ones have to wait for: rows run one after another, so that each finds the
    /// system as the last one left it.
    current_row: CurrentRow,
    broken_rows: HashSet<Option<usize>>,
}

impl Overview {
    fn of(steps: &[Planned], standings: &[StepState]) -> Self {
        let mut overview = Self::default();
        for (step, standing) in steps.iter().zip(standings) {
            match step.role {
                Role::Setup => {
                    overview.is_setup_open |= !standing.is_settled();
                    overview.has_setup_failed |= standing.is_settled() && !standing.is_good();
                }
                Role::Step => {
                    overview.are_steps_open |= !standing.is_settled();
                    // Rows are in order.
                    if !standing.lets_follow() && overview.current_row == CurrentRow::NotFound {
                        overview.current_row = CurrentRow::Found(step.row);
                    }
                    if standing.is_broken() {
                        overview.broken_rows.insert(step.row);
                    }
                }
                Role::Teardown => {}
            }
        }
        overview
    }

    /// Whether a waiting step will never run.
    fn makes_pointless(&self, step: &Planned, stopped: bool) -> bool {
        match step.role {
            Role::Setup => stopped || self.has_setup_failed,
            Role::Step => stopped || self.has_setup_failed || self.broken_rows.contains(&step.row),
            Role::Teardown => false,
        }
    }

    /// Whether a step's part and row may run now.
    fn gives_turn(&self, step: &Planned) -> bool {
        match step.role {
            Role::Setup => true,
            Role::Step => !self.is_setup_open && self.current_row == CurrentRow::Found(step.row),
            Role::Teardown => !self.is_setup_open && !self.are_steps_open,
        }
    }
}

fn planned(step: &Step, role: Role, after: Vec<usize>) -> Planned {
    Planned {
        name: step.title().to_owned(),
        test: step.test.value.clone(),
        role,
        row: None,
        values: Values::new(),
        after,
        timeout: step.timeout.as_ref().map(|timeout| timeout.duration),
    }
}

/// Sets values by name: each name once, in order of first appearance, with the value that was given last.
pub fn set_all(merged: &mut Values, values: &[(String, String)]) {
    for (name, value) in values {
        match merged.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => known.clone_from(value),
            None => merged.push((name.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{Data, Format, Kind, Resource, read_as};
    use StepState::{Running, Settling, Skipped, Waiting};

    const PASSED: StepState = StepState::Ended(Outcome::Passed);
    const FAILED: StepState = StepState::Ended(Outcome::Failed);
    const BROKEN: StepState = StepState::Ended(Outcome::Broken);

    fn suite(spec: &str) -> TestSuite {
        let text = format!("type: TestSuite\nspec:\n  name: S\n{spec}");
        let reading = read_as(&text, Format::Yaml, Kind::TestSuite);
        assert!(reading.is_usable(false), "{:?}", reading.diagnostics);
        match reading.documents.into_iter().next().unwrap().resource {
            Resource::TestSuite(suite) => suite,
            other => panic!("{other:?}"),
        }
    }

    fn check(spec: &str, standings: &[StepState], expected: &Next) {
        assert_eq!(Plan::of(&suite(spec)).next(standings, false), *expected, "{standings:?}");
    }

    fn owned(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn steps_run_one_after_the_other() {
        let steps = "  steps: [a, b, a]\n";
        check(steps, &[Waiting; 3], &Next::Start(vec![0]));
        check(steps, &[Running, Waiting, Waiting], &Next::Wait);
        check(steps, &[FAILED, Waiting, Waiting], &Next::Start(vec![1]));
        check(steps, &[FAILED, PASSED, PASSED], &Next::Done(SuiteEnding::Finished { passed: false }));
        check(steps, &[PASSED; 3], &Next::Done(SuiteEnding::Finished { passed: true }));
    }

    #[test]
    fn a_step_that_only_settles_lets_the_next_one_start() {
        let steps = "  steps: [a, b, c]\n  teardown: [t]\n";
        check(steps, &[Settling, Waiting, Waiting, Waiting], &Next::Start(vec![1]));
        check(steps, &[Settling, Running, Waiting, Waiting], &Next::Wait);
        check(steps, &[FAILED, Settling, Waiting, Waiting], &Next::Start(vec![2]));
        check(steps, &[BROKEN, Settling, Waiting, Waiting], &Next::Skip(vec![2]));
        check(steps, &[PASSED, Settling, Settling, Waiting], &Next::Wait);
        check(steps, &[PASSED, PASSED, PASSED, Waiting], &Next::Start(vec![3]));
        // The steps of setup depend on how the one before ended.
        check("  setup: [s, t]\n  steps: [a]\n", &[Settling, Waiting, Waiting], &Next::Wait);
        check("  setup: [s]\n  steps: [a]\n", &[Settling, Waiting], &Next::Wait);
        let rows = "  steps: [a, b]\n  data: {rows: [{N: 1}, {N: 2}]}\n";
        check(rows, &[Settling, Running, Waiting, Waiting], &Next::Wait);
        check(rows, &[PASSED, Settling, Waiting, Waiting], &Next::Start(vec![2]));
    }

    #[test]
    fn a_broken_step_ends_the_suite() {
        let steps = "  steps: [a, b, c]\n";
        check(steps, &[PASSED, BROKEN, Waiting], &Next::Skip(vec![2]));
        check(steps, &[PASSED, BROKEN, Skipped], &Next::Done(SuiteEnding::Failed));
    }

    #[test]
    fn a_long_table_is_planned_in_passes() {
        let rows = "    - {A: '1'}\n".repeat(100);
        let plan = Plan::of(&suite(&format!("  steps: [{}]\n  data:\n    rows:\n{rows}", "a, ".repeat(30))));
        let mut standings = vec![Waiting; plan.steps.len()];
        while let Next::Start(ready) = plan.next(&standings, false) {
            for at in ready {
                standings[at] = PASSED;
            }
        }
        assert_eq!(standings, [PASSED; 3_000]);
        assert_eq!(plan.next(&standings, false), Next::Done(SuiteEnding::Finished { passed: true }));
    }

    #[test]
    fn a_suite_without_steps_passes() {
        check("  steps: []\n", &[], &Next::Done(SuiteEnding::Finished { passed: true }));
    }

    #[test]
    fn branches_run_at_one_time() {
        let steps = "  steps:\n  - a\n  - {test: b, dependsOn: []}\n  - {test: c, dependsOn: [a, b]}\n";
        check(steps, &[Waiting; 3], &Next::Start(vec![0, 1]));
        check(steps, &[PASSED, Running, Waiting], &Next::Wait);
        check(steps, &[PASSED, PASSED, Waiting], &Next::Start(vec![2]));
    }

    #[test]
    fn what_is_under_way_beside_a_broken_step_comes_to_its_end() {
        let steps =
            "  steps:\n  - a\n  - {test: b, dependsOn: []}\n  - {test: c, dependsOn: [b]}\n  teardown: [t]\n";
        check(steps, &[BROKEN, Running, Waiting, Waiting], &Next::Skip(vec![2]));
        check(steps, &[BROKEN, Running, Skipped, Waiting], &Next::Wait);
        check(steps, &[BROKEN, PASSED, Skipped, Waiting], &Next::Start(vec![3]));
    }

    #[test]
    fn nothing_but_teardown_runs_after_a_failed_setup() {
        let spec = "  setup: [s, t]\n  steps: [a]\n  teardown: [u, v]\n";
        check(spec, &[Waiting; 5], &Next::Start(vec![0]));
        check(spec, &[FAILED, Waiting, Waiting, Waiting, Waiting], &Next::Skip(vec![1, 2]));
        check(spec, &[FAILED, Skipped, Skipped, Waiting, Waiting], &Next::Start(vec![3]));
        check(spec, &[FAILED, Skipped, Skipped, BROKEN, Waiting], &Next::Start(vec![4]));
        check(spec, &[FAILED, Skipped, Skipped, PASSED, PASSED], &Next::Done(SuiteEnding::Failed));
    }

    #[test]
    fn a_stopped_suite_still_cleans_up() {
        let plan = Plan::of(&suite("  steps: [a, b]\n  teardown: [t]\n"));
        let stopped = StepState::Ended(Outcome::Stopped);
        assert_eq!(plan.next(&[Running, Waiting, Waiting], true), Next::Skip(vec![1]));
        assert_eq!(plan.next(&[Running, Skipped, Waiting], true), Next::Wait);
        assert_eq!(plan.next(&[stopped, Skipped, Waiting], true), Next::Start(vec![2]));
        assert_eq!(plan.next(&[stopped, Skipped, PASSED], true), Next::Done(SuiteEnding::Failed));
    }

    #[test]
    fn rows_follow_one_another_and_break_alone() {
        let spec = "  steps: [a, b]\n  data: {rows: [{N: 1}, {N: 2}]}\n";
        check(spec, &[PASSED, Running, Waiting, Waiting], &Next::Wait);
        check(spec, &[BROKEN, Waiting, Waiting, Waiting], &Next::Skip(vec![1]));
        check(spec, &[BROKEN, Skipped, Waiting, Waiting], &Next::Start(vec![2]));
        check(spec, &[BROKEN, Skipped, PASSED, PASSED], &Next::Done(SuiteEnding::Failed));
    }

    #[test]
    fn a_table_without_rows_runs_no_step() {
        let empty =
            TestSuite { steps: vec!["a".into()], data: Some(Data::default()), ..TestSuite::default() };
        assert_eq!(Plan::of(&empty), Plan::default());
    }

    #[test]
    fn outputs_become_variables_of_what_comes_after() {
        let spec = "  setup: [s]\n  steps:\n  - a\n  - {test: b, dependsOn: []}\n  - {test: c, dependsOn: [a]}\n  teardown: [t]\n  data: {rows: [{NAME: row, N: 1}]}\n";
        let plan = Plan::of(&suite(spec));
        let outputs = [
            owned(&[("TOKEN", "s"), ("NAME", "s")]),
            owned(&[("ID", "a"), ("N", "2")]),
            owned(&[("ID", "b")]),
            owned(&[("ID", "c")]),
            Values::new(),
        ];
        let variables = |at| plan.variables(at, &owned(&[("NAME", "given")]), &outputs);
        assert_eq!(variables(0), owned(&[("NAME", "given")]));
        assert_eq!(variables(1), owned(&[("NAME", "row"), ("TOKEN", "s"), ("N", "1")]));
        assert_eq!(variables(2), variables(1));
        assert_eq!(variables(3), owned(&[("NAME", "row"), ("TOKEN", "s"), ("N", "2"), ("ID", "a")]));
        assert_eq!(variables(4), owned(&[("NAME", "s"), ("TOKEN", "s"), ("ID", "c"), ("N", "2")]));
    }
}
