//! The analyzer's configuration: its reader and JSON. The types are the analyzer's own.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use super::reader::{Fields, Reader};
use crate::analyzer::{Analyzer, Level, Plugin, PluginId, Rule, RuleId};
use crate::lang::Diagnostic;
use crate::lang::diagnostic::nearest;

pub(super) fn read(reader: &Reader<'_>, node: &Node) -> Option<Analyzer> {
    let mut fields = reader.fields(node, "an analyzer")?;
    fields.text("id");
    let analyzer = Analyzer {
        name: fields.required_name("linter name cannot be empty"),
        enabled: fields.flag("enabled").unwrap_or_default(),
        minimum_score: whole(&mut fields, "minimumScore", 100),
        plugins: fields.items("plugins").iter().filter_map(|node| plugin(reader, node)).collect(),
    };
    fields.finish();
    for (index, plugin) in analyzer.plugins.iter().enumerate() {
        if analyzer.plugins[..index].iter().any(|earlier| earlier.id == plugin.id) {
            let message = format!("plugin {} is listed twice", plugin.id.as_str());
            reader.error("duplicate-plugin", node.span.clone(), message);
        }
    }
    Some(analyzer)
}

/// Reads a whole number from 0 to `most`; 0 when it is absent.
fn whole(fields: &mut Fields<'_, '_>, key: &'static str, most: u32) -> u32 {
    let reader = fields.reader;
    let Some(node) = fields.get(key) else { return 0 };
    let Some(number) = reader.int(node, &format!("`{key}`")) else {
        return 0;
    };
    match u32::try_from(number) {
        Ok(number) if number <= most => number,
        Ok(_) | Err(_) => {
            let message = format!("`{key}` is a number from 0 to {most}, not {number}");
            reader.error("wrong-value", node.span.clone(), message);
            0
        }
    }
}

fn plugin(reader: &Reader<'_>, node: &Node) -> Option<Plugin> {
    let mut fields = reader.fields(node, "a plugin")?;
    let id = fields.text("id").unwrap_or_default();
    let enabled = fields.flag("enabled").unwrap_or_default();
    let name = fields.string("name").unwrap_or_default();
    let description = fields.string("description").unwrap_or_default();
    let nodes = fields.items("rules");
    fields.finish();
    let Some(plugin) = PluginId::named(&id.value) else {
        let names = PluginId::ALL.map(PluginId::as_str);
        let message =
            format!("plugin {} not supported, supported plugins are {}", id.value, names.join(" | "));
        let span = if id.is_empty() { node.span.clone() } else { id.place(0..id.value.len()) };
        reader.report(with_guess(Diagnostic::error("unknown-plugin", span, message), &id.value, &names));
        return None;
    };
    let rules: Vec<Rule> = nodes.iter().filter_map(|node| rule(reader, node, plugin)).collect();
    if nodes.len() != plugin.rules().len() {
        let names: Vec<&str> = plugin.rules().iter().map(|rule| rule.as_str()).collect();
        let message = format!(
            "plugin {} requires {} rules, but {} provided, supported rules for plugin are {}",
            plugin.as_str(),
            names.len(),
            nodes.len(),
            names.join(" | ")
        );
        reader.error("wrong-rules", node.span.clone(), message);
    } else if let Some(missing) =
        plugin.rules().iter().find(|known| rules.iter().all(|rule| rule.id != **known))
        && rules.len() == nodes.len()
    {
        let message = format!("plugin {} does not list its rule {}", plugin.as_str(), missing.as_str());
        reader.error("wrong-rules", node.span.clone(), message);
    }
    Some(Plugin { id: plugin, enabled, name, description, rules })
}

fn rule(reader: &Reader<'_>, node: &Node, plugin: PluginId) -> Option<Rule> {
    let mut fields = reader.fields(node, "a rule")?;
    let id = fields.text("id").unwrap_or_default();
    let level = fields.text("errorLevel").unwrap_or_default();
    let rule = plugin.rules().iter().copied().find(|rule| rule.as_str() == id.value);
    let read = Rule {
        id: rule.unwrap_or(RuleId::SpanNaming),
        weight: whole(&mut fields, "weight", 1_000_000),
        level: match level.value.as_str() {
            "" => Level::Error,
            word => Level::named(word).unwrap_or_else(|| {
                let message = format!("`{word}` is not a level");
                let diagnostic = Diagnostic::error("unknown-level", level.place(0..word.len()), message);
                reader.report(diagnostic.helped("use `error`, `warning` or `disabled`"));
                Level::Error
            }),
        },
        name: fields.string("name").unwrap_or_default(),
        description: fields.string("description").unwrap_or_default(),
        error_description: fields.string("errorDescription").unwrap_or_default(),
        tips: fields
            .get("tips")
            .is_some()
            .then(|| fields.texts("tips").into_iter().map(|tip| tip.value).collect()),
    };
    fields.finish();
    if rule.is_none() {
        let names: Vec<&str> = plugin.rules().iter().map(|rule| rule.as_str()).collect();
        let message = format!(
            "rule {} not found for plugin {}, supported rules for plugin are {}",
            id.value,
            plugin.as_str(),
            names.join(" | ")
        );
        let span = if id.is_empty() { node.span.clone() } else { id.place(0..id.value.len()) };
        reader.report(with_guess(Diagnostic::error("unknown-rule", span, message), &id.value, &names));
        return None;
    }
    Some(read)
}

fn with_guess(diagnostic: Diagnostic, word: &str, known: &[&str]) -> Diagnostic {
    match nearest(word, known.iter().copied()) {
        Some(near) => diagnostic.helped(format!("did you mean `{near}`?")),
        None => diagnostic,
    }
}

/// The plugins and rules of the analyzer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AnalyzerSpec<'a> {
    /// The id; a server has one analyzer, `current`.
    id: &'a str,
    /// The title of the analyzer.
    name: &'a str,
    /// Whether traces are analyzed.
    enabled: bool,
    /// The score, 0 to 100, that the gate `analyzer-score` requires.
    minimum_score: u32,
    /// Null only in the answer to a definition without it.
    plugins: Option<Vec<PluginSpec<'a>>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PluginSpec<'a> {
    /// `standards`, `common` or `security`.
    id: &'static str,
    /// Whether its rules are applied.
    enabled: bool,
    /// Its rules.
    rules: Vec<RuleSpec<'a>>,
    /// Its title; set by the server.
    name: &'a str,
    /// What its rules are about; set by the server.
    description: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleSpec<'a> {
    /// The id of the rule.
    id: &'static str,
    /// How much it counts in the score.
    weight: u32,
    /// `error`, `warning` or `disabled`.
    error_level: &'static str,
    /// Its title; set by the server.
    name: &'a str,
    /// What a span that breaks it gets to read; set by the server.
    error_description: &'a str,
    /// What it asks for; set by the server.
    description: &'a str,
    /// How to satisfy it; set by the server.
    tips: Option<&'a [String]>,
}

impl<'a> AnalyzerSpec<'a> {
    pub(super) fn of(id: &'a str, analyzer: &'a Analyzer) -> Self {
        let plugins = analyzer.plugins.iter().map(PluginSpec::of).collect();
        let Analyzer { name, enabled, minimum_score, .. } = analyzer;
        Self { id, name, enabled: *enabled, minimum_score: *minimum_score, plugins: Some(plugins) }
    }
}

impl<'a> PluginSpec<'a> {
    fn of(plugin: &'a Plugin) -> Self {
        Self {
            id: plugin.id.as_str(),
            enabled: plugin.enabled,
            rules: plugin.rules.iter().map(RuleSpec::of).collect(),
            name: &plugin.name,
            description: &plugin.description,
        }
    }
}

impl<'a> RuleSpec<'a> {
    fn of(rule: &'a Rule) -> Self {
        Self {
            id: rule.id.as_str(),
            weight: rule.weight,
            error_level: rule.level.as_str(),
            name: &rule.name,
            error_description: &rule.error_description,
            description: &rule.description,
            tips: rule.tips.as_deref(),
        }
    }
}
