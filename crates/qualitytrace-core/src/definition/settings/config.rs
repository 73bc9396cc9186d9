//! Further settings of the server.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Reader;

/// Further settings of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Kept for old clients; this product sends no analytics.
    pub analytics_enabled: bool,
}

pub(in crate::definition) fn read(reader: &Reader<'_>, node: &Node) -> Option<Config> {
    let mut fields = reader.fields(node, "a config")?;
    fields.text("id");
    fields.text("name");
    let analytics_enabled = fields.flag("analyticsEnabled").unwrap_or_default();
    fields.finish();
    Some(Config { analytics_enabled })
}

/// Settings of the server.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::definition) struct ConfigSpec<'a> {
    /// The id; a server has one, `current`.
    id: &'a str,
    /// The title of the configuration.
    name: &'static str,
    /// Has no effect: this server sends no analytics.
    analytics_enabled: bool,
}

impl<'a> ConfigSpec<'a> {
    pub(in crate::definition) fn of(id: &'a str, config: &Config) -> Self {
        Self { id, name: "Config", analytics_enabled: config.analytics_enabled }
    }
}
