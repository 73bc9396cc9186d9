//! How the crate behaves towards files, collectors and disks.

mod config;
