//! Counts of the verdicts of a world.

use std::time::Duration;

use super::claim::Outcome;

/// The result of a run.
pub(super) struct RunResult {
    /// Whether the test had a complete run before.
    pub(super) is_known: bool,
    pub(super) truth: Outcome,
    pub(super) got: Outcome,
    /// Whether a rule can know what is missing.
    pub(super) is_knowable: bool,
    /// Whether spans that are here decide it.
    pub(super) is_by_value: bool,
    /// How long after the last span the wait was over.
    pub(super) wait: u64,
    /// How long the verdict was checked again.
    pub(super) confirmed: u64,
    /// How long after the last span or the proof that nothing is missing the wait was over, if it was proven.
    pub(super) after_proof: Option<u64>,
}

impl RunResult {
    pub(super) fn is_wrong(&self) -> bool {
        self.got != Outcome::Inconclusive && self.got != self.truth
    }
}

/// The results of a world.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) runs: usize,
    false_passes: usize,
    false_fails: usize,
    /// Of first runs and of known ones: how many, and how many were inconclusive.
    counts: [usize; 2],
    inconclusive: [usize; 2],
    passes: [Vec<u64>; 2],
    /// Failures of known tests by absence: the wait, the wait after the proof, the confirmation.
    absent: Vec<u64>,
    after_proof: Vec<u64>,
    confirmed: Vec<u64>,
    open: Vec<u64>,
    /// Descriptions of the runs with a wrong verdict that a rule could have avoided, and of the others.
    pub(super) wrong: Vec<String>,
    pub(super) unknowable: Vec<String>,
    /// Descriptions of the runs of known tests without one, if they are asked for.
    pub(super) undecided: Option<Vec<String>>,
}

impl Tally {
    pub(super) const HEADER: &str = "\
| world | wrong: passed, failed | avoidable | of | inconclusive first, known (%) | first pass p50 / p90 | known pass p50 / p90 | failure by absence p50 / p90 | after the proof p50 / p90 | confirmed p50 / p90 | until inconclusive p50 / p90 |
|---|---:|---:|---:|---:|---|---|---|---|---|---|";

    pub(super) fn count(&mut self, result: &RunResult, story: impl Fn() -> String) {
        let known = usize::from(result.is_known);
        self.runs += 1;
        self.counts[known] += 1;
        if result.got == Outcome::Inconclusive && result.is_known {
            self.undecided.iter_mut().for_each(|undecided| undecided.push(story()));
        } else if result.is_wrong() {
            let stories = if result.is_knowable { &mut self.wrong } else { &mut self.unknowable };
            stories.push(story());
            self.false_passes += usize::from(result.got == Outcome::Passed);
            self.false_fails += usize::from(result.got == Outcome::Failed);
        }
        match result.got {
            Outcome::Passed => self.passes[known].push(result.wait),
            Outcome::Failed if result.is_by_value || !result.is_known => {}
            Outcome::Failed => {
                self.absent.push(result.wait);
                self.after_proof.extend(result.after_proof);
                self.confirmed.push(result.confirmed);
            }
            Outcome::Inconclusive => {
                self.inconclusive[known] += 1;
                self.open.push(result.wait);
            }
        }
    }

    /// Adds two tallies.
    pub(super) fn with(mut self, other: Self) -> Self {
        self.runs += other.runs;
        self.false_passes += other.false_passes;
        self.false_fails += other.false_fails;
        for known in 0..2 {
            self.counts[known] += other.counts[known];
            self.inconclusive[known] += other.inconclusive[known];
        }
        for (all, more) in self.passes.iter_mut().zip(other.passes) {
            all.extend(more);
        }
        self.absent.extend(other.absent);
        self.after_proof.extend(other.after_proof);
        self.confirmed.extend(other.confirmed);
        self.open.extend(other.open);
        self.wrong.extend(other.wrong);
        self.unknowable.extend(other.unknowable);
        self.undecided = self.undecided.into_iter().chain(other.undecided).reduce(|mut all, more| {
            all.extend(more);
            all
        });
        self
    }

    /// A row of the table, in Markdown.
    pub(super) fn row(&mut self, world: &str) -> String {
        let share = |known: usize| percent(self.inconclusive[known], self.counts[known]);
        let [first, known] = [share(0), share(1)];
        let [first_pass, known_pass] = [0, 1].map(|known| percentiles(&mut self.passes[known]));
        let times = [&mut self.absent, &mut self.after_proof, &mut self.confirmed, &mut self.open];
        let times = times.map(|times| percentiles(times)).join(" | ");
        let (passed, failed) = (self.false_passes, self.false_fails);
        format!(
            "| {world} | {passed}, {failed} | {} | {} | {first}, {known} | {first_pass} | {known_pass} | {times} |",
            self.wrong.len(),
            self.runs
        )
    }
}

fn percent(part: usize, of: usize) -> String {
    if of == 0 {
        return "-".to_owned();
    }
    let tenths = (part * 1_000 + of / 2) / of;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// The median and the 90th percentile, in seconds.
fn percentiles(times: &mut [u64]) -> String {
    if times.is_empty() {
        return "-".to_owned();
    }
    times.sort_unstable();
    let at = |percent: usize| Duration::from_nanos(times[(times.len() - 1) * percent / 100]).as_secs_f64();
    format!("{:.2} / {:.2}", at(50), at(90))
}
