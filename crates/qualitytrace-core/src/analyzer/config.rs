//! The configuration of the analyzer.

use super::{Level, PluginId, RuleId};

/// The configuration of the analyzer. A server has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analyzer {
    /// The title for the user.
    pub name: String,
    /// Whether traces are analyzed at all.
    pub enabled: bool,
    /// The score that the gate `analyzer-score` requires, 0 to 100.
    pub minimum_score: u32,
    /// The plugins.
    pub plugins: Vec<Plugin>,
}

/// A group of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Its id.
    pub id: PluginId,
    /// Whether it is used.
    pub enabled: bool,
    /// Its title in the file; empty when the file has none.
    pub name: String,
    /// Its description in the file; empty when the file has none.
    pub description: String,
    /// Its rules.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its id.
    pub id: RuleId,
    /// Its share of the plugin's score.
    pub weight: u32,
    /// The severity of a failure.
    pub level: Level,
    /// Its title in the file; empty when the file has none.
    pub name: String,
    /// Its description in the file; empty when the file has none.
    pub description: String,
    /// The name of a failure in the file; empty when the file has none.
    pub error_description: String,
    /// The tips in the file; `None` when the file has none.
    pub tips: Option<Vec<String>>,
}

impl Default for Analyzer {
    /// Enables everything, with the catalogue's texts and weights.
    fn default() -> Self {
        Self {
            name: "analyzer".to_owned(),
            enabled: true,
            minimum_score: 0,
            plugins: PluginId::ALL.map(Plugin::from).to_vec(),
        }
    }
}

impl From<PluginId> for Plugin {
    fn from(id: PluginId) -> Self {
        Self {
            id,
            enabled: true,
            name: id.title().to_owned(),
            description: id.description().to_owned(),
            rules: id.rules().iter().copied().map(Rule::from).collect(),
        }
    }
}

impl From<RuleId> for Rule {
    fn from(id: RuleId) -> Self {
        let entry = id.entry();
        Self {
            id,
            weight: entry.weight,
            level: Level::Error,
            name: entry.title.to_owned(),
            description: entry.description.to_owned(),
            error_description: entry.fault.to_owned(),
            tips: Some(entry.tips.iter().map(|tip| (*tip).to_owned()).collect()),
        }
    }
}
