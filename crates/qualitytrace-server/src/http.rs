//! HTTP: who may do what, routes, TLS, and the page.

pub mod access;
pub(crate) mod client;
pub mod routes;
pub mod tls;
pub mod web;
