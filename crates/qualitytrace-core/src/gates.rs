//! Gates: the conditions that a run must pass.

use schemars::JsonSchema;

use crate::analyzer::Report;

/// A gate that a run can be required to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(rename_all = "kebab-case")]
pub enum Gate {
    /// The analyzer's score reaches the minimum.
    AnalyzerScore,
    /// No rule of the analyzer at level `error` failed.
    AnalyzerRules,
    /// All specs passed.
    TestSpecs,
}

impl Gate {
    /// Every gate.
    pub const ALL: [Self; 3] = [Self::AnalyzerScore, Self::AnalyzerRules, Self::TestSpecs];

    /// The word that files use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AnalyzerScore => "analyzer-score",
            Self::AnalyzerRules => "analyzer-rules",
            Self::TestSpecs => "test-specs",
        }
    }

    /// The gate of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|gate| gate.as_str() == name)
    }
}

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
