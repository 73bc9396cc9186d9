//! One request with the answer that the original gave.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A request and its answer.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) request_headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) request_body: Option<String>,
    /// `None` when the connection was closed without an answer.
    pub(crate) status: Option<u16>,
    #[serde(default)]
    pub(crate) response_headers: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(crate) response_body: Option<String>,
    /// Paths in the body that differed between two captures.
    #[serde(default)]
    pub(crate) varies: Vec<String>,
    /// Given where the request went to the OTLP port.
    #[serde(default)]
    pub(crate) base: Option<String>,
    /// The body was several JSON documents one after the other.
    #[serde(default)]
    pub(crate) concatenated_json_documents: Option<serde_json::Value>,
}

/// An answer, expected or real.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Entry {
    /// The answer to expect; `None` when the original gave none.
    pub(crate) fn expected(&self) -> Option<Answer> {
        Some(Answer {
            status: self.status?,
            headers: self
                .response_headers
                .iter()
                .flatten()
                .map(|(name, value)| (name.to_lowercase(), value.clone()))
                .collect(),
            body: self.response_body.clone().unwrap_or_default(),
        })
    }

    /// The path without its query.
    pub(crate) fn route(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// Whether the original stored the thing although it refused it, so that its later lists have it.
    pub(crate) fn is_several_documents(&self) -> bool {
        !matches!(
            self.concatenated_json_documents,
            None | Some(serde_json::Value::Null | serde_json::Value::Bool(false))
        )
    }
}
