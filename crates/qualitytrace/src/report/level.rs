//! How much is shown at the terminal.

use super::Outcome;

/// How much is shown of tests as they end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Nothing: standard output belongs to a report.
    Nothing,
    /// Tests that did not pass.
    Failures,
    /// Every test.
    Usual,
    /// Every test with its trace, and with what was sent and answered.
    Details,
}

impl Level {
    /// Whether a test with this outcome is shown.
    pub(super) fn shows(self, outcome: Outcome) -> bool {
        match self {
            Self::Nothing => false,
            Self::Failures => !matches!(outcome, Outcome::Passed | Outcome::Skipped),
            Self::Usual | Self::Details => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_did_not_pass_is_shown_if_so_wanted() {
        assert!(Level::Failures.shows(Outcome::Flaky { recovered: true }));
        assert!(!Level::Failures.shows(Outcome::Passed) && !Level::Failures.shows(Outcome::Skipped));
        assert!(Level::Usual.shows(Outcome::Passed) && !Level::Nothing.shows(Outcome::Failed));
    }
}
