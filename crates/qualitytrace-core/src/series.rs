//! Series: runs of one test that are judged together.
//!
//! A test may be run again when it does not pass (`retries`), and several times in any case (`repeat`). Runs that
//! disagree make it *flaky*, which is neither passed nor failed.

/// How often a test is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attempts {
    /// Maximum number of further runs of a repetition that does not pass.
    pub retries: u32,
    /// Number of repetitions; at least 1.
    pub repeat: u32,
}

impl Attempts {
    /// Upper limit of each of the two numbers.
    pub const MOST: u32 = 1_000;
    /// Maximum number of runs in one series.
    pub const MOST_RUNS: u64 = 10_000;

    /// Fails when the series could have more than [`Self::MOST_RUNS`] runs.
    pub fn check(self) -> Result<(), TooManyRunsError> {
        let runs = u64::from(self.repeat.max(1)) * (u64::from(self.retries) + 1);
        if runs > Self::MOST_RUNS { Err(TooManyRunsError { runs }) } else { Ok(()) }
    }

    /// Whether there may be more than one run.
    pub const fn is_several(self) -> bool {
        self.retries > 0 || self.repeat > 1
    }
}

/// The series could have more runs than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "`repeat` and `retries` come to up to {runs} runs, and at most {} are made together; lower one of them",
    Attempts::MOST_RUNS
)]
pub struct TooManyRunsError {
    /// How many there could be.
    pub runs: u64,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { retries: 0, repeat: 1 }
    }
}

/// How one run of a series ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunEnding {
    /// It passed everything required.
    Passed,
    /// It was judged, and did not pass.
    Failed,
    /// Missing spans could change its verdict.
    Inconclusive,
    /// The server could not bring it to its end: nothing is known of the system under test.
    Interrupted,
    /// It could not be run or judged.
    Broken,
    /// It was stopped.
    Stopped,
}

/// The outcome of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Every run passed.
    Passed,
    /// Some runs passed and some did not.
    Flaky {
        /// Whether every repetition finally passed.
        recovered: bool,
    },
    /// No run passed, and the last was judged.
    Failed,
    /// No run failed, or none passed, and missing spans could have changed a verdict.
    Inconclusive,
    /// No run passed, and the server could not bring the last one to its end.
    Interrupted,
    /// No run passed, and the last could not be run or judged.
    Broken,
    /// It was stopped.
    Stopped,
}

impl Outcome {
    /// Whether it counts as passed for clients that only know passed and failed.
    pub const fn is_pass(self) -> bool {
        matches!(self, Self::Passed | Self::Flaky { recovered: true })
    }

    /// Whether there is no result at all.
    pub const fn is_broken(self) -> bool {
        matches!(self, Self::Interrupted | Self::Broken | Self::Stopped)
    }
}

/// The next action of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Start another run.
    Start,
    /// The series is complete.
    Done(Outcome),
}

/// Decides what to do after these runs.
pub fn next(attempts: Attempts, ended: &[RunEnding]) -> Next {
    let (mut repetitions, mut tries, mut lost) = (0, 0, false);
    for end in ended {
        tries += 1;
        match end {
            RunEnding::Stopped => return Next::Done(Outcome::Stopped),
            RunEnding::Passed => (repetitions, tries) = (repetitions + 1, 0),
            RunEnding::Failed | RunEnding::Inconclusive | RunEnding::Interrupted | RunEnding::Broken => {
                if tries > attempts.retries {
                    (repetitions, tries, lost) = (repetitions + 1, 0, true);
                }
            }
        }
    }
    if repetitions < attempts.repeat.max(1) {
        return Next::Start;
    }
    let passed = ended.iter().filter(|end| **end == RunEnding::Passed).count();
    let is_open = ended.iter().all(|end| matches!(end, RunEnding::Passed | RunEnding::Inconclusive));
    Next::Done(match ended.last() {
        _ if passed == ended.len() => Outcome::Passed,
        // More spans could have made every run pass.
        _ if passed > 0 && lost && is_open => Outcome::Inconclusive,
        _ if passed > 0 => Outcome::Flaky { recovered: !lost },
        Some(RunEnding::Inconclusive) => Outcome::Inconclusive,
        Some(RunEnding::Interrupted) => Outcome::Interrupted,
        Some(RunEnding::Broken) => Outcome::Broken,
        Some(RunEnding::Passed | RunEnding::Failed | RunEnding::Stopped) | None => Outcome::Failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use RunEnding::{Broken, Failed, Inconclusive, Interrupted, Passed, Stopped};

    fn check(retries: u32, repeat: u32, ended: &[RunEnding], expected: Next) {
        assert_eq!(next(Attempts { retries, repeat }, ended), expected, "{ended:?}");
    }

    #[test]
    fn without_retries_the_first_run_decides() {
        check(0, 1, &[], Next::Start);
        check(0, 1, &[Passed], Next::Done(Outcome::Passed));
        check(0, 1, &[Failed], Next::Done(Outcome::Failed));
        check(0, 1, &[Broken], Next::Done(Outcome::Broken));
        check(0, 1, &[Inconclusive], Next::Done(Outcome::Inconclusive));
        check(0, 1, &[Interrupted], Next::Done(Outcome::Interrupted));
    }

    #[test]
    fn a_test_that_passes_at_last_is_flaky() {
        check(2, 1, &[Failed], Next::Start);
        check(2, 1, &[Failed, Broken], Next::Start);
        check(2, 1, &[Failed, Passed], Next::Done(Outcome::Flaky { recovered: true }));
        check(2, 1, &[Failed, Failed, Failed], Next::Done(Outcome::Failed));
        check(2, 1, &[Passed], Next::Done(Outcome::Passed));
    }

    #[test]
    fn runs_that_passed_and_inconclusive_ones_decide_nothing() {
        check(0, 2, &[Passed, Inconclusive], Next::Done(Outcome::Inconclusive));
        check(0, 3, &[Inconclusive, Passed, Passed], Next::Done(Outcome::Inconclusive));
        check(0, 3, &[Inconclusive, Passed, Failed], Next::Done(Outcome::Flaky { recovered: false }));
        check(1, 1, &[Inconclusive, Passed], Next::Done(Outcome::Flaky { recovered: true }));
    }

    #[test]
    fn repetitions_that_disagree_are_flaky_and_not_recovered() {
        check(0, 3, &[Passed, Failed], Next::Start);
        check(0, 3, &[Passed, Failed, Passed], Next::Done(Outcome::Flaky { recovered: false }));
        check(0, 3, &[Passed, Passed, Passed], Next::Done(Outcome::Passed));
        check(0, 2, &[Failed, Failed], Next::Done(Outcome::Failed));
    }

    #[test]
    fn every_repetition_has_its_own_retries() {
        check(1, 2, &[Failed, Passed, Failed], Next::Start);
        check(1, 2, &[Failed, Passed, Failed, Passed], Next::Done(Outcome::Flaky { recovered: true }));
        check(1, 2, &[Failed, Failed, Passed], Next::Done(Outcome::Flaky { recovered: false }));
    }

    #[test]
    fn the_runs_of_a_series_are_bounded() {
        let runs = |repeat, retries| Attempts { retries, repeat }.check().map_err(|excess| excess.runs);
        assert_eq!([runs(1, 0), runs(1000, 9), runs(10, 999), runs(0, 1000)], [Ok(()); 4]);
        assert_eq!((runs(1000, 10), runs(1000, 1000)), (Err(11_000), Err(1_001_000)));
        assert_eq!(runs(u32::MAX, u32::MAX), Err(u64::from(u32::MAX) << 32));
    }

    #[test]
    fn a_stopped_run_ends_the_series() {
        check(5, 5, &[Passed, Stopped], Next::Done(Outcome::Stopped));
    }
}
