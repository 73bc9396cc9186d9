//! The analyzer: rules that judge the quality of the telemetry itself.
//!
//! [`analyze`] checks the spans of a trace against a configuration and returns a report. The rules are one table,
//! in [`catalogue`]; what each of them checks is in `rules`. The same spans give the same report in any order of
//! arrival.

pub mod catalogue;
mod config;
mod rules;
mod score;

pub use catalogue::{Level, PluginId, RuleId};
pub use config::{Analyzer, Plugin, Rule};
pub use rules::{Fault, Subject};
pub use score::plugin_score;

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
    /// Its result for each span that it applies to, in the order of the trace; of many, failures first.
    pub results: Vec<SpanReport>,
    /// The number of results that there was no room for.
    pub omitted: Omitted,
}

/// The numbers of results that are not in a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Omitted {
    /// Spans that comply with the rule.
    pub passed: u64,
    /// Spans that do not.
    pub failed: u64,
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

/// Results that a report keeps of all rules together; further ones are only counted.
const MAX_RESULTS: usize = 10_000;

/// Analyzes a trace. Returns `None` when the analyzer is switched off.
pub fn analyze(analyzer: &Analyzer, trace: &Trace) -> Option<Report> {
    if !analyzer.enabled {
        return None;
    }
    let plugins: Vec<&Plugin> = analyzer.plugins.iter().filter(|plugin| plugin.enabled).collect();
    let rules = plugins.iter().flat_map(|plugin| &plugin.rules);
    let mut checks: Vec<Check> = rules.map(|rule| Check::new(rule.id, rule.weight, rule.level)).collect();
    let limit = MAX_RESULTS.div_ceil(checks.len().max(1));
    // The texts of one span at a time: those of a large trace take much more memory than its spans.
    for subject in trace.spans().iter().map(Subject::of) {
        for check in &mut checks {
            check.add(&subject, limit);
        }
    }
    let mut reports = checks.into_iter().map(|check| check.report);
    let plugins: Vec<PluginReport> = plugins
        .iter()
        .map(|plugin| plugin_report(plugin.id, reports.by_ref().take(plugin.rules.len()).collect()))
        .collect();
    Some(Report {
        minimum_score: analyzer.minimum_score,
        score: score::mean(plugins.iter().map(|plugin| plugin.score)),
        passed: plugins.iter().all(|plugin| plugin.passed),
        plugins,
    })
}

fn plugin_report(id: PluginId, mut rules: Vec<RuleReport>) -> PluginReport {
    rules.sort_by_key(|rule| rule.level);
    let (score, passed) = plugin_score(rules.iter().map(|rule| (rule.level, rule.weight, rule.passed)));
    PluginReport { id, score, passed, rules }
}

/// Checks spans against one rule.
pub fn rule_report(id: RuleId, weight: u32, level: Level, subjects: &[Subject]) -> RuleReport {
    let mut check = Check::new(id, weight, level);
    for subject in subjects {
        check.add(subject, MAX_RESULTS);
    }
    check.report
}

/// A rule that is being checked.
struct Check {
    report: RuleReport,
    /// How many of the kept results passed: failures may take their room.
    kept_passes: usize,
}

impl Check {
    fn new(id: RuleId, weight: u32, level: Level) -> Self {
        let (results, omitted) = (Vec::new(), Omitted::default());
        let report = RuleReport { id, weight, level, passed: true, results, omitted };
        Self { report, kept_passes: 0 }
    }

    /// Adds the result for a span, if the rule applies to it.
    fn add(&mut self, subject: &Subject, limit: usize) {
        if self.report.level == Level::Disabled {
            return;
        }
        let Some(result) = rules::judge(self.report.id, subject) else { return };
        let RuleReport { passed, results, omitted, .. } = &mut self.report;
        *passed &= result.passed;
        if results.len() < limit {
            self.kept_passes += usize::from(result.passed);
            results.push(result);
        } else if result.passed {
            omitted.passed += 1;
        } else if self.kept_passes == 0 {
            omitted.failed += 1;
        } else if let Some(at) = results.iter().rposition(|kept| kept.passed) {
            results.remove(at);
            results.push(result);
            self.kept_passes -= 1;
            omitted.passed += 1;
        }
    }
}
