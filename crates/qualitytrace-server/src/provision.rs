//! What is stored before anybody asks: a stream of definitions, on the first start of a database.
//!
//! All or nothing: a stream with a mistake stores nothing and the server does not start. That it was stored is noted
//! last, so that a start that was cut short is repeated; storing the same again changes nothing.

use std::fmt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use qualitytrace_core::definition::{self, Document, Format, Kind, Stored};
use qualitytrace_core::lang::Diagnostic;

use crate::clock;
use crate::store::{self, Mode, NewDefinition, Put, Store};

/// The document that says that it was done.
const DONE: &str = "provisioned";
/// The id of what a server has one of.
const CURRENT: &str = "current";

/// Where the stream is, and when it counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provisioning {
    /// `provisioning-file`: a YAML or JSON file.
    pub file: Option<PathBuf>,
    /// `provisioning`: the stream itself, in base64. The file goes before it.
    pub text: Option<String>,
    /// `provision-always`: at every start, not only at the first.
    pub always: bool,
}

/// Why nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("failed to read the provisioning file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The variable is not what it should be.
    #[error("`provisioning` is not base64 of a text; make it with `base64 -w0 FILE`")]
    NotText,
    /// The stream has mistakes.
    #[error("nothing was provisioned: {name} has mistakes\n{mistakes}")]
    Wrong {
        /// The file, or the variable.
        name: String,
        /// One line each: document, line, column, what is wrong.
        mistakes: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Stores what is to be stored. Says how many definitions that were.
pub async fn provision(store: &Store, provisioning: &Provisioning) -> Result<usize, Error> {
    let Some((name, text)) = load(provisioning)? else { return Ok(0) };
    if !provisioning.always && store.document(DONE).await?.is_some() {
        tracing::info!("this database has been provisioned before; --provision-always does it again");
        return Ok(0);
    }
    let documents = read(&name, &text)?;
    for (n, document) in documents.iter().enumerate() {
        put(store, n, document, &name, &text).await?;
    }
    store.put_document(DONE, "true").await?;
    tracing::info!(definitions = documents.len(), "provisioned from {name}");
    Ok(documents.len())
}

fn load(provisioning: &Provisioning) -> Result<Option<(String, String)>, Error> {
    if let Some(path) = &provisioning.file {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|source| Error::Read { path: path.clone(), source })?;
        return Ok(Some((path.display().to_string(), text)));
    }
    let Some(encoded) = &provisioning.text else { return Ok(None) };
    // Wrapped lines are common.
    let encoded: String = encoded.split_whitespace().collect();
    let bytes = STANDARD.decode(encoded).map_err(|_| Error::NotText)?;
    let text = String::from_utf8(bytes).map_err(|_| Error::NotText)?;
    Ok(Some(("`provisioning`".to_owned(), text)))
}

/// All documents of a stream, or all that is wrong with them.
fn read(name: &str, text: &str) -> Result<Vec<Document>, Error> {
    let is_json = text.trim_start().starts_with('{');
    let reading = definition::read(text, if is_json { Format::Json } else { Format::Yaml });
    let mut found = reading.diagnostics;
    for document in &reading.documents {
        found.extend(definition::check(&document.resource));
    }
    let (errors, warnings): (Vec<_>, Vec<_>) = found.into_iter().partition(Diagnostic::is_error);
    for warning in &warnings {
        tracing::warn!("{name}, {}", Placed { text, diagnostic: warning });
    }
    if errors.is_empty() {
        return Ok(reading.documents);
    }
    let mistakes: Vec<String> =
        errors.iter().map(|diagnostic| Placed { text, diagnostic }.to_string()).collect();
    Err(Error::Wrong { name: name.to_owned(), mistakes: mistakes.join("\n") })
}

/// A diagnostic with the number of its document.
struct Placed<'t> {
    text: &'t str,
    diagnostic: &'t Diagnostic,
}

impl fmt::Display for Placed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text.get(..self.diagnostic.span.start).unwrap_or(self.text);
        let document = documents_begun(before);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        write!(f, "document {document}, line {line}, column {column}: {}", self.diagnostic.message)?;
        self.diagnostic.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

/// How many documents have begun by the end of this text; empty ones do not count.
fn documents_begun(before: &str) -> usize {
    let (mut documents, mut is_open) = (0, false);
    for line in before.split('\n') {
        if line.starts_with("---") {
            is_open = false;
        } else if !is_open && !line.trim().is_empty() && !line.trim_start().starts_with('#') {
            (documents, is_open) = (documents + 1, true);
        }
    }
    documents + usize::from(!is_open)
}

async fn put(store: &Store, n: usize, document: &Document, name: &str, text: &str) -> Result<(), Error> {
    let resource = &document.resource;
    let kind = resource.kind();
    let bare = definition::to_spec_json(resource, &Stored::default());
    let of = |key: &str| bare[key].as_str().unwrap_or_default().to_owned();
    let id = match resource.id() {
        _ if kind.is_singleton() => CURRENT.to_owned(),
        Some(id) => id.to_owned(),
        // The same at every start, so that nothing is stored twice.
        None => format!("{:016x}", fingerprint(&format!("{} {}", kind.as_str(), of("name")))),
    };
    let spec = definition::to_spec_json(resource, &Stored { id: Some(id.clone()), ..Stored::default() });
    let new = NewDefinition {
        kind,
        id: &id,
        tenant: "",
        name: &of("name"),
        description: &of("description"),
        sort_kind: &if kind == Kind::Demo { of("type") } else { String::new() },
        format: if text.trim_start().starts_with('{') { "json" } else { "yaml" },
        text: text.get(document.span.clone()).unwrap_or(text),
        spec: spec.to_string(),
    };
    match store.put(&new, Mode::Upsert, clock::now()).await? {
        Put::Created(_) | Put::Updated(_) | Put::Missing | Put::Exists => Ok(()),
        Put::Masked { name: secret } => Err(Error::Wrong {
            name: name.to_owned(),
            mistakes: format!("document {}: `{secret}` is masked; write the secret itself", n + 1),
        }),
    }
}

/// FNV-1a: short, and the same in every version.
fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "type: VariableSet\nspec:\n  name: Shop\n  values:\n  - {key: A, value: b}\n---\n---\ntype: Test\nspec:\n  id: t\n  name: T\n  trigger: {type: http, httpRequest: {method: GET, url: \"http://x\"}}\n";

    async fn names(store: &Store) -> Vec<bool> {
        let id = format!("{:016x}", fingerprint("VariableSet Shop"));
        let set = store.resource(Kind::VariableSet, &id).await.unwrap().is_some();
        vec![set, store.resource(Kind::Test, "t").await.unwrap().is_some()]
    }

    fn of(text: &str, always: bool) -> Provisioning {
        Provisioning { file: None, text: Some(STANDARD.encode(text)), always }
    }

    #[tokio::test]
    async fn a_stream_is_stored_once_and_always_if_asked() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        assert_eq!(provision(&store, &of(GOOD, false)).await.unwrap(), 2);
        assert_eq!(names(&store).await, [true, true]);
        assert_eq!(provision(&store, &of(GOOD, false)).await.unwrap(), 0);
        assert_eq!(provision(&store, &of(GOOD, true)).await.unwrap(), 2);
        assert_eq!(store.resource(Kind::Test, "t").await.unwrap().unwrap().version, 1);
    }

    #[tokio::test]
    async fn a_mistake_stores_nothing_and_is_named() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let text = format!("{GOOD}---\n# the third\ntype: TestRunner\nspec:\n  requiredGates: [elephants]\n");
        let error = provision(&store, &of(&text, false)).await.unwrap_err().to_string();
        assert!(error.contains("document 3, line 17, column "), "{error}");
        assert_eq!(names(&store).await, [false, false]);
        assert_eq!(provision(&store, &of(GOOD, false)).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn what_is_no_base64_is_refused() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let wrong = Provisioning { text: Some("type: Test".to_owned()), ..Provisioning::default() };
        assert!(matches!(provision(&store, &wrong).await, Err(Error::NotText)));
    }
}
