//! Texts that users write: positions, trees, layers of settings, and diagnostics.
//!
//! The core reads definitions with it; the server and the telemetry read their settings with it. Nothing here knows
//! what a key means, and nothing here does IO: texts, variables and flags come in as arguments.
//!
//! - A text is read once into a tree whose nodes know their bytes: [`yaml::documents`] and [`tree::Node`].
//! - [`Located`] is a value of a setting with its [`Origin`]: a position in a file, a variable, a flag or a default.
//! - [`Layers`] has every key with the value of the highest layer: a flag overrides a variable, a variable overrides a
//!   file, and a later file overrides an earlier one.
//! - A [`Report`] collects the [`Diagnostic`]s, with the [`nearest()`] known name for a mistyped one.

pub mod diagnostic;
pub mod layer;
pub mod located;
pub mod nearest;
pub mod position;
pub mod source_text;
mod toml;
pub mod tree;
pub mod value;
pub mod yaml;

pub use diagnostic::{Diagnostic, Origin, Report, Severity};
pub use layer::{File, KeyedValue, Layers, same_key};
pub use located::{Kind, Leaf, Located};
pub use nearest::nearest;
pub use position::{Position, Span};
pub use source_text::SourceText;
pub use value::{Macros, Value};

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
