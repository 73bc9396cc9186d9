//! Import: requests as other tools write them become definitions.
//!
//! [`import`] is total: any text gives definitions and warnings, or an error. What cannot be carried over is named in a
//! warning; only what does not concern the request, like options about a tool's own output, is left out without one.
//! Each definition is read back before it is returned.
//!
//! Each tool is one module. They share `template` (texts with variables), `name`, `collection` (what was found so far),
//! `document` (JSON and YAML), `http` (parts of requests) and `credentials`.

mod answer;
mod collection;
mod credentials;
mod curl;
mod document;
mod har;
mod http;
mod hurl;
mod name;
mod openapi;
mod postman;
mod template;

use serde_json::Value;

use crate::budget::{Budget, BudgetError};
use collection::Collection;

/// The tools whose files can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tool {
    /// Commands of curl, as a shell reads them.
    Curl,
    /// HTTP archives, version 1.2, as browsers save them.
    Har,
    /// Collections of Postman, version 2.1.
    Postman,
    /// Descriptions of an API: `OpenAPI` 3.0 and 3.1, in JSON or YAML.
    Openapi,
    /// Files of hurl.
    Hurl,
}

/// What became of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// The definitions, in the order of the text; variables of the text are a variable set at the end.
    pub definitions: Vec<Definition>,
    /// What could not be carried over.
    pub warnings: Vec<String>,
}

/// A definition that was made of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Its text in YAML.
    pub text: String,
}

/// Why nothing can be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The text is not what it should be.
    #[error("the text cannot be read as {what}: {why}")]
    Unreadable {
        /// What it should be.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
    /// There is no request in the text.
    #[error("the text holds no request that can be imported")]
    Empty,
    /// The tool was not named and cannot be guessed.
    #[error("the text is of none of the known tools; name one: curl, har, postman, openapi or hurl")]
    Unknown,
    /// The import takes too long.
    #[error(transparent)]
    Exceeded(#[from] BudgetError),
}

/// What definitions are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purpose {
    /// A text that is edited and stored: a request as it is.
    #[default]
    Draft,
    /// Files that are kept and shared: credentials are variables, captures make a suite, and each test asserts a status.
    Files {
        /// The status that the only request was answered with, if it was sent.
        status: Option<u64>,
    },
}

/// Makes definitions of the requests in a text; without `tool`, its layout decides.
pub fn import(tool: Option<Tool>, text: &str, budget: &Budget) -> Result<Imported, ImportError> {
    import_for(Purpose::Draft, tool, text, budget)
}

/// The same for a purpose.
pub fn import_for(
    purpose: Purpose,
    tool: Option<Tool>,
    text: &str,
    budget: &Budget,
) -> Result<Imported, ImportError> {
    budget.read(text.len())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Collection::new(purpose, budget);
    let tool = match tool {
        Some(tool) => tool,
        None => detected(text).ok_or(ImportError::Unknown)?,
    };
    match tool {
        Tool::Curl => curl::import(text, &mut found)?,
        Tool::Har => har::import(text, &mut found)?,
        Tool::Postman => postman::import(text, &mut found)?,
        Tool::Openapi => openapi::import(text, &mut found)?,
        Tool::Hurl => hurl::import(text, &mut found)?,
    }
    found.finish()
}

fn detected(text: &str) -> Option<Tool> {
    if text.trim_start().starts_with('{') {
        // Measured: by the caller of `import`.
        let document: Value = serde_json::from_str(text).ok()?;
        return [("log", Tool::Har), ("item", Tool::Postman), ("openapi", Tool::Openapi)]
            .into_iter()
            .find_map(|(key, tool)| document.get(key).map(|_| tool));
    }
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    if lines().any(|line| line.starts_with("openapi:") || line.starts_with("\"openapi\":")) {
        return Some(Tool::Openapi);
    }
    let first = lines().next()?;
    if hurl::is_request(first) {
        return Some(Tool::Hurl);
    }
    let is_curl = |line: &str| line.split_whitespace().any(curl::is_curl);
    lines().any(is_curl).then_some(Tool::Curl)
}
