//! What is kept: the database, the vault of its secrets, provisioned resources, variables, and who shares it.

pub(crate) mod cluster;
pub mod provision;
pub mod store;
pub mod variables;
pub mod vault;
