//! The analyzer: rules that judge the quality of the telemetry itself.
//!
//! [`analyze`] checks the spans of a trace against a configuration and returns a report. The rules are one table,
//! in [`catalogue`]; what each of them checks is in `rules`. The same spans give the same report in any order of
//! arrival.

pub mod catalogue;
mod gates;
mod rules;
mod score;

pub use catalogue::{Level, PluginId, RuleId};
pub use gates::{Gates, gates};
pub use rules::{Fault, Subject};
pub use score::plugin_score;

use crate::definition;
use crate::id::SpanId;
use crate::trace::Trace;

/// The analyzer's report on a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The score that the gate `analyzer-score` requires.
    pub minimum_score: u32,
    /// The mean of the plugins' scores, 0 to 100.
    pub score: u32,
    /// Whether every plugin passed.
    pub passed: bool,
    /// One report for each enabled plugin, in the order of the configuration.
    pub plugins: Vec<PluginReport>,
}

/// The report of one plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginReport {
    /// The plugin.
    pub id: PluginId,
    /// The share of its rules, by weight, that passed: 0 to 100.
    pub score: u32,
    /// Whether no rule at level `error` failed.
    pub passed: bool,
    /// Its rules: first those at level `error`, then warnings, then disabled ones.
    pub rules: Vec<RuleReport>,
}

/// The report of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleReport {
    /// The rule.
    pub id: RuleId,
    /// Its share of the plugin's score.
    pub weight: u32,
    /// What a failure means.
    pub level: Level,
    /// Whether every span passed; a disabled rule passes unchecked.
    pub passed: bool,
    /// Its result for each span that it applies to, in the order of the trace.
    pub results: Vec<SpanReport>,
}

/// The result of one rule for one span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanReport {
    /// The span.
    pub span: Option<SpanId>,
    /// Whether it complies with the rule.
    pub passed: bool,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
}

/// Analyzes a trace. Returns `None` when the analyzer is switched off.
pub fn analyze(analyzer: &definition::Analyzer, trace: &Trace) -> Option<Report> {
    let subjects: Vec<Subject> = trace.spans().iter().map(Subject::of).collect();
    analyzer.enabled.then(|| report(analyzer, &subjects))
}

fn report(analyzer: &definition::Analyzer, subjects: &[Subject]) -> Report {
    let plugins: Vec<PluginReport> = analyzer
        .plugins
        .iter()
        .filter(|plugin| plugin.enabled)
        .map(|plugin| plugin_report(plugin, subjects))
        .collect();
    Report {
        minimum_score: analyzer.minimum_score,
        score: score::mean(plugins.iter().map(|plugin| plugin.score)),
        passed: plugins.iter().all(|plugin| plugin.passed),
        plugins,
    }
}

fn plugin_report(plugin: &definition::analyzer::Plugin, subjects: &[Subject]) -> PluginReport {
    let mut rules: Vec<RuleReport> =
        plugin.rules.iter().map(|rule| rule_report(rule.id, rule.weight, rule.level, subjects)).collect();
    rules.sort_by_key(|rule| rule.level);
    let (score, passed) = plugin_score(rules.iter().map(|rule| (rule.level, rule.weight, rule.passed)));
    PluginReport { id: plugin.id, score, passed, rules }
}

/// Checks spans against one rule.
pub fn rule_report(id: RuleId, weight: u32, level: Level, subjects: &[Subject]) -> RuleReport {
    let results: Vec<SpanReport> = match level {
        Level::Disabled => Vec::new(),
        Level::Error | Level::Warning => {
            subjects.iter().filter_map(|subject| rules::judge(id, subject)).collect()
        }
    };
    RuleReport { id, weight, level, passed: results.iter().all(|result| result.passed), results }
}
