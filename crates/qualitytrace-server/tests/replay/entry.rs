//! A recorded request with Tracetest's response.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A request and its response.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) request_headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) request_body: Option<String>,
    /// `None` if the connection was closed without a response.
    pub(crate) status: Option<u16>,
    #[serde(default)]
    pub(crate) response_headers: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(crate) response_body: Option<String>,
    /// Paths in the body that differed between two captures.
    #[serde(default)]
    pub(crate) varies: Vec<String>,
    /// Set if the request went to the OTLP port.
    #[serde(default)]
    pub(crate) base: Option<String>,
    /// Set if the body was several JSON documents in sequence.
    #[serde(default)]
    pub(crate) concatenated_json_documents: Option<serde_json::Value>,
}

/// A response, expected or actual.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Entry {
    /// Returns the expected response; `None` if Tracetest gave none.
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

    /// Returns the path without its query.
    pub(crate) fn route(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// Whether Tracetest sent several documents: it stored the resource although it refused it, so its later lists
    /// contain it.
    pub(crate) fn is_several_documents(&self) -> bool {
        !matches!(
            self.concatenated_json_documents,
            None | Some(serde_json::Value::Null | serde_json::Value::Bool(false))
        )
    }
}
