//! How the crate behaves towards files, collectors and disks.

mod basics;
mod config;
mod conservation;
mod receiver;
