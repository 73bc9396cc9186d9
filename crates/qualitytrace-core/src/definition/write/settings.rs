//! JSON shapes of variable sets, singleton settings and demos.

use schemars::JsonSchema;
use serde::Serialize;

use crate::analyzer::{Analyzer, Plugin, Rule};
use crate::definition::period::Period;
use crate::definition::settings::Strategy;
use crate::definition::shape::is_blank;
use crate::definition::stored::Stored;
use crate::definition::{Config, Demo, PollingProfile, Profile, TestRunner, VariableSet};
use crate::gates::Gate;

/// Values that tests can refer to.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct VariableSetSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    id: &'a str,
    name: &'a str,
    description: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    created_at: Option<&'a str>,
    values: Option<Vec<VariableSpec<'a>>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct VariableSpec<'a> {
    key: &'a str,
    value: &'a str,
    /// `secret`, or nothing.
    #[serde(skip_serializing_if = "is_blank", rename = "type")]
    kind: &'static str,
}

impl<'a> VariableSetSpec<'a> {
    pub(super) fn of(id: &'a str, set: &'a VariableSet, stored: &'a Stored) -> Self {
        let values = set.values.iter().map(|variable| VariableSpec {
            key: &variable.key,
            value: &variable.value.value,
            kind: if variable.is_secret { "secret" } else { "" },
        });
        Self {
            id,
            name: &set.name,
            description: &set.description,
            created_at: stored.created_at.as_deref(),
            values: set.has_values.then(|| values.collect()),
        }
    }
}

/// How long to wait for a trace.
#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PollingProfileSpec<'a> {
    id: &'a str,
    name: &'a str,
    default: bool,
    /// `periodic` or `no-polling`.
    strategy: &'static str,
    periodic: Option<PeriodicSpec<'a>>,
}

/// The polling profile of a test: its id, or the profile itself.
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ProfileSpec<'a> {
    Named(&'a str),
    Own {
        /// `no-polling`, or nothing.
        #[serde(skip_serializing_if = "is_blank")]
        strategy: &'static str,
        #[serde(skip_serializing_if = "is_blank")]
        periodic: Option<PeriodicSpec<'a>>,
    },
}

impl<'a> ProfileSpec<'a> {
    pub(super) fn of(profile: &'a Profile) -> Self {
        match profile {
            Profile::Named(name) => Self::Named(&name.value),
            Profile::Own(profile) => Self::Own {
                strategy: if profile.strategy == Strategy::NoPolling { "no-polling" } else { "" },
                periodic: profile.is_periodic_given.then(|| PeriodicSpec::of(profile)),
            },
        }
    }
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PeriodicSpec<'a> {
    retry_delay: &'a str,
    timeout: &'a str,
    selector_match_retries: u32,
    #[serde(skip_serializing_if = "is_blank")]
    quiet: Option<&'a str>,
    #[serde(skip_serializing_if = "is_blank")]
    settle: Option<&'a str>,
    #[serde(skip_serializing_if = "is_blank")]
    confirm: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    uninstrumented: &'a [String],
}

impl<'a> PeriodicSpec<'a> {
    fn of(profile: &'a PollingProfile) -> Self {
        let text = |period: &'a Period| period.text.as_str();
        Self {
            retry_delay: text(&profile.retry_delay),
            timeout: text(&profile.timeout),
            selector_match_retries: profile.selector_match_retries,
            quiet: profile.quiet.as_ref().map(text),
            settle: profile.settle.as_ref().map(text),
            confirm: profile.confirm.as_ref().map(text),
            uninstrumented: &profile.uninstrumented,
        }
    }
}

impl<'a> PollingProfileSpec<'a> {
    pub(super) fn of(id: &'a str, profile: &'a PollingProfile) -> Self {
        Self {
            id,
            name: &profile.name,
            default: true,
            strategy: profile.strategy.as_str(),
            periodic: profile.is_periodic_given.then(|| PeriodicSpec::of(profile)),
        }
    }
}

/// The plugins and rules of the analyzer.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AnalyzerSpec<'a> {
    id: &'a str,
    name: &'a str,
    enabled: bool,
    minimum_score: u32,
    /// Null only in the answer to a definition without it.
    plugins: Option<Vec<PluginSpec<'a>>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PluginSpec<'a> {
    /// `standards`, `common` or `security`.
    id: &'static str,
    enabled: bool,
    rules: Vec<RuleSpec<'a>>,
    name: &'a str,
    description: &'a str,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleSpec<'a> {
    id: &'static str,
    weight: u32,
    /// `error`, `warning` or `disabled`.
    error_level: &'static str,
    name: &'a str,
    error_description: &'a str,
    description: &'a str,
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

/// What a run must pass.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TestRunnerSpec<'a> {
    id: &'a str,
    name: &'a str,
    /// Null only in the answer to a definition without it.
    #[schemars(with = "Option<Vec<Gate>>")]
    required_gates: Option<Vec<&'static str>>,
}

impl<'a> TestRunnerSpec<'a> {
    pub(super) fn of(id: &'a str, runner: &'a TestRunner) -> Self {
        let required_gates = runner.required_gates.iter().copied().map(Gate::as_str).collect();
        Self { id, name: &runner.name, required_gates: Some(required_gates) }
    }
}

/// Settings of the server.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ConfigSpec<'a> {
    id: &'a str,
    name: &'static str,
    analytics_enabled: bool,
}

impl<'a> ConfigSpec<'a> {
    pub(super) fn of(id: &'a str, config: &Config) -> Self {
        Self { id, name: "Config", analytics_enabled: config.analytics_enabled }
    }
}

/// The addresses of a demo system.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DemoSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    id: &'a str,
    name: &'a str,
    /// `pokeshop` or `otelstore`.
    #[serde(rename = "type")]
    kind: &'a str,
    enabled: bool,
    #[serde(skip_serializing_if = "is_blank")]
    pokeshop: Option<PokeshopSpec<'a>>,
    #[serde(skip_serializing_if = "is_blank")]
    opentelemetry_store: Option<OpentelemetryStoreSpec<'a>>,
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PokeshopSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    http_endpoint: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    grpc_endpoint: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    kafka_broker: &'a str,
}

#[expect(clippy::struct_field_names, reason = "they are the keys")]
#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpentelemetryStoreSpec<'a> {
    #[serde(skip_serializing_if = "is_blank")]
    frontend_endpoint: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    product_catalog_endpoint: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    cart_endpoint: &'a str,
    #[serde(skip_serializing_if = "is_blank")]
    checkout_endpoint: &'a str,
}

impl<'a> DemoSpec<'a> {
    pub(super) fn of(id: &'a str, demo: &'a Demo) -> Self {
        Self {
            id,
            name: &demo.name,
            kind: &demo.kind,
            enabled: demo.enabled,
            pokeshop: demo.pokeshop.as_ref().map(|shop| PokeshopSpec {
                http_endpoint: &shop.http_endpoint,
                grpc_endpoint: &shop.grpc_endpoint,
                kafka_broker: &shop.kafka_broker,
            }),
            opentelemetry_store: demo.opentelemetry_store.as_ref().map(|store| OpentelemetryStoreSpec {
                frontend_endpoint: &store.frontend_endpoint,
                product_catalog_endpoint: &store.product_catalog_endpoint,
                cart_endpoint: &store.cart_endpoint,
                checkout_endpoint: &store.checkout_endpoint,
            }),
        }
    }
}
