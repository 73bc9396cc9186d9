//! The language of selectors, expressions and assertions.

mod diagnostic;

pub use diagnostic::{Diagnostic, Severity};
