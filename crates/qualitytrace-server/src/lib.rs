//! The server: receives traces, executes runs, stores the results and serves the API.

pub mod base;
pub mod config;
pub mod http;
pub mod observability;
pub mod outbound;
pub mod receive;
pub mod runner;
pub mod serve;
pub mod storage;
pub mod wire;
