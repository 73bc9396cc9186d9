//! Counts of the verdicts of many runs.

use std::time::Duration;

use super::evidence::Verdict;

/// The results of the runs of a world.
#[derive(Default)]
pub(super) struct Tally {
    false_passes: usize,
    false_fails: usize,
    inconclusive: usize,
    /// How long after the last span the wait ended.
    waits: Vec<u64>,
    /// How long after the proof that something does not exist its test failed.
    after_evidence: Vec<u64>,
    /// Descriptions of the runs with a wrong verdict.
    pub(super) wrong: Vec<String>,
}

impl Tally {
    pub(super) const HEADER: &str = "\
| world | policy | false pass | false fail | inconclusive | of | wait p50 / p90 / p99 (s) | after the evidence p50 / p90 / p99 (s) |
|---|---|---:|---:|---:|---:|---|---|";

    pub(super) fn count(
        &mut self,
        got: Verdict,
        truth: Verdict,
        wait: u64,
        after_evidence: Option<u64>,
        story: impl FnOnce() -> String,
    ) {
        self.false_passes += usize::from(got == Verdict::Passed && truth == Verdict::Failed);
        self.false_fails += usize::from(got == Verdict::Failed && truth == Verdict::Passed);
        self.inconclusive += usize::from(got == Verdict::Inconclusive);
        self.waits.push(wait);
        self.after_evidence.extend(after_evidence);
        if got != Verdict::Inconclusive && got != truth {
            self.wrong.push(story());
        }
    }

    /// Adds two tallies.
    pub(super) fn with(mut self, other: Self) -> Self {
        self.false_passes += other.false_passes;
        self.false_fails += other.false_fails;
        self.inconclusive += other.inconclusive;
        self.waits.extend(other.waits);
        self.after_evidence.extend(other.after_evidence);
        self.wrong.extend(other.wrong);
        self
    }

    pub(super) fn runs(&self) -> usize {
        self.waits.len()
    }

    pub(super) fn line(&self, world: &str, policy: &str) -> String {
        let [waits, after] = [&self.waits, &self.after_evidence].map(|times| {
            let mut times = times.clone();
            times.sort_unstable();
            times
        });
        format!(
            "| {world} | {policy} | {} | {} | {} | {} | {} | {} |",
            self.false_passes,
            self.false_fails,
            self.inconclusive,
            self.runs(),
            percentiles(&waits, &[50, 90, 99]),
            percentiles(&after, &[50, 90, 99]),
        )
    }
}

fn percentiles(sorted: &[u64], percents: &[usize]) -> String {
    if sorted.is_empty() {
        return "-".to_owned();
    }
    let at = |percent: &usize| {
        let time = sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)];
        format!("{:.2}", Duration::from_nanos(time).as_secs_f64())
    };
    percents.iter().map(at).collect::<Vec<_>>().join(" / ")
}
