//! When waiting for a trace ends.

mod debts;
mod knowledge;
mod order;
mod random;
mod script;
mod simulation;
mod spans;
mod system;
