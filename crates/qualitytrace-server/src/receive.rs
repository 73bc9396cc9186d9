//! Telemetry on its way in: OTLP and files of traces, what becomes of them, and who sent them.

pub(crate) mod columns;
pub mod ingest;
pub mod otlp;
pub(crate) mod refusals;
pub mod register;
pub mod source;
pub mod trace_files;
