//! Prints the steps of a task and their duration; the first failing step ends the task.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// The completed steps.
#[derive(Debug)]
pub(crate) struct Steps {
    started: Instant,
    done: Vec<(&'static str, Duration)>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), done: Vec::new() }
    }

    /// Runs one step. Its error carries its name.
    pub(crate) fn step<T>(&mut self, name: &'static str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("==> {name} (at {})", seconds(self.started.elapsed()));
        let started = Instant::now();
        let result = work().with_context(|| format!("step `{name}` failed"))?;
        let took = started.elapsed();
        println!("    {name}: ok in {}", seconds(took));
        self.done.push((name, took));
        Ok(result)
    }

    /// Each step with its time, in one line.
    pub(crate) fn summary(&self) -> String {
        let steps: Vec<_> =
            self.done.iter().map(|(name, took)| format!("{name} {}", seconds(*took))).collect();
        format!("{} steps in {}: {}", self.done.len(), seconds(self.started.elapsed()), steps.join(", "))
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
