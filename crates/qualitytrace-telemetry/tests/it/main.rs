//! How the crate behaves towards files, collectors and disks.

mod basics;
mod collector;
mod config;
mod conservation;
mod kill;
mod receiver;
mod reload;
mod spool;
