//! Writing variable sets, the settings that a server has one of, and demos.

use serde_json::Value;

use super::{Object, Stored};
use crate::definition::analyzer::{Plugin, Rule};
use crate::definition::settings::Gate;
use crate::definition::{Analyzer, Config, Demo, PollingProfile, TestRunner, Variable, VariableSet};

pub(super) fn variables(out: &mut Object, set: &VariableSet, stored: &Stored) {
    out.put("name", set.name.clone());
    out.put("description", set.description.clone());
    out.maybe("createdAt", stored.created_at.clone());
    let values: Vec<Value> = set.values.iter().map(variable).collect();
    out.put("values", if set.has_values { Value::from(values) } else { Value::Null });
}

fn variable(variable: &Variable) -> Value {
    let mut out = Object::default();
    out.put("key", variable.key.clone());
    out.put("value", variable.value.value.clone());
    if variable.is_secret {
        out.put("type", "secret");
    }
    out.into()
}

pub(super) fn polling_profile(out: &mut Object, profile: &PollingProfile) {
    out.put("name", profile.name.clone());
    out.put("default", true);
    out.put("strategy", profile.strategy.as_str());
    if !profile.is_periodic_given {
        out.put("periodic", Value::Null);
        return;
    }
    let mut periodic = Object::default();
    periodic.put("retryDelay", profile.retry_delay.text.clone());
    periodic.put("timeout", profile.timeout.text.clone());
    periodic.put("selectorMatchRetries", profile.selector_match_retries);
    periodic.maybe("quiet", profile.quiet.as_ref().map(|period| period.text.clone()));
    periodic.maybe("settle", profile.settle.as_ref().map(|period| period.text.clone()));
    out.put("periodic", periodic);
}

pub(super) fn analyzer(out: &mut Object, analyzer: &Analyzer) {
    out.put("name", analyzer.name.clone());
    out.put("enabled", analyzer.enabled);
    out.put("minimumScore", analyzer.minimum_score);
    out.put("plugins", analyzer.plugins.iter().map(plugin).collect::<Vec<_>>());
}

fn plugin(plugin: &Plugin) -> Value {
    let mut out = Object::default();
    out.put("id", plugin.id.as_str());
    out.put("enabled", plugin.enabled);
    out.put("rules", plugin.rules.iter().map(rule).collect::<Vec<_>>());
    out.put("name", plugin.name.clone());
    out.put("description", plugin.description.clone());
    out.into()
}

fn rule(rule: &Rule) -> Value {
    let mut out = Object::default();
    out.put("id", rule.id.as_str());
    out.put("weight", rule.weight);
    out.put("errorLevel", rule.level.as_str());
    out.put("name", rule.name.clone());
    out.put("errorDescription", rule.error_description.clone());
    out.put("description", rule.description.clone());
    out.put("tips", rule.tips.clone().map_or(Value::Null, Value::from));
    out.into()
}

pub(super) fn test_runner(out: &mut Object, runner: &TestRunner) {
    out.put("name", runner.name.clone());
    let gates = runner.required_gates.iter().copied().map(Gate::as_str);
    out.put("requiredGates", gates.collect::<Vec<_>>());
}

pub(super) fn config(out: &mut Object, config: &Config) {
    out.put("name", "Config");
    out.put("analyticsEnabled", config.analytics_enabled);
}

pub(super) fn demo(out: &mut Object, demo: &Demo) {
    out.put("name", demo.name.clone());
    out.put("type", demo.kind.clone());
    out.put("enabled", demo.enabled);
    if let Some(pokeshop) = &demo.pokeshop {
        let mut block = Object::default();
        block.filled("httpEndpoint", &pokeshop.http_endpoint);
        block.filled("grpcEndpoint", &pokeshop.grpc_endpoint);
        block.filled("kafkaBroker", &pokeshop.kafka_broker);
        out.put("pokeshop", block);
    }
    if let Some(store) = &demo.opentelemetry_store {
        let mut block = Object::default();
        block.filled("frontendEndpoint", &store.frontend_endpoint);
        block.filled("productCatalogEndpoint", &store.product_catalog_endpoint);
        block.filled("cartEndpoint", &store.cart_endpoint);
        block.filled("checkoutEndpoint", &store.checkout_endpoint);
        out.put("opentelemetryStore", block);
    }
}
