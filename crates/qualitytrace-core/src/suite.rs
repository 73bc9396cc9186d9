//! Which test of a suite comes next.
//!
//! Steps run in order. What a step gives out is a variable of every later step. A step that could not be run or judged
//! ends the suite; one that failed its specs does not.

use crate::definition::TestSuite;

/// A step that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it went.
    pub outcome: Outcome,
    /// What it gave out, in order.
    pub outputs: Vec<(String, String)>,
}

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It passed all that it must.
    Passed,
    /// It was judged, and did not pass.
    Failed,
    /// It could not be run or judged.
    Broken,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<'s> {
    /// Start this step.
    Start {
        /// Its position.
        step: usize,
        /// The test to run.
        test: &'s str,
        /// The variables to run it with: those given to the suite and what earlier steps gave out; of two, the latest.
        variables: Vec<(String, String)>,
    },
    /// Nothing is left to do.
    Done {
        /// Whether every step passed.
        passed: bool,
    },
    /// This step was broken, so the later ones are not run.
    Stopped {
        /// Its position.
        step: usize,
    },
}

/// What to do after `finished`, the steps of `suite` that are over, when the suite was given `variables`.
pub fn next<'s>(suite: &'s TestSuite, variables: &[(String, String)], finished: &[Finished]) -> Next<'s> {
    if let Some(step) = finished.iter().position(|step| step.outcome == Outcome::Broken) {
        return Next::Stopped { step };
    }
    match suite.steps.get(finished.len()) {
        None => Next::Done { passed: finished.iter().all(|step| step.outcome == Outcome::Passed) },
        Some(test) => {
            Next::Start { step: finished.len(), test: &test.value, variables: merged(variables, finished) }
        }
    }
}

/// Each name once, in the order in which the names first appear, with the value that was given last.
fn merged(given: &[(String, String)], finished: &[Finished]) -> Vec<(String, String)> {
    let mut merged: Vec<(String, String)> = Vec::new();
    for (name, value) in given.iter().chain(finished.iter().flat_map(|step| &step.outputs)) {
        match merged.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => known.clone_from(value),
            None => merged.push((name.clone(), value.clone())),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(steps: &[&str]) -> TestSuite {
        TestSuite { steps: steps.iter().copied().map(Into::into).collect(), ..TestSuite::default() }
    }

    fn finished(outcome: Outcome, outputs: &[(&str, &str)]) -> Finished {
        Finished { outcome, outputs: owned(outputs) }
    }

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn outputs_become_variables_of_later_steps() {
        let finished = [
            finished(Outcome::Passed, &[("ID", "1"), ("NAME", "a")]),
            finished(Outcome::Failed, &[("ID", "2")]),
        ];
        let suite = suite(&["a", "b", "a"]);
        let next = next(&suite, &owned(&[("NAME", "given"), ("HOST", "h")]), &finished);
        let variables = owned(&[("NAME", "a"), ("HOST", "h"), ("ID", "2")]);
        assert_eq!(next, Next::Start { step: 2, test: "a", variables });
    }

    #[test]
    fn a_broken_step_ends_the_suite() {
        let finished = [finished(Outcome::Passed, &[]), finished(Outcome::Broken, &[])];
        assert_eq!(next(&suite(&["a", "b", "c"]), &[], &finished), Next::Stopped { step: 1 });
    }

    #[test]
    fn a_failed_step_does_not_end_the_suite_but_fails_it() {
        let finished = [finished(Outcome::Failed, &[]), finished(Outcome::Passed, &[])];
        assert_eq!(next(&suite(&["a", "b"]), &[], &finished), Next::Done { passed: false });
    }

    #[test]
    fn a_suite_without_steps_passes() {
        assert_eq!(next(&suite(&[]), &[], &[]), Next::Done { passed: true });
    }
}
