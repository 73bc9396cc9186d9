//! The language of selectors, expressions and assertions.

pub mod diagnostic;

pub use diagnostic::{Diagnostic, Severity, render};
