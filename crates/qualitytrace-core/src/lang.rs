//! The language of tests: selectors, expressions, assertions.
//!
//! The stages are separate and total: parsing gives a tree and diagnostics for any text, checking examines names
//! and types, selecting and evaluating take only trees. `docs/language.md` is the reference, and is executed as a
//! test.

pub mod ast;

mod check;
mod compare;
mod conventions;
mod cursor;
mod date;
pub mod diagnostic;
mod environment;
mod eval;
mod field;
mod filters;
mod functions;
mod interpolation;
mod item;
mod json_path;
pub mod limits;
mod parser;
mod pattern;
mod print;
mod select;
mod template;
mod variables;
mod vocabulary;

pub use check::{diagnose, diagnose_assertion, diagnose_expression, diagnose_selector, diagnose_template};
pub use compare::{Comparison, compare_texts};
pub use conventions::{modern_assertions, modern_expression, modern_selector};
pub use diagnostic::{Diagnostic, Severity, render};
pub use environment::{EvaluationScope, evaluate, resolve};
pub use eval::{EvalError, EvalErrorKind};
pub use functions::Generator;
pub use interpolation::variables_in_selector;
pub use item::Item;
pub use parser::{
    Form, Parsed, Token, TokenKind, parse_assertion, parse_expression, parse_selector, parse_template,
};
pub use print::{quote, quote_in_selector};
pub use select::select;
pub use template::{resolve_text, variables_in_assertion, variables_in_expression, variables_used};
pub use variables::Variables;

pub(crate) use check::without_unit;
pub(crate) use compare::{compare, in_time, no_match_unless, one_of, one_of_these};
pub(crate) use eval::{Context, Memory, Subject, list};
pub(crate) use field::{Field, FieldValue, TraceIndex};
pub(crate) use filters::FILTERS;
pub(crate) use functions::FUNCTIONS;
pub(crate) use interpolation::{fill_claim, fill_expression, fill_selector};
pub(crate) use parser::{MAX_TOKENS, SyntaxChoice, ending, is_word, tokens};
pub(crate) use select::{Filter, Query, compile_condition};
pub(crate) use vocabulary::{KINDS, OTHER_SPECIAL, STATUSES, TYPES};
