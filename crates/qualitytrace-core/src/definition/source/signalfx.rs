//! SignalFx.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Reader;

/// SignalFx.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignalFx {
    /// The realm.
    pub realm: String,
    /// The token.
    pub token: String,
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<SignalFx> {
    let mut fields = reader.fields(block, "`signalfx`")?;
    let source = SignalFx {
        realm: fields.string("realm").unwrap_or_default(),
        token: fields.string("token").unwrap_or_default(),
    };
    fields.finish();
    Some(source)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignalFxSpec<'a> {
    realm: &'a str,
    token: &'a str,
}

impl<'a> SignalFxSpec<'a> {
    pub(super) fn of(signalfx: &'a SignalFx) -> Self {
        Self { realm: &signalfx.realm, token: &signalfx.token }
    }
}
