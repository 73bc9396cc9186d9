//! Provisioning: stores a stream of definitions at the first start of a database.
//!
//! All or nothing: if the stream has errors, nothing is stored and the server does not start. The definitions and the
//! mark that they were stored are one commit.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use qualitytrace_config::Position;
use qualitytrace_core::definition::secrets::MASK;
use qualitytrace_core::definition::{self, Document, EMPTY_FILE, Format, Kind, Location, Resource};
use qualitytrace_core::lang::Diagnostic;

use crate::base::clock;
use crate::base::files;
use crate::storage::store::{self, CURRENT, NO_ID, NewDefinition, Put, Store, is_id};

/// The document that marks a database as provisioned.
const DONE: &str = "provisioned";

/// The stream, and when it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provisioning {
    /// `provisioning-file`: a YAML or JSON file.
    pub file: Option<PathBuf>,
    /// `provisioning`: the stream itself, in base64. The file takes precedence.
    pub text: Option<String>,
    /// `provision-always`: store it at every start, not only at the first.
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
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The variable is not base64 of UTF-8 text.
    #[error("`provisioning` is not base64 of a text; make it with `base64 -w0 FILE`")]
    NotText,
    /// The stream has errors.
    #[error("nothing was provisioned: {name} has mistakes\n{mistakes}")]
    Wrong {
        /// The file, or the name of the variable.
        name: String,
        /// One line each: document, line, column, key, message.
        mistakes: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Stores the definitions, all or nothing. Returns their number.
pub async fn provision(store: &Store, provisioning: &Provisioning) -> Result<usize, Error> {
    let Some((name, text)) = load(provisioning)? else {
        // The database is not new from now on: a stream that is added later must not change what users stored.
        if store.document(DONE).await?.is_none() {
            store.add_document(DONE, "false").await?;
        }
        return Ok(0);
    };
    match store.document(DONE).await?.filter(|_| !provisioning.always).as_deref() {
        Some("true") => {
            tracing::info!("this database has been provisioned before; --provision-always does it again");
            return Ok(0);
        }
        Some(_) => {
            tracing::warn!(
                "nothing was provisioned from {name}: this database is not new; --provision-always does it all the same"
            );
            return Ok(0);
        }
        None => {}
    }
    let stream = Stream { name: &name, text: &text, format: format(&text) };
    let (documents, new) = stream.definitions()?;
    if let Err((at, refused)) = store.put_all(&new, DONE, clock::now()).await? {
        return Err(stream.refused(&documents[at], &refused));
    }
    store.audit_own("provision", "definitions", &name).await?;
    tracing::info!(definitions = documents.len(), "provisioned from {name}");
    Ok(documents.len())
}

/// Returns the files that data stores of the stream name. The operator names them, so they may be read.
pub(crate) fn data_store_files(provisioning: &Provisioning) -> BTreeSet<String> {
    let Ok(Some((_, text))) = load(provisioning) else { return BTreeSet::new() };
    let documents = definition::read(&text, format(&text)).documents;
    let sources = documents.into_iter().filter_map(|document| match document.resource {
        Resource::DataStore(store) => Some(store.source),
        _ => None,
    });
    sources
        .filter_map(|mut source| source.tls_mut()?.settings.take())
        .flat_map(|settings| [settings.ca_file, settings.cert_file, settings.key_file])
        .map(|written| written.trim().to_owned())
        .collect()
}

/// Checks the definitions without storing them.
pub(crate) fn check(provisioning: &Provisioning) -> Result<(), Error> {
    let Some((name, text)) = load(provisioning)? else { return Ok(()) };
    let stream = Stream { name: &name, text: &text, format: format(&text) };
    stream.definitions().map(drop)
}

fn load(provisioning: &Provisioning) -> Result<Option<(String, String)>, Error> {
    if let Some(path) = &provisioning.file {
        let text = files::read_text(path, files::OWN_BYTES);
        let text = text.map_err(|source| Error::Read { path: path.clone(), source })?;
        return Ok(Some((path.display().to_string(), text)));
    }
    let Some(encoded) = &provisioning.text else { return Ok(None) };
    // Base64 is often wrapped.
    let encoded: String = encoded.split_whitespace().collect();
    let bytes = STANDARD.decode(encoded).map_err(|_| Error::NotText)?;
    let text = String::from_utf8(bytes).map_err(|_| Error::NotText)?;
    Ok(Some(("`provisioning`".to_owned(), text)))
}

fn format(text: &str) -> Format {
    if text.trim_start().starts_with('{') { Format::Json } else { Format::Yaml }
}

/// The stream of definitions, as written.
struct Stream<'t> {
    /// The file, or the name of the variable.
    name: &'t str,
    text: &'t str,
    format: Format,
}

impl<'t> Stream<'t> {
    /// Returns all documents and their definitions, or the errors in them.
    fn definitions(&self) -> Result<(Vec<Document>, Vec<NewDefinition<'t>>), Error> {
        let mut documents = self.read()?;
        // Of several singletons of one kind, the last wins.
        let kinds: Vec<Kind> = documents.iter().map(|document| document.resource.kind()).collect();
        let mut at = 0..;
        documents.retain(|_| {
            at.next().is_some_and(|at| !kinds[at].is_singleton() || !kinds[at + 1..].contains(&kinds[at]))
        });
        let new: Vec<_> = documents.iter().map(|document| self.definition(document)).collect();
        self.check_ids(&documents, &new)?;
        Ok((documents, new))
    }

    /// Reads all documents, or returns all errors in them. An empty stream is allowed.
    fn read(&self) -> Result<Vec<Document>, Error> {
        let reading = definition::read(self.text, self.format);
        let mut found = reading.diagnostics;
        found.retain(|diagnostic| diagnostic.code != EMPTY_FILE);
        for document in &reading.documents {
            found.extend(definition::check(&document.resource));
        }
        let (errors, warnings): (Vec<_>, Vec<_>) = found.into_iter().partition(Diagnostic::is_error);
        for warning in &warnings {
            tracing::warn!("{}, {}", self.name, self.placed(warning));
        }
        if errors.is_empty() {
            return Ok(reading.documents);
        }
        Err(self.wrong(&errors.iter().map(|error| self.placed(error)).collect::<Vec<_>>()))
    }

    fn definition(&self, document: &Document) -> NewDefinition<'t> {
        let resource = &document.resource;
        let whole = definition::surroundings(self.text, self.format, &document.span);
        let text = self.text.get(whole).unwrap_or(self.text);
        let kind = resource.kind();
        let id = match resource.id() {
            _ if kind.is_singleton() => CURRENT.to_owned(),
            Some(id) => id.to_owned(),
            None => String::new(),
        };
        let new = NewDefinition::of(resource, &id, self.format, text);
        if !id.is_empty() {
            return new;
        }
        // The id is the same at every start, so that nothing is stored twice.
        let id = format!("{:016x}", fingerprint(&format!("{} {}", kind.as_str(), new.name)));
        NewDefinition::of(resource, &id, self.format, text)
    }

    /// Refuses invalid ids, and definitions that a later one would overwrite.
    fn check_ids(&self, documents: &[Document], new: &[NewDefinition<'_>]) -> Result<(), Error> {
        let mut mistakes = Vec::new();
        for (at, (document, own)) in documents.iter().zip(new).enumerate() {
            let place = self.place(&document.span);
            if !is_id(&own.id) {
                mistakes.push(format!("{place}: {NO_ID}"));
            }
            let earlier = new[..at].iter().position(|other| (other.kind, &other.id) == (own.kind, &own.id));
            if let Some(earlier) = earlier {
                let (kind, id) = (own.kind.as_str(), &own.id);
                let first = self.place(&documents[earlier].span);
                mistakes.push(format!("{place}: the {kind} `{id}` was defined before, in {first}"));
            }
        }
        if mistakes.is_empty() { Ok(()) } else { Err(self.wrong(&mistakes)) }
    }

    fn refused(&self, document: &Document, why: &Put) -> Error {
        let (span, why) = match why {
            Put::Masked(unknown) => {
                let name = unknown.name();
                (self.masked(document, name), format!("`{name}` is masked; write the secret itself"))
            }
            Put::Created(_)
            | Put::Updated(_)
            | Put::Same(_)
            | Put::Missing
            | Put::Exists
            | Put::Conflict { .. } => (document.span.clone(), "it was refused".to_owned()),
        };
        self.wrong(&[format!("{}: {why}", self.place(&span))])
    }

    /// Returns the position of the redaction text of a secret: usually after its name.
    fn masked(&self, document: &Document, name: &str) -> Range<usize> {
        let text = self.text.get(document.span.clone()).unwrap_or_default();
        let named = text.find(name).and_then(|at| Some(at + text[at..].find(MASK)?));
        let start =
            named.or_else(|| text.find(MASK)).map_or(document.span.start, |at| document.span.start + at);
        start..start + MASK.len()
    }

    fn wrong(&self, mistakes: &[String]) -> Error {
        Error::Wrong { name: self.name.to_owned(), mistakes: mistakes.join("\n") }
    }

    /// Formats a diagnostic in one line with its position.
    fn placed(&self, diagnostic: &Diagnostic) -> String {
        let help = diagnostic.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
        format!("{}: {}{help}", self.place(&diagnostic.span), diagnostic.message)
    }

    /// Formats the position of some bytes: document, line, column, key.
    fn place(&self, bytes: &Range<usize>) -> String {
        let Position { line, column } = Position::of(self.text, bytes.start);
        let Location { document, key } = definition::location(self.text, self.format, bytes);
        let key = if key.is_empty() { key } else { format!(", `{key}`") };
        format!("document {document}, line {line}, column {column}{key}")
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
        assert!(error.contains("document 3, line 17, column 19, `spec.requiredGates[0]`: "), "{error}");
        assert_eq!(names(&store).await, [false, false]);
        assert_eq!(provision(&store, &of(GOOD, false)).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn what_cannot_all_be_stored_is_not_stored_at_all() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let masked =
            "type: VariableSet\nspec:\n  name: S\n  values: [{key: K, value: '********', type: secret}]\n";
        let error =
            provision(&store, &of(&format!("{GOOD}---\n{masked}"), false)).await.unwrap_err().to_string();
        let place = "document 3, line 17, column 29, `spec.values[0].value`: `K` is masked";
        assert!(error.contains(place), "{error}");
        let twice = format!("{GOOD}---\n{}", GOOD.rsplit("---\n").next().unwrap());
        let error = provision(&store, &of(&twice, false)).await.unwrap_err().to_string();
        assert!(
            error.contains("the Test `t` was defined before, in document 2, line 8, column 1"),
            "{error}"
        );
        assert_eq!(names(&store).await, [false, false]);
        assert_eq!(store.document(DONE).await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_empty_stream_stores_nothing_and_of_singletons_the_last_counts() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        for empty in ["", "# nothing yet\n", "---\n---\n"] {
            assert_eq!(provision(&store, &of(empty, true)).await.unwrap(), 0, "{empty}");
        }
        let data_store = |name: &str| format!("type: DataStore\nspec:\n  name: {name}\n  type: otlp\n---\n");
        let twice = data_store("First") + GOOD + "---\n" + &data_store("Second");
        for _ in 0..2 {
            assert_eq!(provision(&store, &of(&twice, true)).await.unwrap(), 3);
            let stored = store.resource(Kind::DataStore, CURRENT).await.unwrap().unwrap();
            assert!(stored.spec.contains("Second") && stored.version == 1, "{stored:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_base64_is_refused() {
        let store = Store::open("sqlite::memory:").await.unwrap();
        let wrong = Provisioning { text: Some("type: Test".to_owned()), ..Provisioning::default() };
        assert!(matches!(provision(&store, &wrong).await, Err(Error::NotText)));
    }
}
