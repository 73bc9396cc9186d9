//! How traces arrive, runs happen and results stay.

pub mod clock;
pub mod config;
pub mod ingest;
pub mod limits;
pub mod listen;
pub mod otlp;
pub mod server;
pub mod source;
pub mod store;
