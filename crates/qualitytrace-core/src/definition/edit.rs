//! Edits of a definition file that leave the rest of it untouched: comments, blank lines, quotes and indentation.
//!
//! [`edit`] applies changes one after the other. `change` decides what each of them means, `text` which bytes it
//! replaces, with `block` and `flow` for the two ways to write lists and mappings. The result of every change is read
//! again: it must mean exactly what was asked for, else the edit is refused and the text is not damaged.
//!
//! A comment directly above a removed or moved spec, output or assertion goes with it, and so does one inside of it.
//! All other comments stay.

mod block;
mod change;
mod conventions;
mod diff;
mod flow;
mod id;
mod item;
mod lines;
mod scalar;
mod text;

use qualitytrace_config::tree::{Entry, Node, Shape};

pub use change::Change;
pub use conventions::with_current_conventions;
pub use diff::unified_diff;
pub use id::{has_id, id_place, surroundings, with_id};

use super::reader::Reader;
use super::{Format, Kind, Resource, Test, parse, resource};
use crate::budget::{Budget, BudgetError};
use crate::lang::Diagnostic;

/// Maximum number of changes in one edit: the text is read again after each.
pub const MAX_CHANGES: usize = 100;

/// Keys of a test that changes are about.
const CHANGED: [&str; 3] = ["name", "specs", "outputs"];

/// Why a definition cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The definition has errors already.
    #[error("the definition cannot be read: {why}; correct it first")]
    Unreadable {
        /// The first error.
        why: String,
    },
    /// The file has no test at this index.
    #[error("the file holds no test number {index}, counted from 0")]
    NoTest {
        /// The index of the resource.
        index: usize,
    },
    /// There are too many changes.
    #[error("{count} changes are too many; send at most {MAX_CHANGES} at once")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// A change is about an item that does not exist.
    #[error("change {change}: there is no {what} {at}, counted from 0; there are {count}")]
    NoItem {
        /// The index of the change.
        change: usize,
        /// The kind of item.
        what: &'static str,
        /// Its index.
        at: usize,
        /// How many there are.
        count: usize,
    },
    /// A change would make an invalid definition.
    #[error("change {change}: {why}")]
    Invalid {
        /// The index of the change.
        change: usize,
        /// What is wrong.
        why: &'static str,
    },
    /// The change cannot be made without changing the rest of the text.
    #[error(
        "change {change} cannot be made without touching the rest of the text: {why}; edit the text itself"
    )]
    Layout {
        /// The index of the change.
        change: usize,
        /// What is in the way.
        why: String,
    },
    /// The edit takes too long.
    #[error(transparent)]
    Exceeded(#[from] BudgetError),
}

/// Applies changes to the test that is resource number `index` of a file, counted from 0. Everything else in the text
/// stays as it is, byte by byte.
pub fn edit(
    source: &str,
    format: Format,
    index: usize,
    changes: &[Change],
    budget: &Budget,
) -> Result<String, EditError> {
    if changes.len() > MAX_CHANGES {
        return Err(EditError::TooMany { count: changes.len() });
    }
    budget.read(source.len())?;
    let mut text = source.to_owned();
    let mut now = State::read(&text, format, index).map_err(|why| match why {
        Some(why) => EditError::Unreadable { why },
        None => EditError::NoTest { index },
    })?;
    for (number, change) in changes.iter().enumerate() {
        let meant = change.applied(&now.test).map_err(|refused| refused.of_change(number))?;
        let layout = |why: String| EditError::Layout { change: number, why };
        let document = now.documents.get(index).ok_or(EditError::NoTest { index })?;
        let replacements = text::replacements(&text, format, document, change, &now.test, &meant)
            .map_err(|why| layout(why.to_owned()))?;
        let edited = lines::replaced(&text, replacements)
            .ok_or_else(|| layout("two parts of the change overlap".to_owned()))?;
        budget.read(edited.len())?;
        let after = State::read(&edited, format, index)
            .map_err(|why| layout(why.unwrap_or_else(|| "no test would be left".to_owned())))?;
        if after.test != meant || !is_rest_same(&now.documents, &after.documents, index) {
            let why = "an alias, an anchor or an unusual layout is in the way";
            return Err(layout(why.to_owned()));
        }
        (text, now) = (edited, after);
    }
    Ok(text)
}

/// A file that was read, and the test in it.
struct State {
    documents: Vec<Node>,
    test: Test,
}

impl State {
    /// Returns the first error of the file, or `None` if it has no test at this index.
    fn read(source: &str, format: Format, index: usize) -> Result<Self, Option<String>> {
        let reader = Reader::new(source, format);
        let documents = parse(&reader);
        let document = documents.get(index);
        let read = document.and_then(|document| resource(&reader, document, Some(Kind::Test)));
        if let Some(error) = reader.finish().into_iter().find(Diagnostic::is_error) {
            return Err(Some(error.message));
        }
        match read {
            Some(Resource::Test(test)) => Ok(Self { documents, test }),
            _ => Err(None),
        }
    }
}

/// Whether all that no change is about has the same content.
fn is_rest_same(before: &[Node], after: &[Node], index: usize) -> bool {
    before.len() == after.len()
        && before.iter().zip(after).enumerate().all(|(at, (before, after))| {
            if at != index {
                return is_same(before, after);
            }
            let is_content_same = match (before.get("spec"), after.get("spec")) {
                (Some(before), Some(after)) => is_same_without(before, after, &CHANGED),
                (before, after) => before.is_none() && after.is_none(),
            };
            is_content_same && is_same_without(before, after, &["spec"])
        })
}

/// Whether two mappings have the same content apart from these keys.
fn is_same_without(before: &Node, after: &Node, keys: &[&str]) -> bool {
    rest_of(before, keys).count() == rest_of(after, keys).count()
        && rest_of(before, keys).zip(rest_of(after, keys)).all(|(one, other)| is_same_entry(one, other))
}

fn rest_of<'n>(node: &'n Node, keys: &[&str]) -> impl Iterator<Item = &'n Entry> {
    let entries: &[Entry] = match &node.shape {
        Shape::Map(entries) => entries,
        Shape::Null | Shape::Scalar(_) | Shape::List(_) => &[],
    };
    entries.iter().filter(|entry| !keys.contains(&entry.key.as_str()))
}

fn is_same_entry(one: &Entry, other: &Entry) -> bool {
    one.key == other.key && is_same(&one.value, &other.value)
}

/// Whether two trees have the same content, wherever they are in their files.
fn is_same(one: &Node, other: &Node) -> bool {
    match (&one.shape, &other.shape) {
        (Shape::Null, Shape::Null) => true,
        (Shape::Scalar(one), Shape::Scalar(other)) => one.text == other.text && one.is_text == other.is_text,
        (Shape::List(one), Shape::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Shape::Map(one), Shape::Map(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same_entry(one, other))
        }
        _ => false,
    }
}
