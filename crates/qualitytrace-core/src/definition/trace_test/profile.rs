//! The polling profile of a test.

use qualitytrace_config::tree::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::definition::is_map;
use crate::definition::reader::Reader;
use crate::definition::settings::polling_profile::{self, PeriodicSpec, PollingProfile, Strategy};
use crate::definition::shape::is_blank;
use crate::definition::text::{Text, is_path};
use crate::lang::Diagnostic;

/// The id of singletons.
const CURRENT: &str = "current";

/// The polling profile of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Profile {
    /// An id, or a path for the command line, which substitutes the profile itself.
    Named(Text),
    /// Its own profile.
    Own(Box<PollingProfile>),
}

impl Profile {
    /// Returns the path, if it is named by one.
    pub fn path(&self) -> Option<&Text> {
        match self {
            Self::Named(name) if is_path(&name.value) => Some(name),
            Self::Named(_) | Self::Own(_) => None,
        }
    }
}

pub(super) fn read(reader: &Reader<'_>, node: &Node) -> Option<Profile> {
    if is_map(node) {
        return Some(Profile::Own(Box::new(polling_profile::read(reader, node)?)));
    }
    let name = reader.text(node, "`pollingProfile`").filter(|text| !text.is_empty())?;
    if name.value != CURRENT && !is_path(&name.value) {
        let message = format!(
            "the server has one polling profile, `{CURRENT}`, and waits by it; `{}` is not known",
            name.value
        );
        let help = "name a file, like `./profile.yaml`, or write the profile itself in its place";
        reader.report(Diagnostic::warning("unknown-profile", node.span.clone(), message).helped(help));
    }
    Some(Profile::Named(name))
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
        /// How long to wait, and for what.
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
