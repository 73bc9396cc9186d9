//! Tests of when the wait for a trace ends.

mod debts;
mod evidence;
mod knowledge;
mod order;
pub(crate) mod random;
mod script;
mod simulation;
mod spans;
mod system;
mod tally;
mod worlds;
