//! OTLP: requests of exporters, as bytes on the wire and as spans.
//!
//! Requests are checked and split here and handed to [`crate::receive::ingest`]; this module does not know that runs exist.

pub mod convert;
mod file;
mod grpc;
pub(crate) mod heads;
mod http;
mod intake;
pub mod json;
mod metrics;
pub(crate) mod non_finite;
pub mod protobuf;
mod schema;
mod sender;
mod status;
pub(crate) mod weight;
pub mod wire;

pub(crate) use file::{SpanFileError, store_fetched, store_file};
pub(crate) use grpc::services as grpc_services;
pub use grpc::unknown_method;
pub(crate) use http::{cors, note_misdirected, routes as http_routes};
