//! Gates: the conditions that a run must pass.

use super::Report;
use crate::definition::settings::Gate;

/// The gates of a run, and which of them it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gates {
    /// The gates that the run must pass.
    pub required: Vec<Gate>,
    /// Every gate that it failed, required or not.
    pub failed: Vec<Gate>,
    /// Whether it passed all required gates.
    pub passed: bool,
}

/// Checks a run against its gates. A run that was not analyzed fails no gate of the analyzer.
pub fn gates(required: &[Gate], analysis: Option<&Report>, specs_passed: bool) -> Gates {
    let mut failed = Vec::new();
    if let Some(analysis) = analysis {
        if !analysis.passed {
            failed.push(Gate::AnalyzerRules);
        }
        if analysis.score < analysis.minimum_score {
            failed.push(Gate::AnalyzerScore);
        }
    }
    if !specs_passed {
        failed.push(Gate::TestSpecs);
    }
    Gates { required: required.to_vec(), passed: !failed.iter().any(|gate| required.contains(gate)), failed }
}
