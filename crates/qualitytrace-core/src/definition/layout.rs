//! The canonical layout of a definition file: the order of keys, indentation and blank lines.
//!
//! `parts` reads a file into parts that carry their comments, `print` writes them. Texts of values and comments stay as
//! they are written. The result is read again: it must mean the same, have the same comments, and have the canonical
//! layout itself, else the file is refused and stays as it is.

mod parts;
mod print;

use std::sync::LazyLock;

use qualitytrace_config::tree::{Node, Shape};

use super::reader::Reader;
use super::schema::{Place, file_schema};
use super::{Format, Kind, is_about_form, nodes, read};
use parts::{Content, Part};

/// Why a file cannot be brought into the canonical layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The file is not YAML or JSON that can be read.
    #[error("the file cannot be read: {why}; correct it first")]
    Unreadable {
        /// The first error.
        why: String,
    },
    /// The file is written in a way that the layout does not know.
    #[error("{why}")]
    Unusual {
        /// What is in the way.
        why: &'static str,
    },
}

const CHANGED: LayoutError =
    LayoutError::Unusual { why: "its layout cannot be changed without changing what it means" };

/// Returns a definition file in the canonical layout.
pub fn formatted(source: &str, format: Format) -> Result<String, LayoutError> {
    let reader = Reader::new(source, format);
    let documents = nodes(&reader);
    if let Some(error) =
        reader.finish().into_iter().find(|found| found.is_error() && is_about_form(found.code))
    {
        return Err(LayoutError::Unreadable { why: error.message });
    }
    let once = laid_out(source, format, &documents)?;
    let again_reader = Reader::new(&once.text, format);
    let again = nodes(&again_reader);
    let twice = laid_out(&once.text, format, &again)?;
    let is_kept = is_same_list(&documents, &again) && once.comments == twice.comments;
    if !is_kept || twice.text != once.text || !is_read_alike(source, &once.text, format) {
        return Err(CHANGED);
    }
    Ok(once.text)
}

/// Made once: it takes longer than to lay out a file.
static SCHEMA: LazyLock<serde_json::Value> = LazyLock::new(|| file_schema(None));

/// A text in the canonical layout.
struct LaidOut {
    text: String,
    /// Its comments, sorted.
    comments: Vec<String>,
}

fn laid_out(source: &str, format: Format, documents: &[Node]) -> Result<LaidOut, LayoutError> {
    let schema = &*SCHEMA;
    match format {
        Format::Json => {
            let mut text = String::new();
            for document in documents {
                let place = top(schema, document);
                print::json(&mut text, source, document, &place, 0);
                text.push('\n');
            }
            Ok(LaidOut { text, comments: Vec::new() })
        }
        Format::Yaml => {
            let mut file = parts::read(source)?;
            for document in &mut file.documents {
                let place = Top { schema, kind: document.kind() };
                sort_document(&mut document.content, &place);
            }
            let mut comments = std::mem::take(&mut file.comments);
            comments.sort();
            Ok(LaidOut { text: print::yaml(&file), comments })
        }
    }
}

/// The top of a document, whose `spec` depends on its `type`.
struct Top<'s> {
    schema: &'s serde_json::Value,
    kind: Option<Kind>,
}

fn top<'s>(schema: &'s serde_json::Value, document: &Node) -> Top<'s> {
    let kind = match document.get("type").map(|node| &node.shape) {
        Some(Shape::Scalar(scalar)) => Kind::named(&scalar.text),
        _ => None,
    };
    Top { schema, kind }
}

impl<'s> Top<'s> {
    fn place(&self) -> Place<'s> {
        Place::top(self.schema)
    }

    fn spec(&self) -> Option<Place<'s>> {
        self.kind.map(|kind| Place::spec(self.schema, kind))
    }
}

fn sort_document(content: &mut Content, top: &Top<'_>) {
    let Content::Map { parts, .. } = content else { return };
    // A blank line below the comments about the file stays there, whichever key is first.
    let is_apart = parts.first_mut().map(|first| std::mem::take(&mut first.is_after_blank));
    sort(parts, &top.place());
    if let (Some(first), Some(true)) = (parts.first_mut(), is_apart) {
        first.is_after_blank = true;
    }
    let Some(spec) = top.spec() else { return };
    for part in parts.iter_mut().filter(|part| part.name == "spec") {
        sort_content(&mut part.content, &spec);
    }
}

fn sort_content(content: &mut Content, place: &Place<'_>) {
    match content {
        Content::Map { parts, .. } => {
            sort(parts, place);
            for part in parts {
                let inner = place.key(&part.name);
                sort_content(&mut part.content, &inner);
            }
        }
        Content::List { parts, .. } => {
            let inner = place.item();
            for part in parts {
                sort_content(&mut part.content, &inner);
            }
        }
        Content::Nothing | Content::Inline(_) | Content::Flow { .. } | Content::Block { .. } => {}
    }
}

/// Puts keys into the order of the schema; unknown ones follow in the order of the file.
fn sort(parts: &mut [Part], place: &Place<'_>) {
    let keys = place.keys();
    parts.sort_by_key(|part| rank(&keys, &part.name));
}

/// The position of a key among the known ones.
fn rank(keys: &[super::schema::Key<'_>], name: &str) -> usize {
    keys.iter().position(|key| key.name == name).unwrap_or(keys.len())
}

/// Whether both texts give the same resources and the same kinds of diagnostics.
fn is_read_alike(before: &str, after: &str, format: Format) -> bool {
    let (before, after) = (read(before, format), read(after, format));
    let codes = |reading: &super::Reading| {
        let mut codes: Vec<&str> = reading.diagnostics.iter().map(|found| found.code).collect();
        codes.sort_unstable();
        codes
    };
    codes(&before) == codes(&after)
        && before.documents.len() == after.documents.len()
        && before.documents.iter().zip(&after.documents).all(|(one, other)| one.resource == other.resource)
}

/// Whether two lists have the same content, wherever it is written. The order of keys does not count.
fn is_same_list(one: &[Node], other: &[Node]) -> bool {
    let solid = |nodes: &[Node]| nodes.iter().filter(|node| !node.is_null()).cloned().collect::<Vec<_>>();
    let (one, other) = (solid(one), solid(other));
    one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| is_same(one, other))
}

fn is_same(one: &Node, other: &Node) -> bool {
    match (&one.shape, &other.shape) {
        (Shape::Null, Shape::Null) => true,
        (Shape::Scalar(one), Shape::Scalar(other)) => one.text == other.text && one.is_text == other.is_text,
        (Shape::List(one), Shape::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Shape::Map(one), Shape::Map(other)) => {
            one.len() == other.len()
                && one.iter().all(|entry| {
                    let twin = other.iter().find(|twin| twin.key == entry.key);
                    twin.is_some_and(|twin| is_same(&entry.value, &twin.value))
                })
        }
        _ => false,
    }
}
