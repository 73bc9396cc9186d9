//! Tests of the core through its public interface.

mod cases;
mod definition;
mod language;
mod wait;
