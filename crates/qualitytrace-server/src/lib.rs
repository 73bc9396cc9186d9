//! How traces arrive, runs happen and results stay.

pub mod access;
mod api;
mod body;
pub mod clock;
mod cluster;
pub mod config;
mod follow;
pub mod ingest;
pub mod limits;
pub mod listen;
pub mod mask;
pub mod otlp;
mod places;
mod private;
pub mod provision;
pub mod retention;
pub mod runner;
pub mod server;
pub mod source;
pub mod store;
pub mod trigger;
pub mod variables;
pub mod vault;
pub mod watch;
pub mod wire;
