//! What a trace test means.
//!
//! Everything here is a decision: facts come in as arguments (the time included), a value comes out.
//! Nothing here does IO, reads a clock or is `async`, so nothing here can hang or depend on the machine.

pub mod analyzer;
pub mod definition;
pub mod id;
pub mod judge;
pub mod lang;
pub mod names;
pub mod run;
pub mod series;
pub mod suite;
pub mod time;
pub mod trace;
pub mod value;
pub mod wait;
