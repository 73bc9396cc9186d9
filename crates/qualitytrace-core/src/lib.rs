//! The meaning of trace tests: language, definitions, waiting, judging, analyzing.
//!
//! Every function here decides: facts are passed as arguments (the time included), and a value is returned.
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
