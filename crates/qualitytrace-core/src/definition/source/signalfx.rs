//! SignalFx.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::reader::Reader;
use crate::definition::shape::is_blank;

/// SignalFx.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignalFx {
    /// The realm.
    pub realm: String,
    /// The token.
    pub token: String,
    /// Another address of its API than the usual one: a proxy, a private region, a stand-in.
    pub url: String,
}

pub(super) fn read(reader: &Reader<'_>, block: &Node) -> Option<SignalFx> {
    let mut fields = reader.fields(block, "`signalfx`")?;
    let source = SignalFx {
        realm: fields.string("realm").unwrap_or_default(),
        token: fields.string("token").unwrap_or_default(),
        url: fields.string("url").unwrap_or_default(),
    };
    fields.finish();
    Some(source)
}

#[derive(PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignalFxSpec<'a> {
    /// The realm of the organisation, like `us1`.
    realm: &'a str,
    /// The access token.
    token: &'a str,
    /// The address of the API, if it is not that of the realm.
    #[serde(skip_serializing_if = "is_blank")]
    url: &'a str,
}

impl<'a> SignalFxSpec<'a> {
    pub(super) fn of(signalfx: &'a SignalFx) -> Self {
        Self { realm: &signalfx.realm, token: &signalfx.token, url: &signalfx.url }
    }
}
