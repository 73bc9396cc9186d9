//! When waiting for a trace ends.

mod random;
mod simulation;
mod spans;
mod system;
