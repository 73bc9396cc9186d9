//! The server as others meet it: its sockets, its API, and its beginning and end.

pub(crate) mod api;
pub mod listen;
pub mod retention;
pub mod server;
pub(crate) mod trace_cache;
