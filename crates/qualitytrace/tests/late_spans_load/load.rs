//! A real system whose spans come late, and real servers that test it.

pub(crate) mod client;
pub(crate) mod program;
pub(crate) mod system;
pub(crate) mod waiting;
