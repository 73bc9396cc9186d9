//! Browser scripts.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use super::files::FileUse;
use crate::definition::reader::Reader;
use crate::definition::shape::is_blank;
use crate::definition::text::Text;

/// A browser script that the product runs itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlaywrightEngine {
    /// The page to open.
    pub target: Text,
    /// The script.
    pub script: Text,
    /// The function of the script to call.
    pub method: Text,
}

impl PlaywrightEngine {
    pub(super) fn mapped<E>(&self, text: &mut impl FnMut(&Text) -> Result<Text, E>) -> Result<Self, E> {
        Ok(Self { target: text(&self.target)?, method: text(&self.method)?, ..self.clone() })
    }

    pub(super) fn each_file<E>(
        &mut self,
        change: &mut impl FnMut(FileUse, &mut Text) -> Result<(), E>,
    ) -> Result<(), E> {
        change(FileUse::Source, &mut self.script)
    }
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<PlaywrightEngine> {
    let mut fields = reader.fields(block, "a Playwright trigger")?;
    let engine = PlaywrightEngine {
        target: fields.text("target").unwrap_or_default(),
        script: fields.text("script").unwrap_or_default(),
        method: fields.text("method").unwrap_or_default(),
    };
    fields.finish();
    Some(engine)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlaywrightEngineSpec<'a> {
    /// The page that the script begins with.
    #[serde(skip_serializing_if = "is_blank")]
    target: &'a str,
    /// The script, or a path.
    #[serde(skip_serializing_if = "is_blank")]
    script: &'a str,
    /// The function of the script to call.
    #[serde(skip_serializing_if = "is_blank")]
    method: &'a str,
}

impl<'a> PlaywrightEngineSpec<'a> {
    pub(super) fn of(engine: &'a PlaywrightEngine) -> Self {
        Self { target: &engine.target.value, script: &engine.script.value, method: &engine.method.value }
    }
}
