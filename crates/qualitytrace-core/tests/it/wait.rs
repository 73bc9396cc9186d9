//! Tests of when the wait for a trace ends.

mod debts;
mod evidence;
mod knowledge;
mod order;
mod processes;
pub(crate) mod random;
mod script;
mod simulation;
mod spans;
mod system;
mod tally;
mod worlds;
