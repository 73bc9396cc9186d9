//! Help while writing: completion, colouring, and descriptions of spans.

mod check;
mod complete;
mod describe;
mod draft;
mod recorded;
