//! Sumo Logic.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Reader;

/// Sumo Logic.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SumoLogic {
    /// The address of its API.
    pub url: String,
    /// The access key's id.
    pub access_id: String,
    /// The access key.
    pub access_key: String,
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<SumoLogic> {
    let mut fields = reader.fields(block, "`sumologic`")?;
    let source = SumoLogic {
        url: fields.string("url").unwrap_or_default(),
        access_id: fields.string("accessID").unwrap_or_default(),
        access_key: fields.string("accessKey").unwrap_or_default(),
    };
    fields.finish();
    Some(source)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SumoLogicSpec<'a> {
    /// The address of the API.
    url: &'a str,
    /// The id of the access key.
    #[serde(rename = "accessID")]
    access_id: &'a str,
    /// The secret of the access key.
    #[serde(rename = "accessKey")]
    access_key: &'a str,
}

impl<'a> SumoLogicSpec<'a> {
    pub(super) fn of(sumo: &'a SumoLogic) -> Self {
        Self { url: &sumo.url, access_id: &sumo.access_id, access_key: &sumo.access_key }
    }
}
