//! How a server watches itself.
pub mod config;
