//! The analyzer's report about a trace.

use qualitytrace_core::analyzer::{Fault, PluginReport, Report, RuleReport, SpanReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_blank;
use crate::wire::Omitted;

/// The report of the analyzer; without plugins if there is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Linter {
    /// The minimum score.
    #[serde(skip_serializing_if = "is_blank")]
    pub minimum_score: u32,
    /// Whether no rule of level `error` has failed.
    #[serde(skip_serializing_if = "is_blank")]
    pub passed: bool,
    /// The score, from 0 to 100.
    #[serde(skip_serializing_if = "is_blank")]
    pub score: u32,
    /// The results of the plugins.
    #[serde(skip_serializing_if = "is_blank")]
    pub plugins: Option<Vec<Plugin>>,
}

impl Linter {
    /// Whether it agrees with another report: each rule has the same result, and the score is equal.
    pub fn agrees(&self, other: &Self) -> bool {
        let rules = |report: &Self| -> Vec<bool> {
            report.plugins.iter().flatten().flat_map(|plugin| &plugin.rules).map(|rule| rule.passed).collect()
        };
        self.score == other.score && rules(self) == rules(other)
    }
}

/// A rule that did not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedRule<'a> {
    /// Its id, as in definitions.
    pub id: &'a str,
    /// `error` or `warning`.
    pub level: &'a str,
    /// The number of spans that break it.
    pub spans: usize,
}

impl Linter {
    /// Whether any rule was applied.
    pub fn has_rules(&self) -> bool {
        self.plugins.iter().flatten().any(|plugin| !plugin.rules.is_empty())
    }

    /// Whether a rule of level `error` was applied.
    pub fn has_errors(&self) -> bool {
        self.plugins.iter().flatten().flat_map(|plugin| &plugin.rules).any(|rule| rule.level == "error")
    }

    /// Returns the rules that did not pass, in the order of the report.
    pub fn failed_rules(&self) -> Vec<FailedRule<'_>> {
        let rules = self.plugins.iter().flatten().flat_map(|plugin| &plugin.rules);
        let failed = rules.filter(|rule| !rule.passed).map(|rule| FailedRule {
            id: &rule.id,
            level: &rule.level,
            spans: rule.results.iter().filter(|result| !result.passed).count()
                + usize::try_from(rule.omitted.failed).unwrap_or(usize::MAX),
        });
        failed.collect()
    }
}

/// The results of one plugin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "LinterPlugin")]
pub struct Plugin {
    #[serde(skip_serializing_if = "is_blank")]
    name: String,
    #[serde(skip_serializing_if = "is_blank")]
    description: String,
    #[serde(skip_serializing_if = "is_blank")]
    passed: bool,
    #[serde(skip_serializing_if = "is_blank")]
    score: u32,
    rules: Vec<Rule>,
}

/// The results of one rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "LinterRule")]
struct Rule {
    #[serde(skip_serializing_if = "is_blank")]
    id: String,
    #[serde(skip_serializing_if = "is_blank")]
    name: String,
    #[serde(skip_serializing_if = "is_blank")]
    description: String,
    #[serde(skip_serializing_if = "is_blank")]
    error_description: String,
    #[serde(skip_serializing_if = "is_blank")]
    passed: bool,
    #[serde(skip_serializing_if = "is_blank")]
    weight: u32,
    #[serde(skip_serializing_if = "is_blank")]
    tips: Vec<String>,
    #[serde(skip_serializing_if = "is_blank")]
    results: Vec<RuleResult>,
    /// The number of results beyond the storage limit.
    #[serde(skip_serializing_if = "is_blank")]
    omitted: Omitted,
    #[serde(skip_serializing_if = "is_blank")]
    level: String,
}

/// The result of a rule for one span.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct RuleResult {
    #[serde(skip_serializing_if = "is_blank")]
    span_id: String,
    #[serde(skip_serializing_if = "is_blank")]
    errors: Vec<RuleError>,
    #[serde(skip_serializing_if = "is_blank")]
    passed: bool,
    /// Never set here; clients of Tracetest may send it.
    #[serde(skip_serializing_if = "is_blank")]
    severity: String,
}

/// A fault of a span.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RuleError {
    #[serde(skip_serializing_if = "is_blank")]
    value: String,
    #[serde(skip_serializing_if = "is_blank")]
    expected: String,
    #[serde(skip_serializing_if = "is_blank")]
    description: String,
    #[serde(skip_serializing_if = "is_blank")]
    suggestions: Vec<String>,
}

/// The results of one plugin, with counts instead of the results of every span.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShortPlugin {
    name: String,
    description: String,
    passed: bool,
    score: u32,
    rules: Vec<ShortRule>,
}

/// The results of one rule, with the first spans that break it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShortRule {
    id: String,
    name: String,
    description: String,
    error_description: String,
    /// `error`, `warning` or `disabled`.
    level: String,
    weight: u32,
    tips: Vec<String>,
    /// Whether no span breaks it.
    holds: bool,
    /// The number of spans that keep it.
    passed: u64,
    /// The number of spans that break it.
    failed: u64,
    /// The first spans that break it, at most 20.
    failures: Vec<RuleResult>,
}

/// A page of the results of one rule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RulePage {
    /// The rule with its counts.
    #[serde(flatten)]
    rule: ShortRule,
    /// Its results.
    results: Vec<RuleResult>,
    /// The number of stored results that pass the filter.
    total: usize,
    /// The number of results beyond the storage limit.
    omitted: u64,
}

impl Plugin {
    /// Returns counts, and the first failures of each rule.
    pub(in crate::wire) fn short(&self, failures: usize) -> ShortPlugin {
        ShortPlugin {
            name: self.name.clone(),
            description: self.description.clone(),
            passed: self.passed,
            score: self.score,
            rules: self.rules.iter().map(|rule| rule.short(failures)).collect(),
        }
    }
}

impl Rule {
    fn short(&self, failures: usize) -> ShortRule {
        let failing = || self.results.iter().filter(|result| !result.passed);
        let failed = failing().count() as u64;
        ShortRule {
            id: self.id.clone(),
            name: self.name.clone(),
            description: self.description.clone(),
            error_description: self.error_description.clone(),
            level: self.level.clone(),
            weight: self.weight,
            tips: self.tips.clone(),
            holds: self.passed,
            passed: self.results.len() as u64 - failed + self.omitted.passed,
            failed: failed + self.omitted.failed,
            failures: failing().take(failures).cloned().collect(),
        }
    }
}

impl Linter {
    /// Returns a page of the results of a rule, or only of those that break it; `None` if there is no such rule.
    pub(crate) fn page(&self, rule: &str, take: usize, skip: usize, only_failed: bool) -> Option<RulePage> {
        let mut rules = self.plugins.iter().flatten().flat_map(|plugin| &plugin.rules);
        let rule = rules.find(|known| known.id == rule)?;
        let results = || rule.results.iter().filter(|result| !result.passed || !only_failed);
        Some(RulePage {
            rule: rule.short(0),
            results: results().skip(skip).take(take).cloned().collect(),
            total: results().count(),
            omitted: if only_failed {
                rule.omitted.failed
            } else {
                rule.omitted.failed + rule.omitted.passed
            },
        })
    }
}

/// Converts a report for clients.
pub fn analysis(report: &Report) -> Linter {
    Linter {
        minimum_score: report.minimum_score,
        passed: report.passed,
        score: report.score,
        plugins: Some(report.plugins.iter().map(plugin).collect()),
    }
}

fn plugin(plugin: &PluginReport) -> Plugin {
    Plugin {
        name: plugin.id.title().to_owned(),
        description: plugin.id.description().to_owned(),
        passed: plugin.passed,
        score: plugin.score,
        rules: plugin.rules.iter().map(rule).collect(),
    }
}

fn rule(rule: &RuleReport) -> Rule {
    let entry = rule.id.entry();
    Rule {
        id: entry.id.to_owned(),
        name: entry.title.to_owned(),
        description: entry.description.to_owned(),
        error_description: entry.fault.to_owned(),
        passed: rule.passed,
        weight: rule.weight,
        tips: entry.tips.iter().map(|tip| (*tip).to_owned()).collect(),
        results: rule.results.iter().map(span).collect(),
        omitted: Omitted { passed: rule.omitted.passed, failed: rule.omitted.failed },
        level: rule.level.as_str().to_owned(),
    }
}

fn span(report: &SpanReport) -> RuleResult {
    let error = |fault: &Fault| RuleError {
        value: fault.value.clone(),
        expected: fault.expected.clone(),
        description: fault.description.clone(),
        suggestions: fault.suggestions.clone(),
    };
    RuleResult {
        span_id: report.span.map(|id| id.to_string()).unwrap_or_default(),
        errors: report.faults.iter().map(error).collect(),
        passed: report.passed,
        severity: String::new(),
    }
}
