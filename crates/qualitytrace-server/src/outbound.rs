//! What the server asks of others: the requests of triggers, and traces in data stores.

pub mod data_store;
pub mod trigger;
